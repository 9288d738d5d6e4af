"""How an exception that ended something is called in the records."""

from hopbudget.tracing.limits_errors import DeadlineExceeded
from hopbudget.tracing.vocabulary import Outcome

CUT_OFF = "cut_off"
"""error.type of a stream that ended cleanly without the end mark its format has."""


def is_cancel(exc: BaseException | None) -> bool:
    """Whether the exception is a cancellation: of a task, by somebody else's time-out, by the person at the keyboard.

    Classes are told by name, so that no event loop's module is loaded for it. A client's or a socket's own time-out is
    somebody else's too: what it cut short took at least that long. A group is one if everything in it is.
    """
    if exc is None:
        return False
    if isinstance(exc, BaseExceptionGroup):
        return all(is_cancel(inner) for inner in exc.exceptions)
    if isinstance(exc, (KeyboardInterrupt, SystemExit)):
        return True
    return any(is_cancel_name(cls.__name__) for cls in type(exc).__mro__)


def limit_in(exc: BaseException | None) -> DeadlineExceeded | None:
    """The limit of ours that was reached, if the exception is that, or is a group's with that in it."""
    if isinstance(exc, DeadlineExceeded):
        return exc
    if isinstance(exc, BaseExceptionGroup):
        return next((found for inner in exc.exceptions if (found := limit_in(inner)) is not None), None)
    return None


def is_cancel_name(name: str) -> bool:
    """Whether a class of this name, dotted or not, is a cancellation or a time-out."""
    last = name.rpartition(".")[2]
    return last in {"CancelledError", "Cancelled"} or "Timeout" in last


def of_exception(exc: BaseException | None, *, by_consumer: bool = False) -> tuple[Outcome, str | None]:
    """The outcome and the `error.type` of something that ended with this exception, or cleanly.

    `by_consumer`: the exception is not the provider's; whoever read the stream threw it.
    """
    if exc is None:
        return ("closed_by_consumer" if by_consumer else "ok"), None
    ours = limit_in(exc)
    if ours is not None:
        return ours.outcome, type(ours).__qualname__
    if is_cancel(exc):
        return "cancelled", type(exc).__qualname__
    if by_consumer or isinstance(exc, GeneratorExit):
        return "closed_by_consumer", None
    return "failed", type(exc).__qualname__
