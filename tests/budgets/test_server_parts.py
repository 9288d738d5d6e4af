"""What inference servers told becomes causes: queue, prefill and outside the server, with known truth."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hopbudget.budgets import Profile, explain
from hopbudget.budgets.blame.breaches import breaches
from hopbudget.budgets.blame.causes import Causes

Build = Callable[..., Profile]
QUEUE_S, PREFILL_S, OUTSIDE_S, WRITING_S = 0.1, 0.2, 0.05, 1.0


def asked(*, queue: float = 0.0, prefill: float = 0.0, outside: float = 0.0, told: bool = True, **more: Any) -> Any:
    """One streamed call that waited so much longer than usual in each part of its way."""
    server = {"queue_s": QUEUE_S + queue, "prefill_s": PREFILL_S + prefill}
    ttft_s = sum(server.values()) + OUTSIDE_S + outside
    told_s = {**server, "server_ttft_s": sum(server.values())} if told else {}
    return {"steps": [("hop", {"hop": "ask", "ttft_s": ttft_s, "duration_s": ttft_s + WRITING_S, **told_s, **more})]}


def by_kind(causes: Causes, row: int) -> dict[str, float]:
    return {part.kind: round(part.seconds, 6) for part in causes.parts(row)}


@pytest.mark.parametrize("kind", ["queue", "prefill", "outside"])
def test_injected_seconds_are_found_where_they_were_put(profile_of: Build, kind: str) -> None:
    causes = explain(profile_of([*[asked()] * 21, asked(**{kind: 3.0})]))
    assert by_kind(causes, 21) == {kind: 3.0}


def test_a_hop_whose_server_told_nothing_waits_in_first_token(profile_of: Build) -> None:
    causes = explain(profile_of([*[asked()] * 21, asked(queue=3.0, told=False)]))
    assert by_kind(causes, 21) == {"first_token": 3.0}


def test_a_server_that_told_nothing_looks_like_no_saving(profile_of: Build) -> None:
    causes = explain(profile_of([*[asked()] * 21, asked(told=False)]))
    assert causes.parts(21) == []


def test_what_the_server_spent_on_neither_stays_in_first_token(profile_of: Build) -> None:
    slow = asked(server_ttft_s=QUEUE_S + PREFILL_S + 2.0, ttft_s=QUEUE_S + PREFILL_S + 2.0 + OUTSIDE_S, duration_s=3.35)
    assert by_kind(explain(profile_of([*[asked()] * 21, slow])), 21) == {"first_token": 2.0}


def test_a_server_that_contradicts_its_client_is_not_believed(profile_of: Build) -> None:
    wrong = asked(queue=3.0, ttft_s=0.35, duration_s=1.35)
    assert explain(profile_of([*[asked()] * 21, wrong])).parts(21) == []


def test_without_a_first_token_the_queue_comes_off_the_pace(profile_of: Build) -> None:
    def called(queue: float) -> Any:
        return asked(queue=queue, ttft_s=np.nan, duration_s=2.0 + queue)

    assert by_kind(explain(profile_of([*[called(0.0)] * 21, called(3.0)])), 21) == {"queue": 3.0}


def test_retries_before_the_answering_attempt_are_not_outside_the_server(profile_of: Build) -> None:
    again = asked(ttft_s=0.35 + 2.0, attempt_ttft_s=0.35, duration_s=3.35)
    assert by_kind(explain(profile_of([*[asked(attempt_ttft_s=0.35)] * 21, again])), 21) == {"retries": 2.0}


def test_the_share_over_many_is_what_was_injected_and_its_interval_holds_it(profile_of: Build) -> None:
    random = np.random.default_rng(7)
    usual = [asked(outside=float(random.uniform(0, 0.02))) for _ in range(200)]
    queues = [{"queue": float(random.exponential(4.0)) + 1} for _ in range(18)]
    others = [{"prefill": float(random.exponential(2.0)) + 1} for _ in range(12)]
    found = breaches(profile_of([*usual, *(asked(**late) for late in (*queues, *others))]), 2.0)
    injected = sum(late["queue"] for late in queues) / sum(sum(late.values()) for late in (*queues, *others))
    queue = next(cause for cause in found.causes if cause.kind == "queue")
    assert queue.share == pytest.approx(injected, abs=0.01)
    assert queue.low < injected < queue.high
    assert (queue.n, queue.main_in) == (30, 18)


def test_where_a_part_of_the_servers_told_the_share_says_of_how_many(profile_of: Build) -> None:
    late = [asked(queue=3.0, told=row < 10) for row in range(30)]
    found = breaches(profile_of([*[asked()] * 100, *late]), 2.0)
    shares = {cause.kind: (round(cause.share, 4), cause.n) for cause in found.causes}
    assert shares["queue"] == (round(10 / 30, 4), 10)
    assert shares["first_token"] == (round(20 / 30, 4), 30)
    assert (found.told.hops, found.told.of, found.told.trajectories) == (10, 30, 10)
