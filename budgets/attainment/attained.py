"""Attainment: how many of what was asked for came within a limit, with what failed, was cut short or was not seen.

Everything an objective counts (requests, streams, gaps, trajectories) is a unit with a value that is worse when larger.
Failures are worse than any limit. What was cut short is a lower bound: past the limit it missed it, before it nobody
knows, and it is left out and counted.
"""

import math
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
from scipy import special

from hopbudget.budgets.numbers.quantiles import ALPHA, attained
from hopbudget.budgets.profile import Bools, Floats, Ints

CAME: Final = 0
"""`ok` or `truncated`."""
NEVER: Final = 1
"""`failed` or `refused`."""
CUT: Final = 2
"""`cancelled` or `closed_by_consumer`."""
TIMED_OUT: Final = 3
"""`timed_out`: cut short as well, by a limit of ours."""
CODES: Final = {
    "ok": CAME,
    "truncated": CAME,
    "failed": NEVER,
    "refused": NEVER,
    "cancelled": CUT,
    "closed_by_consumer": CUT,
    "timed_out": TIMED_OUT,
}


@dataclass(frozen=True, slots=True)
class Units:
    """What an objective counts, one entry each."""

    trajectory: Ints
    """Index of the trajectory it belongs to."""
    value: Floats
    """+inf where it failed, NaN where it was not observed."""
    censored: Bools
    """The value is a lower bound."""

    def quantile(self, p: float) -> float:
        """The attained p-quantile: +inf where failures put it out of reach, NaN where nothing was observed."""
        seen = ~np.isnan(self.value)
        return attained(self.value[seen], self.censored[seen], p)


def units(trajectory: Ints, value: Floats, bound: Floats, code: Ints, group: Ints) -> Units:
    """Units of observed values (NaN where there is none), bounds for those cut short without one, and outcome codes.

    What was observed of one that was cut short later, such as its first token, stands. A failure counts unless units
    of its group (hops of its name) came out and none of them has a value: there nothing is measured, and a failure
    can't be told from one that would not have been.
    """
    came, never = code == CAME, code == NEVER
    cut = ~came & ~never
    size = int(group.max(initial=-1)) + 1
    seen = np.bincount(group[came & ~np.isnan(value)], minlength=size) > 0
    blind = (np.bincount(group[came], minlength=size) > 0) & ~seen
    counts = ~blind[group]
    waited = cut & np.isnan(value) & counts
    filled = np.where(waited, bound, value)
    return Units(trajectory, np.where(never, np.where(counts, np.inf, np.nan), filled), waited)


