"""How much more often something befalls those with a trait."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hopbudget.budgets.blame.association import Association, associate, wilson


def table(with_it: tuple[int, int], without: tuple[int, int], clusters: int | None = None) -> Association:
    """Cases of so many, with the trait and without."""
    (a, n), (b, m) = with_it, without
    case = np.array([True] * a + [False] * (n - a) + [True] * b + [False] * (m - b))
    has = np.array([True] * n + [False] * m)
    cluster = np.arange(n + m) if clusters is None else np.arange(n + m) * clusters // (n + m)
    return associate(case, has, cluster.astype(np.int64), comparisons=1)


def test_a_published_interval_is_met() -> None:
    """Newcombe 1998, table II, (a): 56/70 against 48/80, method 10."""
    found = table((56, 70), (48, 80))
    assert found.difference == pytest.approx(0.2)
    assert (found.low, found.high) == pytest.approx((0.0524, 0.3339), abs=2e-3)


def test_the_ratio_has_katzs_interval() -> None:
    found = table((30, 100), (10, 100))
    spread = 1.959964 * math.sqrt(1 / 30 - 1 / 100 + 1 / 10 - 1 / 100)
    assert found.ratio == pytest.approx(3.0)
    assert (found.ratio_low, found.ratio_high) == pytest.approx((3 * math.exp(-spread), 3 * math.exp(spread)), rel=5e-3)


@given(st.integers(0, 50), st.integers(1, 50))
def test_wilsons_interval_is_scipys(cases: int, more: int) -> None:
    n = cases + more
    known = stats.binomtest(cases, n).proportion_ci(method="wilson")
    assert wilson(cases / n, n) == pytest.approx((known.low, known.high), abs=1e-9)


def test_what_comes_in_clusters_has_a_wider_interval() -> None:
    apart, together = table((30, 100), (10, 100)), table((30, 100), (10, 100), clusters=10)
    assert together.high - together.low > 1.5 * (apart.high - apart.low)


def test_few_sessions_cover_as_often_as_they_say() -> None:
    """400 draws of 50 with the trait in 5 sessions that differ: without regard to their number 90% are covered."""
    random, held = np.random.default_rng(4), 0
    cluster = np.concatenate([np.arange(5).repeat(10), 5 + np.arange(50).repeat(10)])
    has = cluster < 5
    for _ in range(400):
        risk = random.beta(0.3 * 4, 0.7 * 4, 55)[cluster]
        found = associate(random.random(len(cluster)) < risk, has, cluster, comparisons=1)
        held += found.low <= 0.0 <= found.high
    assert held >= 0.94 * 400


def test_nobody_without_it_leaves_no_ratio() -> None:
    found = table((5, 20), (0, 20))
    assert math.isnan(found.ratio)
    assert found.difference == pytest.approx(0.25)
    assert 0 < found.low < found.high


@given(st.integers(0, 20), st.integers(0, 20))
def test_swapping_the_groups_turns_the_difference_round(a: int, b: int) -> None:
    one, other = table((a, 20), (b, 20)), table((b, 20), (a, 20))
    assert one.difference == pytest.approx(-other.difference)
    assert one.low == pytest.approx(-other.high, abs=1e-9)
