"""What a plan tells beside its budgets: how they were kept, what the stream's hold, what all of it was learned from."""

import math
from typing import Final

import numpy as np

from hopbudget.budgets.allocation import Auto, Binds, Learned, Slot, StreamBudget, Unit
from hopbudget.budgets.numbers.distribution import distribution
from hopbudget.budgets.numbers.paired import FEWEST_CLUSTERS
from hopbudget.budgets.numbers.quantiles import attained, effective_n
from hopbudget.budgets.numbers.words import trajectories
from hopbudget.budgets.population import Population
from hopbudget.budgets.profile import Bools, Profile
from hopbudget.budgets.splits.slots import Times
from hopbudget.budgets.streams.sizes import observe
from hopbudget.budgets.streams.stream import final_hops, stream_budget

_NAMED: Final = 4


def slot_row(times: Times, column: int, budget_s: float) -> Slot:
    """One place with its budget, and what was observed there."""
    seconds, censored = times.place(column)
    came = times.visits[:, column] > 0
    of_came = None if times.weight is None else times.weight[came]
    p50, p90 = (attained(seconds[came], censored[came], q, of_came) for q in (0.5, 0.9))
    return Slot(
        slot=times.names[column],
        budget_s=budget_s,
        kept=float(distribution(seconds, censored, times.weight).share(budget_s)),
        p50_s=p50,
        p90_s=p90,
        visits=float(np.average(times.visits[:, column], weights=times.weight)),
        visited=float(np.average(came, weights=times.weight)),
        extrapolated=bool((times.timed_out[:, column] & (seconds < budget_s)).any()),
    )


def stream_row(
    profile: Profile, people: Population, place: Slot | None, p: float, binds: Binds, *, answer_s: float | None = None
) -> tuple[StreamBudget | None, list[str]]:
    """The final stream's own objectives; `answer_s` are its seconds to the first answer token, where both ends bind."""
    finals = final_hops(profile) & np.isin(profile.hops.trajectory, people.rows)
    if place is not None:
        return stream_budget(observe(profile, finals), place, p, binds, answer_s)
    if bool((profile.hops.final & np.isin(profile.hops.trajectory, people.rows)).any()):
        return None, ["final hops stay among the slots: no first token of a final stream was observed"]
    return None, []


def notes_on(times: Times, rows: list[Slot], auto: Auto | None, *, asked: bool, least_s: float) -> list[str]:
    """What a person should know about the budgets; `asked` says that `auto` was asked for.

    `least_s` are the seconds that a place gets at least.
    """
    notes = []
    if len(times.names) == 1:
        notes.append(
            f"there is nothing to split: all the time goes to one place, {times.names[0]}, which gets the deadline"
        )
    elif asked and auto is None:
        notes.append("too few trajectories to hold any out: the equal split stands unchecked")
    elif auto is not None and not auto.beats_equal:
        few = len(times.finish_s) < FEWEST_CLUSTERS
        unknown = f"of only {trajectories(len(times.finish_s))} nothing tells whether another split beats the equal one"
        notes.append(unknown if few else "nothing beats an equal split here")
    least = [row for row in rows if row.budget_s <= least_s * (1 + 1e-6)]
    raised = [row for row in least if row.p90_s <= least_s]
    starved = [row for row in least if not row.p90_s <= least_s]
    at_least = f"{1000 * least_s:.3g} ms, the least there is"
    if starved:
        named = [f"{row.slot} ({100 * row.visited:.0f}% come there)" for row in starved]
        notes.append(
            f"seconds do more elsewhere, so {_some(named)} {at_least}: whoever comes there goes over it, which is no "
            "fault of that hop"
        )
    if raised:
        named = [f"{row.slot} (p90 {1000 * row.p90_s:.3g} ms)" for row in raised]
        notes.append(f"{_some(named)} {at_least}, which is no less than it takes there")
    notes += [
        f"the budget of {row.slot} lies past a time-out recorded there: how long such a hop would have taken is unknown"
        for row in rows
        if row.extrapolated
    ]
    return notes


def _some(named: list[str]) -> str:
    """The first few of these, how many more, and the verb."""
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"{', '.join(named[:_NAMED])}{more} {'gets' if len(named) == 1 else 'get'}"


def learned_from(
    profile: Profile,
    people: Population,
    known: Bools,
    left_out: dict[str, int],
    *,
    half_life_s: float | None,
    unit: Unit,
) -> Learned:
    """The trajectories that a plan was learned from, and those that were left out."""
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
        intervened=people.intervened,
        half_life_s=half_life_s,
        effective=float(len(rows)) if people.weight is None else effective_n(people.weight[known]),
        unit=unit,
    )
