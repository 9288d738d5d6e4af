"""The waits in which the calls of a hop can be held to their limits.

A wait is a place in the code where a call is waited for and a limit may end it: the hop's body, a client's request, one
pull of a stream. On an event loop the task is cancelled in it, and leaving the wait the cancellation becomes the
limit's exception. Elsewhere a wait is looked at when it begins, and a client's sockets wait no longer than is left.
"""

import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from hopbudget.tracing.clock import NANOSECONDS
from hopbudget.tracing.limits import COMPLETION, DEADLINE, NEVER_NS, Due, Phase, Place
from hopbudget.tracing.limits_errors import DeadlineExceeded
from hopbudget.tracing.limits_loop import NOBODY, current_task, no_task, running_task
from hopbudget.tracing.outcomes import is_cancel_name
from hopbudget.tracing.terms import off

if TYPE_CHECKING:
    from hopbudget.tracing.hops import HopBlock
    from hopbudget.tracing.limits_guard import Guard
    from hopbudget.tracing.visits import Call, Visit

TURNS: Final = 3
"""Turns of the loop that a cancellation of somebody else's gets to arrive before ours is made."""


class Wait:
    """A place in the code where a call is waited for."""

    outermost = False
    """Whether everything else of the hop goes on inside of it."""
    task: Any = None
    loop: Any = None
    current: Callable[[Any], Any] = staticmethod(no_task)
    """The task that runs in a loop."""
    fired: Due | None = None
    """The limit that is ending it."""
    fired_ns = 0
    lowered = False
    """Whether a client's own time-out was lowered to what is left, so that it may be the limit that it tells of."""
    in_client = False
    """Whether only a client's own code runs in it."""
    undo: Callable[[], object] | None = None
    """Takes back what was done to the connection."""
    _cancelling = 0
    _turns = 0

    def __init__(self, guard: "Guard") -> None:
        self.guard = guard
        self.asked_ns = 0
        """When the wait that goes on began; 0 while none does."""
        self.next_ns = 0
        """No limit is due before, or a timer is set for it."""
        guard.waits.append(self)

    def knows(self, due: Due) -> bool:
        """Whether this limit was raised in it before."""
        return False

    def leaves(self, due: Due) -> bool:
        """Whether it is another's to raise this limit, where nothing is waited for yet."""
        return self.knows(due)

    @property
    def limit_fired(self) -> str | None:
        """The limit that is ending it right now."""
        fired = self.fired
        if fired is None:
            return None
        return COMPLETION if fired.limit == DEADLINE else fired.limit

    @property
    def visit(self) -> "Visit | None":
        """The call that is waited for."""
        raise NotImplementedError

    def place(self) -> Place:
        """Where the call is."""
        raise NotImplementedError

    def begin(self, now_ns: int, *, looped: bool) -> DeadlineExceeded | None:
        """A wait begins, and a limit may be due, or the timer not set for this task; returns the limit that is due.

        `looped`: what is waited for is awaited, where an event loop runs.
        """
        guard = self.guard
        if self.fired is not None:
            self.over()
        self.asked_ns = now_ns
        place = self.place()
        due = guard.limits.due(place)
        if due.at_ns <= now_ns and not self.leaves(due) and not off():
            self.asked_ns = 0
            return guard.exceeded(due, place, self.visit, now_ns, loop=False)
        self.next_ns = guard.limits.look_ns(due, place, now_ns)
        task, _ = running_task() if looped else NOBODY
        if task is not None:
            self.enters(task, now_ns, self.next_ns)
            self.current = current_task()
            self.guard.arm(self.loop, self.next_ns, now_ns)
        elif self.task is not None:
            self.task, self.loop, self.current = None, None, no_task
        return None

    def enters(self, task: Any, now_ns: int, next_ns: float) -> None:
        """It begins in this task, and no limit falls before then."""
        self.task, self.loop = task, task.get_loop()
        self.asked_ns = now_ns
        self.next_ns = NEVER_NS if next_ns == math.inf else int(next_ns)
        self._cancelling = task.cancelling()

    def fire(self, due: Due, now_ns: int) -> bool:
        """Cancel the task in its wait; False to come back in the loop's next turn."""
        task = self.task
        if task is None or task.done() or off():
            return True
        if task.cancelling() > self._cancelling:
            # Somebody else cancels it. If that does not arrive, it is an old one that was never taken back.
            self._turns += 1
            if self._turns <= TURNS:
                return False
        self._cancelling = task.cancelling()
        self._turns = 0
        self.fired, self.fired_ns = due, now_ns
        self.next_ns = 0  # so that the next step, if there is one, takes notice
        task.cancel()
        return True

    def broke(self, exc: BaseException) -> DeadlineExceeded | None:
        """The wait ended with this exception: the limit's own in place of it, if a limit was why."""
        place = self.place()
        self.asked_ns = 0
        due, self.fired = self.fired, None
        if due is not None:
            # What the program raised on being cancelled is its own.
            if self.task.uncancel() > self._cancelling or type(exc).__name__ != "CancelledError":
                return None
            return self.guard.exceeded(due, place, self.visit, self.fired_ns, loop=True)
        if isinstance(exc, DeadlineExceeded) or not (self.lowered or self.in_client):
            return None
        if (found := _caused(exc, self.guard.raised)) is not None:
            return found
        if not self.lowered:
            return None
        now_ns = self.guard.now_ns()
        due = self.guard.limits.due(place)
        if due.at_ns > now_ns or off() or not is_cancel_name(type(exc).__name__):
            return None
        return self.guard.exceeded(due, place, self.visit, now_ns, loop=False)

    def over(self) -> None:
        """The wait ended well."""
        self.asked_ns = 0
        if self.fired is not None:
            # What was waited for kept the cancellation to itself.
            self.fired = None
            self.task.uncancel()

    def leave(self) -> None:
        """No wait begins here any more."""
        self.asked_ns = 0
        undo, self.undo = self.undo, None
        if undo is not None:
            undo()
        if self in self.guard.waits:
            self.guard.waits.remove(self)

    def left_s(self) -> float:
        """Seconds until the next limit, and a millisecond, so that it is over then; `math.inf` without one."""
        return self._until_s(self.guard.limits.due(self.place()).at_ns)

    def left_at_most_s(self) -> float:
        """Seconds that any single wait may take, whatever comes before it; `math.inf` without a limit."""
        return self._until_s(self.guard.limits.longest_ns(self.place(), self.guard.now_ns()))

    def _until_s(self, at_ns: float) -> float:
        if off():
            return math.inf
        return max((at_ns - self.guard.now_ns()) / NANOSECONDS, 0.0) + 0.001

    def check(self) -> None:
        """Raises what is due by now, because of the exception that is being handled if there is one."""
        now_ns = self.guard.now_ns()
        place = self.place()
        due = self.guard.limits.due(place)
        if due.at_ns <= now_ns and not off():
            raise self.guard.exceeded(due, place, self.visit, now_ns, loop=False) from sys.exc_info()[1]


