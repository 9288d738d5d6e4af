"""Can a deadline be met as often as asked, and which is the smallest that can?"""

import math

import numpy as np

from hopbudget.budgets.allocation import Feasibility, Verdict
from hopbudget.budgets.numbers import words
from hopbudget.budgets.numbers.quantiles import (
    attained,
    clopper_pearson,
    clopper_pearson_low,
    effective_n,
    order_statistic_interval,
    share_going_on,
    smallest_n,
)
from hopbudget.budgets.population import Population
from hopbudget.budgets.profile import Floats


def feasibility(people: Population, deadline_s: float, percentile: float) -> Feasibility:
    """The share in time with its interval, the smallest deadline with its own, and a verdict.

    Infeasible: even the interval's upper end is below the target. Feasible: the share reaches the target, and there are
    enough trajectories for an order statistic to bound that percentile. Undecided: else. With weights, n is the
    effective number of trajectories. Whoever was cut off before the deadline is in no share, and may have been a slow
    one: the interval's lower end and "feasible" hold as well if they went on like the others (`share_going_on`).
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
    shares, lows = least_share(people, np.array([deadline_s]), np.array([share]), np.array([low]))
    least = float(shares[0])
    smallest, smallest_low, smallest_high = smallest_deadline(people, p)
    verdict = _verdict(least, high, n, p)
    everyone = float(weight.sum())
    return Feasibility(
        p_deadline=share,
        p_low=float(lows[0]),
        p_high=high,
        min_deadline_s=smallest,
        min_deadline_low_s=smallest_low,
        min_deadline_high_s=smallest_high,
        verdict=verdict,
        needs=_needs(met, int(n), p, smallest, least) if verdict == "undecided" else None,
        possible_low=float(weight[made_it].sum()) / everyone if everyone else math.nan,
        possible_high=float(weight[made_it | unknown].sum()) / everyone if everyone else math.nan,
        extrapolated=bool((people.timed_out & unknown).any()),
    )


def least_share(people: Population, deadlines_s: Floats, share: Floats, low: Floats) -> tuple[Floats, Floats]:
    """Shares in time and their intervals' lower ends, each the least with those cut off going on like the others."""
    if not (people.censored & (people.finish_s < deadlines_s.max(initial=0.0))).any():
        return share, low
    going_on, n = share_going_on(deadlines_s, people.finish_s, people.censored, people.weight)
    return np.minimum(share, going_on), np.minimum(low, clopper_pearson_low(going_on * n, n))


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
        upper_s = _upper_going_on(people, p, _ranked(counted[order], high))
        return smallest, _ranked(counted[order], low), upper_s
    # With weights, ranks become levels of the weighted distribution, out of the effective number of trajectories.
    weight = people.weight[known][order]
    n = max(int(effective_n(weight)), 1)
    low, high = order_statistic_interval(n, p)
    reached = np.cumsum(weight) / float(weight.sum())
    places = [int(np.searchsorted(reached, rank / n - 1e-12)) + 1 if 1 <= rank <= n else rank for rank in (low, high)]
    upper = places[1] if high <= n else len(counted) + 1
    return smallest, _ranked(counted[order], places[0]), _upper_going_on(people, p, _ranked(counted[order], upper))


def _upper_going_on(people: Population, p: float, upper_s: float) -> float:
    """The upper end, or a later one if it takes that where those cut off go on like the others."""
    if not (people.censored & (people.finish_s < upper_s)).any():
        return upper_s
    events = np.unique(people.finish_s[~people.censored & np.isfinite(people.finish_s)])
    share, n = share_going_on(events, people.finish_s, people.censored, people.weight)
    enough = np.flatnonzero(clopper_pearson_low(share * n, n) >= p)
    return max(upper_s, float(events[enough[0]])) if len(enough) else math.inf


def _ranked(ordered: Floats, rank: int) -> float:
    if rank < 1:
        return math.nan
    return float(ordered[rank - 1]) if rank <= len(ordered) else math.inf


def _verdict(share: float, high: float, n: float, p: float) -> Verdict:
    if n and high < p:
        return "infeasible"
    return "feasible" if share >= p - 1e-12 and n >= smallest_n(p) else "undecided"


def _needs(met: float, n: int, p: float, smallest_s: float, least: float) -> str:
    target = f"p{100 * p:.10g}"
    fewest = smallest_n(p)
    if n < fewest:
        more = fewest - n
        word = "trajectory" if more == 1 else "trajectories"
        return f"{more} more {word}: {n} could be used, and {fewest} are the fewest that can bound the {target}"
    if met >= p * n:
        return (
            f"fewer that are cut off before it: {100 * met / n:.1f}% of the others were in time, but "
            f"{100 * least:.1f}% of all if those cut off went on like the others that still ran then"
        )
    if math.isfinite(smallest_s):
        way_out = f"a deadline of {words.seconds(smallest_s)}, the {target} observed"
    else:
        way_out = f"fewer failures, because more than {100 - 100 * p:.10g}% never finished"
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
