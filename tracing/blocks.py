"""What can be open: a trajectory, a hop, a work, a pause. Each is one span, ended exactly once on every way out."""

from _thread import get_ident
from collections.abc import Mapping
from typing import Any, Final

from opentelemetry.context import Context, get_current
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context

from hopbudget.tracing import scope
from hopbudget.tracing import vocabulary as v
from hopbudget.tracing.follow import follow, is_stream
from hopbudget.tracing.outcomes import of_exception
from hopbudget.tracing.vocabulary import Outcome

ERRORS: Final = frozenset({"failed", "timed_out", "cancelled"})


class Block:
    """Something open. Its methods are the events of its life; the first one that ends it counts."""

    __slots__ = ("anchor_ns", "context", "ended_already", "now_ns", "parent", "span", "started_ns", "trajectory")

    def __init__(
        self, tracer: Tracer, name: str, kind: SpanKind, attributes: Mapping[str, Any], *, place: bool
    ) -> None:
        self.now_ns = scope.setup.clock.now_ns
        self.parent = get_current()
        above: Any = self.parent.get(scope.PLACE)
        # A trajectory is one by itself, wherever it begins.
        if above is None and not isinstance(self, TrajectoryBlock):
            self.parent = scope.sheltered(self.parent)
            above = self.parent.get(scope.PLACE)
        self.trajectory: TrajectoryBlock | None = above.trajectory if above is not None else None
        self.anchor_ns: int = above.anchor_ns if above is not None else scope.setup.clock.anchor_ns()
        self.started_ns = self.now_ns()
        self.span = tracer.start_span(
            name,
            context=self.parent,
            kind=kind,
            attributes=attributes,
            start_time=self.anchor_ns + self.started_ns,
        )
        self.ended_already = False
        context = set_span_in_context(self.span, self.parent)
        self.context: Context = Context({**context, scope.PLACE: self}) if place else context
        scope.open_blocks[id(self)] = self

    def awaits(self) -> None:
        """The event loop of this thread has a part in how long it takes."""

    # The body of the block -----------------------------------------------------------------------------------

    def left(self, exc: BaseException | None) -> None:
        """The body ended: cleanly, or with this exception."""
        raise NotImplementedError

    def returned(self, result: Any) -> Any:
        """The body returned this. A stream keeps the block open until it ends, and may come back wrapped."""
        if is_stream(result):
            return follow(result, self)
        self.left(None)
        return result

    # A generator's life, which is a block's too (`handle.Follower`) -------------------------------------------

    def chunk(self, item: object, asked_ns: int, now_ns: int) -> None:
        """The body was asked for this, and yielded it."""
        raise NotImplementedError

    def ended(self, exc: BaseException | None, by_consumer: bool) -> None:
        """The generator ended."""
        raise NotImplementedError

    def dropped(self) -> None:
        """Nobody will end it: abandoned and collected, or the process ends."""
        raise NotImplementedError

    def close(self) -> None:
        """It is ended, and no longer of interest to the process's exit."""
        self.ended_already = True
        # The context holds the block: without this every block would be left to the garbage collector.
        self.context = self.parent
        scope.open_blocks.pop(id(self), None)


class SpanBlock(Block):
    """A trajectory, work or pause: a span from begin to end of its body."""

    __slots__ = ("event_ns",)

    def __init__(
        self, tracer: Tracer, name: str, kind: SpanKind, attributes: Mapping[str, Any], *, place: bool = False
    ) -> None:
        super().__init__(tracer, name, kind, attributes, place=place)
        self.event_ns = self.started_ns

    def left(self, exc: BaseException | None) -> None:
        """The body ended: cleanly, or with this exception."""
        self.ended(exc, by_consumer=False)

    def chunk(self, item: object, asked_ns: int, now_ns: int) -> None:
        """The body yielded."""
        self.event_ns = now_ns

    def ended(self, exc: BaseException | None, by_consumer: bool) -> None:
        """The generator, or the stream handed on, ended."""
        outcome, error = of_exception(exc, by_consumer=by_consumer)
        # A consumer may close long after it read last; only what was observed counts.
        self._end(outcome, error, self.event_ns if outcome == "closed_by_consumer" else self.now_ns())

    def dropped(self) -> None:
        """Nobody will end it."""
        self._end("closed_by_consumer", None, self.event_ns)

    def _end(self, outcome: Outcome, error: str | None, end_ns: int) -> None:
        if self.ended_already:
            return
        self.close()
        finish_span(self.span, self.outcome_attributes(outcome), outcome, error, self.anchor_ns + end_ns)

    def outcome_attributes(self, outcome: Outcome) -> dict[str, Any]:
        """What the end of the block adds to its span."""
        return {v.OUTCOME: outcome}


