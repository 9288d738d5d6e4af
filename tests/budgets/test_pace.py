"""At which pace a reader would have had to wait, and how many meet a deadline."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.budgets import Profile, allocate
from hopbudget.budgets.attainment.spread import gap_spreads
from hopbudget.budgets.feasibility.curve import curve
from hopbudget.budgets.streams.pace import Streams, shares_waiting, waited_s
from hopbudget.budgets.streams.underrun import waited_s as waited_in_one

gaps = st.lists(st.lists(st.floats(0.001, 3.0), min_size=1, max_size=12), min_size=1, max_size=6)


def streams(given_gaps: list[list[float]], tokens: float | None = None) -> Streams:
    return Streams(
        np.concatenate([np.array(each) for each in given_gaps]),
        np.array([len(each) for each in given_gaps]),
        np.array([tokens if tokens is not None else len(each) + 1.0 for each in given_gaps]),
    )


@given(gaps, st.floats(0.5, 100))
def test_the_wait_is_the_one_that_an_objective_of_underrun_counts(given_gaps: list[list[float]], pace: float) -> None:
    found = waited_s(streams(given_gaps), pace)
    expected = [waited_in_one(np.array(each), 1 / pace) for each in given_gaps]
    assert found == pytest.approx(expected, abs=1e-6)


def test_a_stall_keeps_a_slow_reader_waiting_only_by_what_is_not_in_hand() -> None:
    # Ten tokens in a second, then nothing for five: a reader of two a second has five seconds' worth in hand.
    stalled = streams([[0.1] * 10 + [5.0] + [0.1] * 10])
    assert waited_s(stalled, 2.0)[0] == pytest.approx(max(0.0, 6.0 - 11 / 2))
    assert waited_s(stalled, 10.0)[0] == pytest.approx(6.0 - 11 / 10)


def test_chunks_of_several_tokens_last_longer() -> None:
    assert waited_s(streams([[1.0, 1.0]], tokens=30.0), 10.0)[0] == 0.0
    assert waited_s(streams([[1.0, 1.0]], tokens=3.0), 10.0)[0] == pytest.approx(1.8)


@given(gaps)
def test_a_faster_reader_never_waits_in_fewer_streams(given_gaps: list[list[float]]) -> None:
    (shares,) = shares_waiting(streams(given_gaps), [1.0, 3.0, 10.0, 100.0], [0.25])
    assert shares == sorted(shares)


def test_gaps_are_told_by_hop() -> None:
    found = gap_spreads(streams([[1.0, 3.0], [10.0]]), np.array(["plan", "answer"], dtype=object))
    assert [(each.name, each.n, each.p50) for each in found] == [("plan", 2, 2.0), ("answer", 1, 10.0)]


def test_the_curve_is_what_allocate_says_for_each_deadline(profile_of: Callable[..., Profile]) -> None:
    rows: list[dict[str, Any]] = [
        {"steps": [("hop", {"hop": "chat", "duration_s": 1.0 + n})], "outcome": "failed" if n % 7 == 0 else "ok"}
        for n in range(40)
    ]
    rows.append({"steps": [("hop", {"hop": "chat", "duration_s": 5.0})], "outcome": "cancelled"})
    profile = profile_of(rows)
    for point in curve(profile, np.array([3.0, 5.0, 12.5, 60.0])):
        said = allocate(profile, point.deadline_s, method="mean").feasibility
        assert (point.share, point.low, point.high) == pytest.approx((said.p_deadline, said.p_low, said.p_high))
