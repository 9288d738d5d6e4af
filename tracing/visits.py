"""One call of a hop, and what follows its stream, or the body of its reply."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.trace import Span

from hopbudget.tracing import scope
from hopbudget.tracing import vocabulary as v
from hopbudget.tracing.clock import seconds
from hopbudget.tracing.later import Later
from hopbudget.tracing.outcomes import is_cancel, limit_in, of_exception
from hopbudget.tracing.vocabulary import Outcome

if TYPE_CHECKING:
    from hopbudget.tracing import reading
    from hopbudget.tracing import stream as streams
    from hopbudget.tracing.hops import HopBlock
    from hopbudget.tracing.limits_waits import Wait
    from hopbudget.tracing.reading import Format, Reading, Usage
    from hopbudget.tracing.stream import StreamClock
else:
    reading, streams = Later("reading"), Later("stream")

PREPARED_NS: Final = 1_000_000
"""From here on the time that a hop's body took before its request is told from the hop's own."""
BODY_LIMIT: Final = 1 << 24
"""Bytes of a reply that are kept for its usage; the reply itself is longer, and its usage then unknown."""


_NO_FACTS: Final[Mapping[str, Any]] = {}


class Visit:
    """One call of a hop: its span, and what is known of the call. Later attempts after a failed one belong to it."""

    __slots__ = (
        "attempt_ns", "attempts", "backoff_ns", "begun_ns", "clock", "done", "end_ns", "error", "facts",
        "issued", "limit_hit", "named", "outcome", "reply", "span", "started_ns", "streamed",
    )  # fmt: skip

    def __init__(self, span: Span, started_ns: int) -> None:
        self.span = span
        self.begun_ns = started_ns
        self.started_ns = started_ns
        self.attempt_ns = started_ns
        self.attempts = 1
        self.backoff_ns = 0
        self.facts: Mapping[str, Any] = _NO_FACTS
        """What a client said of the request, as span attributes."""
        self.issued = False
        self.named = False
        self.streamed = False
        self.clock: StreamClock | None = None
        self.reply: Reading | None = None
        self.outcome: Outcome | None = None
        self.error: str | None = None
        self.limit_hit: str | None = None
        """The limit that ended it, or that would have."""
        self.end_ns = started_ns
        self.done = False

    @property
    def used(self) -> bool:
        """Whether a call was seen, or what came of one."""
        return self.outcome is not None or self.seen

    @property
    def seen(self) -> bool:
        """Whether a call was seen."""
        return self.issued or self.clock is not None or self.reply is not None

    @property
    def of_client(self) -> bool:
        """Whether an instrumented client makes or made this call, so that what the body hands about is no other."""
        return self.issued and self.outcome != "failed"

    def issue(self, now_ns: int) -> None:
        """A client was seen to send the request."""
        if self.attempts == 1:
            self.started_ns = now_ns
        else:
            self.backoff_ns += now_ns - self.attempt_ns
        self.attempt_ns = now_ns
        self.issued = True

    def again(self, now_ns: int) -> None:
        """The client itself sends the request once more."""
        self.attempts += 1
        self.attempt_ns = now_ns

    def answered(self, reply: "Reading", now_ns: int) -> None:
        """A whole reply came."""
        self.reply = reply
        if reply.error is not None:
            self.settle("failed", reply.error, now_ns)
        else:
            self.settle("truncated" if reply.truncated else "ok", None, now_ns)

    def settle(self, outcome: Outcome, error: str | None, end_ns: int) -> None:
        """How the call came out, and when the last of it was observed."""
        self.outcome, self.error, self.end_ns = outcome, error, end_ns

    def retry(self) -> None:
        """The call failed and is made again: the clock of the hop goes on, that of the attempt begins."""
        self.attempts += 1
        self.attempt_ns = self.end_ns
        self.issued = False
        self.outcome = self.error = self.clock = self.reply = None

    def attributes(self) -> dict[str, Any]:
        """The visit's measurements, as span attributes; what was not observed is not there."""
        found: dict[str, Any] = {v.OUTCOME: self.outcome}
        if self.limit_hit is not None:
            found[v.LIMIT_HIT] = self.limit_hit
        if self.attempts > 1:
            found[v.ATTEMPTS] = self.attempts
        if self.backoff_ns:
            found[v.BACKOFF] = seconds(self.backoff_ns)
        if self.started_ns - self.begun_ns >= PREPARED_NS:
            found[v.ISSUED] = seconds(self.started_ns - self.begun_ns)
        if self.streamed:
            found[v.REQUEST_STREAM] = True
        source: StreamClock | Reading | None = self.clock or self.reply
        if source is None:
            return found
        if source.model is not None:
            found[v.RESPONSE_MODEL] = source.model
        if source.finish is not None:
            found[v.FINISH_REASONS] = [source.finish]
        usage = source.usage
        if usage is not None:
            _state(usage, found)
        if self.clock is not None:
            found.update(self._stream_attributes(self.clock))
        elif usage is not None and usage.output is not None:
            found[v.N_TOKENS] = usage.output
            found[v.N_SOURCE] = "usage"
        return found

    def _stream_attributes(self, clock: "StreamClock") -> dict[str, Any]:
        found: dict[str, Any] = {}
        if clock.first_ns is None:
            return found
        found[v.CHUNKS] = clock.chunks
        found[v.TTFT] = seconds(clock.first_ns - self.started_ns)
        found[v.ATTEMPT_TTFT] = seconds(clock.first_ns - self.attempt_ns)
        if clock.answer_ns is not None:
            found[v.TTFA] = seconds(clock.answer_ns - self.started_ns)
        if self.outcome in {"ok", "truncated"}:
            found[v.E2E] = seconds(clock.last_ns - self.started_ns)
        found[v.CONSUMER] = seconds(clock.consumer_ns)
        if len(clock.gaps):
            found[v.ITL] = clock.gaps.encode()
            found[v.COALESCED] = clock.coalesced
            found[v.HELD] = clock.held
        try:
            tokens, source = clock.tokens()
        except Exception:  # the user's tokenizer
            scope.recorder_failed()
            tokens, source = clock.chunks, "chunks"
        if tokens is not None:
            found[v.N_TOKENS] = tokens
            found[v.N_SOURCE] = source
        tpot_ns = clock.tpot_ns(tokens)
        if tpot_ns is not None:
            found[v.TPOT] = tpot_ns / 1e9
        return found


