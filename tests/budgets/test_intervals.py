"""Time that is spent together is spent once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.budgets.numbers.intervals import Spans, last_ended_before, union_seconds

intervals = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(0, 10)), min_size=0, max_size=25)


def test_what_overlaps_counts_once() -> None:
    group = np.array([0, 0, 0, 1])
    start, end = np.array([0.0, 1.0, 5.0, 2.0]), np.array([3.0, 4.0, 6.0, 2.5])
    assert union_seconds(group, start, end, 3) == pytest.approx([5.0, 0.5, 0.0])


@given(intervals)
def test_the_union_is_the_number_of_unit_cells_touched(rows: list[tuple[int, int, int]]) -> None:
    group = np.array([r[0] for r in rows], dtype=np.int64)
    start = np.array([r[1] for r in rows], dtype=float)
    end = start + np.array([r[2] for r in rows], dtype=float)
    cells = [{c for g, s, n in rows if g == k for c in range(s, s + n)} for k in range(4)]
    assert union_seconds(group, start, end, 4) == pytest.approx([len(c) for c in cells], abs=1e-9)


def test_steps_that_do_not_overlap_add_up_without_rounding_of_their_group() -> None:
    start = np.array([0.0, 0.1, 0.3])
    end = np.array([0.1, 0.3, 0.30000001])
    group = np.full(3, 9_999, dtype=np.int64)
    assert union_seconds(group, start, end, 10_000)[9_999] == pytest.approx(0.30000001, abs=1e-12)


@given(intervals, intervals)
def test_what_is_left_free_is_the_number_of_unit_cells_that_no_other_touches(
    rows: list[tuple[int, int, int]], others: list[tuple[int, int, int]]
) -> None:
    def spans(of: list[tuple[int, int, int]]) -> Spans:
        group = np.array([r[0] for r in of], dtype=np.int64)
        start = np.array([r[1] for r in of], dtype=float)
        return Spans(group, start, start + np.array([r[2] for r in of], dtype=float), 4)

    taken = {(g, c) for g, s, n in rows for c in range(s, s + n)}
    free = [sum((g, c) not in taken for c in range(s, s + n)) for g, s, n in others]
    assert spans(rows).left_free_s(spans(others)) == pytest.approx(free, abs=1e-9)


def test_the_step_before_is_the_one_that_ended_last() -> None:
    found = last_ended_before(
        np.array([0, 0, 1]), np.array([0.0, 5.0, 5.0]), np.array([0, 0, 1]), np.array([3.0, 4.0, 6.0])
    )
    assert list(found) == [-1, 1, -1]


def test_nothing_comes_before_where_there_is_nothing() -> None:
    assert list(last_ended_before(np.array([0]), np.array([1.0]), np.zeros(0, dtype=int), np.zeros(0))) == [-1]
