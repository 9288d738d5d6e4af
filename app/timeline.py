"""One trajectory as lines over time: each hop and work, in parts, with what it took beyond its slot's budget."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hopbudget.app import look
from hopbudget.budgets import Allocation
from hopbudget.budgets.numbers.quantiles import FINISHED
from hopbudget.budgets.splits.spending import Spent, Step, hop_step, slots_of, spending, work_step
from hopbudget.store.waiting import never_began

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of one colour; seconds from the trajectory's start."""

    kind: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Line:
    """One hop or work."""

    label: str
    parts: tuple[Part, ...]
    slot: str | None
    over_from_s: float | None
    """From here to its end it ran past its slot's budget."""
    over_s: float | None
    """By how much its slot's budget was passed in all: on the slot's last line."""
    room_until_s: float | None
    """Where its slot's budget would have ended: on the last line of each slot that kept it."""
    outcome: str
    row: Row
    """The stored row."""

    @property
    def start_s(self) -> float:
        """Where it starts."""
        return self.parts[0].start_s

    @property
    def end_s(self) -> float:
        """Where it ends."""
        return self.parts[-1].end_s

    @property
    def duration_s(self) -> float:
        """How long it took."""
        return self.end_s - self.start_s

    @property
    def well(self) -> bool:
        """Whether it came to its end; where that is not known, nothing says otherwise."""
        return not self.outcome or self.outcome in FINISHED


@dataclass(frozen=True, slots=True)
class Timeline:
    """A trajectory's lines in order of time, and what each part of the plan took."""

    lines: tuple[Line, ...]
    spent: tuple[Spent, ...]
    total_s: float


def timeline(trajectory: Row, hops: Sequence[Row], works: Sequence[Row], allocation: Allocation | None) -> Timeline:
    """The lines of one stored trajectory, under a plan if there is one."""
    total_s = float(trajectory["duration_s"])
    rows = [*((hop_step(row), row) for row in hops), *((work_step(row), row) for row in works)]
    rows.sort(key=lambda item: (item[0].start_s, item[0].end_s))
    ordered = [step for step, _ in rows]
    slots: Sequence[str | None] = [None] * len(rows)
    spent: list[Spent] = []
    if allocation is not None:
        until_s = total_s if allocation.binds == "last" else trajectory["answer_start_s"] or total_s
        slots = slots_of(ordered, allocation)
        spent = spending(ordered, slots, allocation, until_s)
    most = _most_visits(ordered)
    last = {slot: index for index, slot in enumerate(slots) if slot is not None}
    by_slot = {found.slot: found for found in spent}
    lines = []
    for index, ((step, row), slot) in enumerate(zip(rows, slots, strict=True)):
        of_slot = by_slot.get(slot) if slot is not None else None
        at_end = slot is not None and last[slot] == index
        lines.append(_line(step, row, slot, of_slot, numbered=most[step.name] > 1, last=at_end))
    return Timeline(tuple(lines), tuple(spent), total_s)


def _most_visits(ordered: Sequence[Step]) -> dict[str, int]:
    most: dict[str, int] = {}
    for step in ordered:
        most[step.name] = max(most.get(step.name, 1), step.visit)
    return most


def _line(step: Step, row: Row, slot: str | None, spent: Spent | None, *, numbered: bool, last: bool) -> Line:
    over_from = over = room = None
    if spent is not None and spent.out_at_s is not None and spent.out_at_s < step.end_s:
        over_from = max(spent.out_at_s, step.start_s)
        over = spent.spent_s - spent.budget_s if last else None
    elif spent is not None and spent.out_at_s is None and last and not step.work:
        room = step.end_s + spent.budget_s - spent.spent_s
    return Line(
        label=f"{step.name} #{step.visit}" if numbered and not step.work else step.name,
        parts=_parts(step, row),
        slot=slot,
        over_from_s=over_from,
        over_s=over,
        room_until_s=room,
        outcome=row["outcome"] or "",
        row=row,
    )


def _parts(step: Step, row: Row) -> tuple[Part, ...]:
    if step.work:
        return (Part(look.WORKING, step.start_s, step.end_s),)
    if never_began(row):
        return (Part(look.NO_FIRST, step.start_s, step.end_s),)
    first = row["ttft_s"]
    if first is None or math.isnan(first) or first > step.end_s - step.start_s:
        return (Part(look.HOP, step.start_s, step.end_s),)
    edge = step.start_s + first
    return (Part(look.FIRST, step.start_s, edge), Part(look.WRITE, edge, step.end_s))


def longest(drawn: Sequence[Line], most: int) -> list[Line]:
    """The `most` longest lines, in their order; what did not come well is kept first."""
    ranked = sorted(range(len(drawn)), key=lambda i: (drawn[i].well, -drawn[i].duration_s))
    return [drawn[i] for i in sorted(ranked[:most])]
