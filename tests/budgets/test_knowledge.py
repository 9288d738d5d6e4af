"""All that a plan learns beside its budgets, from much, from little and from nothing."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from hopbudget.budgets import Profile
from hopbudget.budgets.drifts import fingerprint
from hopbudget.budgets.run_time import knowledge

ProfileOf = Callable[..., Profile]


def test_everything_is_learned_from_enough(looping: ProfileOf) -> None:
    found = knowledge.learn(looping(600), 5.0, 80.0)
    assert found.steps and found.chance and found.abort and found.answer and found.tokens and found.caps
    assert found.max_steps == found.steps.left(0.0, 0.8)
    assert found.steps.at == (0.5, 0.8, 0.9, 0.95)


@pytest.mark.parametrize("n", [1, 2, 5, 12, 40])
def test_little_is_no_error(looping: ProfileOf, n: int) -> None:
    found = knowledge.learn(looping(n), 5.0)
    assert found.chance is not None
    assert found.abort is not None
    assert (found.steps is None) == (n < 10)
    assert not found.tokens or n >= 12
    assert found.to_plan()["fingerprint"]["models"] == ["m"]


def test_trajectories_without_a_hop_teach_nothing(profile_of: ProfileOf) -> None:
    found = knowledge.learn(profile_of([{"duration_s": 1.0}] * 60), 5.0)
    assert (found.steps, found.chance, found.abort, found.answer) == (None, None, None, None)
    assert found.max_steps is None


@pytest.mark.parametrize("outcome", ["failed", "cancelled", "timed_out", "refused"])
def test_trajectories_that_never_came_well_are_no_error(looping: ProfileOf, outcome: str) -> None:
    profile = looping(60)
    all_alike = replace(profile.trajectories, outcome=profile.trajectories.outcome * 0 + outcome)
    found = knowledge.learn(Profile(all_alike, profile.hops, profile.works), 5.0)
    if found.chance is not None:
        assert found.chance.base_rate == 0.0
    assert found.abort is None or not found.abort.pays


def test_the_deadline_is_the_one_of_the_file(looping: ProfileOf) -> None:
    assert knowledge.learn(looping(40), 4.0000001234).deadline_s == 4.000001


def test_where_the_answers_start_binds_its_length_is_free(looping: ProfileOf) -> None:
    profile = looping(60)
    answered = replace(profile.trajectories, answer_start_s=profile.trajectories.duration_s * 0.8)
    found = knowledge.learn(Profile(answered, profile.hops, profile.works), 5.0, binds="answer")
    assert found.answer is None
    assert found.chance is not None and found.steps is not None


# --- the fingerprint ------------------------------------------------------------------------------------------


def test_a_fingerprint_names_all_that_takes_time(profile_of: ProfileOf) -> None:
    hops = [
        {"hop": "plan", "model": "large", "input_tokens": 100.0, "duration_s": 1.0},
        {"hop": "write", "model": "small", "input_tokens": 300.0, "cached_tokens": 100.0, "duration_s": 1.0},
    ]
    works = [{"work": "search", "duration_s": 2.0}, {"work": "search", "duration_s": 4.0}]
    rows = [{"run": "v2", "hops": hops, "works": works}, {"run": "v2", "hops": hops}, {"run": "v1", "hops": hops}]
    found = fingerprint.learn(profile_of(rows))
    assert found.models == ("large", "small")
    assert found.hops == ("plan", "write")
    assert found.runs == ("v2", "v1")
    assert found.works == (("search", 3.0, 2),)
    assert found.prompts == (("large", 100.0, 100.0, 100.0, 3), ("small", 200.0, 200.0, 200.0, 3))


def test_a_fingerprint_leaves_out_trajectories_that_lost_their_root(profile_of: ProfileOf) -> None:
    rows = [{"hops": [{"model": "seen"}]}, {"complete": False, "hops": [{"model": "lost"}]}]
    assert fingerprint.learn(profile_of(rows)).models == ("seen",)


def test_a_fingerprint_keeps_at_most_twenty_names_of_a_kind(profile_of: ProfileOf) -> None:
    works = [{"work": f"tool{index:02d}", "duration_s": float(index)} for index in range(30)]
    found = fingerprint.learn(profile_of([{"run": f"r{index}", "works": works} for index in range(30)]))
    assert len(found.runs) == len(found.works) == 20
    assert found.works[0][0] == "tool29"
