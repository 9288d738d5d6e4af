"""Two sets of trajectories side by side: every figure of both, their difference, and its interval.

The interval is that of a bootstrap over clusters (Efron and Tibshirani 1993), wider for few (`paired.widened`): whole
sessions, drawn for each side by itself; or, where trajectories of both sides share tasks, whole tasks, drawn for
both sides together, so that what is hard for both does not widen the difference. Quantiles are plain:
linear-interpolated over `ok` and `truncated`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from hopbudget.budgets.groups.sessions import sessions
from hopbudget.budgets.numbers.paired import widened
from hopbudget.budgets.numbers.quantiles import FINISHED, NEVER, among
from hopbudget.budgets.profile import Bools, Floats, Ints, Profile, Words

Statistic = Literal["p50", "p90", "mean", "share"]
Metric = Literal["trajectory_s", "answer_start_s", "steps", "work_s", "failed", "hop_s", "ttft_s", "tpot_s", "tokens"]

DRAWS: Final = 1000
SEED: Final = 20_261
FEWEST: Final = 5
"""A figure with fewer observations, or fewer clusters, on either side has no interval."""
_QUANTILES: Final[tuple[Statistic, ...]] = ("p50", "p90")
_WEIGHTS: Final = 4_000_000
"""So many weights are drawn at a time at most."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure on both sides."""

    metric: Metric
    statistic: Statistic
    hop: str
    """"" for figures of whole trajectories."""
    this: float
    other: float
    difference: float
    """This minus other."""
    low: float
    high: float
    """NaN where there is too little for an interval."""
    n_this: int
    n_other: int

    @property
    def beyond(self) -> bool:
        """The interval does not hold 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every figure that both sides have."""

    differences: tuple[Difference, ...]
    paired: bool
    clusters_this: int
    clusters_other: int
    """Sessions of each side; where paired, the tasks that both have."""
    left_out_this: int
    left_out_other: int
    """Trajectories whose task the other side does not have, or that have none."""
    by_chunks_this: int
    by_chunks_other: int
    """Hops whose N was counted in chunks: they are in no TPOT and in no tokens."""

    @property
    def beyond(self) -> tuple[Difference, ...]:
        """The differences beyond their interval."""
        return tuple(found for found in self.differences if found.beyond)

    @property
    def compared(self) -> int:
        """How many figures have an interval."""
        return sum(not math.isnan(found.low) for found in self.differences)


@dataclass(frozen=True, slots=True)
class _Values:
    metric: Metric
    statistic: Statistic
    hop: str
    values: Floats
    trajectory: Ints


def compare(this: Profile, other: Profile, tasks: tuple[Words, Words] | None = None) -> Comparison:
    """Compare complete trajectories of both. `tasks` names the task of each row on both sides, "" for none."""
    sides = [_complete(this), _complete(other)]
    kept: list[Ints] = [np.flatnonzero(rows) for rows in sides]
    if tasks is None:
        clusters = [sessions(profile)[rows] for profile, rows in zip((this, other), kept, strict=True)]
    else:
        words = [np.array([str(word) for word in of_side]) for of_side in tasks]
        shared = np.intersect1d(words[0][sides[0]], words[1][sides[1]])
        shared = shared[shared != ""]
        kept = [np.flatnonzero(rows & np.isin(word, shared)) for rows, word in zip(sides, words, strict=True)]
        clusters = [np.searchsorted(shared, word[rows]) for word, rows in zip(words, kept, strict=True)]
    profiles = (this.take(kept[0]), other.take(kept[1]))
    codes = [np.unique(code, return_inverse=True)[1].astype(np.int64) for code in clusters]
    return Comparison(
        differences=tuple(_differences(profiles, (codes[0], codes[1]), together=tasks is not None)),
        paired=tasks is not None,
        clusters_this=_number(codes[0]),
        clusters_other=_number(codes[1]),
        left_out_this=int(np.count_nonzero(sides[0])) - len(kept[0]),
        left_out_other=int(np.count_nonzero(sides[1])) - len(kept[1]),
        by_chunks_this=_by_chunks(profiles[0]),
        by_chunks_other=_by_chunks(profiles[1]),
    )


def _complete(profile: Profile) -> Bools:
    t = profile.trajectories
    return t.complete & ~np.isnan(t.duration_s)


def _number(code: Ints) -> int:
    return int(code.max()) + 1 if len(code) else 0


def _by_chunks(profile: Profile) -> int:
    hops = profile.hops
    return int(np.count_nonzero(hops.n_is_chunks & among(hops.outcome, FINISHED)))


