"""What recorded streams, held out by session, say of expectations, fail-over times and the stream's limits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hopbudget.budgets import Profile
from hopbudget.budgets.drifts.trials import alarm_after, false_alarms
from hopbudget.budgets.expectations import expected, first_tokens
from hopbudget.budgets.groups.folds import clusters, folds
from hopbudget.budgets.streams import stream

Load = Callable[[str], Profile]
Evaluate = Callable[[Profile, Profile], dict[str, Any]]


def held_out(profile: Profile, evaluate: Evaluate) -> dict[str, Any]:
    """Every fifth of the sessions judged by the others, in one table."""
    fold = folds(clusters(profile, np.arange(len(profile))), most=5)
    parts = [evaluate(profile.take(fold != k), profile.take(fold == k)) for k in range(5)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@pytest.fixture(scope="module")
def streams(recorded: Load) -> Profile:
    """The recorded streams."""
    return recorded("coding-streams")


def test_an_expectation_by_tokens_covers_nine_in_ten_of_every_length_at_a_quarter_of_the_loss(
    streams: Profile,
) -> None:
    found = held_out(streams, expected.evaluate)
    assert found["loss"].mean() <= 0.30 * found["flat_loss"].mean()
    for quarter in range(4):
        assert found["covered"][found["quarter"] == quarter].mean() == pytest.approx(0.9, abs=0.03)
    slow = found["flat_slow"] == 1
    assert found["long_answer"][slow].mean() > 0.7


def test_slow_providers_are_found_and_long_answers_are_not_blamed_on_them(streams: Profile) -> None:
    found = held_out(streams, expected.evaluate)
    rate = {name: float(np.nanmean(found[name])) for name in found if name[-5:] in ("_slow", "_flat")}
    assert rate["pace2_slow"] >= 0.75 and rate["pace2_slow"] >= 3 * rate["pace2_flat"]
    assert rate["first5_slow"] >= 0.75 and rate["first5_slow"] >= 3 * rate["first5_flat"]
    assert rate["answer3_slow"] <= 0.15


def test_first_tokens_are_covered_for_every_model_and_prompt_size(streams: Profile) -> None:
    found = held_out(streams, first_tokens.evaluate)
    cells, covered = found["cell"], found["covered"]
    counted = [cell for cell in set(cells.tolist()) if cell and np.count_nonzero(cells == cell) >= 40]
    assert len(counted) == 12
    assert min(covered[cells == cell].mean() for cell in counted) >= 0.80


def test_giving_up_at_q99_costs_one_call_in_a_hundred_and_protects_from_calls_that_hang(streams: Profile) -> None:
    found = held_out(streams, first_tokens.evaluate)
    p99 = {name: float(np.quantile(found[name], 0.99)) for name in found if name.endswith("_s")}
    assert found["extra"].mean() <= 0.015
    assert p99["after_s"] <= 0.95 * p99["ttft_s"]
    assert p99["hang_after_s"] <= 0.45 * p99["hang_ttft_s"]


def test_first_token_and_pace_hold_together_for_every_model(streams: Profile) -> None:
    found = held_out(streams, stream.evaluate)
    for model in set(found["model"].tolist()):
        kept = found["joint"][found["model"] == model]
        if np.count_nonzero(~np.isnan(kept)) >= 100:
            assert np.nanmean(kept) >= 0.88


def test_a_swapped_model_raises_an_alarm_within_thirty_trajectories(recorded: Load) -> None:
    assert np.median(alarm_after(recorded("tau2-retail-gpt41"), recorded("tau2-retail-gemini"))) <= 30


def test_trajectories_like_those_learned_from_raise_hardly_any_alarm(recorded: Load) -> None:
    alarms, sequences = false_alarms(recorded("tau2-retail-gpt41"), halvings=2, trials=25)
    assert (alarms <= 1, sequences) == (True, 50)
