"""Sums of time over intervals, held against counting points one by one."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from hopbudget.store.intervals import Interval, clip, length, union

Intervals = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda pair: (min(pair), max(pair))))


def points(intervals: list[Interval]) -> set[int]:
    return {point for start, end in intervals for point in range(start, end)}


@given(Intervals)
def test_the_length_is_the_number_of_points_covered(intervals: list[Interval]) -> None:
    assert length(intervals) == len(points(intervals))


@given(Intervals)
def test_the_union_covers_the_same_points_without_overlap(intervals: list[Interval]) -> None:
    merged = union(intervals)
    assert points(merged) == points(intervals)
    assert all(a[1] < b[0] for a, b in itertools.pairwise(merged))


@given(Intervals, st.integers(0, 40), st.integers(0, 40))
def test_clipping_keeps_the_points_inside(intervals: list[Interval], start: int, end: int) -> None:
    assert points(clip(intervals, start, end)) == {point for point in points(intervals) if start <= point < end}


def test_neighbours_that_overlap_by_noise_only_do_not_overlap() -> None:
    assert length([(0, 10), (9, 20)], noise=1) == 21
    assert length([(0, 10), (8, 20)], noise=1) == 20
    assert length([(0, 10), (9, 10)], noise=1) == 10
