"""What a hop of so many tokens should have taken at most."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hopbudget.budgets import Profile
from hopbudget.budgets.expectations.expected import Expected, blame, evaluate, expect, fit, from_plan, learn, pinball

Build = Callable[..., Profile]


def hop(random: np.random.Generator, *, model: str = "m", streamed: bool = True, **more: Any) -> dict[str, Any]:
    """A hop whose first token grows with the prompt, and each token takes about 20 ms."""
    prompt, tokens = float(random.integers(500, 50_000)), float(random.integers(2, 900))
    ttft = (0.4 + 4e-5 * prompt) * random.lognormal(0, 0.3)
    tpot = 0.02 * random.lognormal(0, 0.2)
    row = {"model": model, "input_tokens": prompt, "output_tokens": tokens, "duration_s": ttft + (tokens - 1) * tpot}
    row |= {"ttft_s": ttft, "tpot_s": tpot, "streamed": True} if streamed else {}
    return {**row, **more}


def many(profile_of: Build, n: int = 400, seed: int = 0, **more: Any) -> Profile:
    random = np.random.default_rng(seed)
    return profile_of([{"hops": [hop(random, **more)]} for _ in range(n)])


@pytest.mark.parametrize("streamed", [True, False])
def test_nine_in_ten_end_within_their_expectation_short_ones_and_long_ones(profile_of: Build, streamed: bool) -> None:
    scored = evaluate(many(profile_of, 1500, streamed=streamed), many(profile_of, 1500, seed=1, streamed=streamed))
    assert scored["covered"].mean() == pytest.approx(0.9, abs=0.03)
    for quarter in range(4):
        assert scored["covered"][scored["quarter"] == quarter].mean() == pytest.approx(0.9, abs=0.06)
    assert scored["loss"].mean() < 0.4 * scored["flat_loss"].mean()


def test_first_token_and_pace_are_read_at_a_level_below_the_target(profile_of: Build) -> None:
    found = fit(many(profile_of, 1000).hops, 0.9)
    assert 0.7 < found.level < 0.9


def test_what_was_altered_is_found_and_a_long_answer_is_not_blamed(profile_of: Build) -> None:
    scored = evaluate(many(profile_of, 1000), many(profile_of, 1000, seed=1))
    assert scored["pace2_slow"].mean() > 0.85 > 0.6 > scored["pace2_flat"].mean()
    assert scored["first5_slow"].mean() > 0.8 > 0.5 > scored["first5_flat"].mean()
    assert scored["answer3_slow"].mean() < 0.3 < 0.6 < scored["answer3_flat"].mean()


def test_each_blame_names_what_it_is(profile_of: Build) -> None:
    normal = many(profile_of).hops
    found = fit(normal, 0.9)
    cases = [
        {"output_tokens": 3000.0, "ttft_s": 1.0, "duration_s": 1.0 + 2999 * 0.02},
        {"output_tokens": 100.0, "ttft_s": 9.0, "duration_s": 9.0 + 99 * 0.02},
        {"output_tokens": 100.0, "ttft_s": 1.0, "duration_s": 1.0 + 99 * 0.08},
        {"output_tokens": 100.0, "ttft_s": 1.0, "duration_s": 1.0 + 99 * 0.02},
    ]
    shared = {"model": "m", "input_tokens": 15_000.0, "streamed": True}
    hops = profile_of([{"hops": [{**shared, **case} for case in cases]}]).hops
    assert blame(hops, expect(hops, found)).tolist() == ["long answer", "first token", "pace", ""]


def test_an_answer_is_long_only_by_more_tokens_than_usual_that_explain_the_time(profile_of: Build) -> None:
    """Seconds before the first token and tokens, of hops that all end within what is expected of them."""
    told = [*[(0.25, 51.0)] * 5, (2.25, 51.0), (2.25, 52.0), (2.35, 52.0), (0.25, 151.0)]
    rows = [
        {"ttft_s": first, "output_tokens": n, "duration_s": first + (n - 1) * 0.018, "streamed": True}
        for first, n in told
    ]
    hops = profile_of([{"hops": rows}]).hops
    shared = {"flat_s": np.full(9, 2.5), "observed": np.ones(9, dtype=np.bool_)}
    limits = Expected(first_token_s=np.full(9, 2.3), answer_s=(hops.output_tokens - 1) * 0.02, **shared)
    assert (hops.duration_s <= limits.finish_s).all() and (hops.duration_s > limits.flat_s)[5:].all()
    assert blame(hops, limits).tolist() == [*[""] * 7, "first token", "long answer"]


def test_a_queue_that_only_the_server_told_is_no_long_answer(profile_of: Build) -> None:
    told = [*[(0.0, 51.0)] * 5, (2.0, 60.0)]
    rows = [
        {"queue_s": queue, "prefill_s": 0.1, "output_tokens": n, "duration_s": queue + 1.0 + n * 0.01}
        for queue, n in told
    ]
    hops = profile_of([{"hops": rows}]).hops
    limits = Expected(np.full(6, 3.0), (hops.output_tokens - 1) * 0.02, np.full(6, 2.5), np.zeros(6, dtype=np.bool_))
    assert blame(hops, limits).tolist() == [""] * 6


def test_where_nothing_bounds_a_first_token_nothing_is_blamed(profile_of: Build) -> None:
    hops = profile_of([{"hops": [{"model": "m", "output_tokens": 10.0, "ttft_s": 1.0, "duration_s": 9.0}] * 2}]).hops
    never = Expected(np.full(2, np.inf), np.full(2, 0.1), np.full(2, 0.5), np.ones(2, dtype=np.bool_))
    assert blame(hops, never).tolist() == ["", ""]


def test_without_a_first_token_what_is_slow_for_its_tokens_is_the_pace(profile_of: Build) -> None:
    found = fit(many(profile_of, streamed=False).hops, 0.9)
    hops = profile_of(
        [{"hops": [{"model": "m", "output_tokens": 10.0, "input_tokens": 900.0, "duration_s": 60.0}]}]
    ).hops
    assert blame(hops, expect(hops, found)).tolist() == ["pace"]


def test_what_is_not_known_is_not_blamed(profile_of: Build) -> None:
    found = fit(many(profile_of).hops, 0.9)
    hops = profile_of([{"hops": [{"model": "m", "duration_s": 99.0}]}]).hops
    assert np.isnan(expect(hops, found).finish_s).all()
    assert blame(hops, expect(hops, found)).tolist() == [""]


def test_tokens_counted_in_chunks_give_no_expectation(profile_of: Build) -> None:
    assert fit(many(profile_of, n_is_chunks=True).hops, 0.9).rows == ()


def test_a_model_that_was_not_learned_is_expected_like_all_together(profile_of: Build) -> None:
    found = fit(many(profile_of).hops, 0.9)
    hops = many(profile_of, 200, seed=2, model="new").hops
    assert (hops.duration_s <= expect(hops, found).finish_s).mean() == pytest.approx(0.9, abs=0.06)


def test_nothing_to_learn_from_expects_nothing(profile_of: Build) -> None:
    empty = fit(profile_of([{"hops": []}]).hops, 0.9)
    hops = many(profile_of, 3).hops
    assert empty.rows == () and np.isnan(expect(hops, empty).finish_s).all()
    assert len(evaluate(profile_of([{"hops": []}]), many(profile_of, 3))["loss"]) == 0


@pytest.mark.parametrize("streamed", [True, False])
def test_a_plan_gives_back_the_same_expectations(profile_of: Build, streamed: bool) -> None:
    profile = many(profile_of, streamed=streamed)
    found = learn(profile, 90.0)
    again = from_plan(found.to_plan())
    hops = many(profile_of, 50, seed=3, streamed=streamed).hops
    assert expect(hops, again).finish_s == pytest.approx(expect(hops, found).finish_s, rel=1e-4)
    assert again.p == found.p and len(again.rows) == len(found.rows)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=25)
@given(seed=st.integers(0, 1000), scale=st.sampled_from([0.5, 8.0]), streamed=st.booleans())
def test_scaling_time_scales_expectations_and_order_changes_nothing(
    profile_of: Build, seed: int, scale: float, streamed: bool
) -> None:
    random = np.random.default_rng(seed)
    rows = [hop(random, streamed=streamed) for _ in range(60)]
    times = ("duration_s", "ttft_s", "tpot_s")
    scaled = [{key: value * scale if key in times else value for key, value in row.items()} for row in rows]
    hops, turned, larger = (profile_of([{"hops": given}]).hops for given in (rows, rows[::-1], scaled))
    finish = expect(hops, fit(hops, 0.9)).finish_s
    assert expect(hops, fit(turned, 0.9)).finish_s == pytest.approx(finish, rel=1e-6)
    assert expect(larger, fit(larger, 0.9)).finish_s == pytest.approx(scale * finish, rel=1e-3)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=30), st.integers(1, 9))
def test_no_constant_has_a_lower_pinball_loss_than_the_quantile(values: list[int], tenths: int) -> None:
    numbers, p = np.array(values, dtype=float), tenths / 10
    best = float(np.quantile(numbers, p, method="inverted_cdf"))
    losses = [pinball(numbers, np.full(len(numbers), float(c)), p).sum() for c in {*values, 50}]
    assert pinball(numbers, np.full(len(numbers), best), p).sum() <= min(losses) + 1e-9
