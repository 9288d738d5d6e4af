"""From observed trajectories and a deadline to budgets: the way through the other rooms."""

import math
from dataclasses import replace
from typing import Final

import numpy as np

from hopbudget.budgets.allocation import (
    BINDS,
    METHODS,
    SLOT_KINDS,
    Allocation,
    Auto,
    Binds,
    CannotAllocateError,
    Method,
    Rule,
    Share,
    Slot,
    SlotKind,
    Unit,
)
from hopbudget.budgets.feasibility.across import run_bounds
from hopbudget.budgets.feasibility.feasible import count_of, feasibility
from hopbudget.budgets.groups.classes import unequal_classes
from hopbudget.budgets.groups.folds import clusters, within_runs
from hopbudget.budgets.numbers.quantiles import attained, clopper_pearson
from hopbudget.budgets.population import Population, usable_population
from hopbudget.budgets.profile import Floats, Profile
from hopbudget.budgets.splits.auto import SAFE, Aim, Way, cross_validate, held_out_success, step_of, succeeded
from hopbudget.budgets.splits.slots import Times, slot_times
from hopbudget.budgets.streams.stream import final_hops
from hopbudget.budgets.telling import learned_from, notes_on, slot_row, stream_row

LEAST_CAP_S: Final = 0.05
"""No budget is smaller, as long as the deadline allows: below it a cap measures the clock and the network."""
LEAST_PART: Final = 0.05
"""Nor need it be more than this part of the deadline: of one below a second, `LEAST_CAP_S` would be a notable part."""

PRICED: Final = 20_000
"""With more trajectories the other kinds of slots are not tried: it would take seconds."""


def least_cap_s(deadline_s: float) -> float:
    """The seconds that no budget of a deadline is under, as long as it allows."""
    return min(LEAST_CAP_S, LEAST_PART * deadline_s)


def deadline_at(profile: Profile, percentile: float, binds: Binds = "last", half_life_s: float | None = None) -> float:
    """The smallest observed time within which this percentile of trajectories finished; +inf where failures forbid it.

    Raises `CannotAllocateError` where not one trajectory can be learned from.
    """
    _check(percentile, binds)
    people = usable_population(profile, binds, half_life_s)
    return attained(people.finish_s, people.censored, percentile / 100, people.weight)


def allocate(
    profile: Profile,
    deadline_s: float,
    *,
    percentile: float = 90.0,
    binds: Binds = "last",
    method: Method = "auto",
    slots: SlotKind = "name",
    answer_deadline_s: float | None = None,
    half_life_s: float | None = None,
    unit: Unit = "request",
) -> Allocation:
    """Give a deadline to the places of an agent, and say how often it can be met.

    `percentile` (0 to 100) is the share of trajectories aimed at: it sets the smallest feasible deadline, the verdict,
    the stream's objectives and the level of `quantile`. `binds` says what has to be there by the deadline: the last
    token of the trajectory, the first answer token of its final stream, or both, the latter by `answer_deadline_s`.
    With `half_life_s`, older trajectories weigh less: half, so many seconds before the newest. `unit` is only written
    down: for conversations give the profile of `conversation.by_conversation`. Raises ValueError for an argument that
    makes no sense, `CannotAllocateError` (one of those) where there is no time to give or nothing to learn from.
    """
    _check(percentile, binds)
    _check_deadlines(deadline_s, answer_deadline_s, binds)
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, not {method!r}")
    if slots not in SLOT_KINDS:
        raise ValueError(f"slots must be one of {', '.join(SLOT_KINDS)}, not {slots!r}")
    if half_life_s is not None and not half_life_s > 0:
        raise ValueError(f"the half-life must be a positive number of seconds, not {half_life_s:g}")
    p = percentile / 100
    # Where both bind, slots and work stand before the first answer token, and the stream gets the rest of the deadline.
    give_s = answer_deadline_s or deadline_s
    people = usable_population(profile, binds, half_life_s, deadline_s / give_s)
    times = _times(profile, people, slots, give_s / deadline_s if binds == "both" else None)
    aim = Aim(give_s, p, least_cap_s(give_s), second_s=give_s / deadline_s, step_s=step_of(deadline_s))
    way, auto = _auto(profile, people, times, aim, slots) if method == "auto" else _plainly(method)
    budgets = _within(aim.split(times, [way])[0], give_s)
    rows = [slot_row(times, column, float(budgets[column])) for column in range(len(times.names))]
    work, in_stream = (rows[k] if k is not None else None for k in (times.work, times.stream))
    answer_s = in_stream.budget_s if in_stream and binds == "both" else None
    if in_stream and answer_s is not None:
        in_stream = _to_its_end(profile, slots, answer_s + deadline_s - give_s)
    stream, notes = stream_row(profile, people, in_stream, p, binds, answer_s=answer_s)
    unknown, left_out = people.left_out_at(profile, deadline_s)
    found = feasibility(people, deadline_s, percentile)
    run = profile.trajectories.run[people.rows]
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
        feasibility=replace(
            found,
            runs=run_bounds(
                people.finish_s, people.censored, run, p, smallest_s=found.min_deadline_s, weight=people.weight
            ),
            classes=unequal_classes(profile, people, deadline_s),
        ),
        kept=kept_share(times, budgets, give_s),
        learned_from=learned_from(profile, people, ~unknown, left_out, half_life_s=half_life_s, unit=unit),
        notes=tuple(notes_on(times, rows, auto, asked=method == "auto", least_s=aim.floor_s) + notes),
        answer_deadline_s=answer_deadline_s,
        auto=auto,
    )


