"""Backtest, the split: how often each method keeps every budget and the deadline, against the deadline alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from hopbudget.budgets.allocate import least_cap_s
from hopbudget.budgets.allocation import RULES
from hopbudget.budgets.groups.folds import Clusters
from hopbudget.budgets.numbers.distribution import distribution
from hopbudget.budgets.numbers.paired import Estimate, bootstrap
from hopbudget.budgets.numbers.quantiles import attained
from hopbudget.budgets.profile import Floats, Ints
from hopbudget.budgets.splits.auto import Aim, Way, cross_validate, in_time, succeeded
from hopbudget.budgets.splits.slots import Times

METHODS: Final = ("deadline_only", "auto", *RULES, "resplit")


@dataclass(frozen=True, slots=True)
class Named:
    """A deadline as it was asked for: a percentile, learned anew from each training part, or seconds."""

    label: str
    percentile: float | None
    seconds: float | None

    def at(self, times: Times, rows: Ints) -> float:
        """In seconds, learned from these trajectories; +inf where failures forbid it."""
        if self.percentile is None:
            return float(self.seconds or 0.0)
        return attained(times.finish_s[rows], times.finish_censored[rows], self.percentile / 100)


@dataclass(frozen=True, slots=True)
class Trial:
    """One deadline while it is tried: success by method and trajectory, NaN where not known."""

    named: Named
    kept: dict[str, Floats]
    chosen: dict[str, int]
    """How many folds `auto` took which method in."""
    untold: list[int]
    """Trajectories of each fold whose training part has no finite deadline."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One deadline, every method."""

    named: Named
    deadline_s: float
    """Over all trajectories; each fold had its own, where the deadline is a percentile."""
    methods: dict[str, Estimate]
    """Share of held-out trajectories that kept every budget and the deadline, by method."""
    less_than_alone: dict[str, Estimate]
    """Paired: success minus that of the deadline alone."""
    over_equal: dict[str, Estimate]
    """Paired: success minus that of the equal split."""
    best: str
    """The method that was best in hindsight,"""
    auto_of_best: Estimate
    """the success of `auto` as a share of it,"""
    independent_of_best: Estimate
    """and that of `independent`."""
    chosen: Mapping[str, int]
    folds_untold: int
    """Folds without a finite deadline, because too many trajectories of their training part failed,"""
    untold: int
    """and the trajectories in them, which no figure of this cell counts."""


def empty(named: Named, trajectories: int) -> Trial:
    """Nothing tried yet."""
    return Trial(named, {name: np.full(trajectories, np.nan) for name in METHODS}, {}, [])


def fill(
    trial: Trial, times: Times, groups: tuple[Clusters, Clusters], *, train: Ints, test: Ints, deadline_s: float
) -> None:
    """Learn every method on one part and note its success on the other; `groups` are those of `cross_validate`."""
    learned, judged = times.take(train), times.take(test)
    aim = Aim(deadline_s, (trial.named.percentile or 90.0) / 100, least_cap_s(deadline_s))
    found, within = groups
    way, _ = cross_validate(learned, found.take(train), within.take(train), aim)
    trial.chosen[way[0]] = trial.chosen.get(way[0], 0) + 1
    ways: list[Way] = [way, *((rule, None) for rule in RULES)]
    for name, budgets in zip(("auto", *RULES), aim.split(learned, ways), strict=True):
        trial.kept[name][test] = succeeded(judged, budgets, deadline_s)
    trial.kept["deadline_only"][test] = in_time(judged, deadline_s)
    trial.kept["resplit"][test] = resplit(learned, judged, deadline_s)


def resplit(learned: Times, judged: Times, deadline_s: float) -> Floats:
    """Success under budgets that are split anew at each place: what remains, in proportion to the means still to come.

    b_k = (D - sum_{j<k} X_j) t_k / sum_{j>=k} t_j, as HexGen-Text2SQL (2025) does, with a slot's time in a trajectory
    as X and its mean as t. Places come in the order in which trajectories come to them, then work, then the stream.
    """
    means = np.array(
        [distribution(learned.seconds[:, k], learned.censored[:, k]).mean() for k in range(learned.seconds.shape[1])]
    )
    to_come = np.cumsum(means[::-1])[::-1]
    share = np.divide(means, to_come, out=np.ones_like(means), where=to_come > 0)
    spent = np.cumsum(judged.seconds, axis=1) - np.where(np.isfinite(judged.seconds), judged.seconds, 0.0)
    left = np.maximum(deadline_s - np.nan_to_num(spent, posinf=deadline_s), 0.0)
    over = ((judged.seconds > left * share * (1 + 1e-9) + 1e-9) | judged.censored).any(axis=1)
    alone = in_time(judged, deadline_s)
    return np.where(np.isnan(alone), np.nan, np.where(over, 0.0, alone))


def score(trial: Trial, times: Times, found: Clusters) -> Cell:
    """Shares, paired differences and the best in hindsight, with intervals over clusters."""
    kept = trial.kept
    shares = {name: ratio(values, None, found, is_share=True) for name, values in kept.items()}
    rules = [name for name in RULES if not np.isnan(shares[name].value)]
    best = max(rules, key=lambda name: shares[name].value) if rules else "equal_tuned"
    shares["hindsight"] = shares[best]
    everyone = np.arange(len(times.finish_s))
    return Cell(
        named=trial.named,
        deadline_s=trial.named.at(times, everyone),
        methods=shares,
        less_than_alone={name: difference(values, kept["deadline_only"], found) for name, values in kept.items()},
        over_equal={name: difference(values, kept["equal"], found) for name, values in kept.items()},
        best=best,
        auto_of_best=ratio(kept["auto"], kept[best], found),
        independent_of_best=ratio(kept["independent"], kept[best], found),
        chosen=trial.chosen,
        folds_untold=len(trial.untold),
        untold=sum(trial.untold),
    )


def difference(kept: Floats, less: Floats, found: Clusters) -> Estimate:
    """The mean of the paired differences, where both are known, with its interval over clusters."""
    known = ~np.isnan(kept) & ~np.isnan(less)
    return bootstrap(np.where(known, kept - less, 0.0), known.astype(np.float64), found, is_difference=True)


def ratio(top: Floats, bottom: Floats | None, found: Clusters, *, is_share: bool = False) -> Estimate:
    """The mean of `top`, or sum top / sum bottom, where both are known; with its interval over clusters."""
    known = ~np.isnan(top) if bottom is None else ~np.isnan(top) & ~np.isnan(bottom)
    counted = known.astype(np.float64) if bottom is None else np.where(known, bottom, 0.0)
    return bootstrap(np.where(known, top, 0.0), counted, found, is_share=is_share)
