"""How many hops and tokens fit, and what caps would have bought."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from hopbudget.budgets import Profile, deadline_at
from hopbudget.budgets.groups import folds
from hopbudget.budgets.population import population
from hopbudget.budgets.run_time import answer, caps, fits, tokens
from hopbudget.budgets.run_time.fits import Steps
from hopbudget.budgets.run_time.suffix import starts

ProfileOf = Callable[..., Profile]
Load = Callable[[str], Profile]


def steps(profile: Profile, deadline_s: float, p: float = 0.9) -> Steps:
    found = fits.learn(profile, deadline_s, p)
    assert found is not None
    return found


def test_hops_of_one_second_fit_as_often_as_there_are_seconds(profile_of: ProfileOf) -> None:
    found = steps(profile_of([{"hops": [{"duration_s": 1.0}] * 6}] * 20), 10.0)
    assert [found.left(elapsed) for elapsed in (0.0, 6.0, 7.5, 9.0, 9.5, 12.0)] == [6, 4, 2, 1, 0, 0]


def test_work_between_hops_counts_and_what_follows_the_last_hop_too(profile_of: ProfileOf) -> None:
    one = [("hop", {"duration_s": 1.0}), ("work", {"duration_s": 2.0})]
    found = starts(profile := profile_of([{"steps": one * 2}]), population(profile, "last"))
    assert fits.run_times(found, 1)[0].tolist() == [1.0, 3.0]
    assert fits.run_times(found, 2)[0].tolist() == [6.0]


def test_a_hop_that_failed_for_good_fits_in_no_time(profile_of: ProfileOf) -> None:
    good = {"hops": [{"duration_s": 1.0}]}
    failed = {"hops": [{"duration_s": 1.0, "outcome": "failed"}], "outcome": "failed"}
    found = steps(profile_of([good] * 16 + [failed] * 4), 10.0)
    assert found.left(0.0, 0.8) == 1
    assert found.left(0.0, 0.9) == 0  # a fifth failed


def test_a_level_is_rounded_up_and_never_made_up(looping: ProfileOf) -> None:
    found = steps(looping(300), 6.0)
    assert found.left(1.0, 0.85) == found.left(1.0, 0.9)
    assert found.left(1.0, 0.99) is None


def test_the_target_of_the_plan_is_one_of_the_levels(looping: ProfileOf) -> None:
    found = steps(looping(300), 6.0, 0.97)
    assert found.at == (0.5, 0.8, 0.9, 0.95, 0.97)


def test_more_time_fits_more_and_more_certainty_fits_less(looping: ProfileOf) -> None:
    found = steps(looping(600), 8.0)
    by_time = [found.left(elapsed) or 0 for elapsed in np.linspace(0, 8, 30)]
    assert by_time == sorted(by_time, reverse=True)
    by_level = [found.left(2.0, level) or 0 for level in found.at]
    assert by_level == sorted(by_level, reverse=True)


def test_too_few_trajectories_say_nothing(looping: ProfileOf) -> None:
    assert fits.learn(looping(9), 6.0) is None


def test_steps_survive_the_plan(looping: ProfileOf) -> None:
    found = steps(looping(300), 6.0)
    assert Steps.from_plan(found.to_plan(), 6.0) == found


def test_steps_are_right_as_often_as_they_say_on_trajectories_not_seen(looping: ProfileOf) -> None:
    rows = fits.evaluate(looping(800, seed=1), looping(800, seed=2), 5.0)
    assert 0.86 <= rows["right"].mean() <= 0.97
    assert rows["steps"].min() >= 1


@pytest.mark.parametrize("name", ["tau2-retail-gpt41", "tau2-retail-gemini", "coding-turns"])
def test_steps_that_fit_on_recorded_trajectories(recorded: Load, name: str) -> None:
    profile = recorded(name)
    fold = folds.folds(folds.clusters(profile, np.arange(len(profile))), 5)
    deadline_s = deadline_at(profile, 90)
    parts = [fits.evaluate(profile.take(fold != k), profile.take(fold == k), deadline_s) for k in range(5)]
    assert 0.88 <= np.concatenate([part["right"] for part in parts]).mean() <= 0.98


# --- tokens ---------------------------------------------------------------------------------------------------


def streams(profile_of: ProfileOf, n: int = 40, *, ttft: float = 1.0, tpot: float = 0.1) -> Profile:
    def hop(index: int) -> dict[str, float | str | bool]:
        count = 10.0 + index
        timed = {"duration_s": ttft + (count - 1) * tpot, "ttft_s": ttft, "tpot_s": tpot, "output_tokens": count}
        return {"model": "m", "streamed": True, "final": True, **timed}

    return profile_of([{"hops": [hop(index)]} for index in range(n)])


def test_tokens_fit_as_first_token_and_pace_allow(profile_of: ProfileOf) -> None:
    (pace,) = tokens.learn(streams(profile_of))
    assert [pace.left(left) for left in (0.5, 1.0, 1.05, 2.05, 11.05)] == [0, 1, 1, 11, 101]
    assert pace.left(5.0, 0.999) is None


def test_first_token_and_pace_hold_together_at_the_level(profile_of: ProfileOf) -> None:
    random = np.random.default_rng(8)
    hops = []
    for _ in range(2000):
        n, ttft, tpot = (
            float(random.integers(2, 300)),
            float(random.lognormal(0, 0.5)),
            float(random.lognormal(-4, 0.3)),
        )
        timed = {"duration_s": ttft + (n - 1) * tpot, "ttft_s": ttft, "tpot_s": tpot, "output_tokens": n}
        hops.append({"hops": [{"model": "m", **timed}]})
    profile = profile_of(hops)
    right = tokens.evaluate(profile, profile, 0.9)["right"].mean()
    assert right == pytest.approx(0.9, abs=0.002)


def test_without_first_tokens_the_line_stands_in(profile_of: ProfileOf) -> None:
    hops = [{"model": "m", "duration_s": 0.5 + 0.02 * n, "output_tokens": float(n)} for n in range(10, 110)]
    (pace,) = tokens.learn(profile_of([{"hops": [hop]} for hop in hops]))
    assert pace.first_token_s[0] == pytest.approx(0.52, rel=0.01)
    assert pace.per_token_s[0] == pytest.approx(0.02, rel=0.01)


def test_a_model_with_few_hops_has_no_row(profile_of: ProfileOf) -> None:
    assert tokens.learn(streams(profile_of, 29)) == ()


def test_paces_survive_the_plan(profile_of: ProfileOf) -> None:
    found = tokens.learn(streams(profile_of))
    assert tokens.from_plan([pace.to_plan() for pace in found]) == found


def test_the_longest_answer_that_fits_when_it_starts(profile_of: ProfileOf) -> None:
    base = streams(profile_of)
    late = replace(base.hops, started_s=base.hops.started_s + 3.0)
    profile = Profile(replace(base.trajectories, duration_s=base.trajectories.duration_s + 3.0), late, base.works)
    found = answer.learn(profile, 6.0, 0.9, tokens.learn(profile))
    assert found is not None
    assert (found.starts_s, found.model, found.n) == (3.0, "m", 40)
    assert found.tokens == 1 + round((6.0 - 3.0 - 1.0) / 0.1)
    assert answer.Answer.from_plan(found.to_plan()) == found


def test_no_answer_where_its_models_pace_is_not_known(looping: ProfileOf) -> None:
    assert answer.learn(looping(50), 6.0, 0.9, ()) is None


# --- caps -----------------------------------------------------------------------------------------------------


def with_runaways(profile_of: ProfileOf, share: float) -> Profile:
    random = np.random.default_rng(6)

    def hop(index: int) -> dict[str, float | str]:
        n = 5000.0 if index < share * 400 else float(random.integers(50, 150))
        return {"hop": "write", "model": "m", "duration_s": 0.2 + 0.01 * n, "output_tokens": n, "tpot_s": 0.01}

    return profile_of([{"run": f"r{index % 5}", "hops": [hop(index)]} for index in range(400)])


def test_a_cap_stops_runaways_and_says_what_it_buys(profile_of: ProfileOf) -> None:
    profile = with_runaways(profile_of, 0.04)
    (cap,) = caps.learn(profile, 3.0, tokens.learn(profile))
    assert (cap.hop, cap.level) == ("write", 0.95)
    assert cap.tokens < 150
    assert cap.in_time == pytest.approx(0.04)  # each runaway would have been in time
    assert cap.cuts < 0.06
    assert cap.saves_s > 1.0


def test_a_cap_that_buys_nothing_is_a_guard_at_the_q99(looping: ProfileOf) -> None:
    profile = looping(600)
    (cap,) = caps.learn(profile, 1000.0, tokens.learn(profile))
    assert cap.level == 0.99
    assert cap.in_time == 0.0
    assert cap.cuts <= 0.01


def test_few_answers_give_no_cap(profile_of: ProfileOf) -> None:
    profile = streams(profile_of, 99)
    assert caps.learn(profile, 3.0, tokens.learn(profile)) == ()
