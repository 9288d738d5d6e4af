"""Several things at once: what comes back, what is ended, and that nothing is left running."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import hopbudget as hb
from hopbudget.tracing import scope
from hopbudget.tracing.clock import Clock
from hopbudget.tracing.deadline import Deadline
from hopbudget.tracing.limits_errors import CompletionTimeout, DeadlineExceeded, StallTimeout

Run = Callable[..., Deadline]


class Calls:
    """Calls that end when told to, and what became of them."""

    def __init__(self) -> None:
        self.ended: dict[str, str] = {}
        self.gates: dict[str, asyncio.Event] = {}

    async def call(self, name: str, result: Any = None, *, cleanup: float = 0.0) -> Any:
        gate = self.gates.setdefault(name, asyncio.Event())
        try:
            await gate.wait()
        except asyncio.CancelledError:
            if cleanup:
                await asyncio.sleep(0)
            self.ended[name] = "cancelled"
            raise
        self.ended[name] = "done"
        if isinstance(result, BaseException):
            raise result
        return name if result is None else result

    async def when_all_wait(self, *names: str) -> None:
        while not all(name in self.gates for name in names):
            await asyncio.sleep(0)

    def open(self, *names: str) -> None:
        for name in names:
            self.gates[name].set()


@pytest.fixture
def calls() -> Calls:
    return Calls()


async def started(awaitable: Awaitable[Any]) -> asyncio.Task[Any]:
    async def run() -> Any:
        return await awaitable

    return asyncio.create_task(run())


def others() -> int:
    return len(asyncio.all_tasks()) - 1


# All of -------------------------------------------------------------------------------------------------------------


async def test_all_results_come_in_the_order_of_the_arguments(calls: Calls) -> None:
    waiting = await started(hb.all_of(calls.call("a"), calls.call("b"), calls.call("c")))
    await calls.when_all_wait("a", "b", "c")
    for name in ("c", "a", "b"):
        calls.open(name)
        await asyncio.sleep(0)
    assert await waiting == ["a", "b", "c"]
    assert await hb.all_of() == []


async def test_the_first_failure_of_all_ends_the_others_and_is_raised_itself(calls: Calls) -> None:
    error = KeyError("b")
    waiting = await started(hb.all_of(calls.call("a", cleanup=1), calls.call("b", error)))
    await calls.when_all_wait("a", "b")
    calls.open("b")
    with pytest.raises(KeyError) as caught:
        await waiting
    assert caught.value is error
    assert calls.ended == {"a": "cancelled", "b": "done"}
    assert others() == 0


# First of -----------------------------------------------------------------------------------------------------------


async def test_the_first_success_wins_and_the_losers_are_cancelled_and_awaited(calls: Calls) -> None:
    waiting = await started(hb.first_of(calls.call("a", cleanup=1), calls.call("b"), calls.call("c")))
    await calls.when_all_wait("a", "b", "c")
    calls.open("b")
    assert await waiting == "b"
    assert calls.ended == {"a": "cancelled", "b": "done", "c": "cancelled"}
    assert others() == 0


async def test_a_failure_leaves_it_to_the_rest(calls: Calls) -> None:
    waiting = await started(hb.first_of(calls.call("a", KeyError()), calls.call("b")))
    await calls.when_all_wait("a", "b")
    calls.open("a")
    await asyncio.sleep(0.001)
    calls.open("b")
    assert await waiting == "b"


async def test_where_all_fail_their_exceptions_come_out_together(calls: Calls) -> None:
    waiting = await started(hb.first_of(calls.call("a", KeyError()), calls.call("b", ValueError())))
    await calls.when_all_wait("a", "b")
    calls.open("a", "b")
    with pytest.raises(ExceptionGroup, match="none of 2 succeeded") as caught:
        await waiting
    assert [type(error) for error in caught.value.exceptions] == [KeyError, ValueError]


async def test_an_only_ones_exception_is_raised_itself(calls: Calls) -> None:
    waiting = await started(hb.first_of(calls.call("a", KeyError())))
    await calls.when_all_wait("a")
    calls.open("a")
    with pytest.raises(KeyError):
        await waiting


async def test_where_all_ran_into_limits_it_is_a_limit_that_is_raised(calls: Calls) -> None:
    limits = [StallTimeout("stall", "answer", 2.0, 2.0) for _ in range(2)]
    waiting = await started(hb.first_of(calls.call("a", limits[0]), calls.call("b", limits[1])))
    await calls.when_all_wait("a", "b")
    calls.open("a", "b")
    with pytest.raises(StallTimeout):
        await waiting


async def test_there_is_no_first_of_nothing() -> None:
    with pytest.raises(ValueError, match="something to wait for"):
        await hb.first_of()


# Cancellation, deadlines, records ----------------------------------------------------------------------------------


@pytest.mark.parametrize("of", [hb.all_of, hb.first_of])
async def test_the_callers_cancellation_cancels_all_and_goes_on(calls: Calls, of: Any) -> None:
    waiting = await started(of(calls.call("a", cleanup=1), calls.call("b")))
    await calls.when_all_wait("a", "b")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert calls.ended == {"a": "cancelled", "b": "cancelled"}
    assert waiting.cancelled()
    assert others() == 0


@pytest.mark.parametrize("of", [hb.all_of, hb.first_of])
async def test_the_callers_own_time_out_stays_its_own(calls: Calls, of: Any) -> None:
    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(0.01):
            await of(calls.call("a"), calls.call("b"))
    assert not isinstance(caught.value, DeadlineExceeded)
    assert set(calls.ended.values()) == {"cancelled"}


@pytest.fixture
def real_time(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run` on the machine's clock, because asyncio's timers go by it."""
    monkeypatch.setattr(scope.setup, "clock", Clock())
    return run


