"""How many more hops fit in what is left of a deadline.

The time that m further hops take is read off all runs of m hops in a row: from the start of the first to the moment
when all of them were over, work between them included; the last hop of a trajectory is over when the trajectory is.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hopbudget.budgets.allocation import Binds
from hopbudget.budgets.numbers.quantiles import attained
from hopbudget.budgets.population import population
from hopbudget.budgets.profile import Floats, Ints, Profile
from hopbudget.budgets.run_time.suffix import Starts, at_most, significant, starts

LEVELS: Final = (0.5, 0.8, 0.9, 0.95)
MOST_COUNTS: Final = 24
WIDEN: Final = 1.15
"""Past a few, the next number of hops that is kept is this much larger."""
LEAST: Final = 10
"""Runs of m hops are looked at where at least so many trajectories have one."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Within how many seconds so many hops in a row were over, by level."""

    deadline_s: float
    at: tuple[float, ...]
    """The levels, ascending."""
    hops: tuple[int, ...]
    """The numbers of hops, ascending from 1."""
    within_s: tuple[tuple[float, ...], ...]
    """By level and number of hops, never falling; shorter where failures put the level out of reach."""

    def left(self, elapsed_s: float, at: float = 0.9) -> int | None:
        """The most hops that fit in what is left, `at` of the time; None for a level above those kept.

        A level between those kept is rounded up, a number of hops between those kept down. It is never more than the
        longest run of hops that was seen often enough.
        """
        level = bisect_left(self.at, at - 1e-9)
        if level == len(self.at):
            return None
        fit = bisect_right(self.within_s[level], self.deadline_s - elapsed_s)
        return self.hops[fit - 1] if fit else 0

    def to_plan(self) -> dict[str, Any]:
        """The plan's `[steps]`."""
        return {"at": list(self.at), "hops": list(self.hops), "within_s": [list(row) for row in self.within_s]}

    @classmethod
    def from_plan(cls, table: Mapping[str, Any], deadline_s: float) -> "Steps":
        """The steps that `to_plan` wrote."""
        return cls(deadline_s, tuple(table["at"]), tuple(table["hops"]), tuple(map(tuple, table["within_s"])))


def learn(profile: Profile, deadline_s: float, p: float = 0.9, binds: Binds = "last") -> Steps | None:
    """How many hops fit, at the usual levels and at p; None where too few trajectories have a hop."""
    found = starts(profile, at_most(population(profile, binds)))
    came = np.bincount(found.visit, minlength=2)
    counts = _counts(int(np.count_nonzero(came >= LEAST)))
    if not counts:
        return None
    levels = tuple(sorted({*LEVELS, p}))
    table = np.empty((len(levels), len(counts)))
    for column, count in enumerate(counts):
        seconds, first = run_times(found, count)
        censored = found.censored[first] & (found.left[first] == count)
        table[:, column] = [attained(seconds, censored, level) for level in levels]
    table = np.maximum.accumulate(table, axis=1)
    return Steps(
        deadline_s=deadline_s,
        at=levels,
        hops=tuple(counts),
        within_s=tuple(tuple(significant(row[np.isfinite(row)]).tolist()) for row in table),
    )


def run_times(found: Starts, count: int) -> tuple[Floats, Ints]:
    """The seconds of every run of so many hops in a row, and the index of each run's first hop."""
    first = np.flatnonzero(found.left >= count)
    return found.over_s[first + count - 1] - found.elapsed_s[first], first


def evaluate(
    train: Profile, test: Profile, deadline_s: float, p: float = 0.9, *, binds: Binds = "last"
) -> dict[str, Any]:
    """Whether as many hops fitted as a plan learned on `train` says, a row a hop start of `test` before the deadline.

    Rows are those that can show it wrong: at least one hop was said to fit, and at least as many as said came.
    `trajectory` (index into `test`), `visit`, `steps` (said) and `right` (they were over by the deadline).
    """
    people = population(test, binds)
    found = starts(test, people)
    learned = learn(train, deadline_s, p, binds)
    rows = np.flatnonzero(found.elapsed_s < deadline_s) if learned else np.empty(0, dtype=np.int64)
    said = np.array([(learned.left(elapsed, p) or 0) if learned else 0 for elapsed in found.elapsed_s[rows]], np.int64)
    shown = (said > 0) & (said <= found.left[rows]) & ~(found.censored[rows] & (said == found.left[rows]))
    rows, said = rows[shown], said[shown]
    return {
        "trajectory": people.rows[found.trajectory[rows]],
        "visit": found.visit[rows],
        "steps": said,
        "right": (found.over_s[rows + said - 1] <= deadline_s).astype(np.float64),
    }


def _counts(longest: int) -> list[int]:
    counts: list[int] = []
    following = 1
    while following <= longest and len(counts) < MOST_COUNTS:
        counts.append(following)
        following = max(following + 1, int(following * WIDEN))
    return counts
