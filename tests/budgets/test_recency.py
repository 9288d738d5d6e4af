"""Trajectories that weigh less the older they are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.budgets import METHODS, Profile, allocate, deadline_at
from hopbudget.budgets.numbers.distribution import distribution
from hopbudget.budgets.numbers.quantiles import attained, effective_n, share_within
from hopbudget.budgets.population import population, recency, thinned

Build = Callable[..., Profile]

cells = st.lists(st.tuples(st.integers(0, 9).map(float), st.booleans(), st.integers(1, 4)), min_size=1, max_size=12)


def repeated(rows: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, c, w = (np.array([row[k] for row in rows]) for k in range(3))
    return x.astype(float), c.astype(bool), w.astype(float)


@given(cells, st.integers(0, 10).map(float))
def test_a_whole_weight_counts_like_that_many_trajectories(rows: Any, limit: float) -> None:
    x, c, w = repeated(rows)
    times = w.astype(int)
    often = share_within(np.array([limit]), np.repeat(x, times), np.repeat(c, times))
    assert share_within(np.array([limit]), x, c, w) == pytest.approx(often)


@given(cells, st.integers(1, 9))
def test_weighted_quantiles_are_those_of_that_many_trajectories(rows: Any, tenth: int) -> None:
    x, c, w = repeated(rows)
    times = w.astype(int)
    often = attained(np.repeat(x, times), np.repeat(c, times), tenth / 10)
    assert attained(x, c, tenth / 10, w) == often


@given(cells)
def test_equal_weights_are_no_weights(rows: Any) -> None:
    x, c, _ = repeated(rows)
    plain, weighted = distribution(x, c), distribution(x, c, np.full(len(x), 0.25))
    assert weighted.shares == pytest.approx(plain.shares)
    assert weighted.mean() == pytest.approx(plain.mean())


def test_a_half_life_before_the_newest_weighs_half() -> None:
    assert recency(np.array([100.0, 90.0, 80.0]), 10.0) == pytest.approx([1.0, 0.5, 0.25])


def test_what_has_no_date_weighs_like_the_oldest() -> None:
    assert recency(np.array([100.0, np.nan, 90.0]), 10.0) == pytest.approx([1.0, 0.5, 0.5])
    assert recency(np.array([np.nan, np.nan]), 10.0).tolist() == [1.0, 1.0]


def test_equal_weights_are_worth_as_many_trajectories() -> None:
    assert effective_n(np.full(7, 0.3)) == pytest.approx(7)
    assert effective_n(np.array([1.0, 0.0])) == 1.0


def drifting() -> list[dict[str, Any]]:
    """Twice as slow as it was, of late."""
    random = np.random.default_rng(4)
    return [
        {
            "started_at": 1000.0 * k,
            "steps": [
                ("hop", {"hop": name, "duration_s": float(random.lognormal(0, 0.3)) * (1 if k < 80 else 2)})
                for name in "ab"
            ],
        }
        for k in range(100)
    ]


def test_the_newest_say_more_about_the_smallest_deadline(profile_of: Build) -> None:
    profile = profile_of(drifting())
    assert deadline_at(profile, 90, half_life_s=10_000.0) > 1.2 * deadline_at(profile, 90)


@pytest.mark.parametrize("method", METHODS)
def test_a_plan_with_a_half_life_adds_up_and_says_what_it_is_worth(profile_of: Build, method: Any) -> None:
    a = allocate(profile_of(drifting()), 5.0, method=method, half_life_s=10_000.0)
    assert sum(slot.budget_s for slot in a.slots) == pytest.approx(5.0)
    learned = a.learned_from
    assert learned.half_life_s == 10_000.0
    assert 20 < learned.effective < 50 < learned.trajectories
    f = a.feasibility
    assert f.p_low < f.p_deadline < f.p_high
    assert f.min_deadline_low_s <= f.min_deadline_s <= f.min_deadline_high_s


def test_fewer_effective_trajectories_make_wider_intervals(profile_of: Build) -> None:
    profile = profile_of(drifting())
    plain, weighted = (allocate(profile, 5.0, half_life_s=h).feasibility for h in (None, 3_000.0))
    assert weighted.p_high - weighted.p_low > plain.p_high - plain.p_low


def test_a_half_life_must_be_positive(profile_of: Build) -> None:
    with pytest.raises(ValueError, match="half-life"):
        allocate(profile_of(drifting()), 5.0, half_life_s=0.0)


def test_the_share_we_intervened_in_is_told(profile_of: Build) -> None:
    rows = drifting()
    for row in rows[:5]:
        row["intervened"] = True
    profile = profile_of(rows)
    assert population(profile, "last").intervened == 0.05
    assert allocate(profile, 5.0).learned_from.intervened == 0.05


def test_a_thinned_profile_keeps_each_by_its_weight(profile_of: Build) -> None:
    profile = profile_of(drifting())
    kept = thinned(profile, 10_000.0)
    assert len(kept) == pytest.approx(recency(profile.trajectories.started_at, 10_000.0).sum(), abs=1)
    assert kept.trajectories.started_at[-1] == profile.trajectories.started_at[-1]
    assert np.median(kept.trajectories.started_at) > np.median(profile.trajectories.started_at)
    assert np.all(np.diff(kept.trajectories.started_at) > 0)
