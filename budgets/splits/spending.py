"""How one trajectory spent the budgets of a plan: which slot each step draws on, and where its budget ran out.

Slots are named by `budgets`; here a stored step finds its slot by that name. Seconds count from the trajectory's start.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hopbudget.budgets.allocation import Allocation, SlotKind

WORK: Final = "work"
STREAM: Final = "final stream"
_SLACK_S: Final = 1e-6

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Step:
    """One hop or work of a trajectory."""

    name: str
    visit: int
    work: bool
    final: bool
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Spent:
    """What one slot took in one trajectory; time side by side counts once."""

    slot: str
    budget_s: float
    spent_s: float
    out_at_s: float | None
    """When its budget was used up; None where it never was."""


def steps(hops: Sequence[Mapping[str, Any]], works: Sequence[Mapping[str, Any]]) -> list[Step]:
    """The stored rows of a trajectory as steps, in order of time."""
    return sorted([*map(hop_step, hops), *map(work_step, works)], key=lambda step: (step.start_s, step.end_s))


def hop_step(row: Mapping[str, Any]) -> Step:
    """A row of `hops`."""
    final = bool(row["final"] and row["streamed"])
    return Step(row["hop"], row["visit"], False, final, row["start_s"], row["start_s"] + row["duration_s"])


def work_step(row: Mapping[str, Any]) -> Step:
    """A row of `works`."""
    return Step(row["work"], 1, True, False, row["start_s"], row["start_s"] + row["duration_s"])


def slot_of(step: Step, before: str, allocation: Allocation) -> str | None:
    """The slot that a step draws on; None where the plan has none for it. `before` names the step that ended last."""
    if step.work:
        return WORK if allocation.work is not None else None
    if step.final and allocation.stream is not None:
        return STREAM
    slots = [slot.slot for slot in allocation.slots]
    for word in _labels(step, before, allocation.slot_kind, slots):
        for slot in slots:
            if word == slot or f"+{word}+" in f"+{slot}+":
                return slot
    return None


def _labels(step: Step, before: str, kind: SlotKind, slots: Sequence[str]) -> Iterable[str]:
    """What `budgets` may have called it: visits and predecessors that are rare share a name."""
    if kind == "name":
        yield step.name
    elif kind == "before":
        yield f"{step.name} after {before}"
        yield f"{step.name} after other"
    else:
        yield f"{step.name} #{step.visit}"
        for visit in range(step.visit, 0, -1):
            yield f"{step.name} #{visit}+"


def slots_of(ordered: Sequence[Step], allocation: Allocation) -> list[str | None]:
    """The slot of each step of a trajectory, in their order."""
    by_predecessor = allocation.slot_kind == "before"
    return [slot_of(step, _before(step, ordered) if by_predecessor else "", allocation) for step in ordered]


def _before(step: Step, ordered: Sequence[Step]) -> str:
    ended = [other for other in ordered if other.end_s <= step.start_s + _SLACK_S and other is not step]
    return max(ended, key=lambda other: other.end_s).name if ended else "start"


def spending(
    ordered: Sequence[Step], slots: Sequence[str | None], allocation: Allocation, until_s: float
) -> list[Spent]:
    """What each part of the plan took up to `until_s`, in the plan's order."""
    by_slot: dict[str, list[Interval]] = {}
    for step, slot in zip(ordered, slots, strict=True):
        if slot is not None and not step.work:
            by_slot.setdefault(slot, []).append((step.start_s, step.end_s))
    budgets = {slot.slot: slot.budget_s for slot in allocation.slots}
    if allocation.work is not None:
        budgets[WORK] = allocation.work.budget_s
        busy = union(((step.start_s, step.end_s) for step in ordered if not step.work), until_s)
        by_slot[WORK] = gaps(busy, until_s)
    if allocation.stream is not None:
        budgets[STREAM] = allocation.stream.budget_s
    return [_spent(slot, budget_s, union(by_slot.get(slot, ()), until_s)) for slot, budget_s in budgets.items()]


def _spent(slot: str, budget_s: float, intervals: Sequence[Interval]) -> Spent:
    spent, out_at = 0.0, None
    for start, end in intervals:
        if out_at is None and spent + (end - start) > budget_s + _SLACK_S:
            out_at = start + (budget_s - spent)
        spent += end - start
    return Spent(slot, budget_s, spent, out_at)


def union(intervals: Iterable[Interval], until_s: float) -> list[Interval]:
    """The intervals, clipped to 0 and `until_s`, joined where they touch, in order."""
    joined: list[Interval] = []
    for start, end in sorted((max(start, 0.0), min(end, until_s)) for start, end in intervals):
        if end <= start:
            continue
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def gaps(busy: Sequence[Interval], until_s: float) -> list[Interval]:
    """What the ordered, disjoint intervals leave free between 0 and `until_s`."""
    edges = [0.0, *(edge for interval in busy for edge in interval), until_s]
    return [(start, end) for start, end in zip(edges[::2], edges[1::2], strict=True) if end > start]
