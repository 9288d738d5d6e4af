"""The methods as mathematics: what each minimises or maximises, and what is true of all."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.budgets.allocation import RULES as METHODS
from hopbudget.budgets.numbers.distribution import Distribution, distribution
from hopbudget.budgets.splits.split import equal_risk, in_proportion, independent, log_share, split

cells = st.one_of(st.integers(0, 12).map(float), st.just(0.0))
hopeless = st.one_of(cells, st.just(float("inf")))


def matrices(cell: Any, rows: int = 8, columns: int = 3) -> st.SearchStrategy[np.ndarray]:
    return st.tuples(st.integers(1, rows), st.integers(1, columns)).flatmap(
        lambda shape: st.lists(cell, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]).map(
            lambda flat: np.array(flat).reshape(shape)
        )
    )


give = st.integers(1, 40).map(float)
methods = st.sampled_from(METHODS)


def never(x: np.ndarray) -> np.ndarray:
    return np.zeros(x.shape, dtype=bool)


def places(x: np.ndarray) -> list[Distribution]:
    return [distribution(x[:, k], never(x)[:, k]) for k in range(x.shape[1])]


def give_out(method: Any, x: np.ndarray, seconds: float, **more: Any) -> np.ndarray:
    return split(method, x, more.pop("censored", never(x)), seconds, **more)


def overrun(x: np.ndarray, budgets: np.ndarray) -> float:
    return float(np.maximum(x - budgets, 0).mean(axis=0).sum())


@given(methods, matrices(hopeless), give, st.sampled_from([0.0, 0.5]))
def test_budgets_add_up_to_what_there_is_to_give(method: Any, x: np.ndarray, seconds: float, floor: float) -> None:
    budgets = give_out(method, x, seconds, floor_s=floor, reserves=[x.shape[1] - 1])
    assert budgets.sum() == pytest.approx(seconds)
    assert (budgets >= min(floor, seconds / x.shape[1]) - 1e-9).all()


@given(matrices(cells, rows=6), st.integers(1, 30), st.integers(0, 2))
def test_equal_risk_minimises_the_summed_expected_overrun(x: np.ndarray, seconds: int, floor: int) -> None:
    floor = min(floor, seconds // x.shape[1])
    best = overrun(x, equal_risk(places(x), float(seconds), float(floor)))
    # The overrun is piecewise linear with kinks at whole seconds, so a whole split of whole seconds is among the best.
    whole = itertools.product(range(floor, seconds + 1), repeat=x.shape[1] - 1)
    brute = min(overrun(x, np.array([*b, seconds - sum(b)])) for b in whole if sum(b) <= seconds - floor)
    assert best <= brute + 1e-9


@given(matrices(cells), give)
def test_equal_risk_stands_at_the_largest_common_level_that_fits(x: np.ndarray, seconds: float) -> None:
    budgets = equal_risk(places(x), seconds)
    levels = [q for q in np.arange(1, len(x) + 1) / len(x) if sum(p.quantile(q) for p in places(x)) <= seconds]
    for place, budget in zip(places(x), budgets, strict=True):
        assert place.share(budget) >= max(levels, default=0.0) - 1e-9


@given(matrices(hopeless, rows=7), give)
def test_independent_equals_brute_force_on_small_data(x: np.ndarray, seconds: float) -> None:
    ours = log_share(places(x), independent(places(x), seconds))
    options = itertools.product(*[[0.0, *place.points] for place in places(x)])
    fitting = [np.array(b) for b in options if sum(b) <= seconds]
    assert ours >= max(float(log_share(places(x), b)) for b in fitting) - 1e-9


@given(matrices(hopeless), give, st.sampled_from(METHODS), st.integers(1, 99))
def test_independent_is_at_least_as_good_as_every_other_method_on_what_it_maximises(
    x: np.ndarray, seconds: float, other: Any, percent: int
) -> None:
    ours, theirs = (give_out(m, x, seconds, level=percent / 100) for m in ("independent", other))
    assert log_share(places(x), ours) >= log_share(places(x), theirs) - 1e-9


@given(matrices(hopeless), give, give, st.sampled_from([0.0, 0.5]))
def test_more_to_give_never_lowers_what_independent_maximises(
    x: np.ndarray, seconds: float, more: float, floor: float
) -> None:
    less, greater = (give_out("independent", x, s, floor_s=floor) for s in (seconds, seconds + more))
    assert log_share(places(x), greater) >= log_share(places(x), less)


@given(st.integers(0, 2**32 - 1), st.floats(5, 60), st.floats(0, 5))
def test_more_to_give_never_lowers_it_on_data_too_large_to_be_solved_exactly(
    seed: int, seconds: float, more: float
) -> None:
    x = np.random.default_rng(seed).lognormal(size=(400, 4))
    less, greater = (log_share(places(x), independent(places(x), s)) for s in (seconds, seconds + more))
    assert greater >= less


@given(st.sampled_from(["equal", "mean", "quantile", "equal_risk"]), matrices(hopeless), give, give)
def test_more_to_give_lowers_no_budget(method: Any, x: np.ndarray, seconds: float, more: float) -> None:
    for floor in (0.0, 0.5):
        less, greater = (give_out(method, x, s, floor_s=floor) for s in (seconds, seconds + more))
        assert (greater >= less - 1e-9).all()


@given(methods, matrices(hopeless), give, st.sampled_from([0.25, 2.0, 1024.0]))
def test_scaling_all_times_scales_the_budgets(method: Any, x: np.ndarray, seconds: float, scale: float) -> None:
    small, large = give_out(method, x, seconds), give_out(method, x * scale, seconds * scale)
    assert large == pytest.approx(small * scale)


@given(methods, matrices(hopeless), give, st.randoms(use_true_random=False))
def test_the_order_of_trajectories_changes_nothing(method: Any, x: np.ndarray, seconds: float, random: Any) -> None:
    rows = list(range(len(x)))
    random.shuffle(rows)
    assert give_out(method, x[rows], seconds) == pytest.approx(give_out(method, x, seconds))


@given(methods, matrices(hopeless), give)
def test_every_trajectory_twice_changes_nothing(method: Any, x: np.ndarray, seconds: float) -> None:
    assert give_out(method, np.concatenate([x, x]), seconds) == pytest.approx(give_out(method, x, seconds))


@given(st.sampled_from(["equal", "mean", "quantile", "equal_risk"]), matrices(hopeless), give, st.randoms())
def test_the_order_of_slots_only_orders_the_budgets(method: Any, x: np.ndarray, seconds: float, random: Any) -> None:
    columns = list(range(x.shape[1]))
    random.shuffle(columns)
    assert give_out(method, x[:, columns], seconds) == pytest.approx(give_out(method, x, seconds)[columns])


@given(matrices(hopeless), give, st.randoms())
def test_the_order_of_slots_does_not_change_what_independent_attains(
    x: np.ndarray, seconds: float, random: Any
) -> None:
    columns = list(range(x.shape[1]))
    random.shuffle(columns)
    turned = x[:, columns]
    assert log_share(places(turned), independent(places(turned), seconds)) == pytest.approx(
        float(log_share(places(x), independent(places(x), seconds)))
    )


def test_equal_gives_every_place_the_same() -> None:
    assert give_out("equal", np.array([[1.0, 9.0, 5.0]]), 6.0).tolist() == [2, 2, 2]


def test_mean_gives_in_proportion_to_the_mean_of_what_ended() -> None:
    x = np.array([[1.0, 2.0], [1.0, 4.0], [1.0, np.inf]])
    assert give_out("mean", x, 8.0).tolist() == [2, 6]


def test_quantile_gives_in_proportion_to_each_place_at_the_level() -> None:
    x = np.stack([np.arange(1.0, 11.0), 3 * np.arange(1.0, 11.0)], axis=1)
    assert give_out("quantile", x, 4.0, level=0.9).tolist() == [1, 3]


def test_equal_tuned_keeps_back_for_work_what_makes_most_succeed() -> None:
    x = np.array([[1.0, 1.0, 6.0]] * 10)
    budgets = give_out("equal_tuned", x, 9.0, reserves=[2])
    assert budgets.tolist() == [1.5, 1.5, 6]
    assert ((x <= budgets).all(axis=1)).all()


@given(matrices(hopeless), give)
def test_equal_tuned_succeeds_at_least_as_often_as_equal_on_what_it_saw(x: np.ndarray, seconds: float) -> None:
    tuned, plain = (give_out(m, x, seconds, reserves=[x.shape[1] - 1]) for m in ("equal_tuned", "equal"))
    assert (x <= tuned).all(axis=1).sum() >= (x <= plain).all(axis=1).sum()


def test_a_place_that_times_out_is_not_taken_for_fast() -> None:
    # Half of the second place's hops were cut off at 3 s: below it they are late, so the budget must not settle there.
    x = np.array([[1.0, 2.0], [1.0, 3.0], [1.0, 4.0], [1.0, 3.0]])
    censored = np.array([[False, False], [False, True], [False, False], [False, True]])
    place = distribution(x[:, 1], censored[:, 1])
    assert place.share(3.0) == 0.25
    assert place.share(4.0) == 1.0
    assert give_out("equal_risk", x, 5.0, censored=censored).tolist() == [1, 4]


def test_no_budget_falls_under_the_floor() -> None:
    assert in_proportion(np.array([0.0, 1.0, 3.0]), 4.4, 0.4).tolist() == pytest.approx([0.4, 1.0, 3.0])
    assert give_out("independent", np.array([[0.0, 2.0]] * 5), 4.0, floor_s=0.05)[0] >= 0.05


def test_without_anything_that_ended_the_time_is_shared_evenly() -> None:
    x = np.full((3, 2), np.inf)
    for method in METHODS:
        assert give_out(method, x, 4.0) == pytest.approx([2, 2])
