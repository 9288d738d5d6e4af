"""The trajectory's deadline: its clock, what is nested in it, what travels."""

import asyncio
import math
from contextvars import copy_context
from threading import Thread
from typing import Any

import pytest

import hopbudget as hb
from hopbudget.tracing import scope
from hopbudget.tracing.deadline import Deadline, current, hop, within


@pytest.fixture(autouse=True)
def _recorded(recorded: Any) -> None:
    pass


def test_no_deadline_is_infinity() -> None:
    assert Deadline().remaining_s() == math.inf


def test_it_counts_down_and_below_zero(time: Any) -> None:
    deadline = Deadline(3.0)
    time.to(1000)
    assert (deadline.remaining_s(), deadline.elapsed_s()) == (2.0, 1.0)
    time.to(4000)
    assert deadline.remaining_s() == -1.0


def test_a_nested_one_ends_no_later_than_the_one_around(time: Any) -> None:
    outer = Deadline(3.0)
    time.to(1000)
    assert Deadline(9.0, outer=outer).remaining_s() == 2.0
    assert Deadline(0.5, outer=outer).remaining_s() == 0.5
    assert Deadline(outer=outer).remaining_s() == 2.0


def test_one_that_is_tightened_ends_earlier(time: Any) -> None:
    assert Deadline(3.0).tightened(0.5).remaining_s() == 2.5
    assert Deadline(0.3).tightened(0.5).remaining_s() == 0.0


def test_a_pause_stops_the_clock_of_all_around_it(time: Any) -> None:
    with hb.trajectory("outer", deadline_s=5.0):
        outer = current()
        with hb.trajectory("inner", deadline_s=3.0):
            inner = current()
            assert outer is not None and inner is not None
            time.to(1000)
            with hb.pause("approval"):
                assert inner.paused()
                time.to(61_000)
                assert (inner.remaining_s(), outer.remaining_s()) == (2.0, 4.0)
            assert not inner.paused()
            time.to(61_500)
            assert (inner.remaining_s(), outer.remaining_s(), inner.elapsed_s()) == (1.5, 3.5, 1.5)


def test_pauses_that_overlap_stop_it_once(time: Any) -> None:
    deadline = Deadline(3.0)
    deadline.pause()
    time.to(1000)
    deadline.pause()
    time.to(2000)
    deadline.resume()
    time.to(3000)
    deadline.resume()
    assert deadline.remaining_s() == 3.0


def test_it_is_where_the_context_is() -> None:
    async def inside() -> Deadline | None:
        return current()

    found: list[Deadline | None] = []
    with hb.trajectory("agent", deadline_s=3.0):
        here = current()
        context = copy_context()
        found.append(asyncio.run(inside()))
        thread = Thread(target=lambda: found.append(context.run(current)))
        thread.start()
        thread.join()
    assert here is not None
    assert found == [here, here]
    assert current() is None


def test_it_is_there_without_an_sdk_and_so_are_hops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopbudget.tracing.scope.tracer", lambda: None)
    with hb.trajectory("agent", deadline_s=3.0), hb.hop("plan", model="m-1"):
        deadline, inside = current(), hop()
        assert deadline is not None and inside is not None
        assert (deadline.visit, inside.name, inside.model) == (1, "plan", "m-1")
    assert (current(), hop()) == (None, None)


def test_hops_are_counted_in_every_trajectory_around_them() -> None:
    with hb.trajectory("outer", deadline_s=9.0):
        outer = current()
        with hb.hop("a"):
            pass
        with hb.trajectory("inner", deadline_s=9.0):
            with hb.hop("b"):
                pass
            inner = current()
    assert outer is not None and inner is not None
    assert (outer.visit, inner.visit) == (2, 1)


def test_a_trajectory_inside_of_an_incoming_deadline_is_held_by_the_smaller(time: Any, recorded: Any) -> None:
    from opentelemetry.context import attach, detach

    token = attach(within(Deadline(2.0)))
    try:
        with hb.trajectory("agent", deadline_s=9.0):
            found = current()
            assert found is not None
            assert found.remaining_s() == 2.0
    finally:
        detach(token)
    assert recorded.attributes()["hopbudget.deadline"] == 2.0


def test_while_no_limit_was_ever_given_nobody_looks_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = scope.recorder_errors()
    monkeypatch.setattr("hopbudget.tracing.hops.guards", None)
    with hb.trajectory("agent"), hb.hop("plan"):
        pass
    assert scope.recorder_errors() == errors
