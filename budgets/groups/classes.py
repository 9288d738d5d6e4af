"""Trajectories that are told apart before they start, and meet a deadline unequally often."""

from collections.abc import Iterator
from typing import Final

import numpy as np
from scipy import special

from hopbudget.budgets.allocation import ClassShares, Share
from hopbudget.budgets.numbers.quantiles import clopper_pearson
from hopbudget.budgets.population import Population
from hopbudget.budgets.profile import Bools, Floats, Ints, Profile, Words

ENOUGH: Final = 30
"""A class with fewer trajectories is not looked at."""
MATTERS: Final = 0.05
"""Classes whose shares differ by less don't matter to a person,"""
ALPHA: Final = 0.001
"""and what chance alone brings about more often is no difference. Several ways to tell classes are tried."""


def unequal_classes(profile: Profile, people: Population, deadline_s: float) -> tuple[ClassShares, ...]:
    """The classes whose shares in time differ by `MATTERS` or more, significantly (chi-square); the widest first."""
    known = ~(people.censored & (people.finish_s < deadline_s))
    met = (~people.censored & (people.finish_s <= deadline_s))[known]
    found = []
    for by, words in told_apart(profile, people):
        shares = _shares(words[known], met)
        if len(shares) > 1 and _differ([share for _, share in shares]):
            found.append(ClassShares(by, tuple(shares)))
    return tuple(sorted(found, key=lambda one: -_width(one)))


def told_apart(profile: Profile, people: Population) -> Iterator[tuple[str, Words]]:
    """What is known of a trajectory when it starts: its place in the conversation, its first hop's model and prompt."""
    yield "position in the conversation", position(profile)[people.rows]
    first = _first_hops(profile)
    seen = first >= 0
    model = np.full(len(profile), "", dtype=object)
    model[seen] = profile.hops.model[first[seen]]
    yield "first model", model[people.rows]
    prompt = np.full(len(profile), np.nan)
    prompt[seen] = profile.hops.input_tokens[first[seen]]
    yield "first prompt", _halves(prompt[people.rows])


def position(profile: Profile) -> Words:
    """Its place in the session: first, second or later, by start; "" without sessions, or where each has only one."""
    t = profile.trajectories
    words = np.full(len(profile), "", dtype=object)
    named = np.flatnonzero(t.session != "")
    if not len(named):
        return words
    _, session = np.unique(t.session[named].astype(str), return_inverse=True)
    order = np.lexsort((t.started_at[named], session))
    ordered = session[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    if len(starts) == len(ordered):
        return words
    place = np.arange(len(ordered)) - np.repeat(starts, np.diff(np.append(starts, len(ordered))))
    names = np.array(["first", "second", "later"], dtype=object)
    words[named[order]] = names[np.minimum(place, 2)]
    return words


def _first_hops(profile: Profile) -> Ints:
    first = np.full(len(profile), -1, dtype=np.int64)
    trajectory = profile.hops.trajectory
    if len(trajectory):
        rows = np.flatnonzero(np.concatenate([[True], trajectory[1:] != trajectory[:-1]]))
        first[trajectory[rows]] = rows
    return first


def _halves(prompt: Floats) -> Words:
    words = np.full(len(prompt), "", dtype=object)
    seen = ~np.isnan(prompt)
    if seen.any():
        middle = float(np.median(prompt[seen]))
        words[seen & (prompt <= middle)] = f"up to {middle:.0f} tokens"
        words[seen & (prompt > middle)] = f"over {middle:.0f} tokens"
    return words


def _shares(words: Words, met: Bools) -> list[tuple[str, Share]]:
    order = {"first": 0, "second": 1, "later": 2}
    rows = []
    for word in sorted({str(word) for word in words} - {""}, key=lambda word: (order.get(word, 3), word)):
        mask = words == word
        n, k = int(np.count_nonzero(mask)), int(np.count_nonzero(met & mask))
        if n >= ENOUGH:
            rows.append((word, Share(k / n, *clopper_pearson(k, n), n)))
    return rows


def _differ(shares: list[Share]) -> bool:
    values = np.array([share.share for share in shares])
    if float(values.max() - values.min()) < MATTERS:
        return False
    n = np.array([share.n for share in shares], dtype=np.float64)
    pooled = float((n * values).sum() / n.sum())
    if pooled in (0.0, 1.0):
        return False
    chi_square = float((n * (values - pooled) ** 2).sum()) / (pooled * (1 - pooled))
    return float(special.chdtrc(len(n) - 1, chi_square)) < ALPHA


def _width(one: ClassShares) -> float:
    values = [share.share for _, share in one.shares]
    return max(values) - min(values)