@dataclass(frozen=True, slots=True)
class Counts:
    """How units came out, by trajectory. All but `started_at` are numbers of units, `sample` of requests."""

    started_at: Floats
    """Seconds since the Unix epoch, in no time zone."""
    good: Floats
    slow: Floats
    failed: Floats
    """Requests that failed or were refused."""
    left_out: Floats
    """Cut short before the limit."""
    unmeasured: Floats
    sample: Floats
    """Requests counted: those with units within or past the limit, and those that failed."""

    def take(self, rows: Bools) -> "Counts":
        """Only these trajectories."""
        return Counts(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def since(self, from_at: float, to_at: float) -> "Counts":
        """Trajectories that started after `from_at` and not after `to_at`."""
        return self.take((self.started_at > from_at) & (self.started_at <= to_at))


def count(given: Units, started_at: Floats, limit: float) -> Counts:
    """Count the units of each trajectory by how they came out; a value at the limit is within it."""
    value, censored = given.value, given.censored
    unmeasured = np.isnan(value)
    failed = np.isposinf(value)
    past = np.where(censored, value >= limit, value > limit) & ~failed & ~unmeasured
    left_out = censored & ~past & ~unmeasured
    good = ~(failed | past | unmeasured | left_out)

    def by_trajectory(which: Bools) -> Floats:
        return np.bincount(given.trajectory[which], minlength=len(started_at)).astype(np.float64)

    return Counts(
        started_at=started_at,
        good=by_trajectory(good),
        slow=by_trajectory(past),
        failed=by_trajectory(failed),
        left_out=by_trajectory(left_out),
        unmeasured=by_trajectory(unmeasured),
        sample=by_trajectory(good | past | failed),
    )


@dataclass(frozen=True, slots=True)
class Attained:
    """The share of units within the limit, its 95% interval, and what it was counted from."""

    n: int
    """Units counted: good, slow, and what the failed requests stand for."""
    good: int
    slow: int
    """Missed by slowness."""
    failed: int
    """Requests missed by failing."""
    failing_share: float
    """The share of n that was missed by failing; NaN of nothing."""
    left_out: int
    unmeasured: int
    sample: int
    share: float
    low: float
    high: float

    @property
    def slow_share(self) -> float:
        """The share of n that was missed by slowness; NaN of nothing."""
        return self.slow / self.n if self.n else math.nan


def attain(counts: Counts, alpha: float = ALPHA) -> Attained:
    """good / (good + slow + failed), where a failed request stands for as many units as the others have on average.

    That is one, but for gaps: a stream that failed stands for as many gaps as one that did not. So the share is never
    above 1 - the share of requests that failed.
    """
    good, slow, failed = (float(part.sum()) for part in (counts.good, counts.slow, counts.failed))
    others = float(counts.sample.sum()) - failed
    weight = (good + slow) / others if others > 0 else 1.0
    n = good + slow + weight * failed
    share = good / n if n else math.nan
    low, high = _interval(counts.good, counts.good + counts.slow + weight * counts.failed, alpha)
    return Attained(
        n=round(n),
        good=round(good),
        slow=round(slow),
        failed=round(failed),
        failing_share=weight * failed / n if n else math.nan,
        left_out=round(float(counts.left_out.sum())),
        unmeasured=round(float(counts.unmeasured.sum())),
        sample=round(float(counts.sample.sum())),
        share=share,
        low=low,
        high=high,
    )


def _interval(good: Floats, counted: Floats, alpha: float) -> tuple[float, float]:
    """The interval of Korn and Graubard (1998): Clopper-Pearson with the size that units of one trajectory are worth.

    Units of a trajectory resemble one another, so the variance of the share is that of a ratio over trajectories, and
    n is divided by how much larger it is than with independent units. Where each trajectory has one unit it is
    Clopper-Pearson itself; where all units agree, each trajectory is worth one at most.
    """
    used = counted > 0
    good, counted = good[used], counted[used]
    clusters, n = len(counted), float(counted.sum())
    if clusters == 0:
        return 0.0, 1.0
    share = float(good.sum()) / n
    size = float(clusters)
    if clusters > 1 and 0 < share < 1:
        variance = clusters / (clusters - 1) * float(((good - share * counted) ** 2).sum()) / n**2
        wide, narrow = (float(special.stdtrit(df, 1 - alpha / 2)) for df in (clusters - 1, max(n - 1, 1)))
        least = share * (1 - share) / max(n - 1, 1) * (narrow / wide) ** 2
        size = n if variance <= least else n * least / variance
    return clopper_pearson_of(share * size, size, alpha)


def clopper_pearson_of(successes: float, n: float, alpha: float = ALPHA) -> tuple[float, float]:
    """The exact binomial interval by beta quantiles, where the size may be a fraction."""
    misses = n - successes
    low = float(special.betaincinv(successes, misses + 1, alpha / 2)) if successes > 0 else 0.0
    high = float(special.betaincinv(successes + 1, misses, 1 - alpha / 2)) if misses > 0 else 1.0
    return low, high


def quantile_of_counts(values: Floats, events: Floats, bounds: Floats, failing_share: float, p: float) -> float:
    """The attained p-quantile of values in rising order that occurred so many times as events and as lower bounds.

    `failing_share` of all stands beyond every value. +inf where that puts p out of reach, NaN where nothing was seen.
    """
    seen = float(events.sum() + bounds.sum())
    if seen <= 0:
        return math.inf if failing_share > 0 else math.nan
    total = seen / (1 - failing_share) if failing_share < 1 else math.inf
    before = np.cumsum(bounds) - bounds
    counted = total - before
    share = np.divide(np.cumsum(events), counted, out=np.zeros(len(values)), where=counted > 0)
    enough = np.flatnonzero((share >= p - 1e-12) & (events > 0))
    return float(values[enough[0]]) if len(enough) else math.inf
