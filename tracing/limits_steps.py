"""How a wait is entered and left by those who make the steps: what fails in it is counted and never reaches them."""

import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from hopbudget.tracing.limits_errors import DeadlineExceeded
from hopbudget.tracing.scope import recorder_failed

if TYPE_CHECKING:
    from hopbudget.tracing.handle import Handle
    from hopbudget.tracing.limits_waits import Wait


def entered(wait: "Wait", now_ns: int, *, looped: bool) -> DeadlineExceeded | None:
    """The wait begins; returns the limit that is reached already, if one is."""
    try:
        return wait.begin(now_ns, looped=looped)
    except Exception:
        recorder_failed()
        return None


def steps(wait: "Wait", now_ns: int, *, looped: bool) -> DeadlineExceeded | None:
    """The same for each step of a generator."""
    due = None
    if now_ns >= wait.next_ns or (looped and wait.current(wait.loop) is not wait.task):
        due = entered(wait, now_ns, looped=looped)
    wait.asked_ns = now_ns
    return due


def left(wait: "Wait", exc: BaseException) -> DeadlineExceeded | None:
    """The wait ended with this exception; returns the limit that is to be raised from it, if one was why."""
    try:
        return wait.broke(exc)
    except Exception:
        recorder_failed()
        return None


def failed(handle: "Handle", exc: BaseException, *, by_consumer: bool = False) -> None:
    """A stream ended with this exception, which goes on its way. Raises the limit in place of it, if one was why."""
    reached = None if handle.wait is None else left(handle.wait, exc)
    if reached is not None:
        handle.end(reached)
        raise reached from exc
    handle.end(exc, by_consumer=by_consumer)


def over(wait: "Wait") -> None:
    """The wait ended well."""
    try:
        wait.over()
    except Exception:
        recorder_failed()


def close(*sources: Any) -> None:
    """Close what will not be read any more, the innermost first. What fails in it is of no interest then."""
    for source in sources:
        plain: Callable[[], object] | None = getattr(source, "close", None)
        if plain is not None:
            with contextlib.suppress(Exception):
                plain()


async def aclose(*sources: Any) -> None:
    """The same for what is closed by awaiting."""
    for source in sources:
        plain: Callable[[], Awaitable[object]] | None = getattr(source, "aclose", getattr(source, "close", None))
        if plain is not None:
            with contextlib.suppress(Exception):
                closing = plain()
                if hasattr(closing, "__await__"):
                    await closing
