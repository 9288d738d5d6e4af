"""How much more often something befalls those that have a trait: risk difference and ratio, with intervals.

Trajectories of one session are not independent. The variance of a share is taken over sessions (the linearised
variance of a ratio of sums), and the intervals are those of Wilson and Newcombe on the number of independent
trajectories that this variance amounts to.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from hopbudget.budgets.numbers.quantiles import ALPHA
from hopbudget.budgets.profile import Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class Association:
    """Of those with a trait and of those without it: how many, and how many it befell."""

    n_with: int
    n_without: int
    cases_with: int
    cases_without: int
    difference: float
    """Risk with it minus risk without it."""
    low: float
    high: float
    ratio: float
    """Risk with it over risk without it; NaN where it befell none without it."""
    ratio_low: float
    ratio_high: float
    """Of the ratio, on the logarithmic scale; NaN where a risk is 0."""
    beyond_chance: bool
    """The difference is not 0 even at the interval's level divided by the number of comparisons (Bonferroni)."""

    @property
    def risk_with(self) -> float:
        """Share of those with the trait that it befell."""
        return self.cases_with / self.n_with

    @property
    def risk_without(self) -> float:
        """Share of those without the trait that it befell."""
        return self.cases_without / self.n_without


def associate(case: Bools, has: Bools, cluster: Ints, comparisons: int, alpha: float = ALPHA) -> Association:
    """Compare the risk of `case` with and without the trait; both groups must hold somebody.

    `cluster` numbers what varies independently. Newcombe (1998), method 10, gives the interval of the difference.
    """
    with_it, without = _share(case, has, cluster), _share(case, ~has, cluster)
    low, high = _newcombe(with_it, without, alpha)
    strict_low, strict_high = _newcombe(with_it, without, alpha / max(comparisons, 1))
    ratio = with_it.p / without.p if without.p > 0 else math.nan
    ratio_low = ratio_high = math.nan
    if with_it.p > 0 and without.p > 0:
        spread = _z(alpha) * math.sqrt(with_it.variance / with_it.p**2 + without.variance / without.p**2)
        ratio_low, ratio_high = ratio * math.exp(-spread), ratio * math.exp(spread)
    return Association(
        n_with=with_it.n,
        n_without=without.n,
        cases_with=with_it.cases,
        cases_without=without.cases,
        difference=with_it.p - without.p,
        low=low,
        high=high,
        ratio=ratio,
        ratio_low=ratio_low,
        ratio_high=ratio_high,
        beyond_chance=strict_low > 0 or strict_high < 0,
    )


@dataclass(frozen=True, slots=True)
class _Share:
    n: int
    cases: int
    variance: float
    """Of the share, over clusters; never below that of as many independent ones."""

    @property
    def p(self) -> float:
        return self.cases / self.n

    @property
    def independent(self) -> float:
        """The number of independent ones whose share would vary as much."""
        plain = self.p * (1 - self.p) / self.n
        return self.n if plain <= 0 else self.n * plain / self.variance


def _share(case: Bools, among: Bools, cluster: Ints) -> _Share:
    n, cases = int(np.count_nonzero(among)), int(np.count_nonzero(case & among))
    p = cases / n
    rest: Floats = np.where(among, case - p, 0.0)
    by_cluster = np.bincount(cluster, weights=rest)
    present = int(np.count_nonzero(np.bincount(cluster, weights=among)))
    few = present / (present - 1) if present > 1 else 1.0
    wide, narrow = (float(special.stdtrit(max(df, 1), 1 - ALPHA / 2)) for df in (present - 1, n - 1))
    clustered = few * float(by_cluster @ by_cluster) / n**2 * (wide / narrow) ** 2
    return _Share(n, cases, max(clustered, p * (1 - p) / n))


def _newcombe(a: _Share, b: _Share, alpha: float) -> tuple[float, float]:
    low_a, high_a = wilson(a.p, a.independent, alpha)
    low_b, high_b = wilson(b.p, b.independent, alpha)
    difference = a.p - b.p
    return (
        difference - math.hypot(a.p - low_a, high_b - b.p),
        difference + math.hypot(high_a - a.p, b.p - low_b),
    )


def wilson(p: float, n: float, alpha: float = ALPHA) -> tuple[float, float]:
    """Wilson's interval of a share p of n (not necessarily whole) independent trials (Wilson 1927)."""
    z2 = _z(alpha) ** 2
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (p * (1 - p) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def _z(alpha: float) -> float:
    return float(-special.ndtri(alpha / 2))