class BodyWait(Wait):
    """The hop's body, or one step of it if it is a generator."""

    outermost = True

    def __init__(
        self,
        guard: "Guard",
        hop: "HopBlock",
        now_ns: int = 0,
        next_ns: int = 0,
        runs: tuple[Any, Any] = NOBODY,
    ) -> None:
        """`runs`: it begins now, in this task of this loop, and no limit falls before `next_ns`."""
        self.guard = guard
        self.hop = hop
        self.asked_ns = now_ns
        self.next_ns = next_ns
        if runs is not NOBODY:
            self.task, self.loop = runs
            self._cancelling = runs[0].cancelling()
        guard.waits.append(self)

    def knows(self, due: Due) -> bool:
        """What was raised for the call that it is at."""
        if due.limit == DEADLINE:
            return self.guard.raised is not None and self.guard.raised.capped
        return self.hop.visits[-1].limit_hit is not None

    def leaves(self, due: Due) -> bool:
        """A stream that the body reads raises it."""
        return self.knows(due) or any(call.visit.outcome is None for call in self.hop.calls)

    @property
    def visit(self) -> "Visit | None":
        """The hop's last call."""
        return self.hop.visits[-1]

    def place(self) -> Place:
        """Where the hop's last call is, as far as it was seen."""
        visit, cap_ns = self.hop.visits[-1], self.guard.cap_ns
        if visit.outcome is not None:
            return Place("done", visit.started_ns, 0, 0, cap_ns)
        if self.hop.calls or visit.clock is None:
            phase: Phase = "open" if visit.clock is not None else "sent"
            return Place(phase, visit.started_ns, visit.started_ns, 0, cap_ns)
        return _stream_place(self, visit, self.hop.started_ns)


class RequestWait(Wait):
    """A client's request, until its answer comes."""

    in_client = True
    so_far: Callable[[], str] | None = None
    """Says what had come, where it is more than one request."""

    def __init__(self, guard: "Guard", visit: "Visit", *, streams: bool) -> None:
        super().__init__(guard)
        self._visit = visit
        self.streams = streams

    @property
    def visit(self) -> "Visit | None":
        """The call that was sent."""
        return self._visit

    def place(self) -> Place:
        """Sent, and not answered."""
        issued_ns = self._visit.started_ns
        phase: Phase = "sent" if self.streams else "reply"
        said = None if self.so_far is None else self.so_far()
        return Place(phase, issued_ns, issued_ns, 0, self.guard.cap_ns, said)


class PullWait(Wait):
    """The pulls of a stream, one after the other."""

    def __init__(self, guard: "Guard", call: "Call") -> None:
        super().__init__(guard)
        self.call = call

    @property
    def visit(self) -> "Visit | None":
        """The call whose stream it is."""
        return self.call.visit

    def place(self) -> Place:
        """Where the stream is."""
        visit = self.call.visit
        if visit.outcome is not None:
            return Place("done", visit.started_ns, cap_ns=self.guard.cap_ns)
        return _stream_place(self, visit, self.call.opened_ns)


def _stream_place(wait: Wait, visit: "Visit", opened_ns: int) -> Place:
    clock, guard = visit.clock, wait.guard
    issued_ns, cap_ns = visit.started_ns, guard.cap_ns
    if not visit.streamed or clock is None:
        return Place("reply", issued_ns, cap_ns=cap_ns)
    since_ns = wait.asked_ns or guard.now_ns()
    if clock.first_ns is None:
        return Place("first", issued_ns, since_ns, opened_ns - issued_ns + clock.quiet_ns, cap_ns)
    if clock.complete or clock.finish is not None:
        return Place("open", issued_ns, cap_ns=cap_ns)
    phase: Phase = "thinking" if guard.limits.silent_thinking and clock.thinking else "tokens"
    return Place(phase, issued_ns, since_ns, clock.quiet_ns, cap_ns)


def _caused(exc: BaseException, raised: DeadlineExceeded | None) -> DeadlineExceeded | None:
    """The limit that was raised, if the client took it for a failure of its connection and raised its own on it."""
    seen: BaseException | None = exc
    for _ in range(8):
        seen = None if seen is None else seen.__cause__ or seen.__context__
        if seen is not None and seen is raised:
            return raised
    return None
