"""One span on every way out of a plain function or coroutine, with the right outcome and end."""

import asyncio
import gc
from typing import Any

import pytest

import hopbudget as hb

OK = "chat m-1 0-242 ok"


class ProviderError(Exception):
    pass


class ConsumerError(Exception):
    pass


def test_function_that_returns_a_reply(recorded: Any, time: Any) -> None:
    reply = {"model": "m-1", "choices": [{"message": {}, "finish_reason": "stop"}], "usage": {"completion_tokens": 4}}

    @hb.hop("plan", model="m")
    def plan() -> Any:
        time.to(300)
        return reply

    assert plan() is reply
    assert recorded.tree() == "chat m 0-300 ok"
    found = recorded.attributes()
    assert (found["hopbudget.output_tokens"], found["hopbudget.output_tokens.source"]) == (4, "usage")
    assert "hopbudget.ttft" not in found
    assert "gen_ai.request.stream" not in found


def test_function_that_returns_something_else_is_a_hop_as_long_as_it_runs(recorded: Any, time: Any) -> None:
    @hb.hop("plan")
    def plan() -> str:
        time.to(300)
        return "text"

    assert plan() == "text"
    assert recorded.tree() == "chat 0-300 ok"
    assert "hopbudget.output_tokens" not in recorded.attributes()


def test_function_that_watches_its_reply_ends_with_the_reply(recorded: Any, time: Any) -> None:
    @hb.hop("plan")
    def plan() -> str:
        time.to(300)
        reply = hb.watch({"model": "m-1", "choices": [{"message": {"content": "x"}, "finish_reason": "length"}]})
        time.to(400)
        return str(reply["choices"])

    plan()
    assert recorded.tree() == "chat m-1 0-300 truncated"


def test_function_that_fails(recorded: Any, time: Any) -> None:
    @hb.hop("plan")
    def plan() -> None:
        time.to(300)
        raise ProviderError

    with pytest.raises(ProviderError):
        plan()
    assert recorded.tree() == "chat 0-300 failed ProviderError"


def test_function_that_returns_a_stream_is_a_hop_until_it_is_read(recorded: Any, open_stream: Any, script: Any) -> None:
    @hb.hop("answer")
    def answer() -> Any:
        return open_stream(script)

    stream = answer()
    assert recorded.tree() == ""
    assert list(stream) == [item for _, item in script]
    assert recorded.tree() == OK
    assert recorded.attributes()["gen_ai.request.stream"] is True


def test_function_whose_stream_is_opened_and_never_read(
    recorded: Any, open_stream: Any, script: Any, time: Any
) -> None:
    @hb.hop("answer")
    def answer() -> Any:
        time.to(40)
        return open_stream(script)

    stream = answer()
    time.to(9_000)
    del stream
    gc.collect()
    assert recorded.tree() == "chat 0-40 closed_by_consumer"


def test_function_whose_stream_is_closed(recorded: Any, open_stream: Any, script: Any, time: Any) -> None:
    @hb.hop("answer")
    def answer() -> Any:
        return open_stream(script)

    with answer() as stream:
        next(stream)
        next(stream)
        time.to(9_000)
    assert stream.closed
    assert recorded.tree() == "chat m-1 0-200 closed_by_consumer"


async def test_coroutine_whose_stream_is_closed_by_a_cancel(recorded: Any, open_async_stream: Any, script: Any) -> None:
    @hb.hop("answer")
    async def answer() -> Any:
        return open_async_stream(script)

    with pytest.raises(asyncio.CancelledError):
        async with await answer() as stream:
            await anext(stream)
            raise asyncio.CancelledError
    assert recorded.tree() == "chat m-1 0-50 cancelled CancelledError"


def test_function_that_reads_a_part_of_its_stream(recorded: Any, open_stream: Any, script: Any, time: Any) -> None:
    @hb.hop("answer")
    def answer() -> str:
        for item in hb.watch(open_stream(script)):
            if item is script[2][1]:
                break
        time.to(900)
        return "enough"

    answer()
    assert recorded.tree() == "chat m-1 0-220 closed_by_consumer"


async def test_coroutine_that_reads_a_part_of_its_stream(
    recorded: Any, open_async_stream: Any, script: Any, time: Any
) -> None:
    @hb.hop("answer")
    async def answer() -> str:
        async for item in hb.watch(open_async_stream(script)):
            if item is script[2][1]:
                break
        time.to(900)
        return "enough"

    await answer()
    assert recorded.tree() == "chat m-1 0-220 closed_by_consumer"


async def test_coroutine_that_returns_a_stream(recorded: Any, open_async_stream: Any, script: Any) -> None:
    @hb.hop("answer")
    async def answer() -> Any:
        return open_async_stream(script)

    assert [item async for item in await answer()] == [item for _, item in script]
    assert recorded.tree() == OK


async def test_coroutine_cancelled_before_its_headers(recorded: Any, time: Any) -> None:
    waiting = asyncio.Event()

    @hb.hop("plan")
    async def plan() -> None:
        waiting.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(plan())
    await waiting.wait()
    time.to(700)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert recorded.tree() == "chat 0-700 cancelled CancelledError"


async def test_coroutine_cancelled_while_it_works_on_a_chunk(
    recorded: Any, open_async_stream: Any, script: Any, time: Any
) -> None:
    working = asyncio.Event()

    @hb.hop("answer")
    async def answer() -> None:
        async for item in hb.watch(open_async_stream(script)):
            if item is script[2][1]:
                working.set()
                await asyncio.Event().wait()

    task = asyncio.create_task(answer())
    await working.wait()
    time.to(700)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert recorded.tree() == "chat m-1 0-220 cancelled CancelledError"


async def test_coroutine_under_its_own_time_out_is_cancelled(recorded: Any) -> None:
    @hb.hop("plan")
    async def plan() -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await plan()
    assert recorded.only().attributes["hopbudget.outcome"] == "cancelled"


async def test_coroutine_dropped_while_it_waits(recorded: Any) -> None:
    @hb.hop("plan")
    async def plan() -> None:
        await asyncio.sleep(0)

    running = plan()
    running.send(None)
    running.close()
    assert recorded.tree() == "chat 0-0 closed_by_consumer"


def test_somebody_elses_time_out_cuts_it_short(recorded: Any) -> None:
    @hb.hop("plan")
    def plan() -> None:
        raise TimeoutError("timed out")

    with pytest.raises(TimeoutError):
        plan()
    assert recorded.tree() == "chat 0-0 cancelled TimeoutError"
