"""Means over trajectories that come in clusters: their standard errors, and intervals by the cluster bootstrap."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import special

from hopbudget.budgets.groups.folds import Clusters
from hopbudget.budgets.numbers.quantiles import ALPHA, clopper_pearson
from hopbudget.budgets.profile import Floats, Ints

FEWEST_CLUSTERS: Final = 20
"""From fewer, no interval of a share of seconds is given: it would hold much less often than it says."""
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


def share_interval(top: Floats, bottom: Floats, cluster: Ints) -> tuple[float, float]:
    """The interval of sum top / sum bottom with whole clusters as the draws; NaN with fewer than `FEWEST_CLUSTERS`.

    Wilson's, on as many independent trials (at most as many as clusters) as the variance of the ratio amounts to, with
    t's quantile; a ratio outside 0 to 1 reaches by its error to both sides, to the inside at least as far as 0 or 1 do.
    It covers 85% to 99% where 20 to 100 clusters share skewed seconds (`tests/budgets/test_paired.py`).
    """
    total, seen = float(bottom.sum()), len(np.unique(cluster))
    if seen < FEWEST_CLUSTERS or total <= 0:
        return float("nan"), float("nan")
    ratio = float(top.sum()) / total
    off = np.bincount(cluster, weights=top - ratio * bottom)
    variance = seen / (seen - 1) * float((off * off).sum()) / total**2
    t = float(special.stdtrit(seen - 1, 1 - ALPHA / 2))
    share = min(max(ratio, 0.0), 1.0)
    spread = share * (1 - share)
    n = min(spread / variance, float(seen)) if spread > 0 and variance > 0 else float(seen)
    middle = (share + t * t / (2 * n)) / (1 + t * t / n)
    half = t * (spread / n + t * t / (4 * n * n)) ** 0.5 / (1 + t * t / n)
    low, high = max(middle - half, 0.0), min(middle + half, 1.0)
    error = t * variance**0.5
    if ratio < 0:
        return ratio - error, ratio + max(error, high)
    return (ratio - max(error, 1 - low), ratio + error) if ratio > 1 else (low, high)


def bootstrap(
    top: Floats,
    bottom: Floats,
    found: Clusters,
    *,
    draws: int = DRAWS,
    is_share: bool = False,
    is_difference: bool = False,
) -> Estimate:
    """sum top / sum bottom over trajectories, with the interval of a bootstrap over whole clusters.

    The draws are fixed by a seed, so that the same data give the same interval. Efron and Tibshirani 1993; the ends are
    `widened` for few clusters. With `is_share`, `top` is the part of `bottom` that has a trait: where none or all of it
    has, every draw is alike and says nothing of chance, so the interval is Clopper and Pearson's, with each cluster as
    one trial. With `is_difference`, `top` is the difference of two such parts: where it is the same in every cluster
    and not 0, as many clusters as Clopper and Pearson allow may come out the other way, as far as they can.
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
    if is_share and (value == 0 or bool((tops == bottoms).all())):
        low, high = clopper_pearson(len(tops) if value else 0, len(tops))
        return Estimate(value, low, high, n, len(tops))
    if is_difference and value != 0 and bool(np.allclose(tops, value * bottoms, rtol=1e-9, atol=0.0)):
        unlike = 1 - clopper_pearson(len(tops), len(tops))[0]
        return Estimate(value, value - unlike * (1 + value), value + unlike * (1 - value), n, len(tops))
    if len(tops) > MANY:
        off = tops - value * bottoms
        error = 1.959964 * float(np.sqrt((off * off).sum())) / total
        return Estimate(value, value - error, value + error, n, len(tops))
    low, high = widened(value, *np.quantile(_resampled(tops, bottoms, draws), [0.025, 0.975]), clusters=len(tops))
    if is_share:
        low, high = np.fmax(low, 0.0), np.fmin(high, 1.0)
    return Estimate(value, float(low), float(high), n, len(tops))


def widened(value: float, low: float, high: float, *, clusters: int) -> tuple[float, float]:
    """A bootstrap's percentile interval, as much wider about the value as few clusters ask for; NaN for one cluster.

    Draws of C clusters vary too little by the factor sqrt((C - 1) / C), and their spread is itself uncertain: the ends
    go out by sqrt(C / (C - 1)) t / z, with t's quantile at C - 1 degrees of freedom (Hesterberg 2015).
    """
    if clusters < 2:
        return float("nan"), float("nan")
    t = float(special.stdtrit(clusters - 1, 1 - ALPHA / 2))
    factor = float(np.sqrt(clusters / (clusters - 1))) * t / float(-special.ndtri(ALPHA / 2))
    return float(value - factor * (value - low)), float(value + factor * (high - value))


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