def _differences(
    profiles: tuple[Profile, Profile], clusters: tuple[Ints, Ints], *, together: bool
) -> Iterator[Difference]:
    drawn = _Draws(clusters, together)
    ours = {(found.metric, found.statistic, found.hop): found for found in _figures(profiles[0])}
    for theirs in _figures(profiles[1]):
        mine = ours.get((theirs.metric, theirs.statistic, theirs.hop))
        if mine is None:
            continue
        a, b = (_figure(side, np.ones((1, len(side.values))))[0] for side in (mine, theirs))
        low = high = math.nan
        if min(len(mine.values), len(theirs.values), *map(_number, clusters)) >= FEWEST:
            low, high = drawn.interval(mine, theirs, a - b)
        yield Difference(
            mine.metric, mine.statistic, mine.hop, a, b, a - b, low, high, len(mine.values), len(theirs.values)
        )


class _Draws:
    """How often each cluster is drawn, the same draws for every figure."""

    def __init__(self, clusters: tuple[Ints, Ints], together: bool) -> None:
        random = np.random.default_rng(SEED)
        numbers = [_number(code) for code in clusters]
        self._clusters = clusters
        self._times: list[Ints] = []
        for n in numbers if not together else numbers[:1]:
            self._times.append(random.multinomial(n, np.full(n, 1 / n), size=DRAWS) if n else np.zeros((DRAWS, 0), int))
        if together:
            self._times.append(self._times[0])

    def interval(self, mine: _Values, theirs: _Values, difference: float) -> tuple[float, float]:
        """The 95% interval of the difference of the figure."""
        a, b = (self._drawn(side, found) for side, found in enumerate((mine, theirs)))
        differences = a - b
        differences = differences[~np.isnan(differences)]
        if len(differences) < DRAWS / 2:
            return math.nan, math.nan
        drawn = (len(np.unique(code[of.trajectory])) for code, of in zip(self._clusters, (mine, theirs), strict=True))
        low, high = np.quantile(differences, [0.025, 0.975])
        return widened(difference, low, high, clusters=min(drawn))

    def _drawn(self, side: int, found: _Values) -> Floats:
        cluster = self._clusters[side][found.trajectory]
        at_once = max(1, _WEIGHTS // max(len(cluster), 1))
        parts = [
            _figure(found, self._times[side][first : first + at_once][:, cluster].astype(np.float64))
            for first in range(0, DRAWS, at_once)
        ]
        return np.concatenate(parts)


def _figure(found: _Values, times: Floats) -> Floats:
    """The figure of each draw (a row of how often each value is in it); NaN of a draw without any."""
    total = times.sum(axis=1)
    if found.statistic in ("mean", "share"):
        means: Floats = np.divide(times @ found.values, total, out=np.full(len(total), np.nan), where=total > 0)
        return means
    p = {"p50": 0.5, "p90": 0.9}[found.statistic]
    order = np.argsort(found.values, kind="stable")
    ordered = found.values[order]
    upto = np.cumsum(times[:, order], axis=1)
    made = np.full(len(total), np.nan)
    for row in np.flatnonzero(total > 0):
        # As numpy's linear quantile of the sample in which each value stands as often as it was drawn.
        place = (total[row] - 1) * p
        below, above = math.floor(place), math.ceil(place)
        first, second = np.searchsorted(upto[row], [below, above], side="right")
        made[row] = ordered[first] + (place - below) * (ordered[second] - ordered[first])
    return made


def _figures(profile: Profile) -> Iterator[_Values]:
    t, hops = profile.trajectories, profile.hops
    rows = np.arange(len(profile))
    well = among(t.outcome, FINISHED)
    of_trajectories: tuple[tuple[Metric, Floats], ...] = (
        ("trajectory_s", t.duration_s),
        ("answer_start_s", t.answer_start_s),
    )
    for metric, values in of_trajectories:
        yield from _two(metric, "", values, well, rows)
    count = np.bincount(hops.trajectory, minlength=len(profile)).astype(np.float64)
    yield _Values("steps", "mean", "", count, rows)
    known = ~np.isnan(t.work_s)
    yield _Values("work_s", "mean", "", t.work_s[known], rows[known])
    yield _Values("failed", "share", "", among(t.outcome, NEVER).astype(np.float64), rows)
    came = among(hops.outcome, FINISHED)
    of_hops: tuple[tuple[Metric, Floats], ...] = (
        ("hop_s", hops.duration_s),
        ("ttft_s", hops.ttft_s),
        ("tpot_s", np.where(hops.n_is_chunks, np.nan, hops.tpot_s)),
    )
    tokens = np.where(hops.n_is_chunks, np.nan, hops.output_tokens)
    for name in sorted({str(hop) for hop in hops.hop}):
        mine = hops.hop == name
        for metric, values in of_hops:
            yield from _two(metric, name, values, mine & came, hops.trajectory)
        counted = mine & came & ~np.isnan(tokens)
        if counted.any():
            yield _Values("tokens", "mean", name, tokens[counted], hops.trajectory[counted])


def _two(metric: Metric, hop: str, values: Floats, chosen: Bools, trajectory: Ints) -> Iterator[_Values]:
    usable = chosen & ~np.isnan(values)
    if usable.any():
        for statistic in _QUANTILES:
            yield _Values(metric, statistic, hop, values[usable], trajectory[usable])
