"""Deadlines that bind the first answer token and the last token at once."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hopbudget.budgets import Allocation, Profile, allocate

Build = Callable[..., Profile]

slow_is_fine = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=15)


def streamed(plan_s: float, wait_s: float, rest_s: float) -> dict[str, Any]:
    final = {
        "hop": "answer",
        "duration_s": wait_s + rest_s,
        "final": True,
        "streamed": True,
        "ttft_s": wait_s,
        "tpot_s": rest_s / 19,
        "output_tokens": 20.0,
    }
    steps = [("hop", {"hop": "plan", "duration_s": plan_s}), ("hop", final)]
    return {"steps": steps, "answer_start_s": plan_s + wait_s}


def both(profile: Profile, last_s: float, answer_s: float, **more: Any) -> Allocation:
    return allocate(profile, last_s, binds="both", answer_deadline_s=answer_s, **more)


seconds = st.integers(1, 8).map(float)
trajectories = st.lists(st.builds(streamed, seconds, seconds, seconds), min_size=1, max_size=12)


@slow_is_fine
@given(trajectories, st.integers(4, 20).map(float), st.floats(0.2, 1.0))
def test_a_trajectory_is_in_time_when_it_meets_both(profile_of: Build, rows: Any, last_s: float, part: float) -> None:
    profile = profile_of(rows)
    answer_s = last_s * part
    t = profile.trajectories
    met = (t.duration_s <= last_s) & (t.answer_start_s * last_s / answer_s <= last_s)
    assert both(profile, last_s, answer_s).feasibility.p_deadline == pytest.approx(met.mean())


@slow_is_fine
@given(trajectories, st.integers(4, 20).map(float), st.floats(0.2, 1.0))
def test_no_path_gets_more_than_either_deadline(profile_of: Build, rows: Any, last_s: float, part: float) -> None:
    a = both(profile_of(rows), last_s, last_s * part)
    assert a.stream is not None and a.stream.answer_s is not None
    before = math.fsum([*(slot.budget_s for slot in a.slots), a.work_s])
    assert before + a.stream.answer_s <= last_s * part + 1e-9
    assert before + a.stream.budget_s <= last_s + 1e-9
    assert before + a.stream.budget_s == pytest.approx(last_s)


def test_equal_deadlines_leave_the_answer_no_time_after_its_first_token(profile_of: Build) -> None:
    a = both(profile_of([streamed(1.0, 1.0, 1.0)] * 5), 4.0, 4.0)
    assert a.stream is not None
    assert a.stream.budget_s == a.stream.answer_s


def test_both_go_together(profile_of: Build) -> None:
    profile = profile_of([streamed(1.0, 1.0, 1.0)])
    with pytest.raises(ValueError, match="answer_deadline_s"):
        allocate(profile, 4.0, binds="both")
    with pytest.raises(ValueError, match="answer_deadline_s"):
        allocate(profile, 4.0, answer_deadline_s=1.0)
    with pytest.raises(ValueError, match="within the deadline"):
        both(profile, 4.0, 5.0)


def test_a_trajectory_without_an_observed_answer_is_left_out(profile_of: Build) -> None:
    unseen = {"steps": [("hop", {"hop": "plan", "duration_s": 1.0})]}
    a = both(profile_of([streamed(1.0, 1.0, 1.0), unseen]), 4.0, 3.0)
    assert a.learned_from.left_out == {"no_answer_start": 1}
