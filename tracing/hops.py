"""A hop: one model call as the client sees it, or as many visits as calls were watched in its body."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from opentelemetry.context import get_current
from opentelemetry.trace import Span, SpanKind, Tracer

from hopbudget.tracing import garbage, scope
from hopbudget.tracing import vocabulary as v
from hopbudget.tracing.blocks import NOBODY, Block, finish_now, finish_span
from hopbudget.tracing.follow import follow, is_async, is_stream
from hopbudget.tracing.lag import LoopLag, current_loop_lag
from hopbudget.tracing.later import Later
from hopbudget.tracing.metrics import instruments
from hopbudget.tracing.outcomes import of_exception
from hopbudget.tracing.visits import Call, Visit

if TYPE_CHECKING:
    from hopbudget.tracing import limits_before as before
    from hopbudget.tracing import limits_guard as guards
    from hopbudget.tracing import managers, readers
    from hopbudget.tracing.limits_asked import Asked
    from hopbudget.tracing.limits_errors import DeadlineExceeded
    from hopbudget.tracing.limits_guard import Guard
    from hopbudget.tracing.readers import Reader
    from hopbudget.tracing.reading import Format, Reading
else:
    before, guards, readers = Later("limits_before"), Later("limits_guard"), Later("readers")
    managers = Later("managers")

T = TypeVar("T")

_LIBRARIES: Final = {"openai": "CHAT", "anthropic": "MESSAGES"}
"""What a library's streams are in, should one end before its first chunk."""
_OF_STAGES: Final = (v.OUTCOME, v.LIMIT_HIT)
"""What is said of a hop whose calls are those of the hops inside it."""


