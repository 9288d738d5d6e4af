"""What to do about a stream that broke while it was read: decided without reading anything, and recorded."""

from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

from hopbudget.tracing import scope
from hopbudget.tracing import vocabulary as v
from hopbudget.tracing.asking import remaining_s
from hopbudget.tracing.clock import seconds
from hopbudget.tracing.hops import HopBlock
from hopbudget.tracing.limits_errors import DeadlineExceeded
from hopbudget.tracing.outcomes import CUT_OFF
from hopbudget.tracing.reading import Format
from hopbudget.tracing.stream import StreamClock

Policy = Literal["raise", "truncate", "retry", "resume"]
Held = Policy | Literal["off"]
POLICIES: Final = ("raise", "truncate", "retry", "resume")


class BrokenStreamError(ConnectionError):
    """A stream ended without its end mark, or told of an error inside, and its client raised nothing."""


class Ways(NamedTuple):
    """What the application allows."""

    policy: Held
    """`off`: the stream is left to itself."""
    marker: Any
    again: Callable[[], Any]
    resume: Callable[[str], Any] | None
    take_back: Callable[[str], object] | None
    format: Format | None


class _Heard(StreamClock):
    """A stream's clock that keeps the answer's text."""

    __slots__ = ("parts",)

    def __init__(self, format: Format | None) -> None:
        super().__init__(scope.setup.tokenizer, format=format, fixed=format is not None)
        self.parts: list[str] = []

    def _text(self, text: str, answer: str, now_ns: int) -> None:
        super()._text(text, answer, now_ns)
        self._reads_text = True
        if answer:
            self.parts.append(answer)


class Recovery:
    """One stream, over all that is opened for it, and what its reader got of it."""

    def __init__(self, ways: Ways, attempts: int, hop: HopBlock | None) -> None:
        self.ways = ways
        self.left = attempts
        self.hop = hop
        self.now_ns = scope.setup.clock.now_ns
        self.opened_ns = self.now_ns()
        self.error: Exception | None = None
        """The last failure."""
        self.done: str | None = None
        """What was done about it."""
        self._heard = _Heard(ways.format)
        self._before = ""
        self._before_tokens = 0
        self._broke_at_ns: int | None = None

    @property
    def delivered(self) -> str:
        """The answer's text that the reader got."""
        return self._before + "".join(self._heard.parts)

    @property
    def delivered_tokens(self) -> int:
        """The tokens that the reader got; counted in chunks where nothing better is known."""
        return self._before_tokens + (self._heard.tokens()[0] or 0)

    def came(self, chunk: object, asked_ns: int) -> None:
        """The reader gets this."""
        now_ns = self.now_ns()
        try:
            self._heard.pulled(chunk, asked_ns, now_ns)
            if self._broke_at_ns is not None and self._heard.first_ns is not None:
                self._tell({v.TIME_LOST: seconds(now_ns - self._broke_at_ns)})
                self._broke_at_ns = None
        except Exception:
            scope.recorder_failed()

    def cut(self) -> Exception | None:
        """The stream ended cleanly: None, or what was wrong with that."""
        if self.ways.policy == "off":
            return None
        self._heard.finished()
        outcome, kind = self._heard.clean_end()
        if outcome != "failed":
            return None
        chunks = self._heard.chunks
        if kind == CUT_OFF:
            return BrokenStreamError(f"the stream ended without its end mark, after {chunks} chunks with tokens")
        return BrokenStreamError(f"the stream told of an error ({kind}), after {chunks} chunks with tokens")

    def broke(self, error: Exception) -> Callable[[], Any] | None:
        """The stream failed with this; returns what to open in its place, None where nothing is to be."""
        self.error = error
        if self.ways.policy == "off":
            return None
        if self.left > 0 and not _is_out_of_time(error):
            self.left -= 1
            if self.ways.policy == "retry" and self._taken_back():
                return self._retry()
            if self.ways.policy == "resume" and self.ways.resume is not None:
                return self._resume(self.ways.resume)
        return None

    def end(self) -> bool:
        """Nothing more is opened; returns whether the marker is to end it, or the failure raised."""
        marked = self.ways.marker is not None and self.ways.policy != "off"
        self._did("truncated" if marked else "raised", {v.DELIVERED: self.delivered_tokens})
        return marked

    def marker(self) -> Any:
        """What the reader gets as the last of it."""
        marker = self.ways.marker
        return marker(self.delivered) if callable(marker) else marker

    def _taken_back(self) -> bool:
        if self._heard.first_ns is None and not self._before:
            return True
        take_back = self.ways.take_back
        return take_back is not None and take_back(self.delivered) is not False

    def _retry(self) -> Callable[[], Any]:
        tokens = self.delivered_tokens
        now_ns = self.now_ns()
        lost_s = seconds(now_ns - self.opened_ns)
        self._did("retried", {v.DELIVERED: tokens, v.PAID_TWICE: tokens, v.TIME_LOST: lost_s})
        self.opened_ns = now_ns
        self._heard = _Heard(self.ways.format)
        self._before, self._before_tokens = "", 0
        return self.ways.again

    def _resume(self, resume: Callable[[str], Any]) -> Callable[[], Any]:
        text, tokens = self.delivered, self.delivered_tokens
        self._did("resumed", {v.DELIVERED: tokens, v.PAID_TWICE: tokens})
        if self._broke_at_ns is None:
            self._broke_at_ns = self._heard.last_ns if self._heard.first_ns is not None else self.opened_ns
        self._heard = _Heard(self.ways.format)
        self._before, self._before_tokens = text, tokens
        return lambda: resume(text)

    def _did(self, what: str, facts: dict[str, Any]) -> None:
        self.done = what
        self._tell({v.MIDSTREAM: what, **facts})
        hop = self.hop
        if hop is not None and hop.trajectory is not None and what != "raised":
            hop.trajectory.intervene(f"{hop.own.get(v.HOP, v.CHAT)}: {what}")

    def _tell(self, facts: dict[str, Any]) -> None:
        if self.hop is None:
            return
        try:
            visit = self.hop.visits[-1]
            visit.span.set_attributes(facts)
            visit.facts = {**visit.facts, **facts}
        except Exception:
            scope.recorder_failed()


def _is_out_of_time(error: Exception) -> bool:
    return remaining_s() <= 0 or (isinstance(error, DeadlineExceeded) and (error.capped or error.outcome == "refused"))
