"""Hops from any instrumentation: a span processor that takes others' model calls into our trajectories."""

from collections import OrderedDict
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import StatusCode

from hopbudget.tracing import adopt, scope
from hopbudget.tracing import vocabulary as v
from hopbudget.tracing.blocks import TrajectoryBlock

OPEN_LIMIT: Final = 4_096
"""Open calls that are remembered; spans that never end are forgotten, oldest first."""


class AdoptingProcessor(SpanProcessor):
    """Makes hops of the model calls that other GenAI instrumentations record: Gemini, Bedrock, Ollama ...

    A call inside a trajectory of ours and outside of its hops gets the hop's name and the trajectory's workload and run
    when it begins, and says how the trajectory's last hop came out when it ends. Of calls nested in one another, as
    stacked instrumentations make them, the outermost is the hop. Never raises into the application.
    """

    def __init__(self) -> None:
        self._open: OrderedDict[int, TrajectoryBlock] = OrderedDict()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Take it in, if it is a hop."""
        try:
            if span.instrumentation_scope is not None and span.instrumentation_scope.name == v.SCOPE_NAME:
                return  # an instrumented client's hop is ours, and has no name either
            attributes = span.attributes or {}
            trajectory = adopt.trajectory_of(attributes, parent_context)
            if trajectory is None or (span.parent is not None and span.parent.span_id in self._open):
                return
            span.set_attributes(adopt.stamps(trajectory, attributes, parent_context))
            self._open[span.get_span_context().span_id] = trajectory
            if len(self._open) > OPEN_LIMIT:
                self._open.popitem(last=False)
        except Exception:
            scope.recorder_failed()

    def on_end(self, span: ReadableSpan) -> None:
        """The trajectory's last hop so far."""
        try:
            trajectory = self._open.pop(span.context.span_id, None) if span.context is not None else None
            if trajectory is not None:
                failed = span.status.status_code is StatusCode.ERROR
                trajectory.last_outcome = adopt.outcome_of(span.attributes or {}, failed=failed)
        except Exception:
            scope.recorder_failed()
