"""The suffix bank: how long trajectories went on from the start of each of their hops.

Everything said about a trajectory that is under way is read from recorded ones that stood at the same visit: from
there on their loops, branches, tools and final answers took what they took, and no model of them is needed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np

from hopbudget.budgets.numbers.quantiles import share_within
from hopbudget.budgets.population import Population
from hopbudget.budgets.profile import Bools, Floats, Ints, Profile

POINTS: Final = 33
"""Times kept of a row: between two of them the share within changes by a 32nd of the row's reach at most."""
MOST_ROWS: Final = 20
LEAST: Final = 30
"""A row holds suffixes of at least this many trajectories; visits that few came to share one."""
WIDEN: Final = 1.25
"""The next row begins at this many times the visit, or at the next visit where that is later."""
MOST: Final = 10_000
"""Of more trajectories than this, so many spread evenly over the finish are looked at."""
DIGITS: Final = 4
"""Significant digits of a time that is kept."""


@dataclass(frozen=True, slots=True)
class Starts:
    """Every hop start of a population, in order of trajectory and time. An array has one entry for each."""

    trajectory: Ints
    """Index into the population."""
    visit: Ints
    """1 for the trajectory's first hop, whatever its name."""
    elapsed_s: Floats
    remaining_s: Floats
    """From this start to the trajectory's finish; +inf if it never came; a lower bound where `censored`."""
    censored: Bools
    left: Ints
    """Hops still to come, this one included."""
    over_s: Floats
    """When this hop and all before it were over; of the last hop, the trajectory's finish."""

    def __len__(self) -> int:
        return len(self.visit)

    def take(self, mask: Bools) -> "Starts":
        """Only these starts; whole trajectories must stay together."""
        return Starts(**{field.name: getattr(self, field.name)[mask] for field in fields(self)})

    def met(self, deadline_s: float) -> Bools:
        """Whose trajectory met the deadline."""
        return ~self.censored & (self.elapsed_s + self.remaining_s <= deadline_s * (1 + 1e-12))

    def known(self, deadline_s: float) -> Bools:
        """Of which that is known: not cut off before the deadline."""
        return ~self.censored | (self.elapsed_s + self.remaining_s >= deadline_s)


def starts(profile: Profile, people: Population) -> Starts:
    """The hop starts of a population; hops that began after what the deadline binds was there are none."""
    hops = profile.hops
    index = np.full(len(profile), -1, dtype=np.int64)
    index[people.rows] = np.arange(len(people.rows))
    trajectory = index[hops.trajectory]
    began = np.maximum(hops.started_s, 0.0)
    ours = np.flatnonzero(trajectory >= 0)
    ours = ours[began[ours] < people.observed_s[trajectory[ours]]]
    ours = ours[np.lexsort((began[ours], trajectory[ours]))]
    trajectory, elapsed = trajectory[ours], began[ours]
    finish = people.finish_s[trajectory]
    count = np.bincount(trajectory, minlength=len(people.rows))
    visit = np.arange(len(ours)) - (np.cumsum(count) - count)[trajectory] + 1
    end = np.minimum(elapsed + np.nan_to_num(hops.duration_s[ours]), people.observed_s[trajectory])
    over = np.where(visit == count[trajectory], finish, _running_max(end, visit))
    return Starts(
        trajectory=trajectory,
        visit=visit,
        elapsed_s=elapsed,
        remaining_s=finish - elapsed,
        censored=people.censored[trajectory],
        left=count[trajectory] - visit + 1,
        over_s=over,
    )


def at_most(people: Population) -> Population:
    """At most `MOST` of a population, spread evenly over the finish."""
    if len(people.rows) <= MOST:
        return people
    order = np.argsort(people.finish_s, kind="stable")
    keep = np.sort(order[np.linspace(0, len(order) - 1, MOST).astype(np.int64)])
    return replace(
        people,
        rows=people.rows[keep],
        finish_s=people.finish_s[keep],
        censored=people.censored[keep],
        observed_s=people.observed_s[keep],
    )


def _running_max(values: Floats, visit: Ints) -> Floats:
    """The largest value so far, begun anew at every visit 1."""
    if not len(values):
        return values
    shift = (np.cumsum(visit == 1) - 1) * (float(values.max()) + 1.0)
    return np.maximum.accumulate(values + shift) - shift


