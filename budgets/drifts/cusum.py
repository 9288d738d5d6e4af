"""Cumulative sums that notice when a rate has changed, with thresholds for a wanted share of false alarms.

A chart takes one score x in [0, 1] a trajectory (the share of its hops past a limit, or itself) and sums

    S_t = max(0, S_(t-1) + w_t (x_t - k))        for a rate that rises;   w_t (k - x_t) for one that falls

(Page 1954). k lies between the rate p0 it was learned from and a rate p1 that matters, where the likelihood ratio of
the two turns: k = log((1 - p0) / (1 - p1)) / log(p1 (1 - p0) / (p0 (1 - p1))). An alarm is S_t > h.

Trajectories of one session are alike, so that each says less than the one before it: m of them count as
m / (1 + (m - 1) r), with r the scores' correlation within sessions (Kish 1965), and the m-th weighs what it adds.
`calibrate` finds the thresholds of all charts together by drawing sequences from what was learned.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from hopbudget.budgets.profile import Floats, Ints

WITHIN: Final = 500
"""Trajectories within which"""
FALSE_ALARMS: Final = 0.005
"""at most this share of sequences may raise any alarm."""
PATHS: Final = 3000
SEED: Final = 11


@dataclass(frozen=True, slots=True)
class Crossing:
    """The first alarm of a chart: positions in the sequence of scores it was given."""

    at: int
    """Where the sum passed the threshold."""
    since: int
    """Where it last left zero before that: the estimate of when the change began."""


def turning_point(p0: float, p1: float) -> float:
    """k, see the module; between p0 and p1, which lie between 0 and 1."""
    up, down = np.log(p1 / p0), np.log((1 - p0) / (1 - p1))
    return float(down / (up + down))


def first_crossing(steps: Floats, h: float) -> Crossing | None:
    """The first alarm of the sums of these steps w (x - k); a missing step (NaN) leaves the sum where it was."""
    walk = np.cumsum(np.nan_to_num(steps))
    s = walk - np.minimum(np.minimum.accumulate(walk), 0.0)
    over = np.flatnonzero(s > h)
    if not len(over):
        return None
    at = int(over[0])
    zeros = np.flatnonzero(s[:at] <= 1e-12)
    return Crossing(at, int(zeros[-1]) + 1 if len(zeros) else 0)


def places(sessions: Ints) -> Ints:
    """For each trajectory, how many of its session there were so far, itself included."""
    order = np.argsort(sessions, kind="stable")
    _, starts, sizes = np.unique(sessions[order], return_index=True, return_counts=True)
    place = np.empty(len(sessions), dtype=np.int64)
    place[order] = np.arange(len(sessions)) - np.repeat(starts, sizes) + 1
    return place


def weights(place: Ints, alike: Floats | float) -> Floats:
    """What the m-th trajectory of a session adds to the number that count, for these correlations within sessions."""
    m = place.astype(np.float64)
    added: Floats = m / (1 + (m - 1) * alike) - (m - 1) / (1 + np.maximum(m - 2, 0.0) * alike)
    return added


def correlation_within(scores: Floats, sessions: Ints) -> float:
    """The mean product of two scores of one session, over the variance; from 0 to 0.9, 0 where there are no pairs."""
    known = ~np.isnan(scores)
    centred, codes = scores[known] - scores[known].mean(), np.unique(sessions[known], return_inverse=True)[1]
    sizes, totals = np.bincount(codes), np.bincount(codes, weights=centred)
    pairs, variance = float((sizes * (sizes - 1.0)).sum()), float((centred**2).sum())
    if pairs == 0 or variance == 0:
        return 0.0
    products = float((totals**2).sum()) - variance
    return min(max(products / pairs / (variance / len(centred)), 0.0), 0.9)


def calibrate(steps: Floats, worst: Floats, sessions: Ints, alike: Floats) -> Floats:
    """Thresholds of all charts, so that at most a share `FALSE_ALARMS` of sequences of `WITHIN` raises any alarm.

    `steps` are sign * (x - k) of the learned trajectories by chart, `worst` the largest step there can be. Sequences
    are drawn from the learned trajectories and one that takes every worst step: one by one, and by whole sessions; the
    larger threshold holds. How far the learned rates themselves may be off is drawn too, once a sequence, normal, with
    the standard error of the mean over sessions. It takes some 75 sessions: of 25 alike inside, 5% of sequences alarm.
    """
    off = _standard_errors(steps, sessions)
    pool = np.nan_to_num(np.vstack([steps, worst]))
    sessions = np.append(sessions, sessions.max(initial=-1) + 1)
    random = np.random.default_rng(SEED)
    alone = random.integers(0, len(pool), (PATHS, WITHIN))
    together, place = _by_session(sessions, random)
    singly = _thresholds(_highest(pool, alone, np.ones_like(alone), alike, off * _normal(random, alike)))
    jointly = _thresholds(_highest(pool, together, place, alike, off * _normal(random, alike)))
    return np.maximum(singly, jointly)


def _normal(random: np.random.Generator, alike: Floats) -> Floats:
    return random.normal(size=(PATHS, len(alike)))


def _highest(pool: Floats, rows: Ints, place: Ints, alike: Floats, off: Floats) -> Floats:
    """The maximum of every chart's sums in every sequence."""
    s, highest = np.zeros(off.shape, dtype=np.float32), np.zeros(off.shape, dtype=np.float32)
    by_place = weights(np.arange(1, place.max() + 1)[:, None], alike).astype(np.float32)
    steps, drifting = pool.astype(np.float32), off.astype(np.float32)
    step, weight = np.empty_like(s), np.empty_like(s)
    for row, count in zip(rows.T.copy(), place.T.copy() - 1, strict=True):
        # Every row is there; with "clip" numpy writes where it is told to, without a copy between.
        np.take(steps, row, axis=0, out=step, mode="clip")
        np.take(by_place, count, axis=0, out=weight, mode="clip")
        step += drifting
        step *= weight
        s += step
        np.maximum(s, 0.0, out=s)
        np.maximum(highest, s, out=highest)
    out: Floats = highest.astype(np.float64)
    return out


