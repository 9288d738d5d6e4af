"""The best products of probabilities that each number of seconds can buy, over all places at once."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hopbudget.budgets.numbers.distribution import Distribution
from hopbudget.budgets.profile import Floats

POINTS: Final = 128
"""How many of a distribution's points are offered, and"""
STATES: Final = 512
"""how many combinations are carried from one place to the next, at most. Below both, the answer is exact."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """Combinations of points that no other beats: both seconds in all and sum of log F rise along the rows."""

    budgets: Floats
    """(rows, places), in the order of the distributions."""
    total_s: Floats
    log_share: Floats


def frontier(distributions: list[Distribution]) -> Frontier:
    """Solve max sum_k log F_k(b_k) for every total at once: dynamic programming over (max, +) by place.

    It does not depend on any deadline, so what a larger deadline may choose from contains what a smaller one may.
    """
    offers = [_offers(d) for d in distributions]
    if any(not len(offer) for offer in offers):
        return Frontier(np.zeros((0, len(offers))), np.zeros(0), np.zeros(0))
    logs = [np.log(d.share(offer)) for d, offer in zip(distributions, offers, strict=True)]
    order = sorted(range(len(offers)), key=lambda k: (len(offers[k]), tuple(offers[k]), tuple(logs[k])))
    total, value = np.zeros(1), np.zeros(1)
    steps: list[tuple[NDArray[np.intp], NDArray[np.intp]]] = []
    for k in order:
        sums = (total[:, None] + offers[k][None, :]).ravel()
        values = (value[:, None] + logs[k][None, :]).ravel()
        chosen = _thin(sums, values, _undominated(sums, values))
        steps.append((chosen // len(offers[k]), chosen % len(offers[k])))
        total, value = sums[chosen], values[chosen]
    budgets = np.zeros((len(total), len(offers)))
    row = np.arange(len(total))
    for k, (came_from, point) in zip(reversed(order), reversed(steps), strict=True):
        budgets[:, k] = offers[k][point[row]]
        row = came_from[row]
    return Frontier(budgets, total, value)


def _offers(d: Distribution) -> Floats:
    """The distribution's points with F > 0, thinned evenly in log(1 - F) so that the tail keeps its detail."""
    points: Floats = d.points[d.shares > 0]
    shares: Floats = d.shares[d.shares > 0]
    if len(points) <= POINTS:
        return points
    miss = -np.log(np.maximum(1.0 - shares, 0.5 / len(d.seconds)))
    wanted = np.linspace(miss[0], miss[-1], POINTS)
    chosen: Floats = points[np.unique(np.minimum(np.searchsorted(miss, wanted - 1e-12), len(points) - 1))]
    return chosen


def _undominated(sums: Floats, values: Floats) -> NDArray[np.intp]:
    """Indices of combinations, by rising seconds, each worth more than every cheaper one."""
    order = np.argsort(sums)
    best = np.maximum.accumulate(values[order])
    better = order[np.concatenate([[True], best[1:] > best[:-1]])]
    s = sums[better]
    chosen: NDArray[np.intp] = better[np.concatenate([s[1:] != s[:-1], [True]])]
    return chosen


def _thin(sums: Floats, values: Floats, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """At most about `STATES` of the rows: the best of each step.

    Steps are even in log seconds + probability + log probability, so that tight and loose deadlines both find detail.
    """
    if len(rows) <= STATES:
        return rows
    s, share = sums[rows], np.exp(values[rows])
    first = s[s > 0][0]
    scale = np.log2(np.maximum(s, first) / first)
    log_share = np.maximum(1 + values[rows] / 12, 0.0)
    step = np.floor((scale / scale[-1] + share / share[-1] + log_share) / 3 * STATES)
    last_of_step = np.concatenate([step[1:] != step[:-1], [True]])
    chosen: NDArray[np.intp] = rows[last_of_step]
    return chosen
