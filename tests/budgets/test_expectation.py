"""What a hop of so many tokens should have taken."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopbudget.budgets import Profile
from hopbudget.budgets.expectations.expectation import Line, fit_line, fit_lines, known_prompts

Build = Callable[..., Profile]


def calls(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"hops": rows}]


def deviation(line: Line, d: np.ndarray, x: np.ndarray, n: np.ndarray) -> float:
    return float(np.abs(d - line.a_s - line.per_prompt_token_s * x - line.per_output_token_s * n).sum())


def test_the_line_is_found_in_spite_of_wild_values() -> None:
    random = np.random.default_rng(1)
    prompt, output = random.integers(100, 9000, 400).astype(float), random.integers(1, 800, 400).astype(float)
    duration = 0.5 + 2e-5 * prompt + 0.012 * output
    duration[::10] += random.exponential(60, 40)
    line = fit_line(duration, prompt, output)
    assert (line.a_s, line.per_prompt_token_s, line.per_output_token_s) == pytest.approx((0.5, 2e-5, 0.012), rel=1e-6)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.floats(-0.01, 0.02), st.floats(-0.01, 0.02))
def test_no_other_line_with_slopes_of_zero_or_more_deviates_less(seed: int, p: float, c: float) -> None:
    random = np.random.default_rng(seed)
    prompt, output = random.integers(0, 500, 30).astype(float), random.integers(1, 300, 30).astype(float)
    duration = np.abs(1 + p * prompt + c * output + random.laplace(0, 0.5, 30))
    line = fit_line(duration, prompt, output)
    assert line.per_prompt_token_s >= 0 and line.per_output_token_s >= 0
    ours = deviation(line, duration, prompt, output)
    for _ in range(50):
        a, up, uc = random.normal(0, 0.02, 3) * (10, 0.1, 0.1)
        other = Line(line.a_s + a, max(line.per_prompt_token_s + up, 0), max(line.per_output_token_s + uc, 0))
        assert ours <= deviation(other, duration, prompt, output) + 1e-6


def test_each_model_has_its_own_line_and_rare_ones_share_one(profile_of: Build) -> None:
    fast = [{"model": "fast", "duration_s": 1 + 0.01 * n, "output_tokens": n, "input_tokens": 10} for n in range(30)]
    slow = [{"model": "slow", "duration_s": 2 + 0.05 * n, "output_tokens": n, "input_tokens": 10} for n in range(30)]
    rare = [{"model": "rare", "duration_s": 9.0, "output_tokens": 5, "input_tokens": 10}]
    lines = fit_lines(profile_of(calls(fast + slow + rare)).hops)
    assert lines["fast"].per_output_token_s == pytest.approx(0.01)
    assert lines["slow"].per_output_token_s == pytest.approx(0.05)
    assert lines["rare"].a_s < 9.0


@pytest.mark.parametrize(
    ("n", "prompts", "told"), [(19, (10, 9000), False), (40, (990, 1010), False), (40, (10, 9000), True)]
)
def test_a_prompts_cost_is_told_by_enough_hops_whose_prompts_differ(
    profile_of: Build, n: int, prompts: tuple[int, int], told: bool
) -> None:
    sizes = np.random.default_rng(2).integers(*prompts, n)
    rows = [{"model": "m", "duration_s": 1 + 1e-4 * s, "output_tokens": 5, "input_tokens": s} for s in sizes.tolist()]
    assert (fit_lines(profile_of(calls(rows)).hops)["m"].per_prompt_token_s > 0) is told


def test_an_unknown_prompt_counts_as_its_models_median(profile_of: Build) -> None:
    rows = [{"model": "m", "input_tokens": n} for n in (10, 20, 90)] + [{"model": "m"}, {"model": "other"}]
    assert known_prompts(profile_of(calls(rows)).hops).tolist() == [10, 20, 90, 20, 0]
