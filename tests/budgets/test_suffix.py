"""The suffix bank: what remained from each visit on, kept in a few numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopbudget.budgets import Profile
from hopbudget.budgets.numbers.quantiles import share_within
from hopbudget.budgets.population import population
from hopbudget.budgets.run_time.suffix import POINTS, Starts, SuffixBank, at_most, learn_bank, significant, starts

ProfileOf = Callable[..., Profile]


def of(profile: Profile, binds: Any = "last") -> Starts:
    return starts(profile, population(profile, binds))


def test_every_hop_of_a_trajectory_is_a_start_with_what_remained(profile_of: ProfileOf) -> None:
    steps = [("hop", {"duration_s": 1.0}), ("work", {"duration_s": 2.0}), ("hop", {"duration_s": 3.0})]
    found = of(profile_of([{"steps": steps}, {"hops": [{"duration_s": 5.0}]}]))
    assert found.visit.tolist() == [1, 2, 1]
    assert found.elapsed_s.tolist() == [0.0, 3.0, 0.0]
    assert found.remaining_s.tolist() == [6.0, 3.0, 5.0]
    assert found.left.tolist() == [2, 1, 1]
    assert found.over_s.tolist() == [1.0, 6.0, 5.0]


def test_trajectories_of_which_none_counts_have_no_starts(profile_of: ProfileOf) -> None:
    assert len(of(profile_of([{"hops": [{"duration_s": 1.0}], "complete": False}]))) == 0


def test_visits_count_over_all_names(profile_of: ProfileOf) -> None:
    hops = [{"hop": name, "duration_s": 1.0} for name in ("plan", "search", "search")]
    assert of(profile_of([{"hops": hops}])).visit.tolist() == [1, 2, 3]


def test_a_failure_never_finishes_and_a_time_out_is_a_lower_bound(profile_of: ProfileOf) -> None:
    hops = [{"duration_s": 2.0}]
    found = of(profile_of([{"hops": hops, "outcome": "failed"}, {"hops": hops, "outcome": "timed_out"}]))
    assert found.remaining_s.tolist() == [np.inf, 2.0]
    assert found.censored.tolist() == [False, True]
    assert found.known(2.0).tolist() == [True, True]
    assert found.known(3.0).tolist() == [True, False]
    assert not found.met(3.0).any()


def test_a_hop_beside_a_longer_one_is_over_when_both_are(profile_of: ProfileOf) -> None:
    hops = [{"started_s": 0.0, "duration_s": 4.0}, {"started_s": 1.0, "duration_s": 1.0}]
    found = of(profile_of([{"hops": [*hops, {"started_s": 5.0, "duration_s": 1.0}]}]))
    assert found.over_s.tolist() == [4.0, 4.0, 6.0]


def test_where_the_answer_binds_what_starts_after_it_is_no_start(profile_of: ProfileOf) -> None:
    hops = [{"duration_s": 1.0}, {"duration_s": 1.0}, {"duration_s": 1.0}]
    found = of(profile_of([{"hops": hops, "answer_start_s": 1.5}]), "answer")
    assert found.visit.tolist() == [1, 2]
    assert found.remaining_s.tolist() == [1.5, 0.5]


times = st.lists(st.floats(0.001, 100.0), min_size=1, max_size=300)


def bank(remaining_s: list[float], deadline_s: float) -> SuffixBank:
    n = len(remaining_s)
    ones = np.ones(n, dtype=np.int64)
    lone = Starts(np.arange(n), ones, np.zeros(n), np.array(remaining_s), np.zeros(n, np.bool_), ones, np.zeros(n))
    return learn_bank(lone, deadline_s)


@given(times, st.floats(1.0, 200.0), st.floats(0.0, 1.0))
def test_a_kept_row_is_off_by_a_32nd_of_its_reach_at_most(remaining: list[float], deadline_s: float, at: float) -> None:
    rounded = significant(np.array(remaining)).tolist()  # times are kept to four digits
    found = bank(rounded, deadline_s)
    left = np.array([at * deadline_s])
    exact = share_within(left, np.array(rounded), np.zeros(len(rounded), dtype=np.bool_))[0]
    assert abs(found.within(np.array([1]), left)[0] - exact) <= found.reach[0] / (POINTS - 1) + 2e-6


@given(times, st.floats(1.0, 200.0))
def test_more_time_never_lowers_the_share(remaining: list[float], deadline_s: float) -> None:
    found = bank(remaining, deadline_s)
    left = np.linspace(0, deadline_s, 101)
    share = found.within(np.ones(101, dtype=np.int64), left)
    assert (np.diff(share) >= -1e-12).all()
    assert share[0] == 0.0
    assert (share <= 1.0).all()


@given(times, st.floats(1.0, 200.0), st.floats(0.01, 0.99))
def test_past_the_latest_time_the_share_is_below_the_one_asked(
    remaining: list[float], deadline_s: float, share: float
) -> None:
    found = bank(remaining, deadline_s)
    latest = found.latest_s(share, deadline_s)[0]
    one = np.array([1])
    if latest < deadline_s - 1e-6:
        assert found.within(one, np.array([deadline_s - latest - 1e-6]))[0] <= share + 1e-9
    if latest > 0:
        assert found.within(one, np.array([deadline_s - latest + 1e-9]))[0] >= share - 1e-6


@settings(max_examples=30)
@given(st.floats(0.01, 1000.0))
def test_scaling_time_changes_no_share(scale: float) -> None:
    remaining = np.random.default_rng(1).lognormal(0, 1, 200)
    left = np.linspace(0.1, 4.9, 20)
    visits = np.ones(20, dtype=np.int64)
    one = bank(remaining.tolist(), 5.0).within(visits, left)
    other = bank((remaining * scale).tolist(), 5.0 * scale).within(visits, left * scale)
    assert one == pytest.approx(other, abs=2e-3)  # four digits of a time


def test_visits_that_few_came_to_share_a_row(looping: ProfileOf) -> None:
    found = of(looping(200))
    rows = learn_bank(found, 10.0)
    came = np.bincount(found.visit)
    assert rows.visits[0] == 1
    assert all(came[visit] >= 30 for visit in rows.visits[1:])
    assert len(rows.visits) == len(rows.reach) == len(rows.times_s)
    later = np.array([rows.visits[-1], 500])
    assert np.diff(rows.within(later, np.array([3.0, 3.0]))) == 0.0


def test_a_bank_is_small_however_much_it_was_learned_from(looping: ProfileOf) -> None:
    rows = learn_bank(of(looping(2000)), 10.0)
    assert len(rows.visits) <= 20
    assert {len(row) for row in rows.times_s} <= {0, POINTS}


def test_a_deadline_that_nothing_meets_has_no_times_and_no_chance(looping: ProfileOf) -> None:
    rows = learn_bank(of(looping(100)), 0.001)
    assert rows.times_s[0] == ()
    assert rows.within(np.array([1]), np.array([0.001]))[0] == 0.0
    assert rows.latest_s(0.1, 0.001) == (0.0,) * len(rows.visits)


def test_the_order_of_trajectories_changes_nothing(looping: ProfileOf) -> None:
    profile = looping(300)
    mixed = profile.take(np.random.default_rng(0).permutation(len(profile)))
    assert learn_bank(of(profile), 6.0) == learn_bank(of(mixed), 6.0)


def test_a_bank_survives_the_plan(looping: ProfileOf) -> None:
    rows = learn_bank(of(looping(300)), 6.0)
    assert SuffixBank.from_plan(rows.to_plan()) == rows


def test_of_very_many_trajectories_some_spread_over_the_finish_are_looked_at(profile_of: ProfileOf) -> None:
    profile = profile_of([{"hops": [{"duration_s": 1.0 + index}]} for index in range(12_000)])
    people = at_most(population(profile, "last"))
    assert len(people.rows) == 10_000
    assert (people.finish_s[0], people.finish_s[-1]) == (1.0, 12_000.0)
    assert np.median(people.finish_s) == pytest.approx(6000.5, rel=0.001)
