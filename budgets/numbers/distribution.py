"""The distribution of the seconds one place takes, as a step function."""

from dataclasses import dataclass

import numpy as np

from hopbudget.budgets.numbers.quantiles import share_within
from hopbudget.budgets.profile import Bools, Floats


@dataclass(frozen=True, slots=True)
class Distribution:
    """F(b): the share of trajectories that stay within b seconds, by `share_within`.

    `points` are the distinct finite seconds observed, rising; `shares` is F there. Failures keep F below 1.
    """

    points: Floats
    shares: Floats
    mean_s: float
    seconds: Floats
    censored: Bools
    weight: Floats | None = None
    """Of each of `seconds`; None where all weigh the same."""

    def share(self, budget_s: Floats | float) -> Floats:
        """F at these budgets."""
        if not self.censored.any():
            steps: Floats = np.concatenate([[0.0], self.shares])
            return steps[np.searchsorted(self.points, np.asarray(budget_s, dtype=np.float64), side="right")]
        return share_within(np.asarray(budget_s, dtype=np.float64), self.seconds, self.censored, self.weight)

    def quantile(self, level: Floats | float) -> Floats:
        """The smallest point with F >= level; the largest point where no finite one has; 0 at level 0 and below."""
        levels = np.asarray(level, dtype=np.float64)
        if not len(self.points):
            return np.zeros(levels.shape)
        place = np.minimum(np.searchsorted(self.shares, levels - 1e-12, side="left"), len(self.points) - 1)
        return np.where(levels <= 0, 0.0, self.points[place])

    def mean(self) -> float:
        """Mean of what came to its end; 0 where nothing did."""
        return self.mean_s


def distribution(seconds: Floats, censored: Bools, weight: Floats | None = None) -> Distribution:
    """Of seconds where +inf never came to an end and `censored` ones are lower bounds."""
    came = ~censored & np.isfinite(seconds)
    points, where = np.unique(seconds[came], return_inverse=True)
    counts = np.bincount(where, weights=None if weight is None else weight[came], minlength=len(points))
    total = float(counts.sum())
    mean_s = float((points * counts).sum()) / total if total > 0 else 0.0
    if weight is None and not censored.any():
        shares: Floats = np.cumsum(counts) / len(seconds)
    else:
        shares = share_within(points, seconds, censored, weight)
    return Distribution(points, shares, mean_s, seconds, censored, weight)
