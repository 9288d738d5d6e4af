"""Can a deadline be met as often as asked, and which is the smallest that can?"""

import math

import numpy as np

from hopbudget.budgets.allocation import Feasibility, Verdict
from hopbudget.budgets.numbers import words
from hopbudget.budgets.numbers.quantiles import (
    attained,
    clopper_pearson,
    effective_n,
    order_statistic_interval,
    smallest_n,
)
from hopbudget.budgets.population import Population
from hopbudget.budgets.profile import Floats


def feasibility(people: Population, deadline_s: float, percentile: float) -> Feasibility:
    """The share in time with its interval, the smallest deadline with its own, and a verdict.

    Infeasible: even the interval's upper end is below the target. Feasible: the share reaches the target, and there are
    enough trajectories for an order statistic to bound that percentile. Undecided: else. With weights, n is the
    effective number of trajectories.
    """
    p = percentile / 100
    weight = np.ones(len(people.rows)) if people.weight is None else people.weight
    unknown = people.censored & (people.finish_s < deadline_s)
    made_it = ~people.censored & (people.finish_s <= deadline_s)
    n = count_of(weight[~unknown])
    total = float(weight[~unknown].sum())
    share = float(weight[made_it].sum()) / total if total else 0.0
    met = round(share * n, 9)
    low, high = clopper_pearson(met, n)
    smallest, smallest_low, smallest_high = smallest_deadline(people, p)
    verdict = _verdict(share, high, n, p)
    everyone = float(weight.sum())
    return Feasibility(
        p_deadline=share,
        p_low=low,
        p_high=high,
        min_deadline_s=smallest,
        min_deadline_low_s=smallest_low,
        min_deadline_high_s=smallest_high,
        verdict=verdict,
        needs=_needs(met, int(n), p, smallest) if verdict == "undecided" else None,
        possible_low=float(weight[made_it].sum()) / everyone if everyone else math.nan,
        possible_high=float(weight[made_it | unknown].sum()) / everyone if everyone else math.nan,
        extrapolated=bool((people.timed_out & unknown).any()),
    )


def count_of(weight: Floats) -> float:
    """How many trajectories: the number of those that all weigh 1, the effective number otherwise."""
    return float(len(weight)) if bool((weight == 1.0).all()) else effective_n(weight)


def smallest_deadline(people: Population, p: float) -> tuple[float, float, float]:
    """The smallest deadline that a share p meets, with order statistics that enclose it at 95%."""
    smallest = attained(people.finish_s, people.censored, p, people.weight)
    known = ~(people.censored & (people.finish_s < smallest))
    counted = np.where(people.censored, np.inf, people.finish_s)[known]
    order = np.argsort(counted, kind="stable")
    if people.weight is None:
        low, high = order_statistic_interval(len(counted), p)
        return smallest, _ranked(counted[order], low), _ranked(counted[order], high)
    # With weights, ranks become levels of the weighted distribution, out of the effective number of trajectories.
    weight = people.weight[known][order]
    n = max(int(effective_n(weight)), 1)
    low, high = order_statistic_interval(n, p)
    reached = np.cumsum(weight) / float(weight.sum())
    places = [int(np.searchsorted(reached, rank / n - 1e-12)) + 1 if 1 <= rank <= n else rank for rank in (low, high)]
    upper = places[1] if high <= n else len(counted) + 1
    return smallest, _ranked(counted[order], places[0]), _ranked(counted[order], upper)


def _ranked(ordered: Floats, rank: int) -> float:
    if rank < 1:
        return math.nan
    return float(ordered[rank - 1]) if rank <= len(ordered) else math.inf


def _verdict(share: float, high: float, n: float, p: float) -> Verdict:
    if n and high < p:
        return "infeasible"
    return "feasible" if share >= p and n >= smallest_n(p) else "undecided"


def _needs(met: float, n: int, p: float, smallest_s: float) -> str:
    target = f"p{100 * p:g}"
    fewest = smallest_n(p)
    if n < fewest:
        more = fewest - n
        word = "trajectory" if more == 1 else "trajectories"
        return f"{more} more {word}: {n} could be used, and {fewest} are the fewest that can bound the {target}"
    if math.isfinite(smallest_s):
        way_out = f"a deadline of {words.seconds(smallest_s)}, the {target} observed"
    else:
        way_out = f"fewer failures, because more than {100 - 100 * p:g}% never finished"
    more_until = _until_infeasible(met / n, n, p)
    many = f"about {more_until:,}" if more_until else "very many"
    return f"{way_out}; or {many} more trajectories to rule this one out, if {100 * met / n:.1f}% in time is the truth"


def _until_infeasible(share: float, n: int, p: float) -> int | None:
    """How many more trajectories, at the same share, would put the whole interval below p; None past a million."""
    low, high = n, n
    while clopper_pearson(round(share * high), high)[1] >= p:
        low, high = high, 2 * high
        if high > 1_000_000:
            return None
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        if clopper_pearson(round(share * middle), middle)[1] >= p:
            low = middle
        else:
            high = middle
    return high - n
