"""Objectives: kept or not, what is left to miss, and how fast it goes."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.budgets.attainment.attained import Counts, attain
from hopbudget.budgets.attainment.objectives import DAY_S, HOUR_S, Objective, budget_left, burn, days

END = 1_700_000_000.0


def counts(rows: list[tuple[float, bool]]) -> Counts:
    """Trajectories of one unit each: how long before the end they started, and whether they were within."""
    before, good = (np.array(column) for column in zip(*rows, strict=True))
    within = good.astype(np.float64)
    nothing = np.zeros(len(rows))
    return Counts(END - before, within, 1 - within, nothing, nothing, nothing, np.ones(len(rows)))


def test_an_objective_is_met_at_its_target_and_breached_below_it() -> None:
    objective = Objective("ttft", 1.0, 90, min_sample=10)
    assert objective.state(attain(counts([(1.0, index < 9) for index in range(10)]))) == "met"
    assert objective.state(attain(counts([(1.0, index < 8) for index in range(10)]))) == "breach"


def test_nothing_is_said_of_too_small_a_sample_however_bad() -> None:
    objective = Objective("ttft", 1.0, 90)
    assert objective.needed == 29
    assert objective.state(attain(counts([(1.0, False)] * 28))) == "cant_say"
    assert objective.state(attain(counts([(1.0, False)] * 29))) == "breach"


@pytest.mark.parametrize(
    ("objective", "target", "bound"),
    [
        (Objective("tpot", 0.04, 95), 0.95, 0.04),
        (Objective("tokens_per_s", 25, 95), 0.95, 0.04),
        (Objective("error_share", 0.01), 0.99, 0.0),
        (Objective("underrun", 0.02, pace=8), 0.98, 0.0),
    ],
)
def test_the_share_that_must_be_within_and_the_largest_value_that_is(
    objective: Objective, target: float, bound: float
) -> None:
    assert (objective.target, objective.bound) == (pytest.approx(target), pytest.approx(bound))


def test_a_pace_is_shown_in_tokens_a_second_and_0_where_failures_put_it_out_of_reach() -> None:
    objective = Objective("tokens_per_s", 25, 95)
    a = attain(counts([(1.0, True)]))
    assert objective.shown(0.02, a) == pytest.approx(50)
    assert objective.shown(math.inf, a) == 0


def test_the_budget_left_falls_from_1_to_0_at_the_target_and_below_it_after() -> None:
    ten = [(1.0, index >= 10) for index in range(100)]
    assert budget_left(attain(counts([(1.0, True)] * 100)), 0.9) == pytest.approx(1)
    assert budget_left(attain(counts(ten)), 0.9) == pytest.approx(0)
    assert budget_left(attain(counts(ten)), 0.95) == pytest.approx(-1)


def test_burn_is_by_window_and_1_where_the_budget_is_just_spent() -> None:
    rows = [(60.0, False)] * 5 + [(60.0, True)] * 5 + [(5 * HOUR_S, True)] * 90
    found = {one.window_s: one.rate for one in burn(counts(rows), 0.95, 30 * DAY_S, END)}
    assert found == pytest.approx({HOUR_S: 10, 6 * HOUR_S: 1, 3 * DAY_S: 1, 30 * DAY_S: 1})


def test_windows_longer_than_the_objectives_own_are_not_asked_of() -> None:
    assert [one.window_s for one in burn(counts([(1.0, True)]), 0.9, 6 * HOUR_S, END)] == [HOUR_S, 6 * HOUR_S]


def test_a_window_slides_with_its_end() -> None:
    all_of_it = counts([(0.0, True), (100.0, False), (200.0, True)])
    assert attain(all_of_it.since(END - 100, END)).n == 1
    assert attain(all_of_it.since(END - 101, END)).n == 2
    assert attain(all_of_it.since(END - 200, END - 100)).n == 1


@given(st.lists(st.tuples(st.floats(0, 1e6), st.booleans()), min_size=1, max_size=50), st.floats(1, 1e6))
def test_what_a_window_counts_does_not_depend_on_when_it_is(rows: list[Any], window_s: float) -> None:
    whole = [(round(before), good) for before, good in rows]
    here = counts(whole)
    later = Counts(
        here.started_at + 7 * DAY_S, here.good, here.slow, here.failed, here.left_out, here.unmeasured, here.sample
    )
    first = attain(here.since(END - round(window_s), END))
    second = attain(later.since(END + 7 * DAY_S - round(window_s), END + 7 * DAY_S))
    assert str(first) == str(second)


def test_days_are_those_of_utc() -> None:
    midnight = math.floor(END / DAY_S) * DAY_S
    rows = [(END - midnight, True), (END - midnight + 1, False), (END - midnight - 1, True)]
    assert [(day.day_at - midnight, day.n, day.share) for day in days(counts(rows))] == [(-DAY_S, 1, 0.0), (0, 2, 1.0)]