class HopBlock(Block):
    """An open hop. It ends with its body, or with the stream that the body handed on.

    Without a name it is a client's own, opened for one request; the reader of the records then names it by what is
    around it. A hop in whose body others run is no call unless it makes one itself: what it hands on may be theirs.
    """

    __slots__ = (
        "around", "body_left", "calls", "heard", "holds", "inside", "lag", "lag_s", "own", "span_name", "tracer",
        "twice", "visits", "yields",
    )  # fmt: skip

    def __init__(
        self,
        tracer: Tracer,
        name: str | None,
        model: str | None,
        final: bool,
        *,
        facts: Mapping[str, Any] | None = None,
        guard: "Guard | None" = None,
    ) -> None:
        own: dict[str, Any] = {v.OPERATION: v.CHAT}
        if facts:
            own.update(facts)
        if name is not None:
            own[v.HOP] = name
        if model is not None:
            own[v.REQUEST_MODEL] = model
        if final:
            own[v.FINAL] = True
        operation: str = own[v.OPERATION]
        self.span_name = operation if model is None else f"{operation} {model}"
        self.own = own
        parent = None
        if guard is not None:
            guard.hop = self
            guard.tell(own)
            parent = guard.context
        super().__init__(tracer, self.span_name, SpanKind.CLIENT, own, place=True, parent=parent)
        self.guard = guard
        self.tracer = tracer
        self.lag: LoopLag | None = None
        self.lag_s: float | None = None
        self.body_left = False
        self.yields: Call | None = None
        self.calls: list[Call] = []
        self.visits = [Visit(self.span, self.started_ns)]
        self.inside = 0
        """Hops that are open in its body."""
        self.holds = False
        """Whether there ever were any."""
        self.heard: str | None = None
        """The id of the last reply that one of them had."""
        self.twice = False
        """Whether its stream or reply is that of a hop in its body."""
        self.around: HopBlock | None = None
        above = self.parent.get(scope.PLACE)
        if above is None:
            return
        if name is not None and isinstance(above, HopBlock) and above.name is not None:
            self.around = above
            above.inside += 1
            above.holds = True
        if self.trajectory is not None:
            self.trajectory.open_hops += 1

    @property
    def name(self) -> str | None:
        """The hop's name; None for a client's own."""
        return self.own.get(v.HOP)

    @property
    def model(self) -> str | None:
        """The model asked for, as far as it is known."""
        found: str | None = self.visits[-1].facts.get(v.REQUEST_MODEL) or self.own.get(v.REQUEST_MODEL)
        return found

    @property
    def follows(self) -> bool:
        """Whether its streams are followed: something is recorded, or held."""
        return self.guard is not None or self.span.is_recording()

    @property
    def limit_fired(self) -> str | None:
        """The limit that is ending its body right now."""
        return None if self.wait is None else self.wait.limit_fired

    def refused(self, error: "DeadlineExceeded") -> None:
        """It must not be sent."""
        if self.guard is not None:
            self.guard.intervened(error)
        self.left(error)

    def awaits(self) -> None:
        """From now on the lag of this thread's event loop is looked for."""
        if self.lag is None:
            self.lag = current_loop_lag()
            if self.lag is not None:
                self.lag.opened(self)

    def ticked(self) -> None:
        """The loop it waits in ticked."""
        if self.guard is not None:
            self.guard.ticked()

    # Calls seen in the body ----------------------------------------------------------------------------------

    def watch_stream(self, stream: Any, reader: "Reader | None" = None) -> Any:
        """A stream was opened by this hop."""
        if self.visits[-1].of_client:
            return stream
        raw = getattr(stream, "_raw_stream", None)
        if raw is not None:
            # A client's helper around its stream, which it reads.
            self.watch_stream(raw, reader)
            return stream
        format = _format_hint(stream) if reader is None else readers.chosen(reader)
        call = Call(self, self._next_visit(), whole=True, format=format, fixed=reader is not None)
        call.visit.streamed = True
        self.calls.append(call)
        if is_async(stream):
            self.awaits()
        return follow(stream, call)

    def watch_reply(self, reply: "Reading") -> None:
        """A whole reply came."""
        if not self.visits[-1].of_client:
            self._next_visit().answered(reply, self.now_ns())

    def issue(self, facts: Mapping[str, Any]) -> Visit:
        """A client sends a request right now; `facts` are what it says of it, as span attributes."""
        now_ns = self.now_ns()
        visit = self._next_visit(now_ns)
        visit.issue(now_ns)
        visit.facts = facts
        if self.guard is not None:
            self.guard.issued(facts.get(v.REQUEST_MODEL))
        visit.span.set_attributes({key: value for key, value in facts.items() if key != v.OPERATION})
        model = facts.get(v.REQUEST_MODEL)
        if model is not None and self.span_name == v.CHAT:
            visit.named = True
            visit.span.update_name(f"{facts[v.OPERATION]} {model}")
        return visit

    def follow_call(self, call: Call) -> None:
        """A client's answer is a stream, which this call follows."""
        self.calls.append(call)

    def _next_visit(self, issued_ns: int | None = None) -> Visit:
        last = self.visits[-1]
        if self.yields is not None:
            # What the body yielded so far was not the stream after all.
            last.clock, last.streamed, self.yields = None, False, None
        if not last.used:
            return last
        if last.outcome == "failed" and not last.done:
            last.retry()
            return last
        # Where nobody saw the second request leave, it was after the first call's last event.
        started_ns = issued_ns
        if started_ns is None:
            started_ns = last.end_ns if last.outcome is not None else self.started_ns
        if last.outcome is not None:
            self._write(last)
        if self.guard is not None and self.guard.deadline is not None:
            self.guard.deadline.begin_hop()
        visit = Visit(self._start_span(started_ns), started_ns)
        self.visits.append(visit)
        return visit

    def _start_span(self, started_ns: int) -> Span:
        return self.tracer.start_span(
            self.span_name,
            context=self.parent,
            kind=SpanKind.CLIENT,
            attributes=self.own if self.guard is None else self.guard.tell(self.own),
            start_time=self.anchor_ns + started_ns,
        )

    def call_settled(self, visit: Visit) -> None:
        """A followed stream ended."""
        if self.body_left:
            self._write(visit)
            self._close_if_done()

    # The body ------------------------------------------------------------------------------------------------

    def left(self, exc: BaseException | None, *, handed_on: bool = False) -> None:
        """The body ended: cleanly, or with this exception. `handed_on`: its stream, if it has one, is a reader's now.

        After a clean end, a stream that nobody began to read, or that may be part of what is handed on, is left to
        its reader; one that was begun and not read to its end is closed.
        """
        if self.ended_already:
            return
        self.body_left = True
        for visit in self.visits:
            if visit.outcome is None and visit.clock is None:
                visit.outcome, visit.error = ("ok", None) if exc is None else of_exception(exc)
                visit.end_ns = self.now_ns()
        for call in self.calls:
            if call.visit.outcome is None and (exc is not None or not (handed_on or call.clock.pulled_ns is None)):
                call.ended(exc, by_consumer=True)
        for visit in self.visits:
            if visit.outcome is not None:
                self._write(visit)
        self._close_if_done()

    def returned(self, result: Any) -> Any:
        """The body returned this: a stream or reply is its call, if none was watched."""
        streams = is_stream(result)
        if self.follows and not self.calls and not self.visits[-1].of_client and self.visits[-1].reply is None:
            if streams:
                self.twice = self.inside > 0
                result = self.watch_stream(result)
            elif result is not None and (reply := readers.read_reply(result)) is not None:
                self.twice = reply.id is not None and reply.id == self.heard
                self.watch_reply(reply)
            elif result is not None and managers.waits(result, self):
                return result
        self.left(None, handed_on=streams)
        return result

    def handed_on(self) -> None:
        """The client's request is over; its stream, if it has one, goes to the reader."""
        self.left(None, handed_on=True)

    # A generator's life ---------------------------------------------------------------------------------------

    def chunk(self, item: object, asked_ns: int, now_ns: int) -> None:
        """The body yielded this, which is its stream if it watched none."""
        if self.calls or self.visits[-1].of_client or not self.follows:
            return
        if self.yields is None:
            self.yields = Call(self, self.visits[-1], whole=False)
            self.twice = self.inside > 0
        self.yields.chunk(item, asked_ns, now_ns)
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
        if self.guard is not None:
            self.guard.ended(visit)
        attributes = visit.attributes()
        only_holds = self.holds and len(self.visits) == 1 and (self.twice or not visit.seen)
        if only_holds:
            attributes = {v.HOLDS_HOPS: True, **{key: attributes[key] for key in _OF_STAGES if key in attributes}}
        if self.around is not None:
            self.around.heard = self.heard if visit.reply is None else visit.reply.id
        if self.lag is not None:
            self.lag.look(self)
            if self.lag_s is not None:
                attributes[v.CLIENT_LAG] = self.lag_s
                self.lag_s = None
        model = attributes.get(v.RESPONSE_MODEL)
        if model is not None and self.span_name == v.CHAT and not visit.named:
            visit.span.update_name(f"{v.CHAT} {model}")
        if self.trajectory is not None:
            self.trajectory.last_outcome = visit.outcome
        # The instruments are made the first time, which takes locks too.
        later = garbage.collector.thread != 0 and garbage.collecting()
        meters = None if later else instruments()
        sampled = (later or meters is not None) and not only_holds and visit.span.is_recording()
        finish = finish_span if later else finish_now
        finish(visit.span, attributes, visit.outcome, visit.error, self.anchor_ns + visit.end_ns)
        if sampled:
            accounted = self.trajectory.accounted if self.trajectory is not None else {}
            facts = {**accounted, **self.own, **visit.facts, **attributes}
            if later:
                garbage.afterwards(partial(_record, visit, facts))
            else:
                _record(visit, facts)

    def _close_if_done(self) -> None:
        if self.ended_already:
            return
        for visit in self.visits:
            if not visit.done:
                return
        self.close()
        guard = self.guard
        if guard is not None:
            self.guard = self.wait = None
            if guard.waits or guard.known:
                guard.close()
        if self.lag is not None:
            self.lag.closed(self)
        # Calls hold the hop: without this the garbage collector would have to see to each.
        if self.calls:
            self.calls = []
        self.yields = None
        if self.around is not None:
            self.around.inside -= 1
            self.around = None
        if self.trajectory is not None:
            self.trajectory.open_hops -= 1


