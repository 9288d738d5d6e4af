"""Quantiles and shares: what counts, what breaches, what is left out."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hopbudget.budgets import attained_quantile, plain_quantile
from hopbudget.budgets.numbers.quantiles import (
    attained,
    clopper_pearson,
    order_statistic_interval,
    rank,
    share_going_on,
    share_within,
    smallest_n,
)

OUTCOMES = ["ok", "truncated", "failed", "refused", "timed_out", "cancelled", "closed_by_consumer"]
asked = st.lists(st.tuples(st.integers(0, 20), st.sampled_from(OUTCOMES)), min_size=1, max_size=30)
levels = st.integers(1, 99).map(lambda percent: percent / 100)


def arrays(rows: Sequence[tuple[float, str]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([float(r[0]) for r in rows]), np.array([r[1] for r in rows], dtype=object)


def test_a_plain_quantile_interpolates_over_what_came_well() -> None:
    values, outcomes = arrays([(1, "ok"), (2, "truncated"), (3, "ok"), (100, "failed"), (200, "timed_out")])
    assert plain_quantile(values, outcomes, 0.75) == 2.5


def test_a_plain_quantile_of_nothing_is_missing_not_zero() -> None:
    assert math.isnan(plain_quantile(*arrays([(1, "failed")]), 0.5))


def test_an_attained_quantile_is_the_order_statistic_of_rank_ceil_n_p() -> None:
    values, outcomes = arrays([(value, "ok") for value in range(1, 11)])
    assert attained_quantile(values, outcomes, 0.9) == 9
    assert attained_quantile(values, outcomes, 0.91) == 10


def test_a_failure_never_finishes() -> None:
    values, outcomes = arrays([(1, "ok")] * 8 + [(0.1, "failed"), (0.1, "refused")])
    assert attained_quantile(values, outcomes, 0.8) == 1
    assert attained_quantile(values, outcomes, 0.81) == math.inf


def test_a_refused_one_counts_without_any_time() -> None:
    values, outcomes = arrays([(1, "ok"), (math.nan, "refused")])
    assert attained_quantile(values, outcomes, 0.6) == math.inf


def test_a_time_out_is_later_than_every_time_up_to_its_own_and_then_left_out() -> None:
    values, outcomes = arrays([(1, "ok"), (2, "ok"), (5, "timed_out"), (6, "ok")])
    # Within 2: 2 of 4, the time-out breaches it. Within 6: 3 of 3, nothing is known of it there.
    assert attained_quantile(values, outcomes, 0.5) == 2
    assert attained_quantile(values, outcomes, 0.51) == 6


def test_a_time_out_exactly_at_the_limit_breaches_it() -> None:
    assert share_within(np.array([5.0]), np.array([5.0, 5.0]), np.array([False, True]))[0] == 0.5


@given(asked, st.lists(st.integers(0, 25), min_size=2, max_size=5).map(sorted))
def test_the_share_within_a_limit_never_falls_with_the_limit(rows: list[tuple[int, str]], limits: list[int]) -> None:
    values, outcomes = arrays(rows)
    times = np.where(np.isin(outcomes.astype(str), ["failed", "refused"]), np.inf, values)
    censored = np.isin(outcomes.astype(str), ["timed_out", "cancelled", "closed_by_consumer"])
    shares = share_within(np.array(limits, dtype=float), times, censored)
    assert (np.diff(shares) >= 0).all()
    assert ((shares >= 0) & (shares <= 1)).all()


@given(asked, levels)
def test_an_attained_quantile_is_the_smallest_time_that_reaches_the_share(
    rows: list[tuple[int, str]], p: float
) -> None:
    values, outcomes = arrays(rows)
    found = attained_quantile(values, outcomes, p)

    def reaches(limit: float) -> bool:
        good = sum(o in ("ok", "truncated") and v <= limit for v, o in rows)
        gone = sum(o in ("timed_out", "cancelled", "closed_by_consumer") and v < limit for v, o in rows)
        return good > 0 and good >= p * (len(rows) - gone) - 1e-9

    candidates = sorted({v for v, o in rows if o in ("ok", "truncated") and reaches(v)})
    assert found == (candidates[0] if candidates else math.inf)


@given(asked, levels, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows: list[tuple[int, str]], p: float, random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert attained_quantile(*arrays(rows), p) == attained_quantile(*arrays(shuffled), p)


def test_a_quantile_of_nothing_observed_is_missing() -> None:
    assert math.isnan(attained(np.zeros(0), np.zeros(0, dtype=bool), 0.9))


def test_a_rank_is_not_moved_by_rounding_in_p() -> None:
    assert rank(100, 0.29) == 29  # 100 * .29 is 28.999999999999996
    assert rank(100, 0.07) == 7  # 100 * .07 is 7.000000000000001
    assert rank(1, 0.01) == 1


@pytest.mark.parametrize(("p", "n"), [(0.9, 29), (0.95, 59), (0.99, 299)])
def test_so_many_trajectories_are_needed_to_bound_a_percentile(p: float, n: int) -> None:
    assert smallest_n(p) == n


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    # Closed forms: no success gives 1 - (alpha/2)^(1/n), all give (alpha/2)^(1/n); 9 of 10 from published tables.
    [(0, 10, 0.0, 1 - 0.025**0.1), (10, 10, 0.025**0.1, 1.0), (9, 10, 0.554984, 0.997471)],
)
def test_the_clopper_pearson_interval(successes: int, n: int, low: float, high: float) -> None:
    assert clopper_pearson(successes, n) == pytest.approx((low, high), abs=1e-6)


def test_of_nothing_any_share_is_possible() -> None:
    assert clopper_pearson(0, 0) == (0.0, 1.0)


@given(st.integers(1, 400), levels)
def test_order_statistics_enclose_the_quantile_with_95_percent_confidence(n: int, p: float) -> None:
    low, high = order_statistic_interval(n, p)
    # The quantile lies in [x_(low), x_(high)) when the number of draws below it is in low..high-1.
    pmf = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    assert sum(pmf[low:high]) >= 0.95 - 1e-9
    assert sum(pmf[:low]) <= 0.025 + 1e-9
    assert sum(pmf[high:]) <= 0.025 + 1e-9


def test_too_few_trajectories_bound_nothing_from_above() -> None:
    assert order_statistic_interval(10, 0.9)[1] == 11


cut_or_not = st.lists(st.tuples(st.integers(1, 12), st.booleans(), st.integers(1, 3)), min_size=1, max_size=25)


@given(cut_or_not, st.lists(st.integers(0, 13), min_size=1, max_size=8))
def test_with_those_cut_off_going_on_like_the_others_it_is_kaplan_and_meiers(
    rows: list[tuple[int, bool, int]], limits: list[int]
) -> None:
    times, censored, weight = (
        np.array([float(r[0]) for r in rows]),
        np.array([r[1] for r in rows]),
        [r[2] for r in rows],
    )
    at = np.array(limits, dtype=float)
    share, n = share_going_on(at, times, censored)
    assert share == pytest.approx(stats.ecdf(stats.CensoredData.right_censored(times, censored)).cdf.evaluate(at))
    assert (share <= share_within(at, times, censored) + 1e-12).all()
    assert (n <= len(rows) + 1e-9).all()
    weighted, _ = share_going_on(at, times, censored, np.array(weight, dtype=float))
    assert weighted == pytest.approx(share_going_on(at, np.repeat(times, weight), np.repeat(censored, weight))[0])


def test_where_nothing_is_cut_off_all_go_on_and_what_failed_never_ends() -> None:
    share, n = share_going_on(np.array([1.0, 2.5, 9.0]), np.array([1.0, 2.0, 3.0, math.inf]), np.zeros(4, dtype=bool))
    assert share == pytest.approx([0.25, 0.5, 0.75])
    assert n == pytest.approx([4, 4, 4])
