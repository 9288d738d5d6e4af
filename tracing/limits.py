"""The three limits of a call, and when the next of them is due.

Pure: no clock is read here. Times are monotonic nanoseconds, `math.inf` is never. Whoever asks says where the call is;
timers and checks ask the same, and nothing is done for a chunk.

A limit on tokens counts the time that is spent waiting for them. What the consumer takes between two chunks, and before
it begins to read, is its own.
"""

import math
from typing import Final, Literal, NamedTuple

from hopbudget.tracing.clock import NANOSECONDS

Limit = Literal["first_token", "stall", "completion", "deadline"]
Phase = Literal["sent", "reply", "first", "tokens", "thinking", "open", "done"]
"""Where a call is: `sent`, and nothing is known of the answer; `reply`: an answer that does not stream is awaited;
`first`: so is the first token of a stream; `tokens`: further tokens; `thinking`: further tokens of an endpoint that may
be silent now; `open`: its stream is open, and no token of it is awaited right now; `done`: it is over."""

FIRST_TOKEN: Final = "first_token"
STALL: Final = "stall"
COMPLETION: Final = "completion"
DEADLINE: Final = "deadline"
NEVER_NS: Final = 1 << 62
"""Later than any time; a whole number, which is quick to compare."""


class Due(NamedTuple):
    """When the next limit falls if nothing comes, and which."""

    at_ns: float
    limit: Limit


class Place(NamedTuple):
    """Where a call is.

    `issued_ns`: when its first attempt was sent; `since_ns`: when the wait that goes on began; `heard_ns`: how long had
    been waited for the same token before. `cap_ns`: when the trajectory's deadline falls. `said`: what had come so far,
    in words, where the phase does not tell.
    """

    phase: Phase
    issued_ns: int
    since_ns: int = 0
    heard_ns: int = 0
    cap_ns: float = math.inf
    said: str | None = None


class Limits:
    """The limits of a hop's calls, each in seconds or None."""

    __slots__ = ("completion_ns", "first_token_ns", "shortest_ns", "silent_thinking", "soonest_ns", "stall_ns")

    def __init__(
        self,
        first_token_s: float | None = None,
        stall_s: float | None = None,
        completion_s: float | None = None,
        *,
        silent_thinking: bool = False,
    ) -> None:
        """`silent_thinking`: the endpoint says nothing while it thinks; reasoning tokens don't arm the stall then."""
        self.first_token_ns = _ns(first_token_s)
        self.stall_ns = _ns(stall_s)
        self.completion_ns = _ns(completion_s)
        self.silent_thinking = silent_thinking
        self.shortest_ns = min(self.first_token_ns, self.stall_ns, self.completion_ns)
        self.soonest_ns = NEVER_NS if self.shortest_ns == math.inf else int(self.shortest_ns)
        """The same as a whole number."""

    def due(self, place: Place) -> Due:
        """The next limit due, if nothing comes until then."""
        phase, issued_ns, since_ns, heard_ns, at_ns, _ = place
        limit: Limit = DEADLINE
        if phase != "done" and issued_ns + self.completion_ns < at_ns:
            at_ns, limit = issued_ns + self.completion_ns, COMPLETION
        if phase in {"sent", "first"}:
            token_ns = since_ns - heard_ns + self.first_token_ns
            if token_ns <= at_ns:
                return Due(token_ns, FIRST_TOKEN)
        elif phase == "tokens":
            token_ns = since_ns - heard_ns + self.stall_ns
            if token_ns <= at_ns:
                return Due(token_ns, STALL)
        return Due(at_ns, limit)

    def look_ns(self, due: Due, place: Place, now_ns: int) -> int:
        """When to ask again at the latest: a token that comes meanwhile may make another limit due sooner."""
        at_ns = due.at_ns
        if place.phase in {"sent", "first", "thinking"} and now_ns + self.stall_ns < at_ns:
            at_ns = now_ns + self.stall_ns
        return NEVER_NS if at_ns == math.inf else int(at_ns)

    def longest_ns(self, place: Place, now_ns: int) -> float:
        """Until when a wait that begins now may last, whether it is for the first token or for a later one."""
        whole = self.due(place._replace(phase="open")).at_ns
        first = self.due(place).at_ns if place.phase in {"sent", "first"} else now_ns
        return min(whole, max(first, now_ns + self.stall_ns))

    def on_clock(self, due: Due, place: Place, now_ns: int) -> tuple[float, float]:
        """Seconds on the clock of a limit of the hop's own by now, and how many it allows."""
        if due.limit in {STALL, FIRST_TOKEN}:
            allowed_ns = self.stall_ns if due.limit == STALL else self.first_token_ns
            return (now_ns - due.at_ns + allowed_ns) / NANOSECONDS, allowed_ns / NANOSECONDS
        return (now_ns - place.issued_ns) / NANOSECONDS, self.completion_ns / NANOSECONDS

    def reached(self, *, first_ns: float | None, stalled_ns: float | None, length_ns: float) -> Limit | None:
        """The first limit that a whole call has gone beyond, whether or not it was held to it.

        `first_ns`: the wait for the first token, None if the call does not stream; `stalled_ns`: when a later token had
        been waited for too long, None if none was; `length_ns`: the whole call. All since its issue.
        """
        gone: list[tuple[float, Limit]] = []
        if first_ns is not None and first_ns > self.first_token_ns:
            gone.append((self.first_token_ns, FIRST_TOKEN))
        if stalled_ns is not None:
            gone.append((stalled_ns, STALL))
        if length_ns > self.completion_ns:
            gone.append((self.completion_ns, COMPLETION))
        return min(gone, key=lambda limit: limit[0])[1] if gone else None


def _ns(seconds: float | None) -> float:
    return math.inf if seconds is None else round(seconds * NANOSECONDS)
