"""Which way of splitting a deadline does best on trajectories that it was not learned from.

Whole runs (else sessions, else trajectories) are held out in turn. The equal split stands first; another way takes its
place only by a paired gain of more than one standard error, because with many slots and few trajectories the best of
many ways is often only the luckiest (the one-standard-error rule of Breiman et al. 1984). That error is one of drawing
sessions (else trajectories): how much runs differ is in every way's held-out mean already, and with a handful of runs
it would let nothing ever win.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from hopbudget.budgets.allocation import RULES, Auto, Candidate, Rule, Share
from hopbudget.budgets.groups.folds import Clusters, folds
from hopbudget.budgets.numbers.paired import bootstrap, mean_and_error
from hopbudget.budgets.profile import Bools, Floats
from hopbudget.budgets.splits.slots import Times
from hopbudget.budgets.splits.split import Places

RESERVES: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Levels at which work and stream may be set aside."""

Way = tuple[Rule, float | None]
FIRST: Final[Way] = ("equal_tuned", None)
SAFE: Final[Way] = ("independent", None)
"""The way that does well with any slots."""


@dataclass(frozen=True, slots=True)
class Aim:
    """What is split: a deadline, with the level of `quantile` and the least budget."""

    deadline_s: float
    level: float
    floor_s: float
    second_s: float = 1.0
    """What one more second of the deadline adds here; less where a longer deadline binds as well."""
    step_s: float = 1.0
    """How much longer a deadline to try beside it."""

    def split(self, times: Times, ways: Sequence[Way]) -> list[Floats]:
        """The budgets that each of these ways learns from these trajectories."""
        places = Places(
            times.seconds,
            times.censored,
            times.weight,
            tuple(times.reserves),
            ~times.finish_censored & (times.finish_s <= self.deadline_s),
            self.level,
            self.floor_s,
        )
        return [places.budgets(rule, self.deadline_s, reserve) for rule, reserve in ways]


def succeeded(times: Times, budgets: Floats, deadline_s: float) -> Floats:
    """By trajectory 1 where it kept every budget and the deadline, 0 where not, NaN where that is not known."""
    over = times.seconds > budgets
    cut = bool(times.censored.any())
    if cut:
        over |= times.censored & (times.seconds >= budgets)
    late = (times.finish_s > deadline_s) | (times.finish_censored & (times.finish_s >= deadline_s))
    failed = over.any(axis=1) | late
    result = np.where(failed, 0.0, 1.0)
    if cut or times.finish_censored.any():
        result[~failed & (times.censored.any(axis=1) | times.finish_censored)] = np.nan
    return result


def in_time(times: Times, deadline_s: float) -> Floats:
    """By trajectory 1 where it met the deadline, 0 where not, NaN where that is not known."""
    unknown = times.finish_censored & (times.finish_s < deadline_s)
    met = ~times.finish_censored & (times.finish_s <= deadline_s)
    return np.where(unknown, np.nan, met.astype(np.float64))


def ways(times: Times) -> Iterator[Way]:
    """The ways to try, in order: by rule, first without a reserve; the first alone where there is nothing to split."""
    reserves = RESERVES if times.reserves and times.slots else ()
    rules: tuple[Rule, ...] = RULES if len(times.names) > 1 else RULES[:1]
    for rule in rules:
        for level in (None, *reserves):
            if level is None or rule not in ("equal_tuned", "equal"):
                yield rule, level


@dataclass(frozen=True, slots=True)
class Tried:
    """Every way's success on held-out trajectories, by trajectory; NaN where not known."""

    kept: dict[Way, Floats]
    folds: int


def try_out(times: Times, found: Clusters, aim: Aim, only: Sequence[Way] | None = None) -> Tried:
    """Learn each way on the other folds and score it on the one left out, for every fold."""
    fold = folds(found)
    wanted = tuple(ways(times)) if only is None else tuple(only)
    kept = {way: np.full(len(times.finish_s), np.nan) for way in wanted}
    count = int(fold.max()) + 1
    for one in range(count):
        test = np.flatnonzero(fold == one)
        held_out = times.take(test)
        learned = aim.split(times.take(np.flatnonzero(fold != one)), wanted)
        for way, budgets in zip(wanted, learned, strict=True):
            kept[way][test] = succeeded(held_out, budgets, aim.deadline_s)
    return Tried(kept, count)


