"""The final stream's first token and pace by model and prompt size."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hopbudget.budgets import Profile, Slot
from hopbudget.budgets.streams.sizes import fit_limits, joint, limits_of, stream_sizes
from hopbudget.budgets.streams.stream import evaluate, observe, stream_budget

Build = Callable[..., Profile]


def finals(profile_of: Build, n: int, seed: int = 0, **more: Any) -> Profile:
    """Trajectories that end in a stream of one of two models; `slow` takes three times as long for everything."""
    random = np.random.default_rng(seed)

    def one(index: int) -> dict[str, Any]:
        model, times = ("slow", 3.0) if index % 2 else ("fast", 1.0)
        prompt, tokens = float(random.integers(500, 40_000)), float(random.integers(20, 400))
        ttft = times * (0.3 + 2e-5 * prompt) * random.lognormal(0, 0.3)
        tpot = times * 0.02 * random.lognormal(0, 0.2)
        hop = {"model": model, "ttft_s": ttft, "tpot_s": tpot, "input_tokens": prompt, "output_tokens": tokens}
        return {"hops": [{**hop, "duration_s": ttft + (tokens - 1) * tpot, "final": True, "streamed": True, **more}]}

    return profile_of([one(index) for index in range(n)])


def test_both_hold_together_for_nine_in_ten_of_every_model_that_is_held_out(profile_of: Build) -> None:
    found = evaluate(finals(profile_of, 1500), finals(profile_of, 1500, seed=1))
    for model in ("fast", "slow"):
        own = found["model"] == model
        assert found["joint"][own].mean() == pytest.approx(0.9, abs=0.04)
        assert found["ttft"][own].mean() > 0.92 and found["tpot"][own].mean() > 0.92


def test_the_rows_say_what_each_model_and_size_is_held_to(profile_of: Build) -> None:
    profile = finals(profile_of, 3200)
    seen = observe(profile, profile.hops.final)
    rows = stream_sizes(seen, 0.9, 1000.0)
    assert [row.model for row in rows] == ["fast"] * 3 + ["slow"] * 3
    fast = [row for row in rows if row.model == "fast"]
    assert [row.ttft_s for row in fast] == sorted(row.ttft_s for row in fast)
    assert fast[-1].up_to_tokens == np.inf
    assert rows[-1].tpot_s == pytest.approx(3 * fast[-1].tpot_s, rel=0.15)
    ttft, tpot = limits_of(seen, fit_limits(seen, 0.9))
    kept = joint(seen, ttft, tpot)
    for row in (fast[0], fast[-1]):
        at = float(ttft[np.argmin(np.abs(seen.prompt - row.at_tokens) + 1e9 * (seen.model != "fast"))])
        assert row.ttft_s == pytest.approx(at, rel=0.01)
    assert kept.mean() >= 0.9


def test_no_first_token_is_given_more_than_the_seconds_there_are(profile_of: Build) -> None:
    profile = finals(profile_of, 200)
    assert {row.ttft_s for row in stream_sizes(observe(profile, profile.hops.final), 0.9, 0.25)} == {0.25}


def test_a_model_with_hardly_any_streams_is_not_judged_by_others(profile_of: Build) -> None:
    found = evaluate(finals(profile_of, 600), finals(profile_of, 20, seed=1, model="new"))
    assert np.isnan(found["joint"]).all()


def test_where_no_model_has_enough_all_share_one_row(profile_of: Build) -> None:
    profile = finals(profile_of, 10)
    assert [row.model for row in stream_sizes(observe(profile, profile.hops.final), 0.9, 100.0)] == [""]


def test_failed_streams_kept_neither_so_the_level_stays_where_limits_are_finite(profile_of: Build) -> None:
    profile = finals(profile_of, 400, model="m")
    failed = finals(profile_of, 100, model="m", outcome="failed")
    seen = observe(both(profile_of, profile, failed), np.ones(500, dtype=np.bool_))
    (row, *_) = stream_sizes(seen, 0.9, 1000.0)
    assert np.isfinite(row.ttft_s) and np.isfinite(row.tpot_s)
    assert row.level <= 0.8


def both(profile_of: Build, *profiles: Profile) -> Profile:
    """Their hops as one trajectory each."""
    rows = []
    for profile in profiles:
        hops = profile.hops
        names = ("model", "ttft_s", "tpot_s", "input_tokens", "output_tokens", "duration_s", "outcome")
        rows += [
            {"hops": [{name: getattr(hops, name)[k] for name in names} | {"final": True, "streamed": True}]}
            for k in range(len(hops.hop))
        ]
    return profile_of(rows)


def test_where_first_answer_and_last_token_are_both_bound_the_wait_has_the_answers_seconds(profile_of: Build) -> None:
    profile = finals(profile_of, 400)
    seen = observe(profile, profile.hops.final)
    place = Slot("stream", 60.0, 0.9, 1.0, 2.0, 1.0, 1.0, False)
    budget, _ = stream_budget(seen, place, 0.9, "last", answer_s=1.5)
    assert (budget.answer_s, budget.budget_s) == (1.5, 60.0)
    assert budget.ttft_s == 1.5
    assert max(row.ttft_s for row in budget.sizes) == 1.5
    assert budget.tokens is not None and budget.tokens > 100