class TrajectoryBlock(SpanBlock):
    """One agent run. Its own error says its outcome, else its last hop does."""

    __slots__ = ("accounted", "last_outcome", "open_hops", "thread")

    def __init__(self, tracer: Tracer, name: str, attributes: Mapping[str, Any]) -> None:
        self.thread = get_ident()
        self.accounted = {key: attributes[key] for key in (v.WORKLOAD, v.RUN) if key in attributes}
        self.last_outcome: Outcome | None = None
        self.open_hops = 0
        super().__init__(tracer, f"{v.INVOKE_AGENT} {name}", SpanKind.INTERNAL, attributes, place=True)
        self.trajectory = self
        scope.open_trajectories[id(self)] = self

    def close(self) -> None:
        """It is ended."""
        super().close()
        self.trajectory = None
        scope.open_trajectories.pop(id(self), None)

    def outcome_attributes(self, outcome: Outcome) -> dict[str, Any]:
        """Its own error, else its last hop's outcome."""
        if outcome != "ok":
            return {v.OUTCOME: outcome}
        if self.open_hops:
            # A stream handed on is still being read; the reader of the records takes the hop's outcome.
            return {}
        return {v.OUTCOME: self.last_outcome or outcome}


class PauseBlock(SpanBlock):
    """Waiting for a person; it has no outcome."""

    __slots__ = ()

    def outcome_attributes(self, outcome: Outcome) -> dict[str, Any]:
        """None."""
        return {}


def finish_span(
    span: Span, attributes: Mapping[str, Any], outcome: Outcome, error: str | None, end_time_ns: int
) -> None:
    """Write the end of a span. Messages of exceptions may quote prompts, so only their type is recorded.

    What a span processor raises is counted here, because the end of one span must not keep another from ending.
    """
    try:
        if span.is_recording():
            span.set_attributes(attributes if error is None else {**attributes, v.ERROR_TYPE: error})
            if outcome in ERRORS:
                span.set_status(Status(StatusCode.ERROR))
        span.end(end_time=end_time_ns)
    except Exception:
        scope.recorder_failed()


def begin_trajectory(
    name: str, workload: str | None, run: str | None, session: str | None, attributes: Mapping[str, Any] | None
) -> Block | None:
    """Open a trajectory; None while nothing is recorded."""
    tracer = scope.tracer()
    if tracer is None:
        return None
    own: dict[str, Any] = {
        v.OPERATION: v.INVOKE_AGENT,
        v.AGENT_NAME: name,
        v.WORKLOAD: name if workload is None else workload,
    }
    if run is not None:
        own[v.RUN] = run
    if session is not None:
        own[v.CONVERSATION_ID] = session
    return TrajectoryBlock(tracer, name, {**(attributes or {}), **own})


def begin_work(name: str) -> Block | None:
    """Open a work; None while nothing is recorded."""
    tracer = scope.tracer()
    if tracer is None:
        return None
    own = {v.OPERATION: v.EXECUTE_TOOL, v.TOOL_NAME: name}
    return SpanBlock(tracer, f"{v.EXECUTE_TOOL} {name}", SpanKind.INTERNAL, own)


def begin_pause(name: str) -> Block | None:
    """Open a pause; None while nothing is recorded."""
    tracer = scope.tracer()
    return None if tracer is None else PauseBlock(tracer, f"pause {name}", SpanKind.INTERNAL, {v.PAUSE: name})
