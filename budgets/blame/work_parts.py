"""What the time outside hops went to: tools, and time in which neither a hop nor a tool was running.

    tools            in which work was running and no hop; pieces side by side share it in proportion
    between_steps    in no hop and no work, until the last hop ended
    after_last_hop   in no hop and no work, from there to the trajectory's end

They add up to the trajectory's work time. A hop ends with its last token: what its stream takes to close, and what an
agent does after its answer, is `after_last_hop`. In a trajectory without hops all idle time is `between_steps`.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from hopbudget.budgets.numbers.intervals import Spans
from hopbudget.budgets.profile import Floats, Hops, Profile, Works
from hopbudget.budgets.splits.labels import encode

_EPS_S: Final = 1e-6
"""Less idle time than this is the clocks' rounding."""


@dataclass(frozen=True, slots=True)
class WorkParts:
    """Seconds by trajectory (row)."""

    names: tuple[str, ...]
    """Of works: the columns of `tools` and `calls`."""
    tools: Floats
    calls: Floats
    """How many pieces of work there were."""
    between_steps: Floats
    after_last_hop: Floats


def split(profile: Profile, work_s: Floats) -> WorkParts:
    """The parts of each trajectory's work time."""
    rows = len(profile)
    hops, works = _spans(profile, profile.hops), _spans(profile, profile.works)
    busy = _together(hops, works)
    busy_s = busy.covered_s()
    labels = encode([str(name) for name in profile.works.work])
    cell = works.trajectory * len(labels.names) + labels.code

    def summed(values: Floats) -> Floats:
        sums = np.bincount(cell, weights=values, minlength=rows * len(labels.names))
        return sums.astype(np.float64).reshape(rows, len(labels.names))

    named = summed(hops.left_free_s(works))
    total = named.sum(axis=1)
    covered = np.clip(busy_s - hops.covered_s(), 0.0, work_s)
    covered = np.where(total <= 0, 0.0, np.where(work_s - covered < _EPS_S, work_s, covered))
    idle = work_s - covered
    after = np.clip(_together(busy, _after_the_last(profile, hops)).covered_s() - busy_s, 0.0, idle)
    return WorkParts(
        names=labels.names,
        tools=named * (covered / np.where(total > 0, total, 1.0))[:, None],
        calls=summed(np.ones(len(cell))),
        between_steps=idle - after,
        after_last_hop=after,
    )


def _spans(profile: Profile, steps: Hops | Works) -> Spans:
    """The intervals of hops or works, cut to their trajectory."""
    end_s = np.nan_to_num(profile.trajectories.duration_s)[steps.trajectory]
    start = np.clip(np.nan_to_num(steps.started_s), 0.0, end_s)
    end = np.clip(np.nan_to_num(steps.started_s) + np.nan_to_num(steps.duration_s), start, end_s)
    return Spans(steps.trajectory, start, end, len(profile))


def _after_the_last(profile: Profile, hops: Spans) -> Spans:
    last = np.full(len(profile), -1.0)
    np.maximum.at(last, hops.trajectory, hops.end_s)
    rows = np.flatnonzero(last >= 0)
    return Spans(rows, last[rows], np.nan_to_num(profile.trajectories.duration_s)[rows], len(profile))


def _together(one: Spans, other: Spans) -> Spans:
    return Spans(
        np.concatenate([one.trajectory, other.trajectory]),
        np.concatenate([one.start_s, other.start_s]),
        np.concatenate([one.end_s, other.end_s]),
        one.rows,
    )
