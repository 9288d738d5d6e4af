"""When to give up: only where it was shown to pay."""

from collections.abc import Callable

import numpy as np
import pytest

from hopbudget.budgets import Profile, deadline_at
from hopbudget.budgets.groups import folds
from hopbudget.budgets.population import population
from hopbudget.budgets.run_time import aborting, chance
from hopbudget.budgets.run_time.aborting import Abort
from hopbudget.budgets.run_time.suffix import starts

ProfileOf = Callable[..., Profile]
Load = Callable[[str], Profile]


def rule(profile: Profile, deadline_s: float) -> Abort:
    found = chance.learn(profile, deadline_s)
    assert found is not None
    return aborting.learn(*found)


def doomed(profile_of: ProfileOf, n: int = 400) -> Profile:
    """A third of these is slow at the first hop, so that no second hop fits in what is left of five seconds."""

    def one(index: int) -> dict[str, object]:
        slow = index % 3 == 0
        first, rest = (4.0, 9.0) if slow else (0.5, 1.5)
        jitter = 1 + (index % 17) / 100
        return {"run": f"r{index % 7}", "hops": [{"duration_s": first * jitter}, {"duration_s": rest * jitter}]}

    return profile_of([one(index) for index in range(n)])


def test_what_can_not_be_saved_is_given_up_when_it_shows(profile_of: ProfileOf) -> None:
    profile = doomed(profile_of)
    found = rule(profile, 5.0)
    assert found.pays and found.latest_s is not None
    assert found.trial.false == 0.0
    # given up at 4 s or a little later instead of at 5 s
    assert found.trial.saved == pytest.approx(1 - 4.0 * 1.08 / 5.0, abs=0.02)
    hops = starts(profile, population(profile, "last"))
    given_up = found.gives_up(hops)
    assert set(hops.trajectory[given_up] % 3) == {0}
    assert set(hops.visit[given_up]) == {2}


def test_seconds_are_counted_against_letting_all_run_to_the_deadline(profile_of: ProfileOf) -> None:
    hops = [{"duration_s": 2.0}, {"duration_s": 6.0}]
    quick = [{"duration_s": 2.0}, {"duration_s": 1.0}]
    profile = profile_of([{"hops": hops}, {"hops": quick}, {"hops": hops, "outcome": "cancelled", "duration_s": 3.0}])
    people = population(profile, "last")
    found = starts(profile, people)
    cost = aborting.spending(people, found, found.visit == 2, 5.0)
    assert cost["spent_s"][:2].tolist() == [5.0, 0.0]
    assert cost["saved_s"][:2].tolist() == [3.0, -2.0]  # the second would have been in time: two seconds for nothing
    assert cost["false"][:2].tolist() == [0.0, 1.0]
    assert np.isnan([values[2] for values in cost.values()]).all()  # cut off before the deadline: nobody knows


def test_a_failure_costs_until_it_failed(profile_of: ProfileOf) -> None:
    profile = profile_of([{"hops": [{"duration_s": 2.0}], "outcome": "failed"}])
    people = population(profile, "last")
    found = starts(profile, people)
    assert aborting.spending(people, found, found.visit > 1, 5.0)["spent_s"].tolist() == [2.0]


def test_where_nothing_shows_beforehand_no_rule_pays(profile_of: ProfileOf) -> None:
    random = np.random.default_rng(3)
    rows = [
        {"run": f"r{index % 7}", "hops": [{"duration_s": 1.0}, {"duration_s": float(random.lognormal())}]}
        for index in range(500)
    ]
    found = rule(profile_of(rows), 3.0)
    assert not found.pays
    assert found.latest_s is None and found.hint_below is None


def test_one_cluster_is_no_trial(profile_of: ProfileOf) -> None:
    assert not rule(doomed(profile_of, 1), 5.0).pays


def test_a_rule_survives_the_plan(profile_of: ProfileOf) -> None:
    found = rule(doomed(profile_of), 5.0)
    again = Abort.from_plan(found.to_plan())
    assert (again.latest_s, again.hint_below, again.pays) == (found.latest_s, found.hint_below, True)
    assert again.trial.saved == pytest.approx(found.trial.saved, abs=1e-6)


def test_with_a_hint_the_chance_decides(profile_of: ProfileOf) -> None:
    profile = doomed(profile_of)
    learned = chance.learn(profile, 5.0)
    assert learned is not None
    found = aborting.learn(*learned)
    hops = starts(profile, population(profile, "last"))
    many = found.gives_up_with(learned[0], hops, np.full(len(hops), 50.0))
    assert found.hint_below is not None
    assert many.sum() >= found.gives_up(hops).sum()


@pytest.mark.parametrize(
    ("name", "least", "false"),
    [("tau2-retail-gpt41", 0.08, 0.01), ("tau2-retail-gemini", -0.02, 0.015), ("coding-turns", -0.02, 0.01)],
)
def test_giving_up_on_recorded_trajectories(recorded: Load, name: str, least: float, false: float) -> None:
    profile = recorded(name)
    fold = folds.folds(folds.clusters(profile, np.arange(len(profile))), 5)
    deadline_s = deadline_at(profile, 90)
    parts = [aborting.evaluate(profile.take(fold != k), profile.take(fold == k), deadline_s) for k in range(5)]
    spent, saved, wrong, hinted = (
        np.concatenate([part[key] for part in parts]) for key in ("spent_s", "saved_s", "false", "saved_hint_s")
    )
    assert saved.sum() >= least * spent.sum()
    assert wrong.mean() <= false
    assert hinted.sum() > saved.sum()
