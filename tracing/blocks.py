"""What can be open: a trajectory, a hop, a work, a pause. Each is one span, ended exactly once on every way out."""

from _thread import get_ident
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.context import Context, get_current
from opentelemetry.trace import NoOpTracer, Span, SpanKind, Status, StatusCode, Tracer

from hopbudget.tracing import garbage, scope
from hopbudget.tracing import vocabulary as v
from hopbudget.tracing.follow import follow, is_stream
from hopbudget.tracing.later import Later
from hopbudget.tracing.outcomes import of_exception
from hopbudget.tracing.vocabulary import Outcome

if TYPE_CHECKING:
    from hopbudget.tracing import deadline as deadlines
    from hopbudget.tracing import limits_trajectory as limits
    from hopbudget.tracing import managers, metrics
    from hopbudget.tracing.deadline import Deadline
    from hopbudget.tracing.limits_guard import Guard
    from hopbudget.tracing.limits_waits import Wait
    from hopbudget.tracing.terms import Terms
else:
    deadlines, limits, metrics = Later("deadline"), Later("limits_trajectory"), Later("metrics")
    managers = Later("managers")

NOBODY: Final = NoOpTracer()
"""Starts spans where nothing is recorded, and a deadline or limits are to be held."""
ERRORS: Final = frozenset({"failed", "timed_out", "cancelled"})


class Block:
    """Something open. Its methods are the events of its life; the first one that ends it counts."""

    __slots__ = (
        "anchor_ns", "context", "ended_already", "guard", "now_ns", "parent", "span", "started_ns", "trajectory",
        "wait",
    )  # fmt: skip

    def __init__(
        self,
        tracer: Tracer,
        name: str,
        kind: SpanKind,
        attributes: Mapping[str, Any],
        *,
        place: bool,
        parent: Context | None = None,
    ) -> None:
        """`parent`: the current context, where it is known."""
        clock = scope.setup.clock
        self.now_ns = clock.now_ns
        if parent is None:
            parent = get_current()
        above: Any = parent.get(scope.PLACE)
        # A trajectory is one by itself, wherever it begins.
        if above is None and not isinstance(self, TrajectoryBlock):
            parent = scope.sheltered(parent)
            above = parent.get(scope.PLACE)
        self.parent = parent
        self.started_ns = started_ns = clock.now_ns()
        self.trajectory: TrajectoryBlock | None
        self.anchor_ns: int
        if above is None:
            self.trajectory, self.anchor_ns = None, clock.anchor_ns(started_ns)
        else:
            self.trajectory, self.anchor_ns = above.trajectory, above.anchor_ns
        self.span = span = tracer.start_span(
            name, context=parent, kind=kind, attributes=attributes, start_time=self.anchor_ns + started_ns
        )
        self.ended_already = False
        self.guard: Guard | None = None
        """Holds its limits, if it has any."""
        self.wait: Wait | None = None
        """In which its body is held to them."""
        self.context = context = scope.with_span(span, parent)
        if place:
            # Nobody else's yet. Contexts refuse to be written to, and a copy takes as long again.
            dict.__setitem__(context, scope.PLACE, self)
        scope.open_blocks[id(self)] = self

    def awaits(self) -> None:
        """The event loop of this thread has a part in how long it takes."""

    # The body of the block -----------------------------------------------------------------------------------

    def left(self, exc: BaseException | None) -> None:
        """The body ended: cleanly, or with this exception."""
        raise NotImplementedError

    def returned(self, result: Any) -> Any:
        """The body returned this. A stream, or a manager, keeps the block open until it ends."""
        if is_stream(result):
            return follow(result, self)
        if result is None or not managers.waits(result, self):
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

    __slots__ = ("accounted", "deadline", "decisions", "last_outcome", "open_hops", "thread")

    def __init__(
        self, tracer: Tracer, name: str, attributes: Mapping[str, Any], deadline: "Deadline | None" = None
    ) -> None:
        self.deadline = deadline
        self.decisions: list[str] = []
        self.thread = get_ident()
        self.accounted = {key: attributes[key] for key in (v.WORKLOAD, v.RUN) if key in attributes}
        self.last_outcome: Outcome | None = None
        self.open_hops = 0
        super().__init__(tracer, f"{v.INVOKE_AGENT} {name}", SpanKind.INTERNAL, attributes, place=True)
        self.trajectory = self
        if deadline is not None:
            limits.take_hold(self, deadline)
        scope.open_trajectories[id(self)] = self

    def close(self) -> None:
        """It is ended."""
        super().close()
        self.trajectory = None
        if self.deadline is not None:
            self.deadline.trajectory = None
        if self.guard is not None:
            self.guard.close()
            self.guard = self.wait = None
        scope.open_trajectories.pop(id(self), None)

    def intervene(self, decision: str) -> None:
        """Something in it was ended, or not sent."""
        self.decisions.append(decision)
        if self.ended_already or not self.span.is_recording():
            return
        self.span.set_attributes({v.INTERVENED: True, v.DECISIONS: self.decisions})
        meters = metrics.instruments()
        if meters is not None:
            meters.interventions.add(1, {**self.accounted, v.DECISION: decision.rpartition(": ")[2]})

    def outcome_attributes(self, outcome: Outcome) -> dict[str, Any]:
        """Its own error, else its last hop's outcome."""
        if outcome != "ok":
            return {v.OUTCOME: outcome}
        if self.open_hops:
            # A stream handed on is still being read; the reader of the records takes the hop's outcome.
            return {}
        return {v.OUTCOME: self.last_outcome or outcome}


