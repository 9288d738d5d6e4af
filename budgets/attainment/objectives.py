"""Objectives: a percentile or a share of many requests in a window of time, and whether it was kept.

An objective is accounted, not enforced. Its target is the share of units that must be within the limit; the error
budget is what the target leaves to miss; the burn rate is how many times faster than that it is being spent.
"""

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from hopbudget.budgets.attainment.attained import Attained, Counts, attain
from hopbudget.budgets.numbers.quantiles import smallest_n

Metric = Literal[
    "ttft",
    "ttfa",
    "tpot",
    "tokens_per_s",
    "itl",
    "hop_duration",
    "trajectory_duration",
    "answer_start",
    "error_share",
    "underrun",
]
METRICS: Final[tuple[Metric, ...]] = get_args(Metric)
SHARES: Final[frozenset[Metric]] = frozenset({"error_share", "underrun"})
"""Metrics whose limit is a share of the units; the others have a percentile."""
OF_STREAMS: Final[frozenset[Metric]] = frozenset({"ttft", "ttfa", "tpot", "tokens_per_s", "itl", "underrun"})
"""Metrics that a call which came whole does not have."""

State = Literal["met", "breach", "cant_say"]

HOUR_S: Final = 3600.0
DAY_S: Final = 86_400.0
WINDOW_S: Final = 30 * DAY_S
BURN_WINDOWS_S: Final = (HOUR_S, 6 * HOUR_S, 3 * DAY_S)
"""Beside the whole window: the short ones see a fire, the long ones a smoulder."""


@dataclass(frozen=True, slots=True)
class Objective:
    """One target of a workload."""

    metric: Metric
    limit: float
    """Seconds; tokens a second for `tokens_per_s`; a share for `error_share` and `underrun`."""
    percentile: float | None = None
    """Out of 100; None for a share."""
    hop: str | None = None
    """Only hops of this name."""
    window_s: float = WINDOW_S
    min_sample: int | None = None
    pace: float | None = None
    """Tokens a second that a reader or a speech engine takes, for `underrun`."""

    @property
    def target(self) -> float:
        """The share of units that must be within the limit."""
        return 1 - self.limit if self.percentile is None else self.percentile / 100

    @property
    def bound(self) -> float:
        """The largest value of a unit that is within: seconds, or 0 where a unit is right or wrong."""
        if self.metric in SHARES:
            return 0.0
        return 1 / self.limit if self.metric == "tokens_per_s" else self.limit

    @property
    def needed(self) -> int:
        """The smallest sample to judge by: as said, else so many that their largest bounds the percentile at 95%."""
        return self.min_sample if self.min_sample is not None else smallest_n(self.target)

    def shown(self, quantile: float, attained: Attained) -> float:
        """The objective's own value: a quantile in the limit's unit, or the share that missed."""
        if self.percentile is None:
            return 1 - attained.share
        if self.metric == "tokens_per_s":
            return 0.0 if math.isinf(quantile) else 1 / quantile if quantile > 0 else math.inf
        return quantile

    def state(self, attained: Attained) -> State:
        """Kept or not, by the share that was attained; nothing is said of too small a sample."""
        if attained.sample < self.needed or attained.n == 0:
            return "cant_say"
        return "met" if attained.share >= self.target - 1e-12 else "breach"


@dataclass(frozen=True, slots=True)
class Burn:
    """How fast the error budget went in the last `window_s` seconds: 1 spends it exactly, 0 not at all."""

    window_s: float
    rate: float
    """NaN where nothing was counted."""
    n: int


@dataclass(frozen=True, slots=True)
class Day:
    """One day of UTC."""

    day_at: float
    """Its start, seconds since the Unix epoch."""
    n: int
    share: float
    failed: int
    slow: int


def budget_left(attained: Attained, target: float) -> float:
    """The share of the error budget that is left: 1 untouched, 0 spent, below 0 overspent; NaN of nothing."""
    return 1 - (1 - attained.share) / (1 - target) if attained.n else math.nan


def burn(counts: Counts, target: float, window_s: float, to_at: float) -> tuple[Burn, ...]:
    """Burn rates of the last hour, six hours, three days and the whole window, as far as it reaches."""
    windows = [*(short for short in BURN_WINDOWS_S if short < window_s), window_s]
    found = [(short, attain(counts.since(to_at - short, to_at))) for short in windows]
    return tuple(Burn(short, (1 - a.share) / (1 - target) if a.n else math.nan, a.n) for short, a in found)


def days(counts: Counts) -> tuple[Day, ...]:
    """Each day of UTC on which something was counted."""
    day = np.floor(counts.started_at / DAY_S)
    found = [(float(one), attain(counts.take(day == one))) for one in np.unique(day)]
    return tuple(Day(one * DAY_S, a.n, a.share, a.failed, a.slow) for one, a in found if a.n)
