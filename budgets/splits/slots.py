"""From a profile to seconds by slot: how long each trajectory spent in each place of the agent.

A slot is the hops of one name (`name`), of one name after one kind of step (`before`), or of one name and visit
number (`visit`). Its seconds in a trajectory are the union of its hops' intervals. Places that run side by side
become one stage, because seconds spent together are spent once. The final stream and work stand beside the slots.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from hopbudget.budgets.allocation import SlotKind
from hopbudget.budgets.numbers.intervals import Spans
from hopbudget.budgets.numbers.quantiles import NEVER, among
from hopbudget.budgets.population import Population
from hopbudget.budgets.profile import Bools, Floats, Ints, Profile
from hopbudget.budgets.splits.labels import hop_labels, merge_overlapping

WORK_SHARE: Final = 0.05
"""Work gets seconds of its own where it takes more than this share of all time."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds by trajectory (row) and place (column): the slots, then work and the stream if there are any."""

    names: tuple[str, ...]
    slots: int
    """How many of the columns are slots."""
    work: int | None
    """The column of work, and of the stream."""
    stream: int | None
    seconds: Floats
    """0 where the place was not visited, +inf where it never came to its end."""
    censored: Bools
    """Where `seconds` is only a lower bound."""
    timed_out: Bools
    """Where that is so because a hop there ran into a time-out."""
    visits: Ints
    finish_s: Floats
    """When the trajectory finished, by row, with `finish_censored` as in `Population`."""
    finish_censored: Bools
    weight: Floats | None = None
    """How much each trajectory counts, by row; None where all count the same."""

    def take(self, rows: Ints) -> "Times":
        """The same places with only these trajectories."""
        return replace(
            self,
            seconds=self.seconds[rows],
            censored=self.censored[rows],
            timed_out=self.timed_out[rows],
            visits=self.visits[rows],
            finish_s=self.finish_s[rows],
            finish_censored=self.finish_censored[rows],
            weight=None if self.weight is None else self.weight[rows],
        )

    def place(self, column: int) -> tuple[Floats, Bools]:
        """One column: its seconds, and which of them are lower bounds."""
        return self.seconds[:, column], self.censored[:, column]

    @property
    def reserves(self) -> list[int]:
        """The columns that are no slots."""
        return [column for column in (self.work, self.stream) if column is not None]


def slot_times(profile: Profile, people: Population, kind: SlotKind, finals: Bools) -> Times:
    """The seconds of `people` by slot of this kind; `finals` masks the hops that leave the slots for the stream."""
    part = profile.take(people.rows)
    final = finals[np.isin(profile.hops.trajectory, people.rows)]
    spans, inside = _spans(part, people)
    slotted = np.flatnonzero(~final & inside)
    labels = merge_overlapping(hop_labels(part, slotted, kind), spans.take(slotted))
    place = np.full(len(final), -1, dtype=np.int64)
    place[slotted] = labels.code
    slots = len(labels.names)
    has_stream = bool(final.any())
    place[final & inside] = slots
    seconds = spans.covered_by_s(place, slots + has_stream)
    marks = _marks(part, people, place, slots + has_stream)

    work_s = _work(part, people, spans)
    has_work = _work_matters(people, work_s, alone=slots + has_stream == 0)
    if has_work:
        failed_in_work = np.isinf(people.finish_s) & ~marks.failed.any(axis=1)
        seconds = np.insert(seconds, slots, work_s, axis=1)
        marks = marks.insert(slots, failed_in_work, work_s > 0)
    # What had not come to its end might have gone on anywhere: there every place is a lower bound.
    finished = np.isfinite(people.finish_s) & ~people.censored
    return Times(
        names=(*labels.names, *(("work",) if has_work else ()), *(("stream",) if has_stream else ())),
        slots=slots,
        work=slots if has_work else None,
        stream=slots + has_work if has_stream else None,
        seconds=np.where(marks.failed, np.inf, seconds),
        censored=(marks.timed_out | ~finished[:, None]) & ~marks.failed,
        timed_out=marks.timed_out,
        visits=marks.visits,
        finish_s=people.finish_s,
        finish_censored=people.censored,
        weight=people.weight,
    )


def _spans(part: Profile, people: Population) -> tuple[Spans, Bools]:
    """The hops' intervals, cut to what was observed of their trajectory; and which of them lie in it at all."""
    hops = part.hops
    limit = people.observed_s[hops.trajectory]
    start_s = np.clip(hops.started_s, 0.0, limit)
    end_s = np.clip(hops.started_s + np.nan_to_num(hops.duration_s), start_s, limit)
    return Spans(hops.trajectory, start_s, end_s, len(people.rows)), hops.started_s < limit


def _work(part: Profile, people: Population, spans: Spans) -> Floats:
    """Observed time minus the union of hops; the recorded figure where the whole trajectory is looked at."""
    whole = people.observed_s == part.trajectories.duration_s
    recorded = part.trajectories.work_s
    rest = np.maximum(people.observed_s - spans.covered_s(), 0.0)
    return np.where(whole & ~np.isnan(recorded), recorded, rest)


def _work_matters(people: Population, work_s: Floats, *, alone: bool) -> bool:
    finished = np.isfinite(people.finish_s) & ~people.censored
    return alone or float(work_s[finished].sum()) > WORK_SHARE * float(people.observed_s[finished].sum())


@dataclass(frozen=True, slots=True)
class _Marks:
    """By trajectory and place: where the trajectory broke, where a time-out struck, and the number of hops."""

    failed: Bools
    timed_out: Bools
    visits: Ints

    def insert(self, column: int, failed: Bools, visited: Bools) -> "_Marks":
        """With one more place, in which nothing times out."""
        return _Marks(
            np.insert(self.failed, column, failed, axis=1),
            np.insert(self.timed_out, column, False, axis=1),
            np.insert(self.visits, column, visited, axis=1),
        )


def _marks(part: Profile, people: Population, place: Ints, columns: int) -> _Marks:
    hops, rows = part.hops, len(people.rows)
    cell = hops.trajectory * columns + place
    used = place >= 0
    visits = np.bincount(cell[used], minlength=rows * columns).reshape(rows, columns)
    never = np.isinf(people.finish_s)[hops.trajectory]
    broke = np.flatnonzero(used & never & among(hops.outcome, NEVER))
    last_break = np.full(rows, -1, dtype=np.int64)
    last_break[hops.trajectory[broke]] = broke  # the later hop overwrites the earlier
    failed = np.zeros((rows, columns), dtype=np.bool_)
    hit = last_break >= 0
    failed[hit, place[last_break[hit]]] = True
    # A time-out after what the deadline binds was there takes nothing back.
    seen_to_end = hops.started_s + hops.duration_s <= people.observed_s[hops.trajectory] + 1e-6
    struck = used & seen_to_end & among(hops.outcome, frozenset({"timed_out"}))
    timed_out = np.zeros(rows * columns, dtype=np.bool_)
    timed_out[cell[struck]] = True
    return _Marks(failed, timed_out.reshape(rows, columns), visits)
