"""Model calls that other instrumentations record inside our trajectories: which are hops, and what is said of them.

Pure: span processors call it. Nothing is timed here; the first-chunk time such a span may carry stays its own.
"""

from collections.abc import Mapping
from typing import Any, Final

from opentelemetry.context import Context, get_current
from opentelemetry.trace import get_current_span

from hopbudget.tracing import scope
from hopbudget.tracing import vocabulary as v
from hopbudget.tracing.blocks import TrajectoryBlock
from hopbudget.tracing.outcomes import is_cancel_name
from hopbudget.tracing.vocabulary import Outcome

OPERATIONS: Final = frozenset({v.CHAT, "generate_content", "text_completion"})


def trajectory_of(attributes: Mapping[str, Any], context: Context | None) -> TrajectoryBlock | None:
    """The trajectory whose hop a span is that begins with these attributes in this context; None if it is none.

    Inside one of our own hops the call is that hop's already.
    """
    if attributes.get(v.OPERATION) not in OPERATIONS or v.HOP in attributes:
        return None
    place = (get_current() if context is None else context).get(scope.PLACE)
    return place if isinstance(place, TrajectoryBlock) and not place.ended_already else None


def stamps(trajectory: TrajectoryBlock, attributes: Mapping[str, Any], context: Context | None) -> dict[str, Any]:
    """What the span gets: the hop's name, as the store would tell it, and what the trajectory is accounted under."""
    return {v.HOP: _name(trajectory, attributes, context), v.ADOPTED: True, **trajectory.accounted}


def _name(trajectory: TrajectoryBlock, attributes: Mapping[str, Any], context: Context | None) -> str:
    """The agent whose span it begins in, if that is not the whole trajectory; else the operation."""
    around = get_current_span(context)
    if around.get_span_context().span_id != trajectory.span.get_span_context().span_id:
        facts: Mapping[str, Any] = getattr(around, "attributes", None) or {}
        agent = facts.get(v.AGENT_NAME)
        if facts.get(v.OPERATION) == v.INVOKE_AGENT and isinstance(agent, str):
            return agent
    return str(attributes[v.OPERATION])


def outcome_of(attributes: Mapping[str, Any], *, failed: bool) -> Outcome:
    """The outcome that an ended span tells by its status and attributes."""
    if failed:
        return "cancelled" if is_cancel_name(str(attributes.get(v.ERROR_TYPE, ""))) else "failed"
    reasons = attributes.get(v.FINISH_REASONS)
    return "truncated" if isinstance(reasons, (list, tuple)) and {"length", "max_tokens"} & {*reasons} else "ok"
