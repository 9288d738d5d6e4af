"""What is told of a limit that was reached: the exception, and where the call was, in words."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from hopbudget.tracing.clock import seconds
from hopbudget.tracing.limits import COMPLETION, DEADLINE, FIRST_TOKEN, STALL, Due, Place
from hopbudget.tracing.limits_cause import took
from hopbudget.tracing.limits_errors import (
    CompletionTimeout,
    DeadlineExceeded,
    FirstTokenTimeout,
    HopRefused,
    StallTimeout,
    TrajectoryAborted,
    lateness,
)

if TYPE_CHECKING:
    from hopbudget.tracing.limits_guard import Guard
    from hopbudget.tracing.visits import Visit

_ERRORS: Final[Mapping[str, type[DeadlineExceeded]]] = {
    FIRST_TOKEN: FirstTokenTimeout,
    STALL: StallTimeout,
    COMPLETION: CompletionTimeout,
    DEADLINE: CompletionTimeout,
}


def exceeded(
    guard: "Guard", due: Due, place: Place, visit: "Visit | None", now_ns: int, *, blocked: bool
) -> DeadlineExceeded:
    """The exception for a limit of a hop that is reached. `blocked`: an event loop may be why it is late."""
    deadline = guard.deadline
    capped = due.limit == DEADLINE and deadline is not None
    if capped and deadline is not None:
        elapsed_s = deadline.elapsed_s()
        budget_s = max(elapsed_s + deadline.remaining_s(), 0.0)
    else:
        elapsed_s, budget_s = guard.limits.on_clock(due, place, now_ns)
    late_s, lag = lateness(due.at_ns, now_ns, loop=blocked)
    return _ERRORS[due.limit](
        COMPLETION if capped else due.limit,
        guard.told_name,
        elapsed_s,
        budget_s,
        cause_so_far=_cause(guard, place, visit, now_ns, capped),
        late_s=late_s,
        client_lag=lag,
        capped=capped,
    )


def decision(error: DeadlineExceeded) -> str:
    """What was done, in a word."""
    if isinstance(error, TrajectoryAborted):
        return "aborted"
    return "refused" if isinstance(error, HopRefused) else error.limit


def _cause(guard: "Guard", place: Place, visit: "Visit | None", now_ns: int, capped: bool) -> str | None:
    deadline = guard.deadline
    words = _phase(place, visit, now_ns)
    if deadline is None:
        return words
    here = None if visit is None else took(visit, guard.told_name, now_ns)
    spent = deadline.cause_so_far(here) if capped else None
    return words if spent is None else f"{words}; {spent}"


def _phase(place: Place, visit: "Visit | None", now_ns: int) -> str:
    """Where the call was, in words."""
    clock = None if visit is None else visit.clock
    if place.said is not None:
        words = place.said
    elif place.phase in {"first", "tokens", "thinking", "open"} and clock is not None:
        if not clock.chunks:
            what = f"{clock.bare_chunks} chunks without one" if clock.bare_chunks else "nothing"
            words = f"the response was open, and {what} had come"
        else:
            ago_s = seconds(now_ns - clock.last_ns)
            words = f"{clock.chunks} chunks with tokens had come, the last {ago_s:.2f} s before"
    elif place.phase == "done":
        words = "the call was over"
    else:
        words = "no response had come"
    if visit is not None and visit.backoff_ns:
        words += f"; {visit.attempts} attempts, {seconds(visit.backoff_ns):.2f} s of waiting between them"
    return words
