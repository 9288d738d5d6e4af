"""New names in trajectories, against a plan's fingerprint."""

from collections.abc import Callable
from typing import Any

import numpy as np

from hopbudget.budgets import Profile
from hopbudget.budgets.drifts import fingerprint
from hopbudget.budgets.drifts.unlike import unlike

Build = Callable[..., Profile]


def trajectory(model: str = "m", hop: str = "plan", tool: str = "search", run: str = "r1") -> dict[str, Any]:
    steps = [("hop", {"model": model, "hop": hop, "duration_s": 1.0}), ("work", {"work": tool, "duration_s": 1.0})]
    return {"run": run, "steps": steps}


def found(profile_of: Build, later: list[dict[str, Any]]) -> list[tuple[str, str, float, int, bool]]:
    known = fingerprint.learn(profile_of([trajectory()] * 30)).to_plan()
    profile = profile_of(later)
    return [(u.kind, u.name, u.share, u.since, u.changes) for u in unlike(profile, np.arange(len(profile)), known)]


def test_the_same_names_are_nothing_new(profile_of: Build) -> None:
    assert found(profile_of, [trajectory()] * 10) == []


def test_a_new_model_hop_or_tool_is_a_change_and_a_new_run_is_none_by_itself(profile_of: Build) -> None:
    later = [trajectory()] * 6 + [trajectory("n", "write", "fetch", "r2")] * 4
    assert found(profile_of, later) == [
        ("model", "n", 0.4, 6, True),
        ("hop", "write", 0.4, 6, True),
        ("tool", "fetch", 0.4, 6, True),
        ("run", "r2", 0.4, 6, False),
    ]


def test_a_name_that_hardly_ever_comes_is_no_change(profile_of: Build) -> None:
    assert found(profile_of, [trajectory()] * 99 + [trajectory("n")]) == [("model", "n", 0.01, 99, False)]


def test_what_the_fingerprint_has_no_names_of_is_not_compared(profile_of: Build) -> None:
    profile = profile_of([trajectory()])
    assert unlike(profile, np.arange(1), {}) == ()
