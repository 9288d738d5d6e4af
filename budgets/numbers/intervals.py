"""Unions of time intervals, many groups at a time."""

from dataclasses import dataclass

import numpy as np

from hopbudget.budgets.profile import Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class Spans:
    """Intervals of trajectories 0..rows-1."""

    trajectory: Ints
    start_s: Floats
    end_s: Floats
    rows: int

    def take(self, wanted: Bools | Ints) -> "Spans":
        """Only these intervals, of as many trajectories."""
        return Spans(self.trajectory[wanted], self.start_s[wanted], self.end_s[wanted], self.rows)

    def covered_s(self) -> Floats:
        """By trajectory, the length of the union of its intervals."""
        return union_seconds(self.trajectory, self.start_s, self.end_s, self.rows)

    def covered_by_s(self, code: Ints, columns: int) -> Floats:
        """The same by trajectory (row) and code 0..columns-1 (column); intervals with code -1 count nowhere."""
        used = code >= 0
        cell = self.trajectory[used] * columns + code[used]
        union = union_seconds(cell, self.start_s[used], self.end_s[used], self.rows * columns)
        return union.reshape(self.rows, columns)

    def left_free_s(self, others: "Spans") -> Floats:
        """Of each of these others, the seconds in which none of these intervals of its trajectory was running."""
        length = np.maximum(others.end_s - others.start_s, 0.0)
        if not len(self.trajectory) or not len(length):
            return length
        order = np.lexsort((self.start_s, self.trajectory))
        group, start, end = self.trajectory[order], self.start_s[order], self.end_s[order]
        # As in `union_seconds`, and so that every moment has its place in one row of all groups.
        lift_s = float(max(end.max(), others.end_s.max())) + 1.0
        latest = np.maximum.accumulate(np.maximum(end, start) + lift_s * group)
        begins = np.maximum(start + lift_s * group, np.concatenate([[0.0], latest[:-1]]))
        lengths = latest - begins
        before = np.cumsum(lengths) - lengths

        def covered_until(at_s: Floats) -> Floats:
            moment = at_s + lift_s * others.trajectory
            last = np.searchsorted(begins, moment, side="right") - 1
            within = np.minimum(moment - begins[last], lengths[last])
            until: Floats = np.where(last >= 0, before[last] + within, 0.0)
            return until

        taken = covered_until(others.end_s) - covered_until(others.start_s)
        return np.clip(length - taken, 0.0, length)


def union_seconds(group: Ints, start_s: Floats, end_s: Floats, groups: int) -> Floats:
    """Length of the union of the intervals of each group 0..groups-1; what overlaps counts once.

    Intervals start at 0 or later; one that ends before it starts counts as empty.
    """
    if not len(group):
        return np.zeros(groups)
    order = np.lexsort((start_s, group))
    g, start, end = group[order], start_s[order], np.maximum(end_s, start_s)[order]
    # One running maximum serves all groups, because each is lifted above the one before it.
    lift = g * (float(end.max()) + 1.0)
    latest = np.maximum.accumulate(end + lift)
    seen_until = np.empty_like(latest)
    seen_until[0] = start[0]
    seen_until[1:] = latest[:-1] - lift[1:]
    new = end - np.maximum(start, seen_until)
    # Only a true overlap may carry the lift's rounding into the sum.
    new = np.where(seen_until <= start + 1e-9 * (1.0 + lift), end - start, np.maximum(new, 0.0))
    return np.bincount(g, weights=new, minlength=groups).astype(np.float64)


def last_ended_before(group: Ints, at_s: Floats, item_group: Ints, item_end_s: Floats) -> Ints:
    """For each moment, the index of the item of its group that ended last at or before it; -1 where none did.

    Items that end together count in the order they are given in.
    """
    if not len(item_group):
        return np.full(len(group), -1, dtype=np.int64)
    slack = 1e-6  # starts and ends of neighbours come from the same clock, through different sums
    span = float(max(item_end_s.max(), at_s.max(initial=0.0))) + 1.0
    key = item_group * span + item_end_s
    order = np.argsort(key, kind="stable")
    place = np.searchsorted(key[order], group * span + at_s + slack, side="right") - 1
    found = order[np.maximum(place, 0)]
    return np.where((place >= 0) & (item_group[found] == group), found, -1)
