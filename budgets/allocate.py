"""From observed trajectories and a deadline to budgets: the way through the other rooms."""

import math
from typing import Final

import numpy as np

from hopbudget.budgets.allocation import (
    BINDS,
    METHODS,
    SLOT_KINDS,
    Allocation,
    Binds,
    CannotAllocateError,
    Learned,
    Method,
    Share,
    Slot,
    SlotKind,
    StreamBudget,
)
from hopbudget.budgets.distribution import distribution
from hopbudget.budgets.feasible import feasibility
from hopbudget.budgets.population import Population, usable_population
from hopbudget.budgets.profile import Bools, Floats, Profile
from hopbudget.budgets.quantiles import attained, clopper_pearson
from hopbudget.budgets.slots import Times, slot_times
from hopbudget.budgets.split import split
from hopbudget.budgets.stream import final_hops, observe, stream_budget

LEAST_CAP_S: Final = 0.05
"""No budget is smaller, as long as the deadline allows: below it a cap measures the clock and the network."""


def deadline_at(profile: Profile, percentile: float, binds: Binds = "last") -> float:
    """The smallest observed time within which this percentile of trajectories finished; +inf where failures forbid it.

    Raises `CannotAllocateError` where not one trajectory can be learned from.
    """
    _check(percentile, binds)
    people = usable_population(profile, binds)
    return attained(people.finish_s, people.censored, percentile / 100)


def allocate(
    profile: Profile,
    deadline_s: float,
    *,
    percentile: float = 90.0,
    binds: Binds = "last",
    method: Method = "independent",
    slots: SlotKind = "name",
) -> Allocation:
    """Give a deadline to the places of an agent, and say how often it can be met.

    `percentile` (0 to 100) is the share of trajectories aimed at: it sets the smallest feasible deadline, the verdict,
    the stream's objectives and the level of `quantile`. `binds` says what has to be there by the deadline: the last
    token of the trajectory, or the first answer token of its final stream. Raises ValueError for an argument that
    makes no sense, `CannotAllocateError` (one of those) where there is no time to give or nothing to learn from.
    """
    _check(percentile, binds)
    if not (deadline_s > 0 and math.isfinite(deadline_s)):
        raise CannotAllocateError(f"the deadline must be a positive number of seconds, not {deadline_s:g}")
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, not {method!r}")
    if slots not in SLOT_KINDS:
        raise ValueError(f"slots must be one of {', '.join(SLOT_KINDS)}, not {slots!r}")
    p = percentile / 100
    people = usable_population(profile, binds)
    times = slot_times(profile, people, slots, final_hops(profile))
    budgets = split(
        method,
        times.seconds,
        times.censored,
        deadline_s,
        level=p,
        reserves=times.reserves,
        within=~people.censored & (people.finish_s <= deadline_s),
        floor_s=LEAST_CAP_S,
    )
    budgets = _within(budgets, deadline_s)
    rows = [_slot(times, column, float(budgets[column])) for column in range(len(times.names))]
    work, in_stream = (rows[k] if k is not None else None for k in (times.work, times.stream))
    stream, notes = _stream(profile, people, in_stream, p, binds)
    unknown, left_out = people.left_out_at(profile, deadline_s)
    return Allocation(
        deadline_s=deadline_s,
        percentile=percentile,
        binds=binds,
        method=method,
        slot_kind=slots,
        slots=tuple(rows[: times.slots]),
        work_s=work.budget_s if work else 0.0,
        work=work,
        stream=stream,
        feasibility=feasibility(people, deadline_s, percentile),
        kept=kept_share(times, budgets, deadline_s),
        learned_from=_learned(profile, people, ~unknown, left_out),
        notes=tuple(_notes(times, rows) + notes),
    )


def kept_share(times: Times, budgets: Floats, deadline_s: float) -> Share:
    """Trajectories that kept every budget and the deadline, of those whose answer is known."""
    over = times.seconds > budgets
    over |= times.censored & (times.seconds >= budgets)
    late = (times.finish_s > deadline_s) | (times.finish_censored & (times.finish_s >= deadline_s))
    failed = over.any(axis=1) | late
    unknown = ~failed & (times.censored.any(axis=1) | times.finish_censored)
    n = int(np.count_nonzero(~unknown))
    kept = int(np.count_nonzero(~failed & ~unknown))
    return Share(kept / n if n else 0.0, *clopper_pearson(kept, n), n)


def _check(percentile: float, binds: str) -> None:
    if not 0 < percentile < 100:
        raise ValueError(f"percentile must lie between 0 and 100, not {percentile:g}")
    if binds not in BINDS:
        raise ValueError(f"binds must be one of {', '.join(BINDS)}, not {binds!r}")


def _within(budgets: Floats, deadline_s: float) -> Floats:
    """The budgets, with the last rounding error of their sum taken from the largest."""
    excess = math.fsum(budgets) - deadline_s
    if excess <= 0:
        return budgets
    trimmed = budgets.copy()
    trimmed[int(np.argmax(trimmed))] -= excess * (1 + 1e-9)
    return trimmed


def _slot(times: Times, column: int, budget_s: float) -> Slot:
    seconds, censored = times.place(column)
    came = times.visits[:, column] > 0
    p50, p90 = (attained(seconds[came], censored[came], q) for q in (0.5, 0.9))
    return Slot(
        slot=times.names[column],
        budget_s=budget_s,
        kept=float(distribution(seconds, censored).share(budget_s)),
        p50_s=p50,
        p90_s=p90,
        visits=float(times.visits[:, column].mean()),
        visited=float(came.mean()),
        extrapolated=bool((times.timed_out[:, column] & (seconds < budget_s)).any()),
    )


def _stream(
    profile: Profile, people: Population, place: Slot | None, p: float, binds: Binds
) -> tuple[StreamBudget | None, list[str]]:
    ours = np.isin(profile.hops.trajectory, people.rows)
    if place is not None:
        return stream_budget(observe(profile, final_hops(profile) & ours), place, p, binds)
    if bool((profile.hops.final & ours).any()):
        return None, ["final hops stay among the slots: no first token of a final stream was observed"]
    return None, []


def _notes(times: Times, rows: list[Slot]) -> list[str]:
    notes = []
    if len(times.names) == 1:
        notes.append(
            f"there is nothing to split: all the time goes to one place, {times.names[0]}, which gets the deadline"
        )
    notes += [
        f"the budget of {row.slot} lies past a time-out recorded there: how long such a hop would have taken is unknown"
        for row in rows
        if row.extrapolated
    ]
    return notes


def _learned(profile: Profile, people: Population, known: Bools, left_out: dict[str, int]) -> Learned:
    rows = people.rows[known]
    t = profile.trajectories
    runs = {str(run) for run in t.run[rows] if run}
    models = {str(model) for model in profile.hops.model[np.isin(profile.hops.trajectory, rows)] if model}
    started = t.started_at[rows]
    return Learned(
        trajectories=len(rows),
        runs=len(runs) or None,
        models=tuple(sorted(models)),
        first_at=float(started.min()) if len(rows) else math.nan,
        last_at=float(started.max()) if len(rows) else math.nan,
        left_out=left_out,
    )
