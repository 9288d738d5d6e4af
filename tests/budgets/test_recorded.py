"""Recorded trajectories that we did not make: the shape that the design rests on."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hopbudget.budgets import METHODS, SLOT_KINDS, Profile, allocate, deadline_at, explain

Load = Callable[[str], Profile]

RETAIL = "tau2-retail-gpt41"
GEMINI = "tau2-retail-gemini"
CODING = "coding-turns"
files = pytest.mark.parametrize("name", [RETAIL, GEMINI, CODING])


@files
@pytest.mark.parametrize("slots", SLOT_KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_a_plan_at_p90_adds_up_and_says_about_nine_in_ten(recorded: Load, name: str, slots: Any, method: Any) -> None:
    profile = recorded(name)
    a = allocate(profile, deadline_at(profile, 90), method=method, slots=slots)
    total = math.fsum([*(slot.budget_s for slot in a.slots), a.work_s])
    assert total <= a.deadline_s
    assert total == pytest.approx(a.deadline_s)
    assert a.feasibility.p_deadline == pytest.approx(0.9, abs=0.001)
    assert a.feasibility.p_low < 0.9 < a.feasibility.p_high
    assert a.feasibility.verdict == "feasible"


@pytest.mark.parametrize(
    ("name", "visits", "answers", "pace", "tools"),
    [(RETAIL, 0.59, 0.15, 0.24, 0.0), (GEMINI, 0.83, -0.07, 0.17, 0.0), (CODING, 0.08, -0.01, 0.0, 0.93)],
)
def test_a_slow_request_took_more_steps_or_more_tools(
    recorded: Load, name: str, visits: float, answers: float, pace: float, tools: float
) -> None:
    profile = recorded(name)
    causes = explain(profile)
    known = ~np.isnan(causes.excess_s)
    assert np.abs(causes.seconds.sum(axis=1) - causes.excess_s)[known].max() < 1e-6
    slow = profile.trajectories.duration_s > np.quantile(profile.trajectories.duration_s, 0.9)
    shares = causes.share_of_excess(slow)
    found = [shares[kind] for kind in ("visits", "answers", "pace", "tools")]
    assert found == pytest.approx([visits, answers, pace, tools], abs=0.05)


@pytest.mark.parametrize(
    ("name", "equal", "independent"), [(RETAIL, 0.756, 0.759), (GEMINI, 0.769, 0.790), (CODING, 0.754, 0.853)]
)
def test_splitting_pays_where_the_places_are_unlike(
    recorded: Load, name: str, equal: float, independent: float
) -> None:
    profile = recorded(name)
    d = deadline_at(profile, 90)
    kept = [allocate(profile, d, method=m, slots="before").kept.share for m in ("equal", "independent")]  # type: ignore[arg-type]
    assert kept == pytest.approx([equal, independent], abs=0.035)
    assert kept[1] >= kept[0]


@pytest.mark.parametrize("name", [RETAIL, GEMINI])
def test_a_loop_of_one_hop_name_has_nothing_to_split(recorded: Load, name: str) -> None:
    a = allocate(recorded(name), 10.0)
    assert [slot.slot for slot in a.slots] == ["chat"]
    assert a.work_s == 0.0
    assert "nothing to split" in a.notes[0]


def test_tools_get_seconds_of_their_own_where_they_take_them(recorded: Load) -> None:
    a = allocate(recorded(CODING), 1000.0)
    assert [slot.slot for slot in a.slots] == ["chat"]
    assert a.work_s > 0
