"""The final stream's own objectives."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.budgets import Profile, Slot, StreamBudget
from hopbudget.budgets.streams.stream import (
    Streams,
    at_level,
    final_hops,
    joint_level,
    joint_share,
    observe,
    stream_budget,
)

Build = Callable[..., Profile]

pairs = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=40)


def streams(ttft: Any, tpot: Any, tokens: Any = 10.0) -> Streams:
    first = np.array(ttft, dtype=float)
    n = len(first)
    counted = np.broadcast_to(np.array(tokens, dtype=float), n)
    pace = np.broadcast_to(np.array(tpot, dtype=float), n)
    return Streams(first, np.zeros(n, dtype=bool), pace, counted, np.full(n, "m"), np.full(n, np.nan))


def place(budget_s: float) -> Slot:
    return Slot("stream", budget_s, 0.9, 1.0, 2.0, 1.0, 1.0, False)


def filled(seen: Streams, budget_s: float, p: float = 0.9, binds: Any = "last") -> tuple[StreamBudget, list[str]]:
    return stream_budget(seen, place(budget_s), p, binds)


@given(pairs, st.integers(1, 99))
def test_first_token_and_pace_hold_together_at_the_target_share_and_at_no_lower_level_from_there(
    rows: list[tuple[int, int]], percent: int
) -> None:
    seen, p = streams([r[0] for r in rows], [r[1] for r in rows]), percent / 100
    level = joint_level(seen, p)
    assert joint_share(seen, *at_level(seen, level)) >= p - 1e-9
    below = level - 1 / len(rows)
    if below >= p:
        assert joint_share(seen, *at_level(seen, below)) < p


def test_the_common_level_lies_above_the_target_where_first_token_and_pace_are_unrelated() -> None:
    random = np.random.default_rng(0)
    seen = streams(random.random(4000), random.random(4000))
    assert joint_share(seen, *at_level(seen, 0.9)) == pytest.approx(0.81, abs=0.02)
    assert joint_level(seen, 0.9) == pytest.approx(0.9**0.5, abs=0.01)


def test_tokens_are_the_target_percentile_where_that_fits() -> None:
    seen = streams(np.full(10, 1.0), 0.1, np.arange(10.0, 101.0, 10.0))
    budget, notes = filled(seen, 12.0)
    assert (budget.ttft_s, budget.tpot_s, budget.tokens, budget.tokens_percentile) == (1.0, 0.1, 90, 90.0)
    assert notes == []


def test_tokens_are_what_fits_where_the_target_percentile_does_not_and_say_which_percentile_that_is() -> None:
    seen = streams(np.full(10, 1.0), 0.1, np.arange(10.0, 101.0, 10.0))
    budget, _ = filled(seen, 7.9)
    assert budget.tokens == 70
    assert budget.tokens_percentile == pytest.approx(70)
    assert budget.ttft_s is not None and budget.tpot_s is not None
    assert budget.ttft_s + (budget.tokens - 1) * budget.tpot_s <= budget.budget_s + 1e-9


def test_the_level_is_lowered_and_said_where_not_even_a_short_answer_fits() -> None:
    seen = streams(np.arange(1.0, 11.0), 0.1, tokens=11)
    budget, notes = filled(seen, 5.0)
    assert budget.ttft_s == 4.0
    assert budget.level == pytest.approx(0.4)
    assert len(notes) == 1 and "short answer (11 tokens)" in notes[0]
    _, notes = filled(streams(np.arange(1.0, 11.0), 0.1, tokens=1), 5.0)
    assert "short answer (1 token)" in notes[0]


@given(pairs, st.floats(0.1, 100), st.integers(50, 99))
def test_an_answer_of_the_planned_length_at_the_limits_ends_within_the_seconds(
    rows: list[tuple[int, int]], seconds: float, percent: int
) -> None:
    budget, _ = filled(streams([r[0] for r in rows], [r[1] for r in rows]), seconds, percent / 100)
    assert budget.ttft_s is not None and budget.tpot_s is not None and budget.tokens is not None
    assert budget.ttft_s + (budget.tokens - 1) * budget.tpot_s <= seconds + 1e-6


def test_where_the_answer_binds_the_seconds_hold_the_wait_for_it_only() -> None:
    budget, notes = filled(streams([1.0] * 10, 0.1, tokens=500), 2.0, binds="answer")
    assert (budget.ttft_s, budget.tokens) == (1.0, 500)
    assert notes == []


def test_a_failed_stream_kept_neither() -> None:
    seen = streams([1.0] * 9 + [np.inf], [0.1] * 9 + [np.inf])
    assert joint_share(seen, 100.0, 100.0) == pytest.approx(0.9)
    assert joint_level(seen, 0.95) == pytest.approx(0.9)


def final(**columns: Any) -> dict[str, Any]:
    base = {"duration_s": 3.0, "final": True, "streamed": True, "ttft_s": 1.0, "tpot_s": 0.1, "output_tokens": 21.0}
    return {"hops": [{**base, **columns}]}


def test_n_from_chunks_enters_neither_pace_nor_tokens(profile_of: Build) -> None:
    profile = profile_of([final(n_is_chunks=True)])
    seen = observe(profile, final_hops(profile))
    assert np.isnan(seen.tpot_s).all() and np.isnan(seen.tokens).all()
    budget, notes = filled(seen, 3.0)
    assert (budget.ttft_s, budget.tpot_s, budget.tokens) == (1.0, None, None)
    assert "counted in chunks" in notes[0]


def test_a_stream_of_one_token_has_no_pace_to_break(profile_of: Build) -> None:
    profile = profile_of([final(), final(tpot_s=np.nan, output_tokens=1.0)])
    assert joint_share(observe(profile, final_hops(profile)), 1.0, 0.1) == 1.0


def test_a_wait_cut_off_by_a_time_out_is_late_for_every_limit_up_to_it_and_unknown_past_it(profile_of: Build) -> None:
    cut = final(ttft_s=np.nan, tpot_s=np.nan, output_tokens=np.nan, duration_s=5.0, outcome="timed_out")
    profile = profile_of([final(), cut])
    seen = observe(profile, final_hops(profile))
    assert joint_share(seen, 5.0, 0.1) == 0.5
    assert joint_share(seen, 6.0, 0.1) == 1.0


def test_hops_that_were_not_streamed_are_no_final_stream(profile_of: Build) -> None:
    assert not final_hops(profile_of([final(streamed=False)])).any()


def test_where_no_first_token_ever_came_one_token_is_planned_for() -> None:
    budget, _ = filled(streams([np.inf] * 10, 0.1), 2.0)
    assert budget.tokens == 1
