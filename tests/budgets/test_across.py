"""Deadlines for a run that nobody has seen, and classes of trajectories that differ."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.budgets import Profile, RunBounds, allocate
from hopbudget.budgets.feasibility.across import one_more, run_bounds
from hopbudget.budgets.groups.classes import position, unequal_classes
from hopbudget.budgets.population import population

Build = Callable[..., Profile]


def bounds(by_run: dict[str, list[float]], p: float = 0.5, smallest_s: float = 1.0) -> RunBounds | None:
    run = np.array([name for name, seconds in by_run.items() for _ in seconds], dtype=object)
    finish = np.array([s for seconds in by_run.values() for s in seconds])
    return run_bounds(finish, np.zeros(len(finish), dtype=bool), run, p, smallest_s=smallest_s)


def test_the_largest_run_sets_one_bound_with_its_price() -> None:
    found = bounds({"a": [1.0] * 5, "b": [3.0] * 5, "c": [2.0] * 5}, smallest_s=2.0)
    assert found is not None
    assert (found.largest_s, found.largest_run, found.largest_price) == (3.0, "b", 1.5)
    assert (found.runs, found.small, found.only_this) == (3, 0, True)


def test_the_t_interval_is_one_of_prediction_on_logarithms() -> None:
    # m = log 2, s = log 2, R = 2: exp(m + t_{.95, 1} s sqrt(1.5)), and t_{.95, 1} = tan(.45 pi).
    expected = 2 * 2 ** (math.tan(0.45 * math.pi) * math.sqrt(1.5) * math.sqrt(2))
    assert one_more(np.array([1.0, 4.0])) == pytest.approx(expected)


@given(st.lists(st.floats(0.1, 100), min_size=2, max_size=12), st.floats(0.5, 20))
def test_the_t_interval_scales_with_time(quantiles: list[float], scale: float) -> None:
    x = np.array(quantiles)
    assert one_more(x * scale) == pytest.approx(one_more(x) * scale)


@given(st.lists(st.floats(0.1, 100), min_size=2, max_size=12))
def test_the_t_interval_lies_above_the_middle_of_the_runs(quantiles: list[float]) -> None:
    x = np.array(quantiles)
    assert one_more(x) >= np.exp(np.log(x).mean()) * (1 - 1e-9)


def test_runs_that_are_equal_cost_nothing() -> None:
    found = bounds({name: [2.0] * 5 for name in "abcdef"}, smallest_s=2.0)
    assert found is not None
    assert (found.largest_price, found.t_price, found.only_this) == (1.0, pytest.approx(1.0), False)


def test_a_run_with_too_few_trajectories_does_not_count() -> None:
    found = bounds({"a": [1.0] * 29, "b": [1.0] * 29, "few": [99.0] * 28}, p=0.9)
    assert found is not None
    assert (found.runs, found.small, found.largest_s) == (2, 1, 1.0)


def test_runs_that_hold_few_of_the_trajectories_stand_for_nothing() -> None:
    small = {f"r{k}": [5.0] * 10 for k in range(8)}
    found = bounds({"a": [1.0] * 30, "b": [1.0] * 30, **{f"s{k}": v for k, v in enumerate(small.values())}}, p=0.9)
    assert found is not None
    assert (found.runs, found.small) == (2, 8)
    assert math.isnan(found.largest_s) and math.isnan(found.t_s)


def test_one_run_has_no_spread() -> None:
    found = bounds({"a": [1.0] * 5})
    assert found is not None
    assert found.only_this
    assert math.isnan(found.largest_s) and math.isnan(found.t_s)


def test_a_run_that_mostly_fails_forbids_any_bound() -> None:
    found = bounds({"a": [1.0] * 5, "b": [math.inf] * 5})
    assert found is not None
    assert (found.largest_s, found.t_s) == (math.inf, math.inf)


def test_without_runs_there_is_nothing_to_compare() -> None:
    assert bounds({"": [1.0] * 5}) is None


def request(session: str, at: float, seconds: float, **more: Any) -> dict[str, Any]:
    return {
        "session": session,
        "started_at": at,
        "steps": [("hop", {"hop": "chat", "duration_s": seconds, **more})],
    }


def test_positions_are_counted_by_start_within_the_session(profile_of: Build) -> None:
    rows = [request("x", 5.0, 1.0), request("x", 1.0, 1.0), request("x", 9.0, 1.0), request("", 0.0, 1.0)]
    assert position(profile_of(rows)).tolist() == ["second", "first", "later", ""]


def test_sessions_of_one_request_have_no_positions(profile_of: Build) -> None:
    assert set(position(profile_of([request(str(k), float(k), 1.0) for k in range(3)]))) == {""}


def conversations(slow_second: float, n: int = 60) -> list[dict[str, Any]]:
    return [
        request(f"s{k}", 10.0 * k + place, slow_second if place == 1 and k % 2 else 1.0)
        for k in range(n)
        for place in range(3)
    ]


def test_classes_that_meet_a_deadline_unequally_are_pointed_out(profile_of: Build) -> None:
    a = allocate(profile_of(conversations(5.0)), 2.0)
    (found,) = a.feasibility.classes
    assert found.by == "position in the conversation"
    assert [(name, share.share) for name, share in found.shares] == [("first", 1.0), ("second", 0.5), ("later", 1.0)]


def test_classes_that_are_alike_are_not(profile_of: Build) -> None:
    assert allocate(profile_of(conversations(1.0)), 2.0).feasibility.classes == ()


def test_a_difference_that_chance_explains_is_none(profile_of: Build) -> None:
    rows = [request(str(k), float(k), 5.0 if k in (3, 9) else 1.0, model="ab"[k % 2]) for k in range(70)]
    profile = profile_of(rows)
    assert unequal_classes(profile, population(profile, "last"), 2.0) == ()


def test_models_and_prompts_are_classes_too(profile_of: Build) -> None:
    rows = [
        request(str(k), float(k), 5.0 if k % 2 else 1.0, model="ab"[k % 2], input_tokens=100.0 + k % 2)
        for k in range(100)
    ]
    found = allocate(profile_of(rows), 2.0).feasibility.classes
    assert {one.by for one in found} == {"first model", "first prompt"}


def test_time_outs_leave_an_interval_of_possible_shares(profile_of: Build) -> None:
    rows = [request("", float(k), 1.0) for k in range(8)] + [
        {**request("", 9.0, 1.5), "outcome": "timed_out"},
        {**request("", 9.5, 5.0), "outcome": "timed_out"},
    ]
    f = allocate(profile_of(rows), 2.0).feasibility
    assert f.p_deadline == pytest.approx(8 / 9)
    assert (f.possible_low, f.possible_high) == (pytest.approx(0.8), pytest.approx(0.9))
    assert f.extrapolated


def test_a_deadline_within_what_was_observed_is_not_extrapolated(profile_of: Build) -> None:
    rows = [request("", float(k), 1.0) for k in range(8)] + [{**request("", 9.0, 3.0), "outcome": "timed_out"}]
    f = allocate(profile_of(rows), 2.0).feasibility
    assert not f.extrapolated
    assert f.possible_low == f.possible_high == f.p_deadline
