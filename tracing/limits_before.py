"""What speaks against sending a hop at all: too little is left for it, or giving the trajectory up pays."""

import math
from typing import TYPE_CHECKING, Final

from hopbudget.tracing.clock import NANOSECONDS
from hopbudget.tracing.limits import DEADLINE
from hopbudget.tracing.limits_errors import DeadlineExceeded, HopRefused, TrajectoryAborted
from hopbudget.tracing.terms import off

if TYPE_CHECKING:
    from hopbudget.tracing.deadline import Deadline
    from hopbudget.tracing.limits_guard import Guard

_SAME_S: Final = 1e-6


def objection(guard: "Guard") -> DeadlineExceeded | None:
    """Why a hop to whose sending anything may object must not be sent; None if it may be."""
    deadline = guard.deadline
    if deadline is None or off():
        return None
    elapsed_s, left_s = deadline.elapsed_s(), deadline.remaining_s()
    if guard.rules.mode == "abort" and _gives_up(deadline, left_s):
        return TrajectoryAborted(
            DEADLINE, guard.told_name, elapsed_s, elapsed_s + left_s, cause_so_far=deadline.cause_so_far()
        )
    if not guard.rules.refuse or left_s == math.inf:
        return None
    needed_s = _needed_s(guard)
    if left_s > 0 and (needed_s is None or left_s >= needed_s):
        return None
    return HopRefused(
        DEADLINE, guard.told_name, elapsed_s, left_s, cause_so_far=deadline.cause_so_far(), needed_s=needed_s
    )


def _gives_up(deadline: "Deadline", left_s: float) -> bool:
    """Whether the plan's rule says so."""
    plan = None if deadline.terms is None else deadline.terms.plan
    if plan is None or not plan.aborts:
        return False
    # The plan knows states by the time gone of its own deadline, and none with more time left than that.
    gone_s = plan.deadline_s - left_s
    return gone_s > -_SAME_S and plan.should_abort(deadline.visit, max(gone_s, 0.0), deadline.steps_left)


def _needed_s(guard: "Guard") -> float | None:
    """What the hop needs: what the code says, else its completion limit, else what the plan allots to it."""
    refuse = guard.rules.refuse
    if refuse is not None and not isinstance(refuse, bool):
        return refuse
    if guard.limits.completion_ns < math.inf:
        return guard.limits.completion_ns / NANOSECONDS
    return None if guard.deadline is None else guard.deadline.budget_s(guard.name)
