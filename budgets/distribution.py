"""The distribution of the seconds one place takes, as a step function."""

from dataclasses import dataclass

import numpy as np

from hopbudget.budgets.profile import Bools, Floats
from hopbudget.budgets.quantiles import share_within


@dataclass(frozen=True, slots=True)
class Distribution:
    """F(b): the share of trajectories that stay within b seconds, by `share_within`.

    `points` are the distinct finite seconds observed, rising; `shares` is F there. Failures keep F below 1.
    """

    points: Floats
    shares: Floats
    seconds: Floats
    censored: Bools

    def share(self, budget_s: Floats | float) -> Floats:
        """F at these budgets."""
        return share_within(np.asarray(budget_s, dtype=np.float64), self.seconds, self.censored)

    def quantile(self, level: Floats | float) -> Floats:
        """The smallest point with F >= level; the largest point where no finite one has; 0 at level 0 and below."""
        levels = np.asarray(level, dtype=np.float64)
        if not len(self.points):
            return np.zeros(levels.shape)
        place = np.minimum(np.searchsorted(self.shares, levels - 1e-12, side="left"), len(self.points) - 1)
        return np.where(levels <= 0, 0.0, self.points[place])

    def mean(self) -> float:
        """Mean of what came to its end; 0 where nothing did."""
        ended = self.seconds[~self.censored & np.isfinite(self.seconds)]
        return float(np.sort(ended).mean()) if len(ended) else 0.0


def distribution(seconds: Floats, censored: Bools) -> Distribution:
    """Of seconds where +inf never came to an end and `censored` ones are lower bounds."""
    points = np.unique(seconds[~censored & np.isfinite(seconds)])
    return Distribution(points, share_within(points, seconds, censored), seconds, censored)
