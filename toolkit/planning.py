"""The `allocate` command: a deadline, read or taken from a percentile, becomes a plan that is drawn and written."""

from pathlib import Path
from typing import Any

from hopbudget import budgets, plans, units
from hopbudget.errors import Exit, UserError
from hopbudget.reading import Selection, one_workload
from hopbudget.render import base
from hopbudget.render import plan as draw
from hopbudget.store import queries

_EXIT = {"feasible": Exit.DONE, "infeasible": Exit.NO, "undecided": Exit.CANT_SAY}


def allocate(
    selection: Selection,
    deadline: str,
    *,
    run_by: str | None,
    out: Path | None,
    as_json: bool,
    percentile: float,
    binds: budgets.Binds,
    method: budgets.Method,
    slots: budgets.SlotKind,
) -> int:
    """Allot the deadline and print (and write) the plan; the exit code is the verdict's."""
    if percentile < 1:
        raise UserError(f"--percentile is out of 100: write {percentile * 100:g}, not {percentile:g}.")
    with selection.open() as (con, where):
        workload = one_workload(con, where, "A plan is for one workload.")
        profile = queries.profile(con, where.for_workload(workload), run_by=run_by)
    try:
        deadline_s = resolve(deadline, profile, binds)
        allocation = budgets.allocate(
            profile, deadline_s, percentile=percentile, binds=binds, method=method, slots=slots
        )
    except budgets.CannotAllocateError as error:
        raise UserError(f"{workload}: {error}", Exit.CANT_SAY) from error
    plan = plans.plan_dict(allocation, workload)
    if out is not None:
        plans.write(out, plan)
    show(plan, allocation, workload, out, as_json=as_json)
    return _EXIT[allocation.feasibility.verdict]


def resolve(deadline: str, profile: budgets.Profile, binds: budgets.Binds) -> float:
    """Seconds of a deadline given as a duration or as a percentile of the recorded trajectories."""
    percentile = units.parse_percentile(deadline)
    if percentile is None:
        return units.parse_duration(deadline, "--deadline")
    found = budgets.deadline_at(profile, percentile, binds)
    if found == float("inf"):
        raise UserError(
            f"p{percentile:g} of the recorded trajectories is no number: too many of them failed. "
            "Give --deadline in seconds, or a lower percentile.",
            Exit.NO,
        )
    return found


def show(
    plan: dict[str, Any], allocation: budgets.Allocation, workload: str, written: Path | None, *, as_json: bool
) -> None:
    """Print the plan as JSON, or draw it for a person."""
    if as_json:
        base.print_json(plan)
        return
    screen = base.console()
    draw.plan(screen, allocation, workload)
    if written is not None:
        screen.print(f"Written to {written}.")
