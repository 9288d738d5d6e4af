"""A backtest: nothing is scored on what it was learned from, and every figure has its interval."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hopbudget.budgets import CannotAllocateError, Profile
from hopbudget.budgets.backtests.backtest import Backtest, backtest
from hopbudget.budgets.backtests.bounds import bounds
from hopbudget.budgets.backtests.parts import PARTS, Part, join, measure, reliability_of
from hopbudget.budgets.backtests.splits import METHODS, Named, resplit
from hopbudget.budgets.groups.folds import Clusters, within_runs
from hopbudget.budgets.numbers.quantiles import clopper_pearson
from hopbudget.budgets.population import population
from hopbudget.budgets.splits.slots import Times

Build = Callable[..., Profile]
Load = Callable[[str], Profile]

P90 = Named("p90", 90.0, None)


def unlike(n: int = 120, runs: int = 6, seed: int = 1) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    slow = np.exp(0.3 * random.standard_normal(runs))
    return [
        {
            "run": f"r{k % runs}",
            "steps": [
                ("hop", {"hop": "a", "duration_s": 0.2 + 0.01 * random.random(), "model": "m"}),
                ("hop", {"hop": "b", "duration_s": float(random.lognormal(1, 0.7) * slow[k % runs]), "model": "m"}),
            ],
        }
        for k in range(n)
    ]


@pytest.fixture(scope="module")
def small(profile_of: Build) -> Backtest:
    return backtest(profile_of(unlike()), [P90, Named("4s", None, 4.0)])


def test_whole_runs_are_held_out(small: Backtest) -> None:
    assert (small.held_out, small.clusters, small.folds, small.trajectories) == ("run", 6, 6, 120)


def test_every_method_is_there_with_its_interval(small: Backtest) -> None:
    for cell in small.cells:
        assert set(cell.methods) == {*METHODS, "hindsight"}
        assert all(e.low <= e.value <= e.high and e.n == 120 for e in cell.methods.values())


def test_no_split_keeps_more_than_the_deadline_alone(small: Backtest) -> None:
    for cell in small.cells:
        assert all(e.value <= 0 for e in cell.less_than_alone.values())


def test_hindsight_is_the_best_of_the_methods(small: Backtest) -> None:
    for cell in small.cells:
        rules = [name for name in METHODS if name not in ("deadline_only", "auto", "resplit")]
        assert cell.methods["hindsight"].value == max(cell.methods[name].value for name in rules)
        assert cell.auto_of_best.value <= 1.0 + 1e-12


def test_a_deadline_in_seconds_stays_as_it_was_given(small: Backtest) -> None:
    assert [cell.deadline_s == 4.0 for cell in small.cells] == [False, True]


def test_a_percentile_is_learned_anew_each_time(profile_of: Build) -> None:
    # The slow run is late by the others' p90, so that fewer than 90% are in time.
    rows = [{"run": f"r{k % 5}", "steps": [("hop", {"duration_s": 9.0 if k % 5 == 0 else 1.0})]} for k in range(100)]
    found = backtest(profile_of(rows), [P90], parts=())
    assert found.cells[0].methods["deadline_only"].value == 0.8


def test_the_sentence_names_what_was_held_out_and_what_was_told(small: Backtest) -> None:
    assert small.sentence.startswith("Of 120 held-out trajectories in 6 runs told 90%, ")
    assert "made it [" in small.sentence


def test_the_sentence_says_which_runs_are_told_one_by_one(profile_of: Build) -> None:
    sizes = {"a": 40, "b": 40, "c": 40, "d": 5}
    rows = [
        {"run": run, "steps": [("hop", {"hop": name, "duration_s": 1.0 + 0.01 * k}) for name in "xy"]}
        for run, size in sizes.items()
        for k in range(size)
    ]
    found = backtest(profile_of(rows), [P90], parts=())
    assert "in 4 runs told 90%" in found.sentence
    assert "of 3 with enough trajectories reached 90%" in found.sentence


def test_a_loop_of_one_name_is_split_by_what_came_before(profile_of: Build) -> None:
    rows = [{"steps": [("hop", {"duration_s": 1.0 + 0.01 * k}), ("hop", {"duration_s": 2.0})]} for k in range(40)]
    found = backtest(profile_of(rows), [P90], parts=())
    assert (found.slot_kind, found.places) == ("before", ("chat after start", "chat after chat"))


def test_too_little_says_so(profile_of: Build) -> None:
    with pytest.raises(
        CannotAllocateError, match="too little to hold anything out: 10 trajectories can be used, and a"
    ):
        backtest(profile_of(unlike(10)), [P90])
    with pytest.raises(CannotAllocateError, match="too little to hold anything out: 1 trajectory can be used, and a"):
        backtest(profile_of(unlike(1)), [P90])


def test_progress_ends_at_its_end(profile_of: Build) -> None:
    seen: list[tuple[int, int]] = []
    backtest(profile_of(unlike(60)), [P90], parts=PARTS[1:2], progress=lambda done, of: seen.append((done, of)))
    assert [done for done, _ in seen] == list(range(1, 13))
    assert seen[-1] == (12, 12)


def test_a_part_is_learned_on_one_side_and_scored_on_the_other(profile_of: Build) -> None:
    asked: list[tuple[set[str], set[str]]] = []

    def evaluate(train: Profile, test: Profile, *_: Any) -> dict[str, Any]:
        asked.append((set(train.trajectories.run), set(test.trajectories.run)))
        return {"trajectory": np.zeros(0, dtype=np.int64)}

    backtest(profile_of(unlike(60)), [P90], parts=[Part("steps", evaluate)])
    assert len(asked) == 6
    assert all(not (train & test) for train, test in asked)


def test_a_percentile_that_failures_forbid_is_left_open(profile_of: Build) -> None:
    rows = [{**row, "outcome": "failed" if k % 4 == 0 else "ok"} for k, row in enumerate(unlike(80, runs=5))]
    found = backtest(profile_of(rows), [P90, Named("3s", None, 3.0)])
    assert found.cells[0].deadline_s == float("inf")
    assert np.isnan(found.cells[0].methods["auto"].value)
    assert 0 < found.cells[1].methods["auto"].value < 0.75
    assert (found.cells[0].folds_untold, found.cells[0].untold) == (5, 80)
    assert found.main.label == "3s"
    assert "nan" not in found.sentence
    assert found.parts["abort.saved"].n > 0


def failing(periods: list[bool], count: int) -> list[dict[str, Any]]:
    """Single trajectories, of which those fail that the period says."""
    random = np.random.default_rng(0)
    return [
        {
            "outcome": "failed" if periods[k % len(periods)] else "ok",
            "steps": [("hop", {"duration_s": 1.0 + float(random.random())})],
        }
        for k in range(count)
    ]


def test_folds_without_a_deadline_are_counted_and_said(profile_of: Build) -> None:
    found = backtest(profile_of(failing([False] * 9 + [True], 300)), [P90], parts=())
    (cell,) = found.cells
    assert 0 < cell.folds_untold < found.folds
    assert cell.untold + cell.methods["deadline_only"].n == 300
    assert f"{cell.folds_untold} of 10 folds ({cell.untold} of 300 trajectories) are left out" in found.sentence
    assert "[0.0%" not in found.sentence
    point = next(bound for bound in found.bounds if bound.bound == "point")
    assert (point.n, point.left_out) == (300 - cell.untold, cell.untold)


def test_a_minority_of_folds_makes_no_sentence(small: Backtest) -> None:
    (cell, _) = small.cells
    most, some = (replace(small, cells=(replace(cell, folds_untold=n, untold=20 * n),)) for n in (5, 1))
    assert "made it" not in most.sentence.split(" Run by run")[0]
    assert "too little to say" in most.sentence
    assert "made it" in some.sentence and "1 of 6 folds (20 of 120 trajectories) are left out" in some.sentence


def clusters_of(n: int) -> Clusters:
    return Clusters("trajectory", np.arange(n), ("",) * n)


def test_chance_is_scored_by_row_over_the_base_rate() -> None:
    rows = {
        "trajectory": np.array([0, 0, 1]),
        "met": np.array([1.0, 1.0, 0.0]),
        "p": np.array([0.9, 0.8, 0.1]),
        "base": np.full(3, 0.5),
        "p_hint": np.array([1.0, 1.0, 0.0]),
    }
    figures, reliability = measure({"chance": rows}, clusters_of(2))
    assert figures["chance.brier"].value == pytest.approx((0.01 + 0.04 + 0.01) / 3)
    assert figures["chance.brier_over_base"].value == pytest.approx(0.06 / 0.75)
    assert figures["chance.brier_hint"].value == 0.0
    assert (figures["chance.brier"].n, figures["chance.brier"].clusters) == (3, 2)
    assert sum(n for _, _, n in reliability) == 3


def test_reliability_sets_what_was_said_beside_what_came() -> None:
    said, met = np.array([0.11, 0.19, 0.95]), np.array([0.0, 1.0, 1.0])
    assert reliability_of(said, met) == ((pytest.approx(0.15), 0.5, 2), (0.95, 1.0, 1))


def test_giving_up_is_counted_in_seconds() -> None:
    rows = {
        "trajectory": np.array([0, 1]),
        "spent_s": np.array([10.0, 30.0]),
        "saved_s": np.array([0.0, 10.0]),
        "false": np.array([1.0, 0.0]),
        "saved_hint_s": np.array([0.0, 0.0]),
        "false_hint": np.array([0.0, 0.0]),
    }
    figures, _ = measure({"abort": rows}, clusters_of(2))
    assert (figures["abort.saved"].value, figures["abort.false"].value) == (0.25, 0.5)


def test_folds_without_a_row_are_no_rows() -> None:
    empty = {"trajectory": np.zeros(0, dtype=np.int64)}
    assert len(join([empty, empty])["trajectory"]) == 0
    assert measure({"steps": join([empty])}, clusters_of(1))[0] == {}


def test_a_bound_is_tried_on_runs_that_it_was_not_learned_from(profile_of: Build) -> None:
    # Six runs of forty; the slowest takes twice as long as the largest of the others.
    speeds = [1.0, 1.1, 1.2, 1.3, 1.4, 2.8]
    rows = [
        {"run": f"r{k % 6}", "steps": [("hop", {"duration_s": speeds[k % 6] * (1 + 0.001 * k)})]} for k in range(240)
    ]
    profile = profile_of(rows)
    people = population(profile, "last")
    found = {b.bound: b for b in bounds(people, profile.trajectories.run, within_runs(profile, people.rows), 0.9)}
    assert (found["largest_run"].held, found["largest_run"].runs) == (5, 6)
    assert found["largest_run"].coverage == pytest.approx(5 / 6)
    assert found["point"].coverage == pytest.approx(0.9, abs=0.03)
    assert found["point"].held <= found["largest_run"].held
    assert found["t_interval"].price > found["largest_run"].price >= 1.0


def test_what_held_in_every_run_has_an_interval_of_as_many_trials_as_runs(profile_of: Build) -> None:
    rows = [{"run": f"r{k % 6}", "steps": [("hop", {"hop": "a", "duration_s": 1.0})]} for k in range(60)]
    (cell,) = backtest(profile_of(rows), [Named("4s", None, 4.0)]).cells
    found = cell.methods["deadline_only"]
    assert found.value == 1.0
    assert (found.low, found.high) == pytest.approx(clopper_pearson(6, 6))
    same = cell.less_than_alone["auto"]
    assert (same.low, same.value, same.high) == (0.0, 0.0, 0.0)


def test_a_rule_that_was_never_wrong_may_be_yet() -> None:
    rows = {"trajectory": np.arange(30), "right": np.ones(30)}
    figures, _ = measure({"steps": rows}, Clusters("trajectory", np.arange(30), ("",) * 30))
    assert (figures["steps.right"].low, figures["steps.right"].high) == pytest.approx(clopper_pearson(30, 30))


def test_resplit_hands_on_what_is_left() -> None:
    seconds = np.array([[1.0, 3.0], [3.0, 1.0], [1.0, 1.0]])
    flags = np.zeros((3, 2), dtype=bool)
    judged = Times(
        names=("a", "b"),
        slots=2,
        work=None,
        stream=None,
        seconds=seconds,
        censored=flags,
        timed_out=flags,
        visits=np.ones((3, 2), dtype=np.int64),
        finish_s=seconds.sum(axis=1),
        finish_censored=np.zeros(3, dtype=bool),
    )
    # Means 5/3 and 5/3: half of 4 s for a, and all that is left for b.
    assert resplit(judged, judged, 4.0).tolist() == [1.0, 0.0, 1.0]


def test_recorded_trajectories_meet_what_they_were_told(recorded: Load) -> None:
    found = backtest(recorded("tau2-retail-gemini"), [P90], parts=PARTS[1:2])
    (cell,) = found.cells
    assert 0.85 < cell.methods["deadline_only"].value < 0.92
    assert cell.auto_of_best.value >= 0.95
    assert found.parts["steps.right"].value == pytest.approx(0.93, abs=0.05)
