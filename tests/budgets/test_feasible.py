"""Can a deadline be met as often as asked?"""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.budgets import Feasibility
from hopbudget.budgets.feasibility.feasible import feasibility
from hopbudget.budgets.population import Population

rows = st.lists(
    st.tuples(st.one_of(st.integers(1, 20).map(float), st.just(math.inf)), st.booleans()), min_size=1, max_size=60
)


def people(times: list[float], censored: list[bool] | None = None) -> Population:
    finish = np.array(times)
    return Population(
        rows=np.arange(len(times)),
        finish_s=finish,
        censored=np.array(censored or [False] * len(times), dtype=bool) & np.isfinite(finish),
        observed_s=np.where(np.isfinite(finish), finish, 1.0),
        left_out={},
        timed_out=np.zeros(len(times), dtype=bool),
    )


def ask(times: list[float], deadline_s: float, percentile: float = 90) -> Feasibility:
    return feasibility(people(times), deadline_s, percentile)


@given(rows, st.floats(0.5, 25), st.floats(0, 10))
def test_more_deadline_never_lowers_the_probability(sample: Any, deadline_s: float, more: float) -> None:
    found = people([r[0] for r in sample], [r[1] for r in sample])
    less, greater = (feasibility(found, d, 90).p_deadline for d in (deadline_s, deadline_s + more))
    assert greater >= less


@given(rows, st.integers(1, 99))
def test_the_smallest_deadline_reaches_the_target_and_lies_in_its_interval(sample: Any, percentile: int) -> None:
    found = people([r[0] for r in sample], [r[1] for r in sample])
    f = feasibility(found, 10.0, percentile)
    if math.isfinite(f.min_deadline_s):
        assert feasibility(found, f.min_deadline_s, percentile).p_deadline >= percentile / 100 - 1e-9
    assert not f.min_deadline_low_s > f.min_deadline_s
    assert f.min_deadline_high_s >= f.min_deadline_s


def test_the_probability_is_the_share_in_time_with_its_interval() -> None:
    f = ask([1.0] * 9 + [5.0], 2.0)
    assert (f.p_deadline, f.p_low, f.p_high) == pytest.approx((0.9, 0.554984, 0.997471), abs=1e-6)


def test_a_deadline_is_feasible_where_the_share_reaches_the_target_with_enough_trajectories() -> None:
    f = ask([1.0] * 29, 2.0)
    assert (f.verdict, f.needs) == ("feasible", None)


def test_too_few_trajectories_leave_it_undecided_and_say_how_many_are_missing() -> None:
    f = ask([1.0] * 28, 2.0)
    assert f.verdict == "undecided"
    assert f.needs == "1 more trajectory: 28 could be used, and 29 are the fewest that can bound the p90"


def test_a_deadline_is_infeasible_where_the_whole_interval_lies_below_the_target() -> None:
    f = ask([1.0] * 50 + [5.0] * 50, 2.0)
    assert f.verdict == "infeasible"
    assert f.min_deadline_s == 5.0


def test_a_share_just_below_the_target_is_undecided_and_names_the_deadline_that_would_do() -> None:
    f = ask([1.0] * 88 + [5.0] * 12, 2.0)
    assert f.verdict == "undecided"
    assert f.needs is not None
    assert "5.00 s, the p90 observed" in f.needs
    assert "88.0%" in f.needs


def test_failures_can_put_every_deadline_out_of_reach() -> None:
    f = ask([1.0] * 80 + [math.inf] * 20, 1000.0)
    assert f.min_deadline_s == math.inf
    assert f.verdict == "infeasible"


def test_a_trajectory_cut_off_before_the_deadline_is_left_out_and_after_it_breaches() -> None:
    found = people([1.0, 1.0, 5.0], [False, False, True])
    assert feasibility(found, 4.0, 50).p_deadline == pytest.approx(2 / 3)
    assert feasibility(found, 6.0, 50).p_deadline == 1.0


def cut_by_impatience(random: np.random.Generator, n: int) -> Population:
    """Of finishes whose p90 is e^1.2816, those of the impatient are cut off: whatever they would still have taken."""
    finish, patience = random.lognormal(0, 1, n), random.lognormal(0.5, 1, n)
    cut = (random.random(n) < 0.4) & (patience < finish)
    return people(np.where(cut, patience, finish).tolist(), cut.tolist())


def test_intervals_cover_the_truth_though_the_slow_ones_are_cut_off_more_often() -> None:
    """Counted without those that were cut off before it, 45% of 200 shares lie wholly above the truth."""
    random, truth_s = np.random.default_rng(1), math.exp(1.2815516)
    found = [feasibility(cut_by_impatience(random, 1000), truth_s, 90) for _ in range(200)]
    assert sum(f.p_low <= 0.9 <= f.p_high for f in found) >= 0.94 * 200
    assert sum(f.min_deadline_low_s <= truth_s <= f.min_deadline_high_s for f in found) >= 0.94 * 200


def test_no_deadline_is_feasible_only_because_the_slow_ones_were_cut_off() -> None:
    found = people([1.0] * 85 + [2.0] * 9 + [5.0] * 6, [False] * 85 + [True] * 9 + [False] * 6)
    f = feasibility(found, 3.0, 90)
    assert f.p_deadline > 0.9
    assert f.verdict == "undecided"
    assert f.needs == (
        "fewer that are cut off before it: 93.4% of the others were in time, but 85.0% of all if those cut off went on "
        "like the others that still ran then"
    )


def test_the_interval_of_the_smallest_deadline_has_no_end_where_there_are_too_few() -> None:
    f = ask([1.0, 2.0, 3.0], 5.0)
    assert f.min_deadline_high_s == math.inf
    assert math.isnan(ask([1.0], 5.0).min_deadline_low_s)
