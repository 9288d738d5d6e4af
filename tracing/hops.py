"""A hop: one model call as the client sees it, or as many visits as calls were watched in its body."""

from typing import Any, TypeVar

from opentelemetry.context import get_current
from opentelemetry.trace import Span, SpanKind, Tracer

from hopbudget.tracing import scope
from hopbudget.tracing import vocabulary as v
from hopbudget.tracing.blocks import Block, finish_span
from hopbudget.tracing.clock import seconds
from hopbudget.tracing.follow import follow, is_stream
from hopbudget.tracing.outcomes import is_cancel, of_exception
from hopbudget.tracing.readers import CHAT, Format, Reading, read_reply
from hopbudget.tracing.stream import StreamClock
from hopbudget.tracing.vocabulary import Outcome

T = TypeVar("T")


class Visit:
    """One call of a hop: its span, and what is known of the call. Later attempts after a failed one belong to it."""

    __slots__ = (
        "attempt_ns", "attempts", "clock", "done", "end_ns", "error",
        "outcome", "reply", "span", "started_ns", "streamed",
    )  # fmt: skip

    def __init__(self, span: Span, started_ns: int) -> None:
        self.span = span
        self.started_ns = started_ns
        self.attempt_ns = started_ns
        self.attempts = 1
        self.streamed = False
        self.clock: StreamClock | None = None
        self.reply: Reading | None = None
        self.outcome: Outcome | None = None
        self.error: str | None = None
        self.end_ns = started_ns
        self.done = False

    def settle(self, outcome: Outcome, error: str | None, end_ns: int) -> None:
        """How the call came out, and when the last of it was observed."""
        self.outcome, self.error, self.end_ns = outcome, error, end_ns

    def retry(self) -> None:
        """The call failed and is made again: the clock of the hop goes on, that of the attempt begins."""
        self.attempts += 1
        self.attempt_ns = self.end_ns
        self.outcome = self.error = self.clock = self.reply = None

    def attributes(self) -> dict[str, Any]:
        """The visit's measurements, as span attributes; what was not observed is not there."""
        found: dict[str, Any] = {v.OUTCOME: self.outcome}
        if self.attempts > 1:
            found[v.ATTEMPTS] = self.attempts
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
            stated = {
                v.INPUT_TOKENS: usage.input,
                v.OUTPUT_TOKENS: usage.output,
                v.CACHED_TOKENS: usage.cached,
                v.REASONING_TOKENS: usage.reasoning,
            }
            found.update({key: value for key, value in stated.items() if value is not None})
        if self.clock is not None:
            found.update(self._stream_attributes(self.clock))
        elif usage is not None and usage.output is not None:
            found[v.N_TOKENS] = usage.output
            found[v.N_SOURCE] = "usage"
        return found

    def _stream_attributes(self, clock: StreamClock) -> dict[str, Any]:
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
        if len(clock.gaps):
            found[v.ITL] = clock.gaps.encode()
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


class Call:
    """Follows one stream for its visit."""

    __slots__ = ("clock", "hop", "now_ns", "opened_ns", "visit", "whole")

    def __init__(self, hop: "HopBlock", visit: Visit, *, whole: bool, format: Format | None = None) -> None:
        self.hop = hop
        self.visit = visit
        self.whole = whole
        self.now_ns = hop.now_ns
        self.opened_ns = hop.now_ns()
        self.clock = StreamClock(scope.setup.tokenizer, format=format)
        visit.clock = self.clock

    @property
    def observed_ns(self) -> int:
        """When the last of the stream was observed."""
        return self.opened_ns if self.clock.pulled_ns is None else self.clock.pulled_ns

    def chunk(self, item: object) -> None:
        """The consumer pulled this."""
        self.clock.pulled(item, self.now_ns())

    def ended(self, exc: BaseException | None, by_consumer: bool) -> None:
        """The stream ended."""
        visit = self.visit
        if visit.clock is not self.clock or visit.outcome is not None:
            return
        self.clock.finished()
        if exc is None and not by_consumer:
            outcome, error = self.clock.clean_end(whole=self.whole)
            visit.settle(outcome, error, self.now_ns())
        elif by_consumer:
            visit.settle(*of_exception(exc, by_consumer=True), self.observed_ns)
        else:
            now_ns = self.now_ns()
            if is_cancel(exc):
                self.clock.cut_short(now_ns)
            visit.settle(*of_exception(exc), now_ns)
        self.hop.call_settled(visit)

    def dropped(self) -> None:
        """Nobody reads it any more."""
        self.ended(None, by_consumer=True)


