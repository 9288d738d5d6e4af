"""P(this trajectory meets its deadline, now): what is said, and when nothing is."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopbudget.budgets import Profile, deadline_at
from hopbudget.budgets.groups import folds
from hopbudget.budgets.numbers.scoring import calibration_error, score
from hopbudget.budgets.run_time import chance, logit
from hopbudget.budgets.run_time.chance import Chance
from hopbudget.budgets.run_time.held_out import HeldOut

ProfileOf = Callable[..., Profile]
Load = Callable[[str], Profile]
ONE = np.array([1])


def learned(profile: Profile, deadline_s: float) -> tuple[Chance, HeldOut]:
    found = chance.learn(profile, deadline_s)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def agent(looping: ProfileOf) -> Profile:
    return looping(1200)


@pytest.fixture(scope="module")
def found(agent: Profile) -> Chance:
    return learned(agent, deadline_at(agent, 80))[0]


def test_the_base_rate_is_the_share_that_met_the_deadline(found: Chance) -> None:
    assert found.base_rate == pytest.approx(0.8, abs=0.01)
    assert found.later_base_rate < found.base_rate  # long ones have more later hop starts, and miss it more often


def test_without_a_hint_it_is_the_mean_of_the_banks_share_and_the_logits(found: Chance) -> None:
    visit, elapsed = np.array([2, 3]), np.array([1.0, 2.0])
    share = found.bank.within(visit, found.deadline_s - elapsed)
    assert found.logit is not None
    other = found.logit.p(visit, elapsed, found.deadline_s, None)
    assert found.any(visit, elapsed) == pytest.approx((share + other) / 2)


def test_less_time_and_more_hops_to_come_lower_it(found: Chance) -> None:
    elapsed = np.linspace(0.5, found.deadline_s * 0.95, 20)
    visits = np.full(20, 3)
    assert (np.diff(found.any(visits, elapsed)) < 1e-9).all()
    hints = np.arange(1.0, 9.0)
    few_left = found.any(np.full(8, 3), np.full(8, found.deadline_s / 2), hints)
    assert (np.diff(few_left) < 0).all()


def test_past_the_deadline_there_is_none(found: Chance) -> None:
    late = np.array([found.deadline_s, found.deadline_s + 1])
    assert found.any(np.array([2, 2]), late).tolist() == [0.0, 0.0]
    assert found.any(np.array([2, 2]), late, np.array([1.0, 1.0])).tolist() == [0.0, 0.0]


def test_at_the_first_hop_there_is_no_information_without_a_hint(found: Chance) -> None:
    assert not found.known[0]
    assert np.isnan(found.said(ONE, np.array([0.0]))[0])
    assert found.known_hint[0]
    assert 0 < found.said(ONE, np.array([0.0]), np.array([2.0]))[0] < 1


def test_later_hops_beat_the_base_rate(found: Chance) -> None:
    assert found.known[1] and found.known_hint[1]
    assert found.score.brier < 0.9 * found.score.base
    assert found.score.brier_hint < found.score.brier


def test_a_trajectory_whose_hops_tell_nothing_gets_no_chance(profile_of: ProfileOf) -> None:
    random = np.random.default_rng(2)

    def pure_luck() -> dict[str, Any]:
        # two hops that take no time to speak of, then work that nothing before it foretells
        hops = [("hop", {"duration_s": 0.01}), ("hop", {"duration_s": 0.01})]
        return {
            "run": f"r{random.integers(6)}",
            "steps": [*hops, ("work", {"duration_s": float(random.lognormal())})],
        }

    profile = profile_of([pure_luck() for _ in range(400)])
    found, _ = learned(profile, deadline_at(profile, 80))
    assert not found.known[0]
    assert np.isnan(found.said(np.array([1, 2]), np.array([0.0, 0.01]))).any()
    assert found.score.brier <= 1.03 * found.score.base


def test_a_range_that_too_few_came_to_follows_the_one_before(found: Chance) -> None:
    assert found.known[4] == found.known[3]  # no trajectory has sixteen hops


def test_nobody_with_a_hop_gives_no_chance(profile_of: ProfileOf) -> None:
    assert chance.learn(profile_of([{"duration_s": 2.0}]), 5.0) is None


@pytest.mark.parametrize("deadline_s", [1e-6, 1e6])
def test_a_deadline_that_all_or_none_meet_leaves_the_bank_alone(looping: ProfileOf, deadline_s: float) -> None:
    found, _ = learned(looping(100), deadline_s)
    assert found.logit is None and found.hint is None
    assert found.any(np.array([2]), np.array([0.0])) == found.bank.within(np.array([2]), np.array([deadline_s]))
    assert np.isnan(found.said(np.array([2]), np.array([0.0]), np.array([1.0]))[0])


def test_what_was_cut_off_before_the_deadline_is_not_scored(agent: Profile) -> None:
    t = agent.trajectories
    cut = np.where(np.arange(len(agent)) % 2 == 0, "cancelled", t.outcome)
    held = learned(Profile(replace(t, outcome=cut.astype(object)), agent.hops, agent.works), 3.0)[1]
    assert not held.usable[held.starts.censored & (held.starts.elapsed_s + held.starts.remaining_s < 3.0)].any()


def test_a_chance_was_tried_on_clusters_that_it_had_not_seen(agent: Profile) -> None:
    held = learned(agent, deadline_at(agent, 80))[1]
    assert held.groups.kind == "run" and held.groups.n == 8


def test_the_order_of_trajectories_changes_nothing(agent: Profile) -> None:
    mixed = agent.take(np.random.default_rng(5).permutation(len(agent)))
    one, other = learned(agent, 4.0)[0], learned(mixed, 4.0)[0]
    assert one.bank == other.bank
    assert one.logit is not None and other.logit is not None
    assert one.logit.coefficients == pytest.approx(other.logit.coefficients, rel=1e-4)
    assert (one.known, one.known_hint) == (other.known, other.known_hint)


def test_scaling_time_changes_no_chance(found: Chance, agent: Profile) -> None:
    t, h, w = agent.trajectories, agent.hops, agent.works
    slow = Profile(
        replace(t, duration_s=10 * t.duration_s),
        replace(h, started_s=10 * h.started_s, duration_s=10 * h.duration_s),
        replace(w, started_s=10 * w.started_s, duration_s=10 * w.duration_s),
    )
    other, _ = learned(slow, 10 * found.deadline_s)
    visit, elapsed, hint = np.array([2, 3, 4]), np.array([1.0, 1.5, 2.0]), np.array([1.0, 2.0, 3.0])
    assert found.any(visit, elapsed) == pytest.approx(other.any(visit, 10 * elapsed), abs=2e-3)
    assert found.any(visit, elapsed, hint) == pytest.approx(other.any(visit, 10 * elapsed, hint), abs=2e-3)


def test_a_chance_survives_the_plan(found: Chance) -> None:
    again = Chance.from_plan(found.to_plan(), found.deadline_s)
    assert replace(again, score=found.score) == found
    assert again.score.brier == pytest.approx(found.score.brier, abs=1e-6)


def test_evaluate_says_the_base_rate_where_nothing_is_known(agent: Profile) -> None:
    rows = chance.evaluate(agent, agent.take(np.arange(50)), 1e-6)
    assert len(rows["p"]) == 0 or (rows["p"] == rows["base"]).all()
    assert {len(column) for column in rows.values()} == {len(rows["p"])}


# --- the logit ------------------------------------------------------------------------------------------------


def test_a_fit_has_the_largest_likelihood_less_the_ridge() -> None:
    random = np.random.default_rng(4)
    n = 400
    visit, elapsed, hint = random.integers(1, 8, n), random.uniform(0.1, 9.0, n), random.uniform(1, 8, n)
    met = random.random(n) < 1 / (1 + np.exp(hint - 3))
    found = logit.fit(visit, elapsed, 10.0, 1.2, hint=hint, met=met)
    assert found is not None
    x = logit.features(visit, elapsed, 10.0, 1.2, hint)
    spread = x.std(axis=0)

    def loss(c: Any) -> float:
        z = x @ c
        return float(np.sum(np.log1p(np.exp(-np.where(met, z, -z))))) + 0.5 * float(np.sum((c * spread)[1:] ** 2))

    best = loss(np.array(found.coefficients))
    for column in range(6):
        for step in (-0.02, 0.02):
            moved = np.array(found.coefficients)
            moved[column] += step
            assert loss(moved) >= best - 1e-9


def test_no_logit_where_all_met_it() -> None:
    visit, elapsed = np.array([1, 2]), np.array([0.0, 1.0])
    assert logit.fit(visit, elapsed, 5.0, 1.0, hint=None, met=np.array([True, True])) is None


@settings(max_examples=50)
@given(st.integers(1, 500), st.floats(0, 1e4), st.floats(0.001, 1e4), st.floats(0, 1e4), st.floats(1e-6, 1e4))
def test_it_is_a_probability_in_any_state(
    visit: int, elapsed_s: float, deadline_s: float, hint: float, mean_hop_s: float
) -> None:
    model = logit.Logit((0.3, 2.0, -0.1, 1.5, -0.4, -0.9), mean_hop_s)
    p = model.p(np.array([visit]), np.array([elapsed_s]), deadline_s, np.array([hint]))[0]
    assert 0 <= p <= 1


# --- scores ---------------------------------------------------------------------------------------------------


def test_a_chance_that_is_right_has_no_calibration_error_and_a_sure_wrong_one_has_all() -> None:
    met = np.array([True, False] * 50)
    assert calibration_error(np.full(100, 0.5), met) == 0.0
    assert calibration_error(np.where(met, 0.0, 1.0), met) == 1.0


def test_the_brier_score_is_the_mean_squared_distance() -> None:
    met = np.array([True, True, False, False])
    found = score(met, np.full(4, 0.5), met.astype(float), np.array([1.0, 0.0, 0.0, 0.0]))
    assert (found.n, found.base, found.brier, found.brier_hint) == (4, 0.25, 0.0, 0.25)


# --- recorded trajectories ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "plain", "hinted"),
    [
        ("tau2-retail-gpt41", "run", 0.76, 0.56),
        ("tau2-retail-gemini", "run", 0.79, 0.46),
        ("coding-turns", "session", 0.82, 0.5),
    ],
)
def test_later_hop_starts_of_recorded_trajectories(
    recorded: Load, name: str, kind: str, plain: float, hinted: float
) -> None:
    profile = recorded(name)
    groups = folds.clusters(profile, np.arange(len(profile)))
    fold = folds.folds(groups, 5)
    deadline_s = deadline_at(profile, 90)
    parts = [chance.evaluate(profile.take(fold != k), profile.take(fold == k), deadline_s) for k in range(5)]
    met, base, p, p_hint = (np.concatenate([part[key] for part in parts]) for key in ("met", "base", "p", "p_hint"))
    found = score(met > 0, base, p, p_hint)
    assert groups.kind == kind
    assert found.brier <= plain * found.base
    assert found.brier_hint <= hinted * found.base
    assert found.ece <= 0.04 and found.ece_hint <= 0.04
