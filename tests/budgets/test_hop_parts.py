"""What one hop's seconds went to."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hopbudget.budgets import Profile
from hopbudget.budgets.blame.hop_parts import HopParts, first_token_lines, split, split_by
from hopbudget.budgets.expectations.expectation import Line

Build = Callable[..., Profile]

LINES = {"": Line(0.2, 1e-4, 0.01)}


def parts(profile_of: Build, first: dict[str, Line] | None = None, **columns: Any) -> dict[str, float]:
    """The parts of one hop that are not 0."""
    found = split_by(profile_of([{"hops": [columns]}]).hops, LINES, first or {})
    each = {field.name: float(getattr(found, field.name)[0]) for field in fields(HopParts)}
    return {name: pytest.approx(seconds) for name, seconds in each.items() if seconds != 0}


MEASURED = (
    *("ttft_s", "attempt_ttft_s", "backoff_s", "stalled_s", "consumer_s", "client_lag_s"),
    *("input_tokens", "cached_tokens", "output_tokens", "attempts"),
)
maybe = st.one_of(st.just(np.nan), st.integers(0, 40).map(lambda n: n / 4))
hop = st.fixed_dictionaries(
    {
        "duration_s": st.integers(0, 80).map(lambda n: n / 4),
        "model": st.sampled_from(["", "m"]),
        "streamed": st.booleans(),
        "outcome": st.sampled_from(["ok", "ok", "failed", "timed_out"]),
    }
    | dict.fromkeys(MEASURED, maybe)
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=60)
@given(st.lists(hop, min_size=1, max_size=50))
def test_the_parts_add_up_to_the_duration_whatever_was_observed(profile_of: Build, rows: list[dict[str, Any]]) -> None:
    hops = profile_of([{"hops": rows}]).hops
    found = split(hops)
    total = sum(getattr(found, field.name) for field in fields(HopParts))
    assert total == pytest.approx(hops.duration_s, abs=1e-6)
    for name in ("retries", "backoff", "stalls", "client_lag"):
        assert (getattr(found, name) >= 0).all()


def test_of_a_hop_of_which_nothing_was_observed_all_is_pace(profile_of: Build) -> None:
    assert parts(profile_of, duration_s=4.0) == {"pace": 4.0}


def test_a_recorded_first_token_is_taken_as_it_is(profile_of: Build) -> None:
    found = parts(profile_of, duration_s=4.0, ttft_s=1.5, output_tokens=10.0)
    assert found == {"first_token": 1.5, "answers": 0.1, "pace": 2.4}


def test_the_prompt_is_taken_out_of_a_recorded_first_token_and_out_of_the_duration_without_one(
    profile_of: Build,
) -> None:
    first = {"": Line(0.1, 1e-3, 0.0)}
    told = {"duration_s": 4.0, "input_tokens": 1000.0, "output_tokens": 10.0}
    assert parts(profile_of, first, **told, ttft_s=1.5) == {
        "prompt": 1.0,
        "first_token": 0.5,
        "answers": 0.1,
        "pace": 2.4,
    }
    assert parts(profile_of, first, **told) == {"prompt": 0.1, "answers": 0.1, "pace": 3.8}


def test_cached_tokens_are_not_read_again(profile_of: Build) -> None:
    first = {"": Line(0.1, 1e-3, 0.0)}
    found = parts(profile_of, first, duration_s=4.0, ttft_s=1.5, input_tokens=1000.0, cached_tokens=800.0)
    assert found == {"prompt": 0.2, "first_token": 1.3, "pace": 2.5}


def test_failed_attempts_and_the_waiting_between_them_are_no_late_first_token(profile_of: Build) -> None:
    found = parts(profile_of, duration_s=9.0, ttft_s=8.0, attempt_ttft_s=1.0, backoff_s=3.0, attempts=3.0)
    assert found == {"retries": 4.0, "backoff": 3.0, "first_token": 1.0, "pace": 1.0}


def test_waiting_between_attempts_is_known_without_a_first_token_too(profile_of: Build) -> None:
    assert parts(profile_of, duration_s=9.0, backoff_s=3.0, attempts=2.0) == {"backoff": 3.0, "pace": 6.0}


def test_a_stall_is_no_slow_pace(profile_of: Build) -> None:
    found = parts(profile_of, duration_s=9.0, ttft_s=1.0, stalled_s=5.0)
    assert found == {"first_token": 1.0, "stalls": 5.0, "pace": 3.0}


def test_a_client_that_came_late_is_no_stall(profile_of: Build) -> None:
    found = parts(profile_of, duration_s=9.0, ttft_s=1.0, stalled_s=5.0, client_lag_s=4.5)
    assert found == {"first_token": 1.0, "stalls": 0.5, "client_lag": 4.5, "pace": 3.0}


def test_a_reader_holds_a_stream_up_only_where_it_took_most_of_it(profile_of: Build) -> None:
    slow = parts(profile_of, duration_s=9.0, ttft_s=1.0, consumer_s=7.0)
    assert slow == {"first_token": 1.0, "client_lag": 7.0, "pace": 1.0}
    assert parts(profile_of, duration_s=9.0, ttft_s=1.0, consumer_s=3.0) == {"first_token": 1.0, "pace": 8.0}


def test_the_line_of_first_tokens_leaves_out_what_failed_attempts_took(profile_of: Build) -> None:
    rows = [
        {"ttft_s": 7.0 + 0.001 * n, "attempt_ttft_s": 0.5 + 0.001 * n, "input_tokens": float(n), "model": "m"}
        for n in range(0, 3000, 100)
    ]
    line = first_token_lines(profile_of([{"hops": rows}]).hops)["m"]
    assert (line.a_s, line.per_prompt_token_s) == pytest.approx((0.5, 0.001))
