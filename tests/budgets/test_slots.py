"""From a profile to seconds by slot."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hopbudget.budgets import Profile
from hopbudget.budgets.population import population
from hopbudget.budgets.splits.slots import Times, slot_times
from hopbudget.budgets.streams.stream import final_hops

Build = Callable[..., Profile]


def times_of(profile: Profile, kind: Any = "name", binds: Any = "last") -> Times:
    return slot_times(profile, population(profile, binds), kind, final_hops(profile))


def hop(name: str, seconds: float, **more: Any) -> tuple[str, dict[str, Any]]:
    return "hop", {"hop": name, "duration_s": seconds, **more}


def work(name: str, seconds: float, **more: Any) -> tuple[str, dict[str, Any]]:
    return "work", {"work": name, "duration_s": seconds, **more}


def stream(seconds: float, **more: Any) -> tuple[str, dict[str, Any]]:
    return hop("answer", seconds, **{"final": True, "streamed": True, "ttft_s": seconds / 2, **more})


def test_hops_of_one_name_share_a_slot_in_the_order_a_trajectory_comes_to_them(profile_of: Build) -> None:
    times = times_of(profile_of([{"steps": [hop("plan", 1), hop("act", 2), hop("plan", 3)]}]))
    assert times.names == ("plan", "act")
    assert times.seconds.tolist() == [[4, 2]]
    assert times.visits.tolist() == [[2, 1]]


def test_a_slot_that_was_not_visited_took_no_time(profile_of: Build) -> None:
    times = times_of(profile_of([{"steps": [hop("a", 1), hop("b", 2)]}, {"steps": [hop("a", 3)]}]))
    assert times.seconds.tolist() == [[1, 2], [3, 0]]


def test_a_fan_out_counts_once(profile_of: Build) -> None:
    times = times_of(profile_of([{"steps": [hop("a", 2), hop("a", 2, started_s=1.0)]}]))
    assert times.seconds.tolist() == [[3]]


def test_names_that_run_side_by_side_again_and_again_are_one_stage(profile_of: Build) -> None:
    trajectory = {"steps": [hop("plan", 1), hop("left", 3, started_s=1.0), hop("right", 4, started_s=1.5)]}
    times = times_of(profile_of([trajectory] * 3))
    assert times.names == ("plan", "left+right")
    assert times.seconds[0].tolist() == [1, 4.5]


def test_names_that_touch_once_stay_apart(profile_of: Build) -> None:
    apart = {"steps": [hop("a", 2), hop("b", 2)]}
    once = {"steps": [hop("a", 2), hop("b", 2, started_s=1.0)]}
    assert times_of(profile_of([apart, apart, apart, once])).names == ("a", "b")


def test_slots_by_visit_have_numbers_and_late_visits_share_one(profile_of: Build) -> None:
    times = times_of(profile_of([{"steps": [hop("a", 1)] * 10}]), "visit")
    assert times.names[:2] == ("a #1", "a #2")
    assert times.names[-1] == "a #8+"
    assert times.seconds[0].tolist() == [1] * 7 + [3]


def test_slots_by_predecessor_say_what_came_before(profile_of: Build) -> None:
    times = times_of(
        profile_of([{"steps": [hop("a", 1), work("search", 1), hop("a", 2), hop("b", 3), hop("a", 4)]}]), "before"
    )
    assert set(times.names) == {"a after start", "a after search", "b after a", "a after b", "work"}


def test_work_is_a_place_of_its_own_above_five_percent(profile_of: Build) -> None:
    assert times_of(profile_of([{"steps": [hop("a", 9.4), work("tool", 0.6)]}])).names == ("a", "work")
    assert times_of(profile_of([{"steps": [hop("a", 9.6), work("tool", 0.4)]}])).names == ("a",)


def test_the_final_stream_leaves_the_slots(profile_of: Build) -> None:
    times = times_of(profile_of([{"steps": [hop("plan", 1), stream(2)]}]))
    assert times.names == ("plan", "stream")
    assert (times.slots, times.stream) == (1, 1)
    assert times.seconds.tolist() == [[1, 2]]


def test_a_final_hop_whose_first_token_was_not_seen_stays_a_slot(profile_of: Build) -> None:
    times = times_of(profile_of([{"steps": [hop("plan", 1), hop("answer", 2, final=True)]}]))
    assert times.names == ("plan", "answer")
    assert times.stream is None


def test_where_the_answer_binds_time_stops_at_its_first_token(profile_of: Build) -> None:
    steps = [hop("plan", 1), stream(4), hop("title", 2)]
    times = times_of(profile_of([{"steps": steps, "answer_start_s": 3.0}]), binds="answer")
    assert times.names == ("plan", "stream")
    assert times.seconds.tolist() == [[1, 2]]
    assert times.finish_s.tolist() == [3]


def test_hops_that_outlive_their_trajectory_are_cut_to_it(profile_of: Build) -> None:
    times = times_of(profile_of([{"steps": [hop("a", 5)], "duration_s": 3.0}]))
    assert times.seconds.tolist() == [[3]]


def test_a_failed_hop_in_a_trajectory_that_came_well_costs_what_it_took(profile_of: Build) -> None:
    times = times_of(profile_of([{"steps": [hop("a", 2, outcome="failed"), hop("b", 1)]}]))
    assert times.seconds.tolist() == [[2, 1]]
    assert not times.censored.any()


def test_the_place_where_a_trajectory_failed_never_ends_and_the_others_are_lower_bounds(profile_of: Build) -> None:
    good = {"steps": [hop("a", 1), hop("b", 1), hop("c", 1)]}
    bad = {"steps": [hop("a", 1), hop("b", 1, outcome="failed")], "outcome": "failed"}
    times = times_of(profile_of([good, bad]))
    assert times.seconds[1].tolist() == [1, np.inf, 0]
    assert times.censored[1].tolist() == [True, False, True]


def test_a_timed_out_hop_is_a_lower_bound_whatever_came_after(profile_of: Build) -> None:
    times = times_of(profile_of([{"steps": [hop("a", 5, outcome="timed_out"), hop("b", 1)]}]))
    assert times.censored.tolist() == [[True, False]]
    assert times.timed_out.tolist() == [[True, False]]


def test_a_stream_that_times_out_after_its_answer_began_is_no_lower_bound_of_the_wait(profile_of: Build) -> None:
    cut = {"steps": [stream(9, outcome="timed_out")], "answer_start_s": 3.0, "outcome": "timed_out"}
    times = times_of(profile_of([cut]), binds="answer")
    assert times.seconds.tolist() == [[3]]
    assert not times.censored.any()


def test_slots_and_work_make_up_the_trajectory(profile_of: Build) -> None:
    steps = [hop("a", 2), work("t", 3), hop("b", 2), hop("b", 2, started_s=6.0), work("t", 1)]
    times = times_of(profile_of([{"steps": steps}] * 2))
    assert times.seconds.sum(axis=1) == pytest.approx(times.finish_s)