class PauseBlock(SpanBlock):
    """Waiting for a person; it has no outcome. The clock of the deadline around it stands still."""

    __slots__ = ("_deadline",)

    def __init__(
        self, tracer: Tracer, name: str, kind: SpanKind, attributes: Mapping[str, Any], *, deadline: "Deadline | None"
    ) -> None:
        super().__init__(tracer, name, kind, attributes)
        self._deadline = deadline
        if deadline is not None:
            deadline.pause()

    def close(self) -> None:
        """It is over."""
        super().close()
        deadline, self._deadline = self._deadline, None
        if deadline is not None:
            deadline.resume()

    def outcome_attributes(self, outcome: Outcome) -> dict[str, Any]:
        """None."""
        return {}


def finish_span(
    span: Span, attributes: Mapping[str, Any], outcome: Outcome, error: str | None, end_time_ns: int
) -> None:
    """Write the end of a span. Messages of exceptions may quote prompts, so only their type is recorded.

    What a span processor raises is counted here, because the end of one span must not keep another from ending.
    """
    if garbage.collector.thread and garbage.collecting():
        garbage.afterwards(partial(finish_now, span, attributes, outcome, error, end_time_ns))
    else:
        finish_now(span, attributes, outcome, error, end_time_ns)


def finish_now(
    span: Span, attributes: Mapping[str, Any], outcome: Outcome, error: str | None, end_time_ns: int
) -> None:
    """As `finish_span`, by whoever knows that no garbage is collected."""
    try:
        if span.is_recording():
            span.set_attributes(attributes if error is None else {**attributes, v.ERROR_TYPE: error})
            if outcome in ERRORS:
                span.set_status(Status(StatusCode.ERROR))
        span.end(end_time=end_time_ns)
    except Exception:
        scope.recorder_failed()


def begin_trajectory(
    name: str,
    *,
    workload: str | None,
    run: str | None,
    session: str | None,
    attributes: Mapping[str, Any] | None,
    terms: "Terms",
    max_steps: int | None = None,
) -> Block | None:
    """Open a trajectory; None while nothing is recorded and no deadline or limit is in it."""
    tracer = scope.tracer()
    deadline = limits.deadline_of(terms, max_steps) if scope.setup.limited or not terms.silent else None
    if deadline is not None:
        tracer = tracer or NOBODY
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
    if deadline is not None:
        own.update(limits.attributes(deadline, terms))
    return TrajectoryBlock(tracer, name, {**(attributes or {}), **own}, deadline)


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
    deadline = deadlines.current() if scope.setup.limited else None
    if deadline is not None:
        tracer = tracer or NOBODY
    if tracer is None:
        return None
    return PauseBlock(tracer, f"pause {name}", SpanKind.INTERNAL, {v.PAUSE: name}, deadline=deadline)
