"""Causes over many: what the time past a deadline went to, and what late trajectories have in common."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hopbudget.budgets import CannotAllocateError, Profile
from hopbudget.budgets.blame.breaches import Breaches, breaches
from hopbudget.budgets.blame.traits import concurrency, traits

Build = Callable[..., Profile]


def hop(name: str, seconds: float, **more: Any) -> tuple[str, dict[str, Any]]:
    return "hop", {"hop": name, "duration_s": seconds, **more}


def work(name: str, seconds: float) -> tuple[str, dict[str, Any]]:
    return "work", {"work": name, "duration_s": seconds}


def usual(count: int = 41, **more: Any) -> list[dict[str, Any]]:
    return [{"steps": [hop("plan", 1.0), work("search", 0.5), hop("answer", 2.0)], **more} for _ in range(count)]


def slow_tool(**more: Any) -> dict[str, Any]:
    return {"steps": [hop("plan", 1.0), work("search", 4.5), hop("answer", 2.0)], **more}


def loop(**more: Any) -> dict[str, Any]:
    return {"steps": [hop("plan", 1.0)] * 4 + [work("search", 0.5), hop("answer", 2.0)], **more}


def kinds(found: Breaches) -> dict[str, float]:
    return {cause.kind: cause.seconds for cause in found.causes}


def test_each_cause_gets_the_seconds_that_it_cost(profile_of: Build) -> None:
    found = breaches(profile_of([*usual(), slow_tool(), loop()]), 5.0)
    assert kinds(found)["tools"] == pytest.approx(4.0)
    assert kinds(found)["visits"] == pytest.approx(3.0)
    assert found.excess_s == pytest.approx(7.0)
    assert {(hop.name, hop.work): round(hop.seconds, 6) for hop in found.hops[:2]} == {
        ("search", True): 4.0,
        ("plan", False): 3.0,
    }


def test_each_late_trajectory_has_one_main_cause(profile_of: Build) -> None:
    found = breaches(profile_of([*usual(), slow_tool(), slow_tool(), loop()]), 5.0)
    assert {cause.kind: cause.main_in for cause in found.causes if cause.main_in} == {"tools": 2, "visits": 1}
    assert [(late.kind, late.name) for late in found.trajectories] == [
        ("tools", "search"),
        ("tools", "search"),
        ("visits", "plan"),
    ]


steps = st.lists(
    st.one_of(
        st.builds(lambda name, size: hop(name, size / 4), st.sampled_from("abc"), st.integers(0, 40)),
        st.builds(lambda name, size: work(name, size / 4), st.sampled_from("tu"), st.integers(0, 40)),
    ),
    max_size=6,
)
rows = st.lists(
    st.fixed_dictionaries({"steps": steps, "outcome": st.sampled_from(["ok", "ok", "failed", "timed_out"])}),
    min_size=1,
    max_size=12,
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=60)
@given(given_rows=rows, deadline_s=st.floats(0.5, 30))
def test_shares_of_causes_places_and_hops_each_add_up_to_one(
    profile_of: Build, given_rows: list[dict[str, Any]], deadline_s: float
) -> None:
    found = breaches(profile_of([*given_rows, {"steps": [hop("a", 0.25)]}]), deadline_s)
    assert sum(cause.seconds for cause in found.causes) == pytest.approx(found.excess_s, abs=1e-6)
    assert sum(cause.main_in for cause in found.causes) <= found.late
    if abs(found.excess_s) > 1e-3:
        for parts in (found.causes, found.places, found.hops):
            assert sum(part.share for part in parts) == pytest.approx(1.0, abs=1e-9)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=30)
@given(given_rows=rows, seed=st.integers(0, 2**16))
def test_the_order_of_trajectories_changes_nothing(
    profile_of: Build, given_rows: list[dict[str, Any]], seed: int
) -> None:
    profile = profile_of([*given_rows, *[{"steps": [hop("a", 0.25)]}] * 30])
    order = np.random.default_rng(seed).permutation(len(profile))
    one, other = breaches(profile, 2.0), breaches(profile.take(order), 2.0)
    assert kinds(one) == pytest.approx(kinds(other), abs=1e-6)
    assert (one.late, one.failed, one.counted) == (other.late, other.failed, other.counted)


def test_a_failure_within_the_deadline_is_counted_apart_and_has_no_cause(profile_of: Build) -> None:
    found = breaches(profile_of([*usual(), *usual(3, outcome="failed"), slow_tool()]), 5.0)
    assert (found.late, found.failed, found.breached, found.counted) == (1, 3, 4, 45)
    assert found.excess_s == pytest.approx(4.0)


def test_what_was_cut_off_within_the_deadline_says_nothing(profile_of: Build) -> None:
    found = breaches(profile_of([*usual(), *usual(2, outcome="cancelled"), slow_tool(outcome="timed_out")]), 5.0)
    assert found.left_out == {"cancelled": 2}
    assert (found.late, found.counted) == (1, 42)


def test_when_nothing_is_late_there_is_nothing_to_share(profile_of: Build) -> None:
    found = breaches(profile_of(usual()), 5.0)
    assert (found.late, found.share, found.trajectories, found.in_common) == (0, 0.0, (), ())


def test_without_one_that_came_well_nothing_can_be_compared(profile_of: Build) -> None:
    with pytest.raises(CannotAllocateError):
        breaches(profile_of(usual(3, outcome="failed")), 1.0)


def test_the_attribute_that_late_ones_share_comes_first(profile_of: Build) -> None:
    late = [slow_tool() for _ in range(20)]
    region = ["east"] * 200 + ["west"] * 20
    profile = profile_of([*usual(200), *late])
    found = breaches(profile, 5.0, {"region": np.array(region, dtype=object)})
    first = found.in_common[0]
    assert (first.factor, first.level) in {("region", "east"), ("region", "west")}
    assert first.effect.beyond_chance
    assert abs(first.effect.difference) == pytest.approx(1.0)


def test_an_attribute_without_effect_is_not_marked(profile_of: Build) -> None:
    coin = np.array(["heads" if row % 2 else "tails" for row in range(400)], dtype=object)
    found = breaches(profile_of([*usual(360), *[slow_tool() for _ in range(40)]]), 5.0, {"coin": coin})
    (heads,) = (common for common in found.in_common if common.level == "heads")
    assert heads.effect.low < 0 < heads.effect.high
    assert not heads.effect.beyond_chance


def test_a_trait_that_hardly_anybody_has_is_not_compared(profile_of: Build) -> None:
    rare = np.array(["yes"] * 5 + [""] * 46, dtype=object)
    found = breaches(profile_of([*usual(50), slow_tool()]), 5.0, {"rare": rare})
    assert "rare" not in {common.factor for common in found.in_common}


def test_the_caution_counts_the_comparisons(profile_of: Build) -> None:
    found = breaches(profile_of([*usual(40), *[loop() for _ in range(20)]]), 5.0)
    assert len(found.in_common) == 1
    assert found.caution.startswith("1 trait was compared")


def test_concurrency_is_how_many_others_ran_at_the_start(profile_of: Build) -> None:
    starts = [0.0, 1.0, 2.0, 10.0]
    profile = profile_of([{"started_at": at, "steps": [hop("a", 5.0)]} for at in starts])
    assert concurrency(profile).tolist() == [0, 1, 2, 0]


def test_hours_are_those_of_utc(profile_of: Build) -> None:
    profile = profile_of([{"started_at": 86_400.0 * 20_000 + 3600 * hour, "steps": [hop("a", 1.0)]} for hour in (3, 5)])
    assert {trait.level for trait in traits(profile) if trait.factor == "hour (UTC)"} == {
        "00:00 to 04:00",
        "04:00 to 08:00",
    }


def test_recorded_requests_are_slow_because_of_more_steps(recorded: Callable[[str], Profile]) -> None:
    profile = recorded("tau2-retail-gpt41")
    late_s = float(np.quantile(profile.trajectories.duration_s, 0.9))
    found = breaches(profile, late_s)
    assert found.causes[0].kind == "visits"
    assert 0.5 < found.causes[0].share < 0.7
    assert found.in_common[0].factor == "steps (hops)"
