"""Has what a plan was learned from changed?"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hopbudget.budgets import Profile
from hopbudget.budgets.drifts import drift
from hopbudget.budgets.drifts.drift import Drift
from hopbudget.budgets.expectations import expected
from hopbudget.budgets.expectations.expected import Expectations

Build = Callable[..., Profile]
Make = Callable[..., Profile]


@pytest.fixture(scope="session")
def make(profile_of: Build) -> Make:
    """Trajectories of an agent that loops; every figure can be made larger or smaller."""

    def trajectories(
        n: int,
        seed: int,
        *,
        more_hops: int = 0,
        tokens: float = 1.0,
        pace: float = 1.0,
        first: float = 0.0,
        prompt: float = 1.0,
        work: float = 1.0,
        failed: float = 0.0,
    ) -> Profile:
        random = np.random.default_rng(seed)

        def one(index: int) -> dict[str, Any]:
            steps: list[tuple[str, dict[str, Any]]] = []
            for _ in range(int(random.integers(1, 5)) + more_hops):
                size, count = prompt * random.integers(500, 9000), np.ceil(tokens * random.integers(20, 300))
                ttft = 0.4 * random.lognormal(0, 0.3) + first
                tpot = 0.02 * pace * random.lognormal(0, 0.2)
                hop = {"model": "m", "input_tokens": size, "output_tokens": count, "ttft_s": ttft, "streamed": True}
                steps.append(("hop", {**hop, "tpot_s": tpot, "duration_s": ttft + (count - 1) * tpot}))
                steps.append(("work", {"duration_s": work * random.lognormal(0, 0.5)}))
            outcome = "failed" if random.random() < failed else "ok"
            return {"steps": steps, "outcome": outcome, "session": f"{seed}-{index // 3}"}

        return profile_of([one(index) for index in range(n)])

    return trajectories


@pytest.fixture(scope="session")
def learned(make: Make) -> tuple[Drift, Expectations]:
    """What 600 of them taught."""
    profile = make(600, 0)
    expectations = expected.learn(profile)
    found = drift.learn(profile, expectations)
    assert found is not None
    return found, expectations


def first_of(profile: Profile, learned: tuple[Drift, Expectations], cause: str) -> drift.Change:
    return next(change for change in drift.watch(profile, *learned).changes if change.cause == cause)


def test_nothing_is_said_where_nothing_has_changed(make: Make, learned: tuple[Drift, Expectations]) -> None:
    assert [drift.watch(make(300, seed), *learned).changes for seed in (1, 2, 3)] == [(), (), ()]


@pytest.mark.parametrize(
    ("cause", "way", "change"),
    [
        ("visits", "more", {"more_hops": 3}),
        ("answers", "more", {"tokens": 3.0}),
        ("answers", "less", {"tokens": 0.2}),
        ("pace", "more", {"pace": 2.0}),
        ("pace", "less", {"pace": 0.5}),
        ("first_token", "more", {"first": 2.0}),
        ("prompt", "more", {"prompt": 3.0}),
        ("tools", "more", {"work": 4.0}),
        ("failures", "more", {"failed": 0.5}),
        ("overall", "more", {"work": 4.0}),
        ("overall", "less", {"work": 0.2, "tokens": 0.3}),
    ],
)
def test_a_change_is_found_in_its_cause(
    make: Make, learned: tuple[Drift, Expectations], cause: str, way: str, change: dict[str, Any]
) -> None:
    found = first_of(make(200, 5, **change), learned, cause)
    assert found.way == way
    assert found.trajectories <= 60
    assert found.after > found.before if way == "more" else found.after < found.before


def test_a_healthy_provider_is_not_named_where_answers_got_longer(
    make: Make, learned: tuple[Drift, Expectations]
) -> None:
    causes = {change.cause for change in drift.watch(make(200, 5, tokens=3.0), *learned).changes}
    assert "answers" in causes
    assert not causes & {"pace", "first_token", "visits", "tools"}


def test_it_says_since_when(profile_of: Build, make: Make, learned: tuple[Drift, Expectations]) -> None:
    whole = make(400, 6, pace=2.5)
    usual = make(400, 7)
    rows = [*range(150)]
    found = first_of(joined(usual.take(np.array(rows)), whole.take(np.arange(150, 400))), learned, "pace")
    assert found.since == pytest.approx(150, abs=15)
    assert found.since <= found.at < 200
    assert found.lately > 0.5


def joined(one: Profile, other: Profile) -> Profile:
    """One after the other; `build` dates trajectories by their index."""
    from dataclasses import fields

    def both(name: str) -> Any:
        a, b = getattr(one, name), getattr(other, name)
        columns = {f.name: np.concatenate([getattr(a, f.name), getattr(b, f.name)]) for f in fields(a)}
        if name != "trajectories":
            columns["trajectory"] = np.concatenate([a.trajectory, b.trajectory + len(one)])
        return type(a)(**columns)

    return Profile(both("trajectories"), both("hops"), both("works"))


def test_trajectories_that_we_cut_or_degraded_are_not_looked_at(
    profile_of: Build, make: Make, learned: tuple[Drift, Expectations]
) -> None:
    from dataclasses import replace

    slow = make(200, 5, pace=3.0)
    ours = replace(slow.trajectories, intervened=np.ones(200, dtype=np.bool_))
    assert drift.watch(Profile(ours, slow.hops, slow.works), *learned).n == 0


def test_a_plan_gives_back_what_was_learned(make: Make, learned: tuple[Drift, Expectations]) -> None:
    found, expectations = learned
    again = drift.from_plan(found.to_plan())
    assert again.some == found.some
    profile = make(200, 5, pace=2.0)
    assert [(c.cause, c.way, c.at, c.since) for c in drift.watch(profile, again, expectations).changes] == [
        (c.cause, c.way, c.at, c.since) for c in drift.watch(profile, found, expectations).changes
    ]


def test_it_knows_what_it_was_learned_from(make: Make, learned: tuple[Drift, Expectations], profile_of: Build) -> None:
    assert learned[0].of_same_source(make(600, 0))
    renamed = profile_of([{"trace_id": f"{index:031x}f", "hops": []} for index in range(600)])
    assert not learned[0].of_same_source(renamed)


def test_too_few_teach_nothing(make: Make) -> None:
    few = make(drift.LEAST - 1, 0)
    assert drift.learn(few, expected.learn(few)) is None


def test_work_that_takes_no_time_is_not_watched(make: Make) -> None:
    profile = make(150, 0, work=0.001)
    found = drift.learn(profile, expected.learn(profile))
    assert found is not None
    assert "tools" not in {chart.cause for chart in found.charts}
