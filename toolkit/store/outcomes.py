"""How a span went: our own word where it carries one, else what the conventions let us conclude."""

from typing import Final

from hopbudget.store.shapes import Shape, finish_reasons
from hopbudget.store.spans import ERROR, OK, Span
from hopbudget.tracing import vocabulary as v

_OUTCOMES: Final[frozenset[str]] = frozenset(v.OUTCOMES)
_STOPPED: Final = ("cancel", "timeout", "timedout", "deadlineexceeded", "keyboardinterrupt")
_CLOSED: Final = ("generatorexit", "abandoned stream")
_CUT: Final = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})


def stated(span: Span) -> str | None:
    """The outcome that capture of ours wrote, if the span has one."""
    value = span.attributes.get(v.OUTCOME)
    return value if isinstance(value, str) and value in _OUTCOMES else None


def error_type(span: Span) -> str | None:
    """The error's class: `error.type`, else the last exception event's, else the front of the status text."""
    value = span.attributes.get(v.ERROR_TYPE)
    if value is not None:
        return str(value)
    for event in reversed(span.events or []):
        kind = event.attributes.get("exception.type")
        if isinstance(kind, str):
            return kind if span.status == ERROR else None
    return span.status_text if span.status == ERROR else None


def of_span(span: Span, shape: Shape) -> str:
    """The outcome of a hop or of work."""
    if not shape.says_outcome and span.status != ERROR:
        return "ok"
    said = stated(span)
    if said is not None:
        return said
    error = error_type(span)
    if span.status == ERROR or error is not None or _is_error(span, shape):
        return _of_error(error, span.status_text)
    reasons = finish_reasons(span.attributes, shape)
    if _CUT.intersection(reasons):
        return "truncated"
    return "failed" if "error" in reasons else "ok"


def _is_error(span: Span, shape: Shape) -> bool:
    return shape.level is not None and span.attributes[shape.level] == "ERROR"


def of_root(span: Span) -> str | None:
    """The outcome that a trajectory's root states; None if it leaves the matter to its last hop."""
    said = stated(span)
    if said is not None:
        return said
    if span.status == ERROR or span.attributes.get(v.ERROR_TYPE) is not None:
        return _of_error(error_type(span), span.status_text)
    return "ok" if span.status == OK else None


def _of_error(error: str | None, status_text: str | None) -> str:
    """Somebody else's cancel or time-out stopped it; a stream let go is the consumer's doing; the rest failed."""
    name = (error or "").lower().replace("_", "").replace(" ", "")
    if any(word in name for word in _STOPPED):
        return "cancelled"
    text = f"{error or ''} {status_text or ''}".lower()
    return "closed_by_consumer" if any(word in text for word in _CLOSED) else "failed"
