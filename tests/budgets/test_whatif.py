"""What one change does to recorded trajectories."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hopbudget.budgets import CannotAllocateError, Profile
from hopbudget.budgets.feasibility.whatif import Change, WhatIf, what_if

Build = Callable[..., Profile]


def serial(plan_s: float, search_s: float, **plan: Any) -> dict[str, Any]:
    hop = {"hop": "plan", "duration_s": plan_s, "model": "a", **plan}
    return {"steps": [("hop", hop), ("work", {"work": "search", "duration_s": search_s})]}


def ask(profile: Profile, change: Change, deadline_s: float = 4.0) -> WhatIf:
    return what_if(profile, change, deadline_s, percentile=50)


def test_a_dropped_hop_takes_no_time(profile_of: Build) -> None:
    found = ask(profile_of([serial(3.0, 2.0), serial(1.0, 5.0)]), Change("drop", "plan"))
    assert (found.before.share, found.after.share) == (0.0, 0.5)
    assert (found.min_before_s, found.min_after_s) == (5.0, 2.0)
    assert (found.changed, found.trajectories) == (2, 2)
    assert "nothing waits for plan" in found.assumption


def test_work_can_be_scaled(profile_of: Build) -> None:
    found = ask(profile_of([serial(3.0, 2.0)]), Change("scale", "search", 0.5))
    assert found.min_after_s == 4.0
    assert found.after.share == 1.0


def test_slower_is_slower(profile_of: Build) -> None:
    assert ask(profile_of([serial(3.0, 2.0)]), Change("scale", "plan", 2.0)).min_after_s == 8.0


def test_fewer_tokens_save_their_own_pace(profile_of: Build) -> None:
    long = serial(3.0, 2.0, output_tokens=30.0, tpot_s=0.1)
    short = serial(1.0, 2.0, output_tokens=5.0, tpot_s=0.1)
    found = what_if(profile_of([long, short]), Change("tokens", "plan", 10.0), 4.0, percentile=100 - 1e-9)
    assert found.min_before_s == 5.0
    assert found.min_after_s == pytest.approx(3.0)  # 20 tokens less at 0.1 s each; the short one stays
    assert "10 tokens" in found.assumption


def test_only_answers_past_the_cap_are_changed_by_it(profile_of: Build) -> None:
    rows = [serial(3.0, 2.0, output_tokens=n, tpot_s=0.1) for n in (30.0, 11.0, 10.0, 5.0, float("nan"))]
    assert ask(profile_of(rows), Change("tokens", "plan", 10.0)).changed == 2
    assert ask(profile_of(rows), Change("tokens", "plan", 30.0)).changed == 0


def test_what_runs_beside_it_is_not_saved(profile_of: Build) -> None:
    side_by_side = {
        "steps": [
            ("hop", {"hop": "plan", "duration_s": 4.0}),
            ("hop", {"hop": "other", "started_s": 1.0, "duration_s": 3.0}),
        ]
    }
    assert ask(profile_of([side_by_side]), Change("drop", "plan")).min_after_s == 3.0


def test_another_model_takes_its_own_line(profile_of: Build) -> None:
    random = np.random.default_rng(0)

    def call(model: str, pace: float, tokens: float) -> dict[str, Any]:
        return serial(pace * tokens, 0.0, model=model, output_tokens=tokens, input_tokens=100.0)

    tokens = random.integers(10, 100, 60)
    rows = [call("a", 0.2, float(n)) for n in tokens] + [call("b", 0.1, float(n)) for n in tokens]
    profile = profile_of(rows)
    found = what_if(profile, Change("model", "plan", "b"), 5.0, percentile=90)
    assert found.min_after_s == pytest.approx(float(np.sort(0.1 * tokens)[53]), rel=0.02)
    assert "first token and pace that were recorded of it" in found.assumption


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (Change("drop", "verify"), "nothing is named 'verify'; there are plan, search"),
        (Change("model", "plan", "zeta"), "no call of 'zeta' was recorded"),
        (Change("tokens", "plan", 5.0), "tokens of these hops are not known"),
    ],
)
def test_what_was_never_recorded_is_said(profile_of: Build, change: Change, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        ask(profile_of([serial(3.0, 2.0)]), change)
    assert isinstance(caught.value, CannotAllocateError) is (change.kind == "tokens")


def test_failures_stay_failures(profile_of: Build) -> None:
    failed = {**serial(3.0, 2.0), "outcome": "failed"}
    found = ask(profile_of([failed, serial(1.0, 1.0)]), Change("drop", "plan"))
    assert found.after.share == 0.5
