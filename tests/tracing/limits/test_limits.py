"""When each limit is due, as arithmetic."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.tracing.limits import NEVER_NS, Limits, Place

MS = 1_000_000
LIMITS = Limits(0.8, 2.0, 10.0)


def due(place: Place, limits: Limits = LIMITS) -> tuple[float, str]:
    found = limits.due(place)
    return found.at_ns / MS, found.limit


def test_without_a_token_the_first_token_is_due_after_the_issue() -> None:
    assert due(Place("sent", 100 * MS, 100 * MS)) == (900, "first_token")


def test_what_was_waited_before_counts_and_the_consumers_own_time_does_not() -> None:
    # Issued at 0, open at 300; the consumer asked at 400, got a ping at 500, and asks again at 700.
    assert due(Place("first", 0, 700 * MS, (300 + 100) * MS)) == (1100, "first_token")


def test_the_first_token_disarms_its_limit_and_arms_the_stall() -> None:
    assert due(Place("tokens", 0, 900 * MS)) == (2900, "stall")


def test_an_empty_chunk_does_not_feed_the_stall() -> None:
    assert due(Place("tokens", 0, 1900 * MS, 1000 * MS)) == (2900, "stall")


def test_an_endpoint_that_thinks_in_silence_does_not_stall() -> None:
    assert due(Place("thinking", 0, 900 * MS)) == (10_000, "completion")


def test_an_answer_that_does_not_stream_has_only_its_completion() -> None:
    assert due(Place("reply", 0)) == (10_000, "completion")


def test_the_trajectorys_deadline_caps_every_limit() -> None:
    for phase in ("sent", "reply", "first", "tokens", "thinking", "open", "done"):
        assert due(Place(phase, 0, 0, 0, cap_ns=500 * MS)) == (500, "deadline")  # type: ignore[arg-type]


def test_a_call_that_is_over_has_only_the_deadline() -> None:
    assert due(Place("done", 0)) == (math.inf, "deadline")


def test_while_the_first_token_is_awaited_a_stall_may_come_sooner_than_what_is_due() -> None:
    limits = Limits(20.0, 2.0, 30.0)
    for place in (Place("first", 0, 0), Place("tokens", 0, 1000 * MS)):
        assert limits.look_ns(limits.due(place), place, 1000 * MS) == 3000 * MS


def test_one_socket_wait_may_take_as_long_as_any_limit_allows_it() -> None:
    now_ns = 100 * MS
    assert LIMITS.longest_ns(Place("first", 0, now_ns), now_ns) == now_ns + 2000 * MS
    assert Limits(0.8).longest_ns(Place("first", 0, now_ns), now_ns) == math.inf
    assert Limits(0.8, None, 3.0).longest_ns(Place("first", 0, now_ns), now_ns) == 3000 * MS


def test_the_limit_tells_the_seconds_on_its_own_clock() -> None:
    place = Place("tokens", 0, 5000 * MS, 500 * MS)
    assert LIMITS.on_clock(LIMITS.due(place), place, 6600 * MS) == pytest.approx((2.1, 2.0))


@pytest.mark.parametrize(
    ("first_s", "stalled_s", "length_s", "limit"),
    [
        (0.7, None, 9, None),
        (0.9, None, 9, "first_token"),
        (0.7, None, 11, "completion"),
        (None, None, 11, "completion"),
        (None, None, 1, None),
        (0.7, 5, 9, "stall"),
        (0.9, 5, 11, "first_token"),
        (0.7, 5, 11, "stall"),
        (0.7, 10.5, 11, "completion"),
    ],
)
def test_a_call_that_was_let_go_on_tells_what_it_went_beyond_first(
    first_s: float | None, stalled_s: float | None, length_s: float, limit: str | None
) -> None:
    first_ns, stalled_ns = (None if seconds is None else seconds * 1e9 for seconds in (first_s, stalled_s))
    assert LIMITS.reached(first_ns=first_ns, stalled_ns=stalled_ns, length_ns=length_s * 1e9) == limit


ns = st.integers(0, 10**12)
seconds = st.none() | st.floats(0.001, 100)
phases = st.sampled_from(["sent", "reply", "first", "tokens", "thinking", "open", "done"])


@given(seconds, seconds, seconds, phases, ns, ns, ns, st.floats(0, math.inf))
def test_nothing_is_due_after_the_deadline_nor_looked_at_after_it_is_due(
    first: float, stall: float, whole: float, phase: str, issued: int, since: int, heard: int, cap: float
) -> None:
    limits = Limits(first, stall, whole)
    place = Place(phase, issued, since, heard, cap)  # type: ignore[arg-type]
    due = limits.due(place)
    assert due.at_ns <= cap
    assert limits.look_ns(due, place, since) <= max(due.at_ns, NEVER_NS)
    assert limits.longest_ns(place, since) <= cap
