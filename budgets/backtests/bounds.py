"""Backtest, the smallest deadline: does one learned on some runs hold on another, and what does certainty cost?"""

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from hopbudget.budgets.feasibility.across import run_bounds
from hopbudget.budgets.feasibility.feasible import smallest_deadline
from hopbudget.budgets.groups.folds import Clusters, folds
from hopbudget.budgets.numbers.paired import bootstrap
from hopbudget.budgets.numbers.quantiles import clopper_pearson, smallest_n
from hopbudget.budgets.population import Population
from hopbudget.budgets.profile import Bools, Floats, Words

BoundName = Literal["point", "iid", "largest_run", "t_interval"]
NAMES: Final[tuple[BoundName, ...]] = ("point", "iid", "largest_run", "t_interval")
FOLDS: Final = 10


@dataclass(frozen=True, slots=True)
class Bound:
    """One way to name the smallest deadline for a share p, tried on clusters that it was not learned from."""

    bound: BoundName
    coverage: float
    """Share of held-out trajectories in time (`point`, `iid`); of held-out runs in which a share p was, for the bounds
    across runs."""
    low: float
    high: float
    price: float
    """Median ratio to the point that was learned beside it."""
    n: int
    """Trajectories, or runs, that `coverage` is a share of."""
    held: int
    """Of the held-out runs with enough trajectories, those in which a share p was in time."""
    runs: int
    left_out: int
    """Trajectories (or runs) for which the others named no finite limit, because too many of them failed."""


def bounds(people: Population, run: Words, within: Clusters, p: float) -> tuple[Bound, ...]:
    """Point and iid bound over folds of sessions (else trajectories), which is what they promise for; every bound, and
    those across runs alone, over single runs held out."""
    by_run = _by_run(people, run, p)
    result = []
    for name in NAMES[:2]:
        limits, points = _over_folds(people, within, p, name)
        inside = np.where(people.censored & (people.finish_s < limits), np.nan, people.finish_s <= limits)
        inside = np.where(people.censored & (people.finish_s >= limits), 0.0, inside)
        named = np.isfinite(limits)
        known = ~np.isnan(inside) & named & (points > 0)
        if not known.any():
            continue
        share = bootstrap(np.where(known, inside, 0.0), known.astype(np.float64), within, is_share=True)
        held = [kept[name] for kept, _ in by_run]
        price = float(np.median(np.unique(limits[known] / points[known])))
        nowhere = int(np.count_nonzero(~named))
        result.append(Bound(name, share.value, share.low, share.high, price, share.n, sum(held), len(held), nowhere))
    for name in NAMES[2:]:
        known_runs = [(kept[name], price[name]) for kept, price in by_run if math.isfinite(price[name])]
        if known_runs:
            held_runs = np.array([float(kept) for kept, _ in known_runs])
            low, high = clopper_pearson(int(held_runs.sum()), len(held_runs))
            price = float(np.median([price for _, price in known_runs]))
            count = len(held_runs)
            kept_n, nowhere = int(held_runs.sum()), len(by_run) - count
            result.append(Bound(name, float(held_runs.mean()), low, high, price, count, kept_n, count, nowhere))
    return tuple(result)


def _over_folds(people: Population, within: Clusters, p: float, name: BoundName) -> tuple[Floats, Floats]:
    """For each trajectory the deadline that the other folds name, and the point beside it."""
    fold = folds(within, FOLDS)
    limits, points = np.full(len(fold), np.nan), np.full(len(fold), np.nan)
    for one in range(int(fold.max()) + 1):
        point, _, upper = smallest_deadline(_only(people, fold != one), p)
        limits[fold == one] = point if name == "point" else upper
        points[fold == one] = point
    return limits, points


def _by_run(people: Population, run: Words, p: float) -> list[tuple[dict[BoundName, bool], dict[BoundName, float]]]:
    """For each run with enough trajectories: did each bound learned from the other runs hold, and what did it cost?"""
    names = [name for name in sorted({str(word) for word in run} - {""}) if (run == name).sum() >= smallest_n(p)]
    result: list[tuple[dict[BoundName, bool], dict[BoundName, float]]] = []
    for name in names if len(names) > 2 else ():
        mine = run == name
        others = _only(people, ~mine)
        point, _, upper = smallest_deadline(others, p)
        across = run_bounds(others.finish_s, others.censored, run[~mine], p, smallest_s=point)
        largest_s, t_s = (across.largest_s, across.t_s) if across else (math.nan, math.nan)
        limits: dict[BoundName, float] = dict(zip(NAMES, (point, upper, largest_s, t_s), strict=True))
        own = _only(people, mine)
        kept: dict[BoundName, bool] = {bound: _share(own, limit) >= p - 1e-12 for bound, limit in limits.items()}
        result.append((kept, {bound: limit / point if point > 0 else math.nan for bound, limit in limits.items()}))
    return result


def _share(people: Population, limit_s: float) -> float:
    known = ~(people.censored & (people.finish_s < limit_s))
    met = ~people.censored & (people.finish_s <= limit_s)
    return float(met.sum()) / float(known.sum()) if known.any() else math.nan


def _only(people: Population, rows: Bools) -> Population:
    return Population(
        rows=people.rows[rows],
        finish_s=people.finish_s[rows],
        censored=people.censored[rows],
        timed_out=people.timed_out[rows],
        observed_s=people.observed_s[rows],
        left_out=people.left_out,
    )
