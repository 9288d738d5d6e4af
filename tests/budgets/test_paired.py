"""Standard errors and intervals of figures from trajectories that come in clusters."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.budgets.groups.folds import Clusters
from hopbudget.budgets.numbers.paired import FEWEST_CLUSTERS, MANY, bootstrap, mean_and_error, share_interval

values = st.lists(st.integers(-5, 5).map(float), min_size=2, max_size=30)


def grouped(codes: list[int]) -> Clusters:
    code = np.unique(codes, return_inverse=True)[1]
    return Clusters("run", code, ("",) * (int(code.max()) + 1))


def alone(n: int) -> Clusters:
    return grouped(list(range(n)))


@given(values)
def test_with_clusters_of_one_the_error_is_the_usual_one(numbers: list[float]) -> None:
    x = np.array(numbers)
    mean, error = mean_and_error(x, alone(len(x)))
    assert mean == pytest.approx(x.mean())
    assert error == pytest.approx(x.std(ddof=1) / math.sqrt(len(x)))


@given(values, st.integers(2, 4))
def test_repeating_every_trajectory_in_its_cluster_changes_nothing(numbers: list[float], times: int) -> None:
    once = mean_and_error(np.array(numbers), alone(len(numbers)))
    often = mean_and_error(np.repeat(numbers, times), grouped(list(np.repeat(range(len(numbers)), times))))
    assert often == pytest.approx(once)


def test_what_is_not_known_is_left_out() -> None:
    mean, _ = mean_and_error(np.array([1.0, np.nan, 3.0]), alone(3))
    assert mean == 2.0


def test_one_cluster_says_nothing_about_another() -> None:
    assert mean_and_error(np.array([1.0, 2.0]), grouped([0, 0])) == (1.5, math.inf)


def test_weights_count() -> None:
    mean, _ = mean_and_error(np.array([0.0, 1.0]), alone(2), np.array([1.0, 3.0]))
    assert mean == 0.75


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5)), min_size=8, max_size=40))
def test_an_interval_holds_its_value_and_follows_no_names(rows: Any) -> None:
    top, code = np.array([r[0] for r in rows], dtype=float), [r[1] for r in rows]
    one = bootstrap(top, np.ones(len(top)), grouped(code))
    other = bootstrap(top, np.ones(len(top)), grouped([5 - c for c in code]))
    if one.clusters > 1:
        assert one.low <= one.value <= one.high
        assert (one.low, one.high) == (other.low, other.high)
    assert one.n == len(rows)


def test_one_cluster_has_no_interval_and_no_share_goes_beyond_0_and_1() -> None:
    found = bootstrap(np.array([1.0, 0.0]), np.ones(2), grouped([0, 0]))
    assert math.isnan(found.low) and math.isnan(found.high)
    few = bootstrap(np.array([1.0, 1.0, 0.0]), np.ones(3), alone(3), is_share=True)
    assert (few.low, few.high) == (0.0, 1.0)


def test_a_difference_that_is_alike_in_all_of_few_clusters_is_not_taken_for_certain() -> None:
    """Of three clusters that all gained, 29% of all clusters may gain and the others lose; of 200, 98% do."""
    few = bootstrap(np.ones(3), np.ones(3), alone(3), is_difference=True)
    assert (few.value, few.low, few.high) == (1.0, pytest.approx(2 * 0.2924 - 1, abs=1e-4), 1.0)
    many = bootstrap(np.full(200, -1.0), np.ones(200), alone(200), is_difference=True)
    assert (many.value, many.low) == (-1.0, -1.0)
    assert many.high == pytest.approx(-0.963, abs=1e-3)
    same = bootstrap(np.zeros(3), np.ones(3), alone(3), is_difference=True)
    assert (same.low, same.high) == (0.0, 0.0)


@pytest.mark.parametrize("runs", [3, 8])
def test_the_interval_of_a_share_over_few_runs_covers_as_often_as_it_says(runs: int) -> None:
    """500 draws of runs that differ: percentiles alone cover the truth in 73% and 88%."""
    random = np.random.default_rng(runs)
    truth, held = 0.75, 0
    for _ in range(500):
        of_run = np.clip(random.normal(truth, 0.06, runs), 0, 1)
        found = bootstrap(random.binomial(60, of_run).astype(float), np.full(runs, 60.0), alone(runs), is_share=True)
        held += found.low <= truth <= found.high
    assert held >= 0.92 * 500


def test_clusters_widen_an_interval() -> None:
    met = np.repeat([0.0, 1.0] * 10, 20)
    wide = bootstrap(met, np.ones(400), grouped(list(np.repeat(range(20), 20))))
    narrow = bootstrap(met, np.ones(400), alone(400))
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_with_many_clusters_the_interval_is_the_normal_one() -> None:
    met = np.tile([0.0, 1.0], MANY)
    found = bootstrap(met, np.ones(len(met)), alone(len(met)))
    assert (found.low, found.high) == pytest.approx((0.5 - 1.96 * 0.5 / math.sqrt(2 * MANY), 0.5 + 0.0219), abs=3e-4)


def test_nothing_has_no_figure() -> None:
    found = bootstrap(np.zeros(2), np.zeros(2), alone(2))
    assert math.isnan(found.value)
    assert found.n == 0


def skewed(random: np.random.Generator, n: int, rare: float) -> tuple[Any, Any]:
    """Seconds over the typical, of which a rare cause took most where it struck."""
    whole = random.exponential(5.0, n) + 0.5
    struck = random.random(n) < rare
    return np.where(struck, whole * random.uniform(0.5, 1.0, n), random.normal(0, 0.2, n)), whole


@pytest.mark.parametrize("n", [20, 40, 100])
@pytest.mark.parametrize("rare", [0.1, 0.3, 0.6])
def test_the_interval_of_a_share_holds_about_as_often_as_it_says(n: int, rare: float) -> None:
    random = np.random.default_rng(3)
    part, whole = skewed(random, 1_000_000, rare)
    truth = part.sum() / whole.sum()
    held = 0
    for _ in range(400):
        low, high = share_interval(*skewed(random, n, rare), np.arange(n))
        held += low <= truth <= high
    assert 0.85 <= held / 400 <= 0.99


@pytest.mark.parametrize("n", [20, 40, 100])
@pytest.mark.parametrize(("slope", "rare"), [(-1.0, 0.3), (-1.0, 0.6), (2.5, 0.6)])
def test_an_end_towards_the_inside_holds_about_as_often_as_it_says(n: int, slope: float, rare: float) -> None:
    """Of a cause that saved time, or that took more than all of it."""
    random = np.random.default_rng(4)
    part, whole = skewed(random, 1_000_000, rare)
    truth = slope * part.sum() / whole.sum()
    assert not 0 <= truth <= 1
    held = 0
    for _ in range(400):
        top, bottom = skewed(random, n, rare)
        low, high = share_interval(slope * top, bottom, np.arange(n))
        held += truth <= high if truth < 0 else low <= truth
    assert 0.92 <= held / 400 <= 1.0


def test_an_end_towards_the_inside_follows_the_data() -> None:
    part, whole = skewed(np.random.default_rng(5), 60, 0.6)
    low, high = share_interval(-part, whole, np.arange(60))
    ratio = -part.sum() / whole.sum()
    assert low < ratio < high < 0
    assert (ratio - low) == pytest.approx(high - ratio)
    more_low, more_high = share_interval(whole + part, whole, np.arange(60))
    assert 1 < more_low < 1 - ratio < more_high


def test_a_share_of_few_clusters_has_no_interval() -> None:
    n = 10 * FEWEST_CLUSTERS
    part, whole = skewed(np.random.default_rng(3), n, 0.3)
    assert math.isnan(share_interval(part, whole, np.arange(n) % (FEWEST_CLUSTERS - 1))[0])
    assert not math.isnan(share_interval(part, whole, np.arange(n) % FEWEST_CLUSTERS)[0])


def test_repeating_what_is_in_a_cluster_narrows_no_interval_of_a_share() -> None:
    part, whole = skewed(np.random.default_rng(3), 30, 0.3)
    once = share_interval(part, whole, np.arange(30))
    assert share_interval(np.tile(part, 4), np.tile(whole, 4), np.tile(np.arange(30), 4)) == pytest.approx(once)