class HopBlock(Block):
    """An open hop. It ends with its body, or with the stream that the body handed on."""

    __slots__ = ("body_left", "calls", "name", "start_span", "visits", "yields")

    def __init__(self, tracer: Tracer, name: str, model: str | None, final: bool) -> None:
        own: dict[str, Any] = {v.OPERATION: v.CHAT, v.HOP: name}
        if model is not None:
            own[v.REQUEST_MODEL] = model
        if final:
            own[v.FINAL] = True
        span_name = v.CHAT if model is None else f"{v.CHAT} {model}"
        super().__init__(tracer, span_name, SpanKind.CLIENT, own, place=True)
        self.name = span_name
        self.body_left = False
        self.yields: Call | None = None
        self.calls: list[Call] = []
        self.visits = [Visit(self.span, self.started_ns)]
        if self.trajectory is not None:
            self.trajectory.open_hops += 1

        def start_span(started_ns: int) -> Span:
            return tracer.start_span(
                span_name,
                context=self.parent,
                kind=SpanKind.CLIENT,
                attributes=own,
                start_time=self.anchor_ns + started_ns,
            )

        self.start_span = start_span

    # Calls seen in the body ----------------------------------------------------------------------------------

    def watch_stream(self, stream: Any) -> Any:
        """A stream was opened by this hop."""
        call = Call(self, self._next_visit(), whole=True, format=_format_hint(stream))
        call.visit.streamed = True
        self.calls.append(call)
        return follow(stream, call)

    def watch_reply(self, reply: Reading) -> None:
        """A whole reply came."""
        visit = self._next_visit()
        visit.reply = reply
        if reply.error is not None:
            visit.settle("failed", reply.error, self.now_ns())
        else:
            visit.settle("truncated" if reply.finish == "length" else "ok", None, self.now_ns())

    def _next_visit(self) -> Visit:
        last = self.visits[-1]
        if self.yields is not None:
            # What the body yielded so far was not the stream after all.
            last.clock, last.streamed, self.yields = None, False, None
        if last.clock is None and last.reply is None:
            return last
        if last.outcome == "failed" and not last.done:
            last.retry()
            return last
        # Nobody saw the second request leave; it was after the first call's last event.
        started_ns = last.end_ns if last.outcome is not None else self.started_ns
        if last.outcome is not None:
            self._write(last)
        visit = Visit(self.start_span(started_ns), started_ns)
        self.visits.append(visit)
        return visit

    def call_settled(self, visit: Visit) -> None:
        """A followed stream ended."""
        if self.body_left:
            self._write(visit)
            self._close_if_done()

    # The body ------------------------------------------------------------------------------------------------

    def left(self, exc: BaseException | None) -> None:
        """The body ended: cleanly, or with this exception."""
        self._left(exc, handed_on=False)

    def returned(self, result: Any) -> Any:
        """The body returned this: a stream or reply is its call, if none was watched."""
        if self.span.is_recording() and not self.calls and self.visits[-1].reply is None:
            if is_stream(result):
                result = self.watch_stream(result)
            elif (reply := read_reply(result)) is not None:
                self.watch_reply(reply)
        self._left(None, handed_on=is_stream(result))
        return result

    def _left(self, exc: BaseException | None, *, handed_on: bool) -> None:
        """Settle what the end of the body settles.

        After a clean end, a stream that nobody began to read, or that may be part of what is handed on, is left to
        its reader; one that was begun and not read to its end is closed.
        """
        if self.ended_already:
            return
        self.body_left = True
        for visit in self.visits:
            if visit.outcome is None and visit.clock is None:
                visit.settle(*of_exception(exc), self.now_ns())
        for call in self.calls:
            if call.visit.outcome is None and (exc is not None or not (handed_on or call.clock.pulled_ns is None)):
                call.ended(exc, by_consumer=True)
        for visit in self.visits:
            if visit.outcome is not None:
                self._write(visit)
        self._close_if_done()

    # A generator's life ---------------------------------------------------------------------------------------

    def chunk(self, item: object) -> None:
        """The body yielded this, which is its stream if it watched none."""
        if self.calls:
            return
        if self.yields is None:
            self.yields = Call(self, self.visits[-1], whole=False)
        self.yields.chunk(item)
        self.yields.visit.streamed = self.yields.clock.known

    def ended(self, exc: BaseException | None, by_consumer: bool) -> None:
        """The generator ended."""
        if self.yields is not None:
            self.yields.ended(exc, by_consumer)
        self.left(GeneratorExit() if exc is None and by_consumer else exc)

    def dropped(self) -> None:
        """The process ends."""
        self.body_left = True
        for call in [*self.calls, *([self.yields] if self.yields else [])]:
            call.dropped()
        self.left(GeneratorExit())

    # The end -------------------------------------------------------------------------------------------------

    def _write(self, visit: Visit) -> None:
        if visit.done or visit.outcome is None:
            return
        visit.done = True
        attributes = visit.attributes()
        model = attributes.get(v.RESPONSE_MODEL)
        if model is not None and self.name == v.CHAT:
            visit.span.update_name(f"{v.CHAT} {model}")
        if self.trajectory is not None:
            self.trajectory.last_outcome = visit.outcome
        finish_span(visit.span, attributes, visit.outcome, visit.error, self.anchor_ns + visit.end_ns)

    def _close_if_done(self) -> None:
        if not self.ended_already and all(visit.done for visit in self.visits):
            self.close()
            if self.trajectory is not None:
                self.trajectory.open_hops -= 1


def _format_hint(stream: object) -> Format | None:
    """The format of a stream that may end before its first chunk: by the library whose class it is."""
    return CHAT if type(stream).__module__.partition(".")[0] == "openai" else None


def begin_hop(name: str, model: str | None, final: bool) -> Block | None:
    """Open a hop; None while nothing is recorded."""
    tracer = scope.tracer()
    return None if tracer is None else HopBlock(tracer, name, model, final)


def watch(stream: T) -> T:
    """Time a model's stream, or read a model's whole reply, as the call of the hop it is opened in.

    The stream comes back as it is, its reading unchanged: the same object, or a generator around a generator. Each
    chunk is stamped as it is pulled. The hop lasts until the stream is exhausted, closed or dropped. Outside of a hop,
    and while nothing is recorded, nothing happens.
    """
    try:
        hop = get_current().get(scope.PLACE)
        if not isinstance(hop, HopBlock) or hop.body_left or not hop.span.is_recording():
            return stream
        if is_stream(stream):
            followed: T = hop.watch_stream(stream)
            return followed
        reply = read_reply(stream)
        if reply is not None:
            hop.watch_reply(reply)
    except Exception:
        scope.recorder_failed()
    return stream