def _thresholds(highest: Floats) -> Floats:
    """Each chart's r-th largest maximum, with the largest r at which few enough sequences pass any of them."""
    ordered = np.sort(highest, axis=0)[::-1]
    h: Floats = ordered[0]
    for r in range(1, int(FALSE_ALARMS * PATHS) + 1):
        if np.count_nonzero((highest > ordered[r]).any(axis=1)) > FALSE_ALARMS * PATHS:
            break
        h = ordered[r]
    return h


def _by_session(sessions: Ints, random: np.random.Generator) -> tuple[Ints, Ints]:
    """Sequences of trajectories made of whole sessions drawn with replacement, and each one's place in its session."""
    order = np.argsort(sessions, kind="stable")
    _, starts, sizes = np.unique(sessions[order], return_index=True, return_counts=True)
    wanted = PATHS * WITHIN
    drawn = random.integers(0, len(sizes), int(1.2 * wanted / sizes.mean()) + 1)
    while sizes[drawn].sum() < wanted:
        drawn = np.append(drawn, random.integers(0, len(sizes), len(drawn)))
    lengths = sizes[drawn]
    place = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    rows = order[np.repeat(starts[drawn], lengths) + place]
    shape = (PATHS, WITHIN)
    return rows[:wanted].reshape(shape), place[:wanted].reshape(shape) + 1


def _standard_errors(steps: Floats, sessions: Ints) -> Floats:
    """Of the mean of each column, from sums over sessions."""
    codes = np.unique(sessions, return_inverse=True)[1]
    centred = np.nan_to_num(steps - np.nanmean(steps, axis=0))
    totals = np.stack([np.bincount(codes, weights=column) for column in centred.T], axis=1)
    errors: Floats = np.sqrt((totals**2).sum(axis=0)) / np.count_nonzero(~np.isnan(steps), axis=0)
    return errors