def choose(tried: Tried, within: Clusters, weight: Floats | None) -> tuple[Way, tuple[Candidate, ...]]:
    """The way to take, with every rule's best reserve and its gain over what was best before it."""
    best = FIRST
    success, _ = mean_and_error(tried.kept[FIRST], within, weight)
    candidates = [Candidate(*FIRST, success, 0.0, 0.0)]
    for rule in RULES[1:]:
        means = {way: mean_and_error(kept, within, weight)[0] for way, kept in tried.kept.items() if way[0] == rule}
        if not means:
            continue
        way = max(means, key=lambda one: means[one])
        gain, error = mean_and_error(tried.kept[way] - tried.kept[best], within, weight)
        candidates.append(Candidate(*way, means[way], gain, error))
        if gain > error:
            best = way
    return best, tuple(candidates)


def cross_validate(times: Times, found: Clusters, within: Clusters, aim: Aim) -> tuple[Way, Auto | None]:
    """Choose a way to split; without a report where there is too little to hold anything out.

    `found` is held out together, `within` are the draws that standard errors of gains are over.
    """
    if found.n < 2:
        return FIRST, None
    tried = try_out(times, found, aim)
    way, candidates = choose(tried, within, times.weight)
    alone = in_time(times, aim.deadline_s)
    kept, equal = tried.kept[way], tried.kept[FIRST]
    (budgets,) = aim.split(times, [way])
    binding, binding_share = binding_place(times, budgets, aim.deadline_s)
    longer_s = aim.deadline_s + aim.step_s * aim.second_s
    kept_now, kept_later = (
        _mean(succeeded(times, budgets * (deadline_s / aim.deadline_s), deadline_s), times.weight)
        for deadline_s in (aim.deadline_s, longer_s)
    )
    return way, Auto(
        method=way[0],
        reserve=way[1],
        cluster=found.kind,
        clusters=found.n,
        folds=tried.folds,
        success=_share(kept, found, times.weight),
        deadline_only=_share(alone, found, times.weight),
        kept_of_deadline=_share(kept, found, times.weight, of=alone),
        gain=_mean_over(kept - equal, within, times.weight),
        beats_equal=way[0] not in ("equal_tuned", "equal"),
        candidates=candidates,
        price=(),
        binding=binding,
        binding_share=binding_share,
        step_s=aim.step_s,
        step_in_time=_mean(in_time(times, longer_s), times.weight) - _mean(alone, times.weight),
        step_kept=kept_later - kept_now,
    )


def step_of(deadline_s: float) -> float:
    """A second, or the largest power of ten that is at most a fifth of a shorter deadline."""
    return 1.0 if deadline_s >= 5.0 else float(10.0 ** math.floor(math.log10(deadline_s / 5.0)))


def held_out_success(times: Times, found: Clusters, aim: Aim, tried: Sequence[Way]) -> float:
    """The success of the best of these ways on trajectories that it was not learned from."""
    kept = try_out(times, found, aim, only=tried).kept
    return max(mean_and_error(kept[way], found, times.weight)[0] for way in tried)


def binding_place(times: Times, budgets: Floats, deadline_s: float) -> tuple[str | None, float]:
    """The place whose budget alone stood between most trajectories and success, and the share of those."""
    met = in_time(times, deadline_s) == 1.0
    over = (times.seconds > budgets) & met[:, None]
    alone = over & (over.sum(axis=1) == 1)[:, None]
    weight = np.ones(len(met)) if times.weight is None else times.weight
    shares = (alone * weight[:, None]).sum(axis=0) / float(weight.sum())
    most = int(np.argmax(shares))
    return (times.names[most], float(shares[most])) if shares[most] > 0 else (None, 0.0)


def _mean(values: Floats, weight: Floats | None) -> float:
    known = ~np.isnan(values)
    if not known.any():
        return float("nan")
    return float(np.average(values[known], weights=None if weight is None else weight[known]))


def _share(values: Floats, found: Clusters, weight: Floats | None, of: Floats | None = None) -> Share:
    """Share of ones among the values, or among those that are one in `of` as well, with its interval over clusters."""
    known: Bools = ~np.isnan(values) if of is None else ~np.isnan(values) & ~np.isnan(of)
    w = known.astype(np.float64) if weight is None else known * weight
    estimate = bootstrap(w * np.nan_to_num(values), w if of is None else w * np.nan_to_num(of), found, is_share=True)
    return Share(estimate.value, estimate.low, estimate.high, int(np.count_nonzero(known)))


def _mean_over(values: Floats, found: Clusters, weight: Floats | None) -> Share:
    """Mean of paired differences, with its interval over clusters."""
    known: Bools = ~np.isnan(values)
    w = known.astype(np.float64) if weight is None else known * weight
    estimate = bootstrap(w * np.nan_to_num(values), w, found, is_difference=True)
    return Share(estimate.value, estimate.low, estimate.high, int(np.count_nonzero(known)))