def _record(visit: Visit, facts: Mapping[str, Any]) -> None:
    try:
        meters = instruments()
        if meters is not None:
            meters.record(visit, facts)
    except Exception:
        scope.recorder_failed()


def _format_hint(stream: object) -> "Format | None":
    """The format of a stream that may end before its first chunk: by the library whose class it is."""
    known = _LIBRARIES.get(type(stream).__module__.partition(".")[0])
    return None if known is None else getattr(readers, known)


def begin_hop(name: str, model: str | None, final: bool, asked: "Asked | None" = None) -> Block | None:
    """Open a hop; None while nothing is recorded and nothing is to be held. Raises what speaks against sending it."""
    tracer = scope.tracer()
    if not scope.setup.limited:
        return None if tracer is None else HopBlock(tracer, name, model, final)
    guard = guards.guard_for(name, model) if asked is None else guards.guard_for(name, model, asked)
    if guard is None:
        return None if tracer is None else HopBlock(tracer, name, model, final)
    return guarded_hop(tracer, name, model, final, guard=guard)


def guarded_hop(
    tracer: Tracer | None,
    name: str | None,
    model: str | None,
    final: bool,
    *,
    facts: Mapping[str, Any] | None = None,
    guard: "Guard",
) -> HopBlock:
    """Open a hop that has limits, or a deadline around it. Raises what speaks against sending it."""
    deadline = guard.deadline
    if deadline is not None:
        if deadline.outer is None and deadline.pressure is None:
            deadline.visit += 1  # as most are, and every hop passes here
        else:
            deadline.begin_hop()
    hop = HopBlock(tracer or NOBODY, name, model, final, facts=facts, guard=guard)
    if guard.rules.may_object and (objection := before.objection(guard)) is not None:
        hop.refused(objection)
        raise objection
    return hop


def open_hop() -> HopBlock | None:
    """The hop whose body this is, if it is one."""
    place = get_current().get(scope.PLACE)
    return place if isinstance(place, HopBlock) and not place.body_left else None


def watch(stream: T, read: "Reader | None" = None) -> T:
    """Time a model's stream, or read a model's whole reply, as the call of the hop it is opened in.

    The stream comes back as it is, its reading unchanged: the same object, or a generator around a generator. Each
    chunk is stamped as it is pulled. The hop lasts until the stream is exhausted, closed or dropped. Outside of a hop,
    and while nothing is recorded, nothing happens.

    Strings, bytes and lines of server-sent events, and chunks of the formats that `hopbudget.tracing.readers` lists are
    told apart by themselves. `read` says what others are: the name of a format, or a function of a chunk that returns
    the text generated in it, None or empty for none, or a whole `Reading`. Raises ValueError for a name that is none.
    """
    if isinstance(read, str):
        readers.chosen(read)
    try:
        hop = open_hop()
        if hop is None or not hop.follows:
            return stream
        if is_stream(stream):
            followed: T = hop.watch_stream(stream, read)
            return followed
        reply = readers.read_reply(stream)
        if reply is not None:
            hop.watch_reply(reply)
    except Exception:
        scope.recorder_failed()
    return stream
