"""When to give up waiting for a first token."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hopbudget.budgets import Profile
from hopbudget.budgets.expectations.expectation import prompt_tokens
from hopbudget.budgets.expectations.first_tokens import after_s, evaluate, learn
from hopbudget.budgets.expectations.waits import waits_within_s

Build = Callable[..., Profile]


def streams(profile_of: Build, n: int = 600, seed: int = 0, model: str = "m") -> Profile:
    """Streams whose first token takes longer for longer prompts; every two of a session."""
    random = np.random.default_rng(seed)

    def one(index: int) -> dict[str, Any]:
        prompt = float(random.integers(500, 60_000))
        ttft = (0.5 + 3e-5 * prompt) * random.lognormal(0, 0.4)
        hop = {"model": model, "ttft_s": ttft, "input_tokens": prompt, "duration_s": ttft + 1, "streamed": True}
        return {"session": f"s{index // 2}", "hops": [hop]}

    return profile_of([one(index) for index in range(n)])


def test_one_in_a_hundred_is_given_up_and_one_in_twenty(profile_of: Build) -> None:
    scored = evaluate(streams(profile_of, 3000), streams(profile_of, 3000, seed=1))
    assert scored["extra"].mean() == pytest.approx(0.01, abs=0.005)
    assert scored["q95_extra"].mean() == pytest.approx(0.05, abs=0.01)
    assert scored["covered"].mean() == pytest.approx(0.9, abs=0.02)


def test_a_call_that_is_not_given_up_takes_what_it_took_and_one_that_is_takes_the_wait_and_another(
    profile_of: Build,
) -> None:
    scored = evaluate(streams(profile_of), streams(profile_of, seed=1))
    kept = scored["q95_extra"] == 0
    assert (scored["q95_after_s"][kept] == scored["ttft_s"][kept]).all()
    assert (scored["q95_after_s"][~kept] > 0.3).all()


def test_giving_up_protects_from_calls_that_hang(profile_of: Build) -> None:
    scored = evaluate(streams(profile_of, 3000), streams(profile_of, 3000, seed=1))
    before, after = (np.quantile(scored[name], 0.99) for name in ("hang_ttft_s", "hang_after_s"))
    assert before == 60.0
    assert after < 0.45 * before
    assert scored["hang_extra"].mean() < 0.05


def test_the_benefit_is_measured_on_sessions_that_were_held_out(profile_of: Build) -> None:
    q95, q99 = learn(streams(profile_of)).benefits
    assert (q95.q, q99.q, q99.n) == (0.95, 0.99, 600)
    assert q99.extra_calls < q95.extra_calls < 0.08
    assert q99.hanging_p99_after_s < q99.hanging_p99_s
    assert q99.to_plan()["extra_calls"] == pytest.approx(q99.extra_calls, abs=1e-4)


def test_what_a_plan_says_is_what_was_learned_for_every_size(profile_of: Build) -> None:
    profile = streams(profile_of, 1200)
    learned = learn(profile)
    rows = learned.to_plan()
    for q in (0.95, 0.99):
        wanted = waits_within_s(profile.hops, learned.waits, q)
        read = [after_s(rows, "m", float(tokens), q) for tokens in prompt_tokens(profile.hops)]
        assert read == pytest.approx(wanted, rel=1e-3)


def test_a_prompt_of_unknown_size_has_the_models_own_quantile(profile_of: Build) -> None:
    learned = learn(streams(profile_of))
    assert after_s(learned.to_plan(), "m", None) == pytest.approx(learned.waits["m"].plain.next_within(0.99), abs=1e-4)


def test_other_models_and_too_few_hops_give_none(profile_of: Build) -> None:
    rows = learn(streams(profile_of, 60)).to_plan()
    assert after_s(rows, "other", 1000.0) is None
    assert after_s(rows, "m", 1000.0, 0.99) is None
    assert after_s(rows, "m", 1000.0, 0.95) is not None
    assert after_s(rows, "m", 1000.0, 0.999) is None


def test_without_first_tokens_there_is_nothing_to_give_up(profile_of: Build) -> None:
    none = profile_of([{"hops": [{"duration_s": 1.0}]}] * 30)
    assert learn(none).to_plan() == [] and learn(none).benefits == ()
    assert len(evaluate(none, none)["extra"]) == 0
