"""Attainment: what counts as within, what as missed, what is left out, and how sure the share is."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hopbudget.budgets.attainment.attained import (
    CAME,
    CODES,
    CUT,
    NEVER,
    TIMED_OUT,
    Attained,
    Counts,
    Units,
    attain,
    clopper_pearson_of,
    count,
    quantile_of_counts,
    units,
)
from hopbudget.budgets.numbers.quantiles import attained_quantile, clopper_pearson

LIMIT = 1.0
START = 1_700_000_000.0
OUTCOMES = st.sampled_from(sorted(CODES))
VALUES = st.floats(0, 5, allow_nan=False).map(lambda value: round(value, 3))
ROWS = st.lists(st.tuples(st.integers(0, 5), VALUES, OUTCOMES), min_size=1, max_size=60)


def made(rows: list[tuple[int, float, str]]) -> tuple[Units, np.ndarray]:
    """Units of (trajectory, seconds, outcome), of which those cut short had not come to their end."""
    trajectory, value, outcome = (np.array(column) for column in zip(*rows, strict=True))
    code = np.array([CODES[word] for word in outcome])
    cut = (code == CUT) | (code == TIMED_OUT)
    group = np.zeros(len(code), dtype=np.int64)
    value = value.astype(np.float64)
    return units(trajectory, np.where(cut, np.nan, value), value, code, group), np.arange(6) * 60.0 + START


def judged(rows: list[tuple[int, float, str]], limit: float = LIMIT) -> Attained:
    given_units, started_at = made(rows)
    return attain(count(given_units, started_at, limit))


def test_a_failure_is_worse_than_any_limit() -> None:
    a = judged([(0, 0.1, "ok"), (1, 0.1, "failed"), (2, 0.1, "refused")])
    assert (a.n, a.good, a.failed, a.slow) == (3, 1, 2, 0)
    assert a.share == pytest.approx(1 / 3)


def test_a_value_at_the_limit_is_within_it_and_one_cut_there_is_past_it() -> None:
    a = judged([(0, LIMIT, "truncated"), (1, LIMIT, "timed_out")])
    assert (a.good, a.slow) == (1, 1)


def test_what_was_cut_before_the_limit_is_left_out_and_counted() -> None:
    a = judged([(0, 0.5, "ok"), (1, 0.5, "cancelled"), (2, 0.9, "closed_by_consumer"), (3, 2.0, "cancelled")])
    assert (a.n, a.good, a.slow, a.left_out) == (2, 1, 1, 2)


def test_a_first_token_that_came_before_the_cut_stands() -> None:
    one, zero = np.array([0]), np.array([0], dtype=np.int64)
    seen = units(one, np.array([0.3]), np.array([9.0]), np.array([CUT]), zero)
    a = attain(count(seen, np.array([START]), LIMIT))
    assert (a.good, a.left_out) == (1, 0)


def test_failures_where_nothing_is_measured_say_nothing() -> None:
    trajectory = np.zeros(4, dtype=np.int64)
    code = np.array([CAME, NEVER, CAME, NEVER])
    group = np.array([0, 0, 1, 1])  # hops of name 0 are no streams, those of name 1 are
    value = np.array([np.nan, np.nan, 0.2, np.nan])
    a = attain(count(units(trajectory, value, np.ones(4), code, group), np.array([START]), LIMIT))
    assert (a.n, a.failed, a.unmeasured) == (2, 1, 2)


def test_failures_count_where_nothing_ever_came() -> None:
    a = judged([(0, 0.0, "failed")] * 30)
    assert (a.n, a.share) == (30, 0.0)


def test_250_failures_among_256_leave_6_of_256_at_most_and_no_good_percentile() -> None:
    rows = [(0, 0.01, "ok")] * 6 + [(0, 0.01, "failed")] * 250
    a = judged(rows)
    assert a.share == pytest.approx(6 / 256)
    u, _ = made(rows)
    assert [u.quantile(p) for p in (0.5, 0.9, 0.95, 0.99)] == [math.inf] * 4


def test_250_failed_streams_among_256_leave_6_of_256_of_the_gaps() -> None:
    one = np.ones(1)
    counts = Counts(np.array([START]), 360 * one, 0 * one, 250 * one, 0 * one, 0 * one, 256 * one)
    a = attain(counts)
    assert a.share == pytest.approx(6 / 256)
    assert a.failing_share == pytest.approx(250 / 256)
    gaps, times, none = np.array([0.02]), np.array([360.0]), np.zeros(1)
    assert quantile_of_counts(gaps, times, none, a.failing_share, 0.5) == math.inf


def test_nothing_counted_is_no_share_and_any_share_is_possible() -> None:
    a = judged([(0, 0.1, "cancelled")])
    assert a.n == 0
    assert math.isnan(a.share)
    assert (a.low, a.high) == (0.0, 1.0)


@given(ROWS)
def test_attainment_is_never_above_what_did_not_fail(rows: list[Any]) -> None:
    a = judged(rows)
    failing = sum(CODES[outcome] == NEVER for _, _, outcome in rows) / len(rows)
    assert not a.share > 1 - failing + 1e-12


@given(ROWS)
def test_every_unit_is_counted_once(rows: list[Any]) -> None:
    a = judged(rows)
    assert a.good + a.slow + a.failed + a.left_out + a.unmeasured == len(rows)
    assert a.sample == a.n


@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(rows: list[Any], chance: Any) -> None:
    shuffled = list(rows)
    chance.shuffle(shuffled)
    first, second = (made(order)[0].quantile(0.9) for order in (rows, shuffled))
    assert first == second or (math.isnan(first) and math.isnan(second))
    assert str(judged(rows)) == str(judged(shuffled))


@given(ROWS, st.sampled_from([0.5, 0.9, 0.95]))
def test_the_quantile_is_the_attained_one(rows: list[Any], p: float) -> None:
    u, _ = made(rows)
    outcomes = np.array([outcome for _, _, outcome in rows], dtype=object)
    values = np.array([value for _, value, _ in rows])
    mine, theirs = u.quantile(p), attained_quantile(values, outcomes, p)
    came = any(CODES[outcome] == CAME for outcome in outcomes)
    assert mine == theirs or not came


@given(ROWS, st.sampled_from([0.5, 0.9]))
def test_the_quantile_of_counted_values_is_that_of_the_values(rows: list[Any], p: float) -> None:
    u, _ = made(rows)
    finite = np.isfinite(u.value)
    failing = float(np.isinf(u.value).sum() / max(len(u.value), 1))
    values = np.unique(u.value[finite])
    events = np.array([np.sum(u.value[finite & ~u.censored] == v) for v in values], dtype=np.float64)
    bounds = np.array([np.sum(u.value[finite & u.censored] == v) for v in values], dtype=np.float64)
    if len(values):
        assert quantile_of_counts(values, events, bounds, failing, p) == u.quantile(p)


@given(st.lists(st.booleans(), min_size=1, max_size=200))
def test_with_one_unit_a_trajectory_the_interval_is_clopper_pearsons(kept: list[bool]) -> None:
    rows = [(index, 0.5 if good else 2.0, "ok") for index, good in enumerate(kept)]
    trajectory, value, _ = (np.array(column) for column in zip(*rows, strict=True))
    code = np.zeros(len(rows), dtype=np.int64)
    u = units(trajectory, value.astype(np.float64), value.astype(np.float64), code, code)
    a = attain(count(u, np.arange(len(rows)) + START, LIMIT))
    assert (a.low, a.high) == pytest.approx(clopper_pearson(sum(kept), len(kept)))


@given(st.integers(0, 50), st.integers(1, 50))
def test_a_whole_size_gives_the_usual_interval(successes: int, more: int) -> None:
    n = successes + more
    assert clopper_pearson_of(successes, n) == pytest.approx(clopper_pearson(successes, n))


def test_requests_of_one_trajectory_that_fare_alike_are_worth_one() -> None:
    alike = [(t, 0.5 if t % 2 else 2.0, "ok") for t in range(6) for _ in range(50)]
    mixed = [(t, 0.5 if i % 2 else 2.0, "ok") for t in range(6) for i in range(50)]
    wide, narrow = judged(alike), judged(mixed)
    assert wide.share == narrow.share == 0.5
    assert wide.high - wide.low > 0.7
    assert narrow.high - narrow.low < 0.15


def test_the_interval_of_requests_in_trajectories_holds_what_it_says() -> None:
    chance = np.random.default_rng(3)
    held = 0
    for _ in range(200):
        level = chance.beta(9, 1, 40)  # each trajectory has a share of its own, 0.9 on average
        kept = chance.random((40, 12)) < level[:, None]
        trajectory = np.repeat(np.arange(40), 12)
        value = np.where(kept.ravel(), 0.5, 2.0)
        code = np.zeros(len(value), dtype=np.int64)
        a = attain(count(units(trajectory, value, value, code, code), np.arange(40) + START, LIMIT))
        held += a.low <= 0.9 <= a.high
    assert held >= 182


def test_few_trajectories_are_a_ratios_variance_with_few_degrees_of_freedom() -> None:
    good, each, none = np.array([9.0, 5.0, 8.0, 10.0]), 10.0, np.zeros(4)
    found = attain(Counts(none, good, each - good, none, none, none, np.full(4, each)))
    share, n = good.sum() / 40, 40
    variance = np.var(good / each, ddof=1) / 4
    size = share * (1 - share) / variance * (stats.t.ppf(0.975, n - 1) / stats.t.ppf(0.975, 3)) ** 2 * n / (n - 1)
    wanted = stats.beta.ppf(0.025, share * size, size - share * size + 1)
    assert found.low == pytest.approx(wanted)
