"""Means over trajectories that come in clusters: their standard errors, and intervals by the cluster bootstrap."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from hopbudget.budgets.folds import Clusters
from hopbudget.budgets.profile import Floats

DRAWS: Final = 1000
SEED: Final = 20_261
MANY: Final = 1000
"""With more clusters the normal interval of the same ratio is as good, and quicker."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95% interval, from n things in so many clusters. NaN where there is nothing."""

    value: float
    low: float
    high: float
    n: int
    clusters: int


def mean_and_error(values: Floats, found: Clusters, weight: Floats | None = None) -> tuple[float, float]:
    """The (weighted) mean of the values that are not NaN, and its standard error with whole clusters as the draws.

    se^2 = C / (C - 1) * sum_c (sum_{i in c} w_i (d_i - mean))^2 / (sum w)^2, the sandwich estimate (Liang and Zeger
    1986). NaN without values, an infinite error with one cluster.
    """
    known = ~np.isnan(values)
    w = known.astype(np.float64) if weight is None else np.where(known, weight, 0.0)
    total = float(w.sum())
    if total <= 0:
        return float("nan"), float("inf")
    filled = np.where(known, values, 0.0)
    mean = float((w * filled).sum()) / total
    seen = int(np.count_nonzero(found.sums(w) > 0))
    if seen < 2:
        return mean, float("inf")
    off = found.sums(w * (filled - mean))
    return mean, float(np.sqrt(seen / (seen - 1) * float((off * off).sum())) / total)


def bootstrap(top: Floats, bottom: Floats, found: Clusters, *, draws: int = DRAWS) -> Estimate:
    """sum top / sum bottom over trajectories, with the percentile interval of a bootstrap over whole clusters.

    The draws are fixed by a seed, so that the same data give the same interval. Efron and Tibshirani 1993.
    """
    tops, bottoms = found.sums(top), found.sums(bottom)
    seen = (bottoms > 0) | (tops != 0)
    total = float(bottoms.sum())
    if total <= 0:
        return Estimate(float("nan"), float("nan"), float("nan"), 0, 0)
    # Clusters in an order that does not depend on their names.
    order = np.lexsort((tops[seen], bottoms[seen]))
    tops, bottoms = tops[seen][order], bottoms[seen][order]
    value, n = float(tops.sum()) / total, int(np.count_nonzero(bottom > 0))
    if len(tops) > MANY:
        off = tops - value * bottoms
        error = 1.959964 * float(np.sqrt((off * off).sum())) / total
        return Estimate(value, value - error, value + error, n, len(tops))
    low, high = np.quantile(_resampled(tops, bottoms, draws), [0.025, 0.975])
    return Estimate(value, float(low), float(high), n, len(tops))


def _resampled(tops: Floats, bottoms: Floats, draws: int) -> Floats:
    random = np.random.default_rng(SEED)
    count = len(tops)
    ratios = np.empty(draws)
    step = max(1, 4_000_000 // max(count, 1))
    for start in range(0, draws, step):
        size = min(step, draws - start)
        chosen = random.integers(0, count, (size, count))
        below = bottoms[chosen].sum(axis=1)
        ratios[start : start + size] = tops[chosen].sum(axis=1) / np.where(below > 0, below, 1.0)
    return ratios
