"""Cumulative sums, their weights and their thresholds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.budgets.drifts import cusum
from hopbudget.budgets.drifts.cusum import calibrate, correlation_within, first_crossing, places, turning_point, weights


@given(st.lists(st.one_of(st.none(), st.integers(-8, 8)), min_size=1, max_size=60), st.integers(1, 20))
def test_the_first_crossing_is_that_of_the_sums_done_one_by_one(given_steps: list[int | None], h: int) -> None:
    total, since, wanted = 0, 0, None
    for index, step in enumerate(given_steps):
        total = max(0, total + (step or 0))
        if total > h:
            wanted = (index, since)
            break
        if total == 0:
            since = index + 1
    found = first_crossing(np.array([np.nan if step is None else float(step) for step in given_steps]), float(h))
    assert (None if found is None else (found.at, found.since)) == wanted


def test_an_alarm_says_since_when_the_rate_seems_to_have_changed() -> None:
    steps = np.concatenate([np.full(50, -0.2), np.full(20, 0.8)])
    found = first_crossing(steps, 5.0)
    assert found is not None
    assert (found.since, found.at) == (50, 56)


@given(st.integers(1, 80), st.integers(1, 80))
def test_k_lies_between_the_two_rates(first: int, more: int) -> None:
    p0, p1 = first / 200, (first + more) / 200
    assert p0 < turning_point(p0, p1) < p1


def test_a_trajectory_says_less_the_more_of_its_session_there_were() -> None:
    place = places(np.array([5, 5, 9, 5, 9]))
    assert place.tolist() == [1, 2, 1, 3, 2]
    assert weights(place, 0.0).tolist() == [1, 1, 1, 1, 1]
    some = weights(np.arange(1, 200), 0.25)
    assert (np.diff(some) < 0).all()
    assert some.sum() == pytest.approx(199 / (1 + 198 * 0.25))


def test_the_correlation_within_sessions_is_found() -> None:
    random = np.random.default_rng(0)
    sessions = np.repeat(np.arange(800), 5)
    level, own = random.normal(size=800)[sessions], random.normal(size=4000)
    assert correlation_within(np.sqrt(0.4) * level + np.sqrt(0.6) * own, sessions) == pytest.approx(0.4, abs=0.05)
    assert correlation_within(own, sessions) == pytest.approx(0.0, abs=0.03)
    assert correlation_within(own, np.arange(4000)) == 0.0
    assert correlation_within(np.ones(10), np.zeros(10, dtype=np.int64)) == 0.0


@pytest.mark.parametrize("size", [1, 6])
def test_unchanged_sequences_raise_few_alarms_of_single_trajectories_and_of_whole_sessions(size: int) -> None:
    random = np.random.default_rng(4)

    def scores(n: int) -> np.ndarray:
        level = np.repeat(random.random(n // size + 1), size)[:n]
        return (random.random((n, 2)) < np.where(level < 0.2, 0.4, 0.025)[:, None]).astype(float)

    learned, sessions = scores(3000), np.repeat(np.arange(3000), size)[:3000]
    k = turning_point(0.1, 0.4)
    alike = np.array([correlation_within(column, sessions) for column in learned.T])
    h = calibrate(learned - k, np.full(2, 1 - k), sessions, alike)
    place = places(np.repeat(np.arange(500), size)[: cusum.WITHIN])
    alarms = 0
    for _ in range(400):
        later = (scores(cusum.WITHIN) - k) * weights(place[:, None], alike)
        alarms += any(first_crossing(column, each) is not None for column, each in zip(later.T, h, strict=True))
    assert alarms <= 8
    changed = np.full(cusum.WITHIN, 0.5 - k)
    found = first_crossing(changed, float(h[0]))
    assert found is not None and found.at < 60
