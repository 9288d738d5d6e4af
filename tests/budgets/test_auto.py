"""`auto`: which way of splitting does best on trajectories that it was not learned from."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopbudget.budgets import Allocation, Profile, allocate, deadline_at
from hopbudget.budgets.allocation import SlotKind
from hopbudget.budgets.groups.folds import Clusters
from hopbudget.budgets.numbers.quantiles import clopper_pearson
from hopbudget.budgets.splits.auto import Aim, binding_place, cross_validate, in_time, step_of, succeeded, try_out, ways
from hopbudget.budgets.splits.slots import Times

Build = Callable[..., Profile]


@pytest.fixture(scope="session")
def pipeline() -> Any:
    """`bench.pipeline`, by its path: the benchmarks are no part of the package."""
    path = Path(__file__).resolve().parents[2] / "bench" / "pipeline.py"
    spec = importlib.util.spec_from_file_location("bench_pipeline", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def times(seconds: Any, **more: Any) -> Times:
    x = np.array(seconds, dtype=float)
    rows, columns = x.shape
    flags = np.zeros((rows, columns), dtype=bool)
    base: dict[str, Any] = {
        "names": tuple("abcdefgh"[:columns]),
        "slots": columns,
        "work": None,
        "stream": None,
        "seconds": x,
        "censored": flags,
        "timed_out": flags,
        "visits": np.ones((rows, columns), dtype=np.int64),
        "finish_s": x.sum(axis=1),
        "finish_censored": np.zeros(rows, dtype=bool),
    }
    return Times(**{**base, **more})


def alone(n: int) -> Clusters:
    return Clusters("trajectory", np.arange(n), ("",) * n)


def hops(*seconds: float, **more: Any) -> dict[str, Any]:
    names = "abcdefgh"
    return {"steps": [("hop", {"hop": names[k], "duration_s": s}) for k, s in enumerate(seconds)], **more}


def unlike(n: int, seed: int = 1) -> list[dict[str, Any]]:
    """One quick and steady place, one slow and wild one."""
    random = np.random.default_rng(seed)
    return [hops(0.2 + 0.01 * random.random(), float(random.lognormal(1.0, 0.8))) for _ in range(n)]


def alike(n: int, seed: int = 1) -> list[dict[str, Any]]:
    """Three places that take equally long."""
    random = np.random.default_rng(seed)
    return [hops(*(float(s),) * 3) for s in random.lognormal(0.0, 0.4, n)]


def noisy(n: int, seed: int = 1) -> list[dict[str, Any]]:
    """Three places alike but for chance."""
    random = np.random.default_rng(seed)
    return [hops(*(float(s) for s in random.lognormal(0.0, 0.4, 3))) for _ in range(n)]


def at_p90(profile: Profile, **more: Any) -> Allocation:
    return allocate(profile, deadline_at(profile, 90), **more)


def test_success_is_every_budget_and_the_deadline_kept() -> None:
    found = succeeded(times([[1, 1], [3, 1], [1, 3], [2, 2]]), np.array([2.0, 2.0]), 4.0)
    assert found.tolist() == [1, 0, 0, 1]


def test_success_is_unknown_where_a_place_was_cut_off_within_its_budget() -> None:
    cut = times([[1, 1], [3, 1]], censored=np.array([[True, False], [True, False]]))
    found = succeeded(cut, np.array([2.0, 2.0]), 9.0)
    assert np.isnan(found[0])
    assert found[1] == 0


def test_in_time_is_unknown_where_a_trajectory_was_cut_off_before() -> None:
    cut = times([[1.0], [5.0], [2.0]], finish_censored=np.array([True, True, False]))
    found = in_time(cut, 3.0)
    assert np.isnan(found[0])
    assert found[1:].tolist() == [0, 1]


def test_every_trajectory_is_scored_by_budgets_that_it_was_not_learned_from() -> None:
    # Two clusters that differ: each is judged by what the other one taught.
    x = times([[1.0, 3.0]] * 10 + [[3.0, 1.0]] * 10)
    two = Clusters("run", np.repeat([0, 1], 10), ("a", "b"))
    tried = try_out(x, two, Aim(4.0, 0.9, 0.0), only=[("mean", None)])
    assert tried.kept["mean", None].sum() == 0


def test_unlike_places_are_split_by_what_they_take(profile_of: Build) -> None:
    a = at_p90(profile_of(unlike(400)))
    assert a.method == "auto"
    assert a.auto is not None and a.auto.beats_equal
    assert a.auto.method == "independent"
    assert a.auto.gain.low > 0
    assert a.slots[0].budget_s < a.slots[1].budget_s


def test_alike_places_get_equal_shares_and_it_says_so(profile_of: Build) -> None:
    a = at_p90(profile_of(alike(400)))
    assert a.auto is not None and not a.auto.beats_equal
    assert a.auto.method == "equal_tuned"
    assert "nothing beats an equal split here" in a.notes
    assert len({round(slot.budget_s, 6) for slot in a.slots}) == 1


def test_a_gain_of_less_than_one_standard_error_moves_nothing(profile_of: Build) -> None:
    a = at_p90(profile_of(noisy(200, seed=3)))
    assert a.auto is not None
    moved = [c for c in a.auto.candidates[1:] if c.gain > c.error]
    assert a.auto.method == (moved[-1].method if moved else "equal_tuned")


def test_success_is_what_was_measured_out_of_sample_not_on_what_was_learned(profile_of: Build) -> None:
    a = at_p90(profile_of(unlike(60, seed=5)))
    assert a.auto is not None
    assert a.auto.success.share <= a.kept.share + 0.05
    assert a.auto.success.low <= a.auto.success.share <= a.auto.success.high
    assert a.auto.deadline_only.share == pytest.approx(a.feasibility.p_deadline)
    assert a.auto.kept_of_deadline.share == pytest.approx(a.auto.success.share / a.auto.deadline_only.share)


def test_few_trajectories_are_no_finding_about_an_equal_split(profile_of: Build) -> None:
    notes = allocate(profile_of([hops(1.0, 2.0), hops(1.5, 1.0), hops(1.0, 1.0)]), 5.0).notes
    assert "of only 3 trajectories nothing tells whether another split beats the equal one" in notes
    assert not any("nothing beats" in note for note in notes)


def test_one_place_leaves_nothing_to_choose(profile_of: Build) -> None:
    a = at_p90(profile_of([hops(1.0 + 0.1 * k) for k in range(40)]))
    assert a.auto is not None
    assert (a.auto.method, a.auto.beats_equal, len(a.auto.candidates)) == ("equal_tuned", False, 1)
    assert a.auto.success == a.auto.deadline_only


def test_too_few_trajectories_leave_the_equal_split_unchecked(profile_of: Build) -> None:
    a = allocate(profile_of([hops(1.0, 2.0)]), 5.0)
    assert a.auto is None
    assert [slot.budget_s for slot in a.slots] == [2.5, 2.5]
    assert "stands unchecked" in a.notes[0]


def test_the_price_of_more_slots_is_told_by_the_kinds_of_slots(profile_of: Build) -> None:
    random = np.random.default_rng(2)
    rows = [
        {"steps": [("hop", {"hop": "a", "duration_s": float(s)}) for s in random.lognormal(0, 0.5, 1 + k % 4)]}
        for k in range(200)
    ]
    a = at_p90(profile_of(rows))
    assert a.auto is not None
    assert [kind for kind, _, _ in a.auto.price] == ["name", "before", "visit"]
    assert [places for _, places, _ in a.auto.price] == [1, 2, 4]
    success = [share for _, _, share in a.auto.price]
    assert success == sorted(success, reverse=True)
    assert success[0] == pytest.approx(a.auto.deadline_only.share)


@pytest.mark.parametrize("kind", ["name", "before"])
def test_the_price_of_the_slots_that_were_taken_is_the_success_that_is_told(profile_of: Build, kind: SlotKind) -> None:
    rows = [
        {"steps": [("hop", {"hop": hop, "duration_s": float(s)}) for hop, s in zip("aab", (k, k, 2 * k), strict=True)]}
        for k in np.random.default_rng(6).lognormal(0, 0.5, 120)
    ]
    a = at_p90(profile_of(rows), slots=kind)
    assert a.auto is not None
    told = {taken: share for taken, _, share in a.auto.price}
    assert told[kind] == a.auto.success.share


def test_the_binding_place_is_broken_alone_most_often() -> None:
    x = times([[1, 1], [3, 1], [3, 1], [1, 3], [3, 3], [9, 1]])
    assert binding_place(x, np.array([2.0, 2.0]), 6.0) == ("a", pytest.approx(2 / 6))


def test_no_place_binds_where_nothing_breaks() -> None:
    assert binding_place(times([[1, 1]]), np.array([2.0, 2.0]), 4.0) == (None, 0.0)


def test_one_more_second_buys_those_who_came_within_it(profile_of: Build) -> None:
    a = allocate(profile_of([hops(float(k)) for k in range(1, 11)]), 5.0)
    assert a.auto is not None
    assert a.auto.step_s == 1.0
    assert a.auto.step_in_time == pytest.approx(0.1)
    assert a.auto.step_kept == pytest.approx(0.1)


def test_a_short_deadline_is_made_longer_by_less_than_a_second(profile_of: Build) -> None:
    a = allocate(profile_of([hops(k / 10) for k in range(1, 11)]), 0.5)
    assert a.auto is not None
    assert a.auto.step_s == pytest.approx(0.1)
    assert a.auto.step_in_time == pytest.approx(0.1)


@pytest.mark.parametrize(("deadline_s", "step_s"), [(3600.0, 1.0), (5.0, 1.0), (2.0, 0.1), (0.06, 0.01), (0.01, 0.001)])
def test_the_step_is_a_fifth_of_the_deadline_at_most_and_a_round_number(deadline_s: float, step_s: float) -> None:
    assert step_of(deadline_s) == pytest.approx(step_s)


def test_the_reserve_of_work_is_chosen_as_well() -> None:
    assert ("independent", 0.9) in ways(times([[1, 1]], slots=1, work=1))
    assert ("independent", 0.9) not in ways(times([[1, 1]]))


def test_runs_are_held_out_whole(profile_of: Build) -> None:
    rows = [{**row, "run": f"r{k % 6}"} for k, row in enumerate(unlike(120))]
    a = at_p90(profile_of(rows))
    assert a.auto is not None
    assert (a.auto.cluster, a.auto.clusters, a.auto.folds) == ("run", 6, 6)


@pytest.mark.parametrize("make", [unlike, alike, noisy])
def test_having_every_trajectory_twice_changes_nothing(profile_of: Build, make: Any) -> None:
    rows = make(60)
    once, twice = (at_p90(profile_of(r)) for r in (rows, rows + rows))
    assert once.auto is not None and twice.auto is not None
    assert [c.method for c in once.auto.candidates] == [c.method for c in twice.auto.candidates]
    assert [s.budget_s for s in twice.slots] == pytest.approx([s.budget_s for s in once.slots])
    assert twice.auto.success.share == pytest.approx(once.auto.success.share)


def test_a_plan_file_has_no_infinity(profile_of: Build) -> None:
    a = at_p90(profile_of(unlike(60)))
    assert a.auto is not None
    table = a.auto.to_plan()
    assert table["success"].keys() == {"share", "low", "high", "n"}
    assert table["candidates"][0]["method"] == "equal_tuned"


def test_cross_validation_has_no_report_with_one_cluster() -> None:
    one = Clusters("run", np.zeros(4, dtype=np.int64), ("a",))
    assert cross_validate(times([[1, 1]] * 4), one, alone(4), Aim(3.0, 0.9, 0.0)) == (("equal_tuned", None), None)


def test_a_fixed_pipeline_of_eight_unlike_hops_gains_a_third_over_equal_shares(pipeline: Any) -> None:
    held_out = pipeline.held_out(trajectories=1000, seeds=range(3))
    assert held_out.gain.value >= 1.3
    assert held_out.gain.low >= 1.25


def test_a_pipeline_of_alike_hops_gains_next_to_nothing(pipeline: Any) -> None:
    held_out = pipeline.held_out(trajectories=1000, seeds=range(2), shape=pipeline.ALIKE)
    assert held_out.gain_over_equal.value == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(("deadline_s", "kept"), [(1.0, 0.0), (9.0, 1.0)])
def test_a_share_of_none_or_all_is_no_certainty(profile_of: Build, deadline_s: float, kept: float) -> None:
    a = allocate(profile_of([hops(1.0 + k / 100, 1.0) for k in range(35)]), deadline_s)
    assert a.auto is not None
    assert a.auto.success.share == kept
    assert (a.auto.success.low, a.auto.success.high) == pytest.approx(clopper_pearson(35 * kept, 35))


def test_no_gain_in_any_trajectory_keeps_its_interval_of_nothing(profile_of: Build) -> None:
    a = at_p90(profile_of(alike(60)))
    assert a.auto is not None
    assert (a.auto.gain.low, a.auto.gain.share, a.auto.gain.high) == (0.0, 0.0, 0.0)
