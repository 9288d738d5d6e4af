"""What models say of hop starts whose cluster they have not seen, and whether that is worth saying."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from hopbudget.budgets.groups.folds import Clusters, clusters, folds
from hopbudget.budgets.numbers.paired import mean_and_error
from hopbudget.budgets.population import Population
from hopbudget.budgets.profile import Bools, Floats, Ints, Profile
from hopbudget.budgets.run_time.logit import Logit, fit
from hopbudget.budgets.run_time.suffix import LEAST, Starts, SuffixBank, learn_bank, starts

RANGES: Final = (1, 2, 4, 8, 16)
"""First visits of the ranges in each of which it is decided whether the chance is said."""
OFF: Final = 1.6
"""A hint is taken to be wrong by this factor, log-normally: the hops to come are not known to anybody."""
WORSE: Final = 2.0


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Hop starts, and what models that never saw their cluster say of them. An array has one entry for each."""

    people: Population
    """Whose starts they are,"""
    groups: Clusters
    """and the cluster of each of those."""
    starts: Starts
    cluster: Clusters
    met: Bools
    usable: Bools
    """Before the deadline, and known whether it was met."""
    bank: Floats
    """The suffix bank alone."""
    plain: Floats
    hint: Floats
    """With a noisy hint."""


@dataclass(frozen=True, slots=True)
class Models:
    """What speaks of hop starts."""

    bank: SuffixBank
    logit: Logit | None
    hint: Logit | None


def noisy_hint(found: Starts) -> Floats:
    """Hops to come, off by a factor exp(log(1.6) Z), Z normal, from a fixed seed; the order of rows changes nothing."""
    order = np.lexsort((found.visit, found.elapsed_s, found.remaining_s))
    noise = np.empty(len(found))
    noise[order] = np.random.default_rng(7).standard_normal(len(found))
    return np.maximum(found.left * np.exp(math.log(OFF) * noise), 1.0)


def hold_out(profile: Profile, people: Population, deadline_s: float) -> HeldOut | None:
    """Models of the other folds on each fold's hop starts; None where no start is before the deadline."""
    found = starts(profile, people)
    usable = found.known(deadline_s) & (found.elapsed_s < deadline_s)
    if not usable.any():
        return None
    groups = clusters(profile, people.rows, np.column_stack([people.finish_s, people.censored.astype(np.float64)]))
    fold = folds(groups)[found.trajectory]
    hint = noisy_hint(found)
    said = np.full((3, len(found)), np.nan)
    for number in range(int(fold.max()) + 1):
        out = fold == number
        seen = usable & ~out
        if not out.any() or not seen.any():
            continue
        models = fit_models(found.take(~out), usable[~out], deadline_s, hint[~out])
        visit, elapsed = found.visit[out], found.elapsed_s[out]
        said[:2, out] = models.bank.within(visit, deadline_s - elapsed)
        if models.logit and models.hint:
            said[1, out] = (said[0, out] + models.logit.p(visit, elapsed, deadline_s, None)) / 2
            said[2, out] = models.hint.p(visit, elapsed, deadline_s, hint[out])
    return HeldOut(people, groups, found, groups.take(found.trajectory), found.met(deadline_s), usable, *said)


def fit_models(found: Starts, usable: Bools, deadline_s: float, hint: Floats) -> Models:
    """Models of these starts; the logits see the usable ones."""
    seen = found.take(usable)
    finished = np.isfinite(found.remaining_s) & (found.visit == 1)
    hops = float(found.left[finished].sum())
    mean_hop_s = float(f"{found.remaining_s[finished].sum() / hops:.6g}") if hops else deadline_s
    met = seen.met(deadline_s)
    logit, hinted = (
        fit(seen.visit, seen.elapsed_s, deadline_s, max(mean_hop_s, 1e-6), hint=h, met=met)
        for h in (None, hint[usable])
    )
    return Models(learn_bank(found, deadline_s), logit, hinted)


def range_of(visit: Ints) -> Ints:
    """The number of each visit's range."""
    return np.maximum(np.searchsorted(np.array(RANGES), visit, side="right") - 1, 0)


def worth_saying(held: HeldOut, p: Floats, base: Floats) -> tuple[bool, ...]:
    """By range of visits: whether p is worth saying.

    It is where it beats the base rate by a standard error; also where it does so over all later visits and is not
    clearly worse here (by `WORSE` standard errors), or too few trajectories came here to tell.
    """
    ranges = range_of(held.starts.visit)
    overall = _beats(_gain(held, p, base, held.usable & (held.starts.visit > 1)))
    known = []
    for number in range(len(RANGES)):
        found = _gain(held, p, base, held.usable & (ranges == number))
        carried = number > 0 and overall and (math.isinf(found[1]) or found[0] > -WORSE * found[1])
        known.append(_beats(found) or carried)
    return tuple(known)


def _beats(found: tuple[float, float]) -> bool:
    gain, error = found
    return gain > error


def _gain(held: HeldOut, p: Floats, other: Floats, rows: Bools) -> tuple[float, float]:
    """By how much the Brier score of p is lower there than that of `other`, and the standard error of that.

    (0, inf) where fewer than `LEAST` trajectories came.
    """
    rows = rows & ~np.isnan(p) & ~np.isnan(other)
    if len(np.unique(held.starts.trajectory[rows])) < LEAST:
        return 0.0, math.inf
    better = (other - held.met) ** 2 - (p - held.met) ** 2
    return mean_and_error(np.where(rows, better, np.nan), held.cluster)
