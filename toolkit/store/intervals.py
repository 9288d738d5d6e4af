"""Sums of time over intervals that may overlap. Exact, in integer nanoseconds."""

from collections.abc import Iterable

Interval = tuple[int, int]
"""Start and end, end not before start."""


def clip(intervals: Iterable[Interval], start: int, end: int) -> list[Interval]:
    """The parts within [start, end]; those that have no length there are left out."""
    return [(max(a, start), min(b, end)) for a, b in intervals if a < end and b > start and a < b]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same points of time as few intervals, sorted, that neither overlap nor touch."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def length(intervals: Iterable[Interval], noise: int = 0) -> int:
    """The time that at least one of them covers; neighbours that overlap by no more than `noise` do not overlap."""
    total = 0
    reached: int | None = None
    for start, end in sorted(intervals):
        if reached is None or (start >= reached - noise and end > reached):
            total += end - start
            reached = end
        elif end > reached:
            total += end - reached
            reached = end
    return total
