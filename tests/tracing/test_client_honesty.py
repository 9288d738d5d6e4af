"""What of a hop's times is the client's own: its event loop's lag, its reading in pieces, its consumer's work."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import hopbudget as hb
from hopbudget.tracing.gaps import decode
from hopbudget.tracing.lag import INTERVAL_S, LoopLag


class FakeLoop:
    """A loop whose timers run when told to."""

    def __init__(self) -> None:
        self.s = 100.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def now(self) -> float:
        return self.s

    def call_later(self, delay_s: float, run: Callable[[], None], context: Any = None) -> None:
        self.timers.append((self.s + delay_s, run))

    def is_closed(self) -> bool:
        return False

    def run_timers(self, late_s: float) -> None:
        due_s, run = self.timers.pop()
        self.s = due_s + late_s
        run()


class Waiting:
    lag_s: float | None = None

    def ticked(self) -> None:
        pass


@pytest.fixture
def loop() -> FakeLoop:
    return FakeLoop()


@pytest.fixture
def lag(loop: FakeLoop) -> LoopLag:
    return LoopLag(loop, loop.now)


def test_the_lag_is_the_latest_that_a_timer_ran(loop: FakeLoop, lag: LoopLag) -> None:
    hop = Waiting()
    lag.opened(hop)
    for late_s in (0.01, 1.5, 0.0):
        loop.run_timers(late_s)
    assert hop.lag_s == pytest.approx(1.5)


def test_a_timer_that_is_overdue_when_the_hop_ends_counts(loop: FakeLoop, lag: LoopLag) -> None:
    hop = Waiting()
    lag.opened(hop)
    loop.s += INTERVAL_S + 134
    lag.look(hop)
    assert hop.lag_s == pytest.approx(134)


def test_what_was_open_before_the_hop_is_not_its_lag(loop: FakeLoop, lag: LoopLag) -> None:
    first, second = Waiting(), Waiting()
    lag.opened(first)
    loop.s += INTERVAL_S + 10
    lag.opened(second)
    loop.s += 1
    lag.look(second)
    assert second.lag_s == pytest.approx(1)
    loop.timers.pop()[1]()
    assert first.lag_s == pytest.approx(11)


def test_a_hop_too_short_for_a_timer_has_no_lag_rather_than_none_at_all(loop: FakeLoop, lag: LoopLag) -> None:
    hop = Waiting()
    lag.opened(hop)
    loop.s += INTERVAL_S / 2
    lag.look(hop)
    assert hop.lag_s is None


def test_the_timer_stops_when_nothing_is_open_and_begins_again(loop: FakeLoop, lag: LoopLag) -> None:
    hop = Waiting()
    lag.opened(hop)
    lag.closed(hop)
    loop.run_timers(0)
    assert loop.timers == []
    lag.opened(hop)
    assert len(loop.timers) == 1


async def test_a_hop_that_awaits_is_told_its_loops_lag(recorded: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("hopbudget.tracing.lag.INTERVAL_S", 0.0)  # due at once

    @hb.hop("plan")
    async def plan() -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    @hb.hop("answer")
    async def answer() -> AsyncIterator[str]:
        for _ in range(5):
            await asyncio.sleep(0)
        yield "a"

    await plan()
    async with hb.hop("block"):
        for _ in range(5):
            await asyncio.sleep(0)
    assert [item async for item in answer()] == ["a"]
    assert all(span.attributes["hopbudget.client_lag"] >= 0 for span in recorded.spans)
    assert len(recorded.spans) == 3


def test_a_hop_outside_of_a_loop_has_no_lag(recorded: Any) -> None:
    with hb.hop("plan"):
        pass
    assert "hopbudget.client_lag" not in recorded.attributes()


def test_the_consumers_own_time_is_kept_apart(recorded: Any, open_stream: Any, chunk: Any, time: Any) -> None:
    script = [(200, chunk("a")), (220, chunk("b")), (290, chunk("c")), (310, chunk(finish="stop"))]
    with hb.hop("answer"):
        for _, _item in zip(range(4), hb.watch(open_stream(script)), strict=False):
            time.ms += 10
    found = recorded.attributes()
    assert found["hopbudget.consumer"] == pytest.approx(0.03)
    assert (found["hopbudget.coalesced"], found["hopbudget.held"]) == (0, 0)  # it waited for each chunk all the same
    gaps = decode(found["hopbudget.itl"])
    assert gaps is not None
    assert gaps.us == [20_000, 70_000]


def test_a_gap_whose_chunk_was_there_when_asked_for_is_the_consumers(recorded: Any, time: Any) -> None:
    def ready() -> Iterator[str]:
        time.ms += 100
        yield from "abcd"

    with hb.hop("answer"):
        for _ in hb.watch(ready()):
            time.ms += 50
    found = recorded.attributes()
    assert (found["hopbudget.held"], found["hopbudget.coalesced"]) == (3, 0)
    assert found["hopbudget.consumer"] == pytest.approx(0.15)


def test_gaps_that_came_in_one_read_are_counted(recorded: Any, time: Any) -> None:
    def in_reads_of_two() -> Iterator[str]:
        for number, piece in enumerate("abcdef"):
            time.ms += 0.05 if number % 2 else 20
            yield piece

    with hb.hop("answer"):
        list(hb.watch(in_reads_of_two()))
    found = recorded.attributes()
    assert (found["hopbudget.coalesced"], found["hopbudget.held"]) == (3, 0)
    assert found["hopbudget.consumer"] == 0