def _times(profile: Profile, people: Population, slots: SlotKind, scale: float | None) -> Times:
    """Seconds by place. With a scale, up to the first answer token, and a finish is in time when both ends are."""
    finals = final_hops(profile)
    if scale is None:
        return slot_times(profile, people, slots, finals)
    times = slot_times(profile, usable_population(profile, "answer"), slots, finals)
    return replace(times, finish_s=people.finish_s * scale, finish_censored=people.censored, weight=people.weight)


def _to_its_end(profile: Profile, slots: SlotKind, budget_s: float) -> Slot:
    """The final stream as a place up to its last token."""
    times = slot_times(profile, usable_population(profile, "last"), slots, final_hops(profile))
    return slot_row(times, len(times.names) - 1, budget_s)


def _plainly(rule: Rule) -> tuple[Way, None]:
    return (rule, None), None


def _auto(profile: Profile, people: Population, times: Times, aim: Aim, slots: SlotKind) -> tuple[Way, Auto | None]:
    columns = (times.finish_s, times.finish_censored, times.seconds, times.censored)
    content = np.column_stack([column.astype(np.float64) for column in columns])
    found = clusters(profile, people.rows, content)
    way, auto = cross_validate(times, found, within_runs(profile, people.rows, content), aim)
    if auto is None or len(people.rows) > PRICED:
        return way, auto
    finals = final_hops(profile)
    price: list[tuple[SlotKind, Times]] = []
    for kind in SLOT_KINDS:
        cut = times if kind == slots else slot_times(profile, people, kind, finals)
        if not any(_same_cut(cut, known) for _, known in price):
            price.append((kind, cut))
    tried = tuple(dict.fromkeys((way, SAFE)))
    success = [auto.success.share if cut is times else held_out_success(cut, found, aim, tried) for _, cut in price]
    told = [(kind, len(cut.names), share) for (kind, cut), share in zip(price, success, strict=True)]
    return way, replace(auto, price=tuple(sorted(told, key=lambda row: row[1])))


def _same_cut(one: Times, other: Times) -> bool:
    """Whether two kinds of slots come to the same places."""
    if len(one.names) != len(other.names):
        return False
    mine, others = (np.sort(cut.seconds.sum(axis=0)) for cut in (one, other))
    return bool(np.allclose(mine, others))


def kept_share(times: Times, budgets: Floats, deadline_s: float) -> Share:
    """Trajectories that kept every budget and the deadline, of those whose answer is known."""
    kept = succeeded(times, budgets, deadline_s)
    known = ~np.isnan(kept)
    weight = np.ones(len(kept)) if times.weight is None else times.weight
    n = count_of(weight[known])
    share = float(np.average(kept[known], weights=weight[known])) if n else 0.0
    return Share(share, *clopper_pearson(round(share * n, 9), n), int(np.count_nonzero(known)))


def _check(percentile: float, binds: str) -> None:
    if not 0 < percentile < 100:
        raise ValueError(f"percentile must lie between 0 and 100, not {percentile:g}")
    if binds not in BINDS:
        raise ValueError(f"binds must be one of {', '.join(BINDS)}, not {binds!r}")


def _check_deadlines(deadline_s: float, answer_deadline_s: float | None, binds: Binds) -> None:
    if not (deadline_s > 0 and math.isfinite(deadline_s)):
        raise CannotAllocateError(f"the deadline must be a positive number of seconds, not {deadline_s:g}")
    if (binds == "both") != (answer_deadline_s is not None) or not 0 < (answer_deadline_s or deadline_s) <= deadline_s:
        raise ValueError("with binds='both', and only then, answer_deadline_s must be positive and within the deadline")


def _within(budgets: Floats, deadline_s: float) -> Floats:
    """The budgets, with the last rounding error of their sum taken from the largest."""
    excess = math.fsum(budgets) - deadline_s
    if excess <= 0:
        return budgets
    trimmed = budgets.copy()
    trimmed[int(np.argmax(trimmed))] -= excess * (1 + 1e-9)
    return trimmed