def _state(usage: "Usage", found: dict[str, Any]) -> None:
    """Add what the provider says of the tokens."""
    if usage.input is not None:
        found[v.INPUT_TOKENS] = usage.input
    if usage.output is not None:
        found[v.OUTPUT_TOKENS] = usage.output
    if usage.cached is not None:
        found[v.CACHED_TOKENS] = usage.cached
    if usage.reasoning is not None:
        found[v.REASONING_TOKENS] = usage.reasoning


class Call:
    """Follows one stream for its visit."""

    __slots__ = ("chunk", "clock", "hop", "now_ns", "opened_ns", "visit", "wait", "whole")

    def __init__(
        self, hop: "HopBlock", visit: Visit, *, whole: bool, format: "Format | None" = None, fixed: bool = False
    ) -> None:
        self.hop = hop
        self.visit = visit
        self.whole = whole
        self.now_ns = hop.now_ns
        self.opened_ns = hop.now_ns()
        self.clock = streams.StreamClock(scope.setup.tokenizer, format=format, fixed=fixed)
        visit.clock = self.clock
        # Every chunk passes here, so the clock takes it without a detour.
        self.chunk = self.clock.pulled
        self.wait: Wait | None = None
        if hop.guard is not None:
            hop.guard.follow(self)

    @property
    def observed_ns(self) -> int:
        """When the last of the stream was observed."""
        return self.opened_ns if self.clock.pulled_ns is None else self.clock.pulled_ns

    def ended(self, exc: BaseException | None, by_consumer: bool) -> None:
        """The stream ended."""
        visit = self.visit
        if visit.clock is not self.clock or visit.outcome is not None:
            return
        self.clock.finished()
        if exc is None and not by_consumer:
            outcome, error = self.clock.clean_end(whole=self.whole)
            visit.settle(outcome, error, self.now_ns())
        elif by_consumer and exc is None and self.clock.over:
            # Whoever reads bytes closes them after the last event, and does not ask for more.
            visit.settle(*self.clock.clean_end(), self.observed_ns)
        elif by_consumer and is_cancel(exc) and (limit := self.hop.limit_fired) is not None:
            # The stream was dropped while the body was ended, before anybody could tell why.
            visit.limit_hit = limit
            visit.settle("timed_out", None, self.observed_ns)
        elif by_consumer:
            visit.settle(*of_exception(exc, by_consumer=True), self.observed_ns)
        else:
            now_ns = self.now_ns()
            if is_cancel(exc) or limit_in(exc) is not None:
                self.clock.cut_short(now_ns)
            visit.settle(*of_exception(exc), now_ns)
        self._settled()

    def _settled(self) -> None:
        if self.hop.guard is not None:
            self.hop.guard.followed(self)
        self.hop.call_settled(self.visit)

    def dropped(self) -> None:
        """Nobody reads it any more."""
        self.ended(None, by_consumer=True)


class BodyCall(Call):
    """Follows the body of a whole reply, which comes in pieces of no meaning."""

    __slots__ = ("body", "format")

    def __init__(self, hop: "HopBlock", visit: Visit, *, format: "Format") -> None:
        super().__init__(hop, visit, whole=True)
        self.format = format
        self.body = bytearray()
        self.chunk = self._piece

    def _piece(self, chunk: object, asked_ns: int, now_ns: int) -> None:
        self.clock.pulled_ns = now_ns
        if isinstance(chunk, bytes) and len(self.body) < BODY_LIMIT:
            self.body += chunk

    def ended(self, exc: BaseException | None, by_consumer: bool) -> None:
        """The body was read to its end, or given up."""
        visit = self.visit
        if visit.clock is not self.clock or visit.outcome is not None:
            return
        visit.clock = None
        if exc is None and not by_consumer:
            visit.answered(read_body(bytes(self.body), self.format), self.now_ns())
        else:
            visit.settle(*of_exception(exc, by_consumer=by_consumer), self.observed_ns)
        self._settled()


def read_body(body: bytes, format: "Format") -> "Reading":
    """What a whole reply says, from its JSON; nothing if that can't be read."""
    try:
        import json  # not at the top: most processes never need it, and all of them import this

        return format.reply(json.loads(body)) or reading.Reading()
    except ValueError:
        return reading.Reading()
