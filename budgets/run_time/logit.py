"""A logit of meeting the deadline on how things stand, for what the suffix bank can't use: a hint, and the pace so far.

P(met) = 1 / (1 + exp(-z)), z = c . (1, left/D, log visit, log(left / (mean hop * hops to come)), log pace, log hops to
come); pace is the time a hop took so far in this trajectory over the mean hop. Without a hint, hops to come are 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hopbudget.budgets.profile import Bools, Floats, Ints

RIDGE: Final = 1.0
"""Weight of the squared coefficients of the standardised features; the constant is free."""
LEAST_LEFT: Final = 1e-3
"""Shares of the deadline left, and of a mean hop spent, are not taken smaller in a logarithm."""
LEAST_HINT: Final = 0.5


@dataclass(frozen=True, slots=True)
class Logit:
    """Coefficients of (1, left/D, log visit, log left per hop to come, log pace, log hops to come)."""

    coefficients: tuple[float, ...]
    mean_hop_s: float

    def p(self, visit: Ints, elapsed_s: Floats, deadline_s: float, hint: Floats | None) -> Floats:
        """P(met) for each state; 0 where nothing is left."""
        z = features(visit, elapsed_s, deadline_s, self.mean_hop_s, hint) @ np.array(self.coefficients)
        return np.where(elapsed_s < deadline_s, 1.0 / (1.0 + np.exp(-np.clip(z, -30.0, 30.0))), 0.0)

    def to_plan(self) -> list[float]:
        """The coefficients."""
        return list(self.coefficients)

    @classmethod
    def from_plan(cls, table: Mapping[str, Any], key: str) -> "Logit | None":
        """The logit under this key of the plan's `[chance]`; None where there is none."""
        if table.get(key) is None:
            return None
        return cls(tuple(table[key]), float(table["mean_hop_s"]))


def features(visit: Ints, elapsed_s: Floats, deadline_s: float, mean_hop_s: float, hint: Floats | None) -> Floats:
    """One row a state; see `Logit`."""
    left = np.maximum(deadline_s - elapsed_s, LEAST_LEFT * deadline_s)
    hops = np.ones(len(visit)) if hint is None else np.maximum(hint, LEAST_HINT)
    before = np.maximum(visit - 1, 1)
    pace = np.log(np.maximum(elapsed_s / mean_hop_s, LEAST_LEFT) / before)
    return np.column_stack(
        [
            np.ones(len(visit)),
            left / deadline_s,
            np.log(visit),
            np.log(left / (mean_hop_s * hops)),
            np.where(visit > 1, pace, 0.0),
            np.log(hops),
        ]
    )


def fit(
    visit: Ints, elapsed_s: Floats, deadline_s: float, mean_hop_s: float, *, hint: Floats | None, met: Bools
) -> Logit | None:
    """The logit with the largest likelihood less the ridge, by Newton's steps; None where all met, or none did."""
    if met.all() or not met.any():
        return None
    x = features(visit, elapsed_s, deadline_s, mean_hop_s, hint)
    mean, spread = x.mean(axis=0), x.std(axis=0)
    used = spread > 1e-9
    mean, spread = np.where(used, mean, 0.0), np.where(used, spread, 1.0)
    used[0] = True
    weights = np.zeros(x.shape[1])
    weights[used] = _newton(((x - mean) / spread)[:, used], met.astype(np.float64))
    coefficients = weights / spread
    coefficients[0] -= float((coefficients * mean)[1:].sum())
    return Logit(tuple(float(f"{c:.6g}") for c in coefficients), mean_hop_s)


def _newton(x: Floats, y: Floats) -> Floats:
    penalty = np.full(x.shape[1], RIDGE)
    penalty[0] = 1e-6
    weights = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(-np.clip(x @ weights, -30.0, 30.0)))
        curvature = np.maximum(p * (1.0 - p), 1e-6)
        slope = x.T @ (y - p) - penalty * weights
        step = np.linalg.solve((x * curvature[:, None]).T @ x + np.diag(penalty), slope)
        weights = weights + step
        if float(np.abs(step).max()) < 1e-8:
            break
    return weights
