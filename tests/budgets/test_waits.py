"""How long a first token takes, by model and prompt size."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.budgets import Profile
from hopbudget.budgets.expectations.waits import OTHERS, Seen, curve, fit_wait, fit_waits, waits_within_s
from hopbudget.budgets.numbers.quantiles import attained

Build = Callable[..., Profile]

times = st.lists(st.tuples(st.integers(1, 50), st.booleans()), min_size=1, max_size=60)


@given(times, st.integers(1, 99))
def test_a_curve_gives_the_attained_quantile_at_any_level(rows: list[tuple[int, bool]], percent: int) -> None:
    seconds, censored = np.array([float(row[0]) for row in rows]), np.array([row[1] for row in rows])
    found, wanted = curve(seconds, censored).at(percent / 100), attained(seconds, censored, percent / 100)
    assert found == wanted or (np.isnan(found) and np.isinf(wanted))


def test_what_the_next_one_keeps_is_one_rank_higher_and_unknown_of_too_few() -> None:
    whole = np.zeros(99, dtype=bool)
    assert curve(np.arange(1.0, 100.0), whole).next_within(0.99) == 99.0
    assert curve(np.arange(1.0, 100.0), whole).next_within(0.5) == 50.0
    assert curve(np.arange(1.0, 99.0), whole[:98]).next_within(0.99) == np.inf


def seen(n: int, per_token_s: float, seed: int = 0) -> Seen:
    random = np.random.default_rng(seed)
    prompt = random.uniform(1000, 100_000, n)
    waited = (0.5 + per_token_s * prompt) * random.lognormal(0, 0.2, n)
    return Seen(np.arange(n), waited, np.zeros(n, dtype=bool), prompt)


def test_nine_in_ten_are_covered_in_every_bucket_and_at_both_ends_of_one() -> None:
    wait = fit_wait(seen(4000, 1e-4))
    fresh = seen(20_000, 1e-4, seed=1)
    kept = fresh.times_s <= wait.at_s(fresh.prompt, 0.9)
    edges = np.quantile(fresh.prompt, np.linspace(0, 1, 17))
    bucket = np.clip(np.searchsorted(edges, fresh.prompt) - 1, 0, 15)
    covered = np.bincount(bucket, weights=kept) / np.bincount(bucket)
    assert covered == pytest.approx(0.9, abs=0.04)


def test_longer_prompts_never_wait_less_within_a_bucket_and_shorter_than_any_wait_as_the_shortest() -> None:
    wait = fit_wait(seen(100, 1e-4))
    assert len(wait.edges) == 0
    at = wait.at_s(np.linspace(0, 200_000, 50), 0.9)
    assert (np.diff(at) >= 0).all()
    assert at[0] == wait.at_s(np.array([wait.smallest]), 0.9)[0]


def test_a_prompt_of_unknown_size_waits_as_all_do() -> None:
    wait = fit_wait(seen(400, 1e-4))
    assert wait.at_s(np.array([np.nan]), 0.9)[0] == wait.plain.at(0.9)


def stream(model: str, ttft: float, prompt: float = 100.0, **more: Any) -> dict[str, Any]:
    return {"model": model, "ttft_s": ttft, "input_tokens": prompt, "duration_s": 9.0, "streamed": True, **more}


def test_each_model_with_enough_streams_waits_for_itself_and_the_rest_as_all(profile_of: Build) -> None:
    hops = [stream("fast", 1.0)] * 30 + [stream("slow", 8.0)] * 30 + [stream("rare", 2.0)] * 3
    waits = fit_waits(profile_of([{"hops": hops}]).hops)
    assert set(waits) == {"fast", "slow", OTHERS}
    within = waits_within_s(profile_of([{"hops": hops}]).hops, waits, 0.5)
    assert (within[0], within[30], within[-1]) == pytest.approx((1.0, 8.0, 2.0))


def test_a_cached_prompt_is_as_short_as_what_is_not_cached(profile_of: Build) -> None:
    hops = [stream("m", 0.1 + n / 100, prompt=float(n)) for n in range(1, 101)]
    cached = stream("m", 0.2, prompt=1010.0, cached_tokens=1000.0)
    profile = profile_of([{"hops": [*hops, cached]}])
    within = waits_within_s(profile.hops, fit_waits(profile.hops), 0.5)
    assert within[-1] == pytest.approx(0.2, abs=0.05)


def test_a_stream_cut_off_while_it_waited_waited_at_least_that_long(profile_of: Build) -> None:
    hops = [stream("m", 1.0)] * 30
    cut = [stream("m", np.nan, duration_s=5.0, outcome="timed_out")] * 10
    waits = fit_waits(profile_of([{"hops": hops + cut}]).hops)
    assert waits["m"].plain.at(0.7) == 1.0
    assert waits["m"].plain.at(0.8) == np.inf


def test_without_first_tokens_there_is_nothing(profile_of: Build) -> None:
    profile = profile_of([{"hops": [stream("m", np.nan)]}])
    assert fit_waits(profile.hops) == {}
    assert np.isnan(waits_within_s(profile.hops, {}, 0.9)).all()