@dataclass(frozen=True, slots=True)
class SuffixBank:
    """The share of suffixes within a time, by visit, kept at `POINTS` times a row and drawn straight between them.

    Off the recorded share by a 32nd of the row's reach at most, at times that are exact to four digits.
    """

    visits: tuple[int, ...]
    """The first visit of each row; the last row goes on for ever."""
    reach: tuple[float, ...]
    """Share of each row's suffixes that fit in the whole deadline."""
    times_s: tuple[tuple[float, ...], ...]
    """The times within which 0, 1/32 ... 32/32 of that share fit; empty where none does."""

    def within(self, visit: Ints, left_s: Floats) -> Floats:
        """P(what remains from the start of this visit fits in `left_s`), for each; 0 where nothing is left."""
        row = np.maximum(np.searchsorted(np.array(self.visits), visit, side="right") - 1, 0)
        share = np.zeros(len(visit))
        for number, (times, reach) in enumerate(zip(self.times_s, self.reach, strict=True)):
            here = row == number
            if times and here.any():
                share[here] = _share(np.array(times), reach, left_s[here])
        return np.where(left_s > 0, share, 0.0)

    def latest_s(self, share: float, deadline_s: float) -> tuple[float, ...]:
        """By row: the latest elapsed time at which P(fits) is still at least `share`; 0 where it never is."""
        latest = []
        for times, reach in zip(self.times_s, self.reach, strict=True):
            need_s = (
                np.interp(share, np.linspace(0.0, reach, len(times)), times) if times and reach >= share else np.inf
            )
            latest.append(max(deadline_s - float(need_s), 0.0))
        return tuple(latest)

    def to_plan(self) -> dict[str, Any]:
        """As plain lists."""
        return {"visits": list(self.visits), "reach": list(self.reach), "remaining_s": [list(t) for t in self.times_s]}

    @classmethod
    def from_plan(cls, table: Mapping[str, Any]) -> "SuffixBank":
        """The bank that `to_plan` wrote."""
        return cls(tuple(table["visits"]), tuple(table["reach"]), tuple(tuple(times) for times in table["remaining_s"]))


def _share(times: Floats, reach: float, left_s: Floats) -> Floats:
    above = np.searchsorted(times, left_s, side="right")
    low = np.clip(above - 1, 0, len(times) - 2)
    gap = times[low + 1] - times[low]
    part = np.divide(left_s - times[low], gap, out=np.zeros(len(left_s)), where=gap > 0)
    share = reach * (low + part) / (len(times) - 1)
    return np.where(above == 0, 0.0, np.where(above == len(times), reach, share))


def learn_bank(found: Starts, deadline_s: float) -> SuffixBank:
    """The bank of these starts: a row for each visit, for several where fewer than `LEAST` trajectories came to it."""
    first = _first_visits(found)
    row = np.searchsorted(np.array(first), found.visit, side="right") - 1
    reach, times = [], []
    for number in range(len(first)):
        here = row == number
        share, points = _points(found.remaining_s[here], found.censored[here], deadline_s)
        reach.append(share)
        times.append(points)
    return SuffixBank(tuple(first), tuple(reach), tuple(times))


def _first_visits(found: Starts) -> list[int]:
    came = np.bincount(
        found.visit, minlength=2
    )  # one start a trajectory and visit, so: trajectories that came this far
    first = [1]
    while len(first) < MOST_ROWS:
        following = max(first[-1] + 1, int(np.ceil(first[-1] * WIDEN)))
        if following >= len(came) or came[following] < LEAST:
            break
        first.append(following)
    return first


def _points(remaining_s: Floats, censored: Bools, deadline_s: float) -> tuple[float, tuple[float, ...]]:
    events = np.unique(remaining_s[~censored & (remaining_s <= deadline_s)])
    if not len(events):
        return 0.0, ()
    share = share_within(events, remaining_s, censored)
    reach = round(float(share[-1]), 6)
    levels = np.linspace(0.0, float(share[-1]), POINTS)
    points = events[np.minimum(np.searchsorted(share, levels - 1e-12), len(events) - 1)]
    return reach, tuple(significant(points).tolist())


def significant(values: Floats, digits: int = DIGITS) -> Floats:
    """Rounded to so many significant digits; the order stays."""
    return np.array([float(f"{value:.{digits}g}") for value in values], dtype=np.float64)
