"""A conversation as one trajectory, without the person's time."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.budgets import Profile, allocate
from hopbudget.budgets.groups.conversation import by_conversation

Build = Callable[..., Profile]


def request(session: str, at: float, *seconds: float, **more: Any) -> dict[str, Any]:
    return {
        "session": session,
        "started_at": at,
        "steps": [("hop", {"hop": "chat", "duration_s": s}) for s in seconds] + [("work", {"duration_s": 0.5})],
        **more,
    }


def test_requests_follow_each_other_without_the_time_between(profile_of: Build) -> None:
    profile = by_conversation(profile_of([request("x", 1000.0, 2.0, 1.0), request("x", 0.0, 4.0)]))
    assert profile.trajectories.duration_s.tolist() == [4.5 + 3.5]
    assert profile.hops.started_s.tolist() == [0.0, 4.5, 6.5]
    assert profile.hops.visit.tolist() == [1, 2, 3]
    assert profile.works.started_s.tolist() == [4.0, 7.5]
    assert profile.trajectories.work_s.tolist() == [1.0]
    assert profile.trajectories.started_at.tolist() == [0.0]


def test_the_last_request_says_how_it_came_out(profile_of: Build) -> None:
    rows = [request("x", 0.0, 1.0, outcome="failed"), request("x", 9.0, 1.0, outcome="truncated", run="new")]
    t = by_conversation(profile_of(rows)).trajectories
    assert (t.outcome[0], t.run[0]) == ("truncated", "new")


def test_only_the_last_final_stream_is_final(profile_of: Build) -> None:
    def ending(at: float) -> dict[str, Any]:
        hop = {"hop": "say", "duration_s": 1.0, "final": True, "streamed": True, "ttft_s": 0.2}
        return {"session": "x", "started_at": at, "steps": [("hop", hop)], "answer_start_s": 0.25}

    joined = by_conversation(profile_of([ending(0.0), ending(5.0)]))
    assert joined.hops.final.tolist() == [False, True]
    assert joined.trajectories.answer_start_s.tolist() == [1.25]


def test_what_spoils_a_request_spoils_its_conversation(profile_of: Build) -> None:
    rows = [request("x", 0.0, 1.0, complete=False), request("x", 1.0, 1.0), request("y", 0.0, 1.0, intervened=True)]
    t = by_conversation(profile_of(rows)).trajectories
    assert t.complete.tolist() == [False, True]
    assert t.intervened.tolist() == [False, True]


def test_without_a_session_a_request_stays_alone(profile_of: Build) -> None:
    profile = by_conversation(profile_of([request("", 0.0, 1.0), request("", 1.0, 2.0)]))
    assert profile.trajectories.duration_s.tolist() == [1.5, 2.5]


@given(st.lists(st.tuples(st.sampled_from(["", "x", "y", "z"]), st.integers(0, 9), st.integers(1, 5)), max_size=12))
def test_time_and_hops_are_neither_lost_nor_made(profile_of: Build, rows: Any) -> None:
    profile = profile_of([request(session, float(at), float(s)) for session, at, s in rows])
    joined = by_conversation(profile)
    assert joined.trajectories.duration_s.sum() == pytest.approx(profile.trajectories.duration_s.sum())
    assert len(joined.hops.hop) == len(profile.hops.hop)
    assert np.all(np.diff(joined.hops.trajectory) >= 0)
    inside = joined.hops.started_s + joined.hops.duration_s
    assert np.all(inside <= joined.trajectories.duration_s[joined.hops.trajectory] + 1e-9)


def test_a_plan_says_what_its_unit_is(profile_of: Build) -> None:
    profile = by_conversation(profile_of([request("x", 0.0, 1.0), request("x", 1.0, 1.0)]))
    assert allocate(profile, 5.0, unit="conversation").learned_from.unit == "conversation"