@pytest.mark.parametrize("of", [hb.all_of, hb.first_of])
@pytest.mark.parametrize("mode", ["deadline", "abort"])
async def test_the_deadline_where_it_is_enforced_ends_all(calls: Calls, real_time: Run, of: Any, mode: str) -> None:
    real_time(0.02, mode=mode)
    with pytest.raises(CompletionTimeout) as caught:
        await of(calls.call("a"), calls.call("b", cleanup=1))
    assert (caught.value.limit, caught.value.capped) == ("completion", True)
    assert caught.value.budget_s == pytest.approx(0.02, abs=0.005)
    assert calls.ended == {"a": "cancelled", "b": "cancelled"}
    assert others() == 0


async def test_the_deadline_ends_those_that_go_on_after_others_have_ended_well(calls: Calls, real_time: Run) -> None:
    real_time(0.02)
    waiting = await started(hb.all_of(calls.call("a"), calls.call("b")))
    await calls.when_all_wait("a", "b")
    calls.open("a")
    with pytest.raises(CompletionTimeout):
        await waiting
    assert calls.ended == {"a": "done", "b": "cancelled"}


@pytest.mark.parametrize("of", [hb.all_of, hb.first_of])
def test_hops_that_the_deadline_falls_in_are_recorded_and_told_of_as_that(
    virtually: Any, recorded: Any, of: Any
) -> None:
    @hb.hop("ask")
    async def ask() -> None:
        await asyncio.sleep(60)

    @hb.trajectory("agent", deadline_s=2.0, enforce="deadline")
    async def agent() -> None:
        await of(ask(), ask(), asyncio.sleep(60))

    with pytest.raises(CompletionTimeout) as caught:
        virtually(agent())
    assert (caught.value.hop, caught.value.capped) == ("ask", True)
    hops = [found for found in (dict(span.attributes or {}) for span in recorded.spans) if "hopbudget.hop" in found]
    assert [(found["hopbudget.outcome"], found["hopbudget.limit_hit"]) for found in hops] == [
        ("timed_out", "completion")
    ] * 2


@pytest.mark.parametrize("of", [hb.all_of, hb.first_of])
def test_where_no_hop_was_waited_for_the_trajectory_is_marked(virtually: Any, recorded: Any, of: Any) -> None:
    @hb.trajectory("agent", deadline_s=2.0, enforce="deadline")
    async def agent() -> None:
        await of(asyncio.sleep(60), asyncio.sleep(50))

    with pytest.raises(CompletionTimeout, match="fell in its work"):
        virtually(agent())
    root = dict(recorded.spans[-1].attributes or {})
    assert (root["hopbudget.outcome"], root["hopbudget.decisions"]) == ("timed_out", ("deadline",))


async def test_a_deadline_that_is_only_observed_ends_nothing(calls: Calls, real_time: Run) -> None:
    real_time(0.001, mode="observe")
    waiting = await started(hb.all_of(calls.call("a")))
    await calls.when_all_wait("a")
    await asyncio.sleep(0.01)
    calls.open("a")
    assert await waiting == ["a"]


async def test_the_losers_hops_are_recorded_as_cancelled_in_the_same_trajectory(calls: Calls, recorded: Any) -> None:
    hop = hb.hop("ask")

    @hop
    async def ask(name: str) -> Any:
        return await calls.call(name)

    @hb.trajectory("agent")
    async def agent() -> Any:
        waiting = await started(hb.first_of(ask("a"), ask("b")))
        await calls.when_all_wait("a", "b")
        calls.open("a")
        return await waiting

    assert await agent() == "a"
    hops = [span for span in recorded.spans if span.attributes.get("hopbudget.hop") == "ask"]
    assert sorted(span.attributes["hopbudget.outcome"] for span in hops) == ["cancelled", "ok"]
    root = next(span for span in recorded.spans if span.name == "invoke_agent agent")
    assert {span.parent.span_id for span in hops} == {root.context.span_id}
