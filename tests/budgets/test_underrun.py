"""Underrun: whether somebody who reads at a pace would have waited, and for how long."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.budgets.streams.underrun import waited_s

GAPS = st.lists(st.integers(0, 500).map(lambda ms: ms / 1000), max_size=40).map(np.array)


def test_a_stream_at_the_readers_pace_never_lets_them_wait() -> None:
    assert waited_s(np.full(20, 0.125), 0.125) == 0


def test_one_stall_is_waited_for_less_what_was_read_ahead() -> None:
    gaps = np.array([0.025] * 8 + [1.0] + [0.025] * 8)  # 0.1 s ahead a chunk
    assert waited_s(gaps, 0.125) == pytest.approx(1.0 - 0.125 - 8 * 0.1)


def test_a_stall_late_in_a_fast_stream_is_not_noticed() -> None:
    assert waited_s(np.array([0.01] * 50 + [1.0]), 0.125) == 0


def test_a_stream_of_one_chunk_lets_nobody_wait() -> None:
    assert waited_s(np.array([]), 0.125) == 0


@given(GAPS, st.floats(0.01, 0.5))
def test_it_is_what_playing_the_stream_shows(gaps: np.ndarray, chunk_s: float) -> None:
    arrives, plays, waited = 0.0, 0.0, 0.0
    for gap in gaps:
        arrives += gap
        plays += chunk_s  # the chunk before is used up
        if arrives > plays:
            waited += arrives - plays
            plays = arrives
    assert waited_s(gaps, chunk_s) == pytest.approx(waited, abs=1e-9)
