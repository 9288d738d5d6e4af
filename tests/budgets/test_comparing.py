"""Two sets of trajectories side by side."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hopbudget.budgets import Profile
from hopbudget.budgets.attainment.comparing import Comparison, Difference, compare

Build = Callable[..., Profile]


def runs(seed: int, n: int, scale: float = 1.0, **more: Any) -> list[dict[str, Any]]:
    chance = np.random.default_rng(seed)
    return [
        {
            "steps": [
                ("hop", {"hop": "plan", "duration_s": scale * float(chance.lognormal(0, 0.4)), "output_tokens": 20.0}),
                ("work", {"work": "tool", "duration_s": 0.2}),
                ("hop", {"hop": "answer", "duration_s": float(chance.lognormal(0.5, 0.4)), "ttft_s": 0.3}),
            ],
            **more,
        }
        for _ in range(n)
    ]


def of(found: Comparison, metric: str, statistic: str, hop: str = "") -> Difference:
    (one,) = (d for d in found.differences if (d.metric, d.statistic, d.hop) == (metric, statistic, hop))
    return one


def test_every_figure_is_the_plain_one_of_each_side(profile_of: Build) -> None:
    this, other = profile_of(runs(1, 80)), profile_of(runs(2, 60))
    found = compare(this, other)
    for statistic, level in (("p50", 0.5), ("p90", 0.9)):
        one = of(found, "trajectory_s", statistic)
        assert one.this == pytest.approx(float(np.quantile(this.trajectories.duration_s, level)))
        assert one.other == pytest.approx(float(np.quantile(other.trajectories.duration_s, level)))
        assert one.difference == pytest.approx(one.this - one.other)
    plan = this.hops.duration_s[this.hops.hop == "plan"]
    assert of(found, "hop_s", "p90", "plan").this == pytest.approx(float(np.quantile(plan, 0.9)))
    assert of(found, "steps", "mean").this == pytest.approx(2.0)


def test_tokens_that_were_counted_in_chunks_are_compared_with_none(profile_of: Build) -> None:
    stream = {"hop": "answer", "duration_s": 2.0, "tpot_s": 0.05, "output_tokens": 20.0}
    by_token = profile_of([{"steps": [("hop", stream)]}] * 6)
    by_chunk = profile_of([{"steps": [("hop", stream | {"n_is_chunks": True})]}] * 7)
    found = compare(by_chunk, by_token)
    assert {d.metric for d in found.differences}.isdisjoint({"tpot_s", "tokens"})
    assert (found.by_chunks_this, found.by_chunks_other) == (7, 0)


def test_a_slower_hop_is_beyond_its_interval_and_the_other_hop_is_not(profile_of: Build) -> None:
    found = compare(profile_of(runs(1, 150, scale=2.0)), profile_of(runs(2, 150)))
    assert of(found, "hop_s", "p50", "plan").beyond
    assert not of(found, "ttft_s", "p50", "answer").beyond
    low, high = of(found, "hop_s", "p50", "plan").low, of(found, "hop_s", "p50", "plan").high
    assert low < 1.0 < high


def test_five_sessions_alike_are_seldom_beyond_their_interval(profile_of: Build) -> None:
    """Percentiles alone put the mean of five beyond chance in 16% of pairs."""
    chance, beyond = np.random.default_rng(1), 0
    for _ in range(40):
        this, other = (
            profile_of([{"steps": [("hop", {"output_tokens": n})]} for n in chance.lognormal(3, 0.5, 5)])
            for _ in range(2)
        )
        beyond += of(compare(this, other), "tokens", "mean", "chat").beyond
    assert beyond <= 2


def test_the_same_against_itself_differs_by_nothing(profile_of: Build) -> None:
    profile = profile_of(runs(1, 80))
    found = compare(profile, profile)
    assert all(d.difference == 0.0 for d in found.differences)
    assert found.beyond == ()


def test_turned_round_the_difference_and_its_interval_turn_round(profile_of: Build) -> None:
    tasks = np.array([f"t{row % 20}" for row in range(80)], dtype=object)
    this, other = profile_of(runs(1, 80, scale=1.5)), profile_of(runs(2, 80))
    one = of(compare(this, other, (tasks, tasks)), "trajectory_s", "p50")
    back = of(compare(other, this, (tasks, tasks)), "trajectory_s", "p50")
    assert one.difference == pytest.approx(-back.difference)
    assert (one.low, one.high) == pytest.approx((-back.high, -back.low))


def hard_and_easy(profile_of: Build, seed: int, extra_s: float) -> tuple[Profile, Any]:
    """Forty tasks of very different length, each three times."""
    chance = np.random.default_rng(seed)
    rows, tasks = [], []
    for task in range(40):
        for _ in range(3):
            seconds = 1.0 + task + extra_s + float(chance.normal(0, 0.05))
            rows.append({"steps": [("hop", {"hop": "chat", "duration_s": seconds})]})
            tasks.append(f"task-{task}")
    return profile_of(rows), np.array(tasks, dtype=object)


def test_pairing_by_task_takes_the_tasks_own_length_out_of_the_interval(profile_of: Build) -> None:
    (this, its), (other, theirs) = hard_and_easy(profile_of, 1, 0.5), hard_and_easy(profile_of, 2, 0.0)
    paired = of(compare(this, other, (its, theirs)), "trajectory_s", "p50")
    apart = of(compare(this, other), "trajectory_s", "p50")
    assert paired.high - paired.low < 0.2 * (apart.high - apart.low)
    assert paired.beyond
    assert not apart.beyond


def test_tasks_that_only_one_side_has_are_left_out_and_counted(profile_of: Build) -> None:
    this, other = profile_of(runs(1, 12)), profile_of(runs(2, 12))
    its = np.array([f"t{row}" for row in range(12)], dtype=object)
    theirs = np.array([f"t{row + 4}" for row in range(12)], dtype=object)
    found = compare(this, other, (its, theirs))
    assert (found.clusters_this, found.left_out_this, found.left_out_other) == (8, 4, 4)
    assert of(found, "steps", "mean").n_this == 8


def test_sessions_are_drawn_whole(profile_of: Build) -> None:
    alone = [{**row, "session": f"s{index}"} for index, row in enumerate(runs(1, 60))]
    # Each session is one trajectory four times over: sixty observations, fifteen of them independent.
    together = [{**row, "session": f"s{index}"} for index, row in enumerate(runs(1, 15)) for _ in range(4)]
    other = profile_of(runs(2, 60))
    narrow = of(compare(profile_of(alone), other), "trajectory_s", "p50")
    wide = of(compare(profile_of(together), other), "trajectory_s", "p50")
    assert wide.high - wide.low > 1.2 * (narrow.high - narrow.low)


def test_failures_are_compared_as_a_share(profile_of: Build) -> None:
    this = profile_of([*runs(1, 60), *runs(3, 40, outcome="failed")])
    one = of(compare(this, profile_of(runs(2, 100))), "failed", "share")
    assert (one.this, one.other) == (0.4, 0.0)
    assert one.beyond


def test_too_few_have_no_interval(profile_of: Build) -> None:
    one = of(compare(profile_of(runs(1, 3)), profile_of(runs(2, 50))), "trajectory_s", "p50")
    assert math.isnan(one.low)
    assert not one.beyond


def test_intervals_cover_as_often_as_they_say(profile_of: Build) -> None:
    """Both sides are the same: at 95%, about one in twenty differences is beyond its interval."""
    beyond = [
        of(compare(profile_of(runs(s, 60)), profile_of(runs(s + 500, 60))), "trajectory_s", "p50").beyond
        for s in range(40)
    ]
    assert sum(beyond) <= 6
