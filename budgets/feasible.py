"""Can a deadline be met as often as asked, and which is the smallest that can?"""

import math

import numpy as np

from hopbudget.budgets import words
from hopbudget.budgets.allocation import Feasibility, Verdict
from hopbudget.budgets.population import Population
from hopbudget.budgets.profile import Floats
from hopbudget.budgets.quantiles import attained, clopper_pearson, order_statistic_interval, smallest_n


def feasibility(people: Population, deadline_s: float, percentile: float) -> Feasibility:
    """The share in time with its interval, the smallest deadline with its own, and a verdict.

    Infeasible: even the interval's upper end is below the target. Feasible: the share reaches the target, and there are
    enough trajectories for an order statistic to bound that percentile. Undecided: else.
    """
    p = percentile / 100
    known = ~(people.censored & (people.finish_s < deadline_s))
    n = int(np.count_nonzero(known))
    met = int(np.count_nonzero(~people.censored & (people.finish_s <= deadline_s)))
    low, high = clopper_pearson(met, n)
    smallest, smallest_low, smallest_high = smallest_deadline(people, p)
    share = met / n if n else 0.0
    verdict = _verdict(share, high, n, p)
    return Feasibility(
        p_deadline=share,
        p_low=low,
        p_high=high,
        min_deadline_s=smallest,
        min_deadline_low_s=smallest_low,
        min_deadline_high_s=smallest_high,
        verdict=verdict,
        needs=_needs(met, n, p, smallest) if verdict == "undecided" else None,
    )


def smallest_deadline(people: Population, p: float) -> tuple[float, float, float]:
    """The smallest deadline that a share p meets, with order statistics that enclose it at 95%."""
    smallest = attained(people.finish_s, people.censored, p)
    known = ~(people.censored & (people.finish_s < smallest))
    counted = np.sort(np.where(people.censored, np.inf, people.finish_s)[known])
    low, high = order_statistic_interval(len(counted), p)
    return smallest, _ranked(counted, low), _ranked(counted, high)


def _ranked(ordered: Floats, rank: int) -> float:
    if rank < 1:
        return math.nan
    return float(ordered[rank - 1]) if rank <= len(ordered) else math.inf


def _verdict(share: float, high: float, n: int, p: float) -> Verdict:
    if n and high < p:
        return "infeasible"
    return "feasible" if share >= p and n >= smallest_n(p) else "undecided"


def _needs(met: int, n: int, p: float, smallest_s: float) -> str:
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
