"""One span on every way out of an async generator, with the right outcome and end."""

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest

import hopbudget as hb
from hopbudget.tracing.gaps import decode

OK = "chat m-1 0-242 ok"


class ProviderError(Exception):
    pass


class ConsumerError(Exception):
    pass


@pytest.fixture
def async_generator(recorded: Any, open_async_stream: Any) -> Any:
    def make(script: Any) -> AsyncIterator[Any]:
        @hb.hop("answer")
        async def answer() -> AsyncIterator[Any]:
            async for item in open_async_stream(script):
                yield item

        return answer()

    return make


async def test_async_generator_read_to_the_end(recorded: Any, async_generator: Any, script: Any) -> None:
    assert [item async for item in async_generator(script)] == [item for _, item in script]
    assert recorded.tree() == OK


async def test_async_generator_closed(recorded: Any, async_generator: Any, script: Any, time: Any) -> None:
    stream = async_generator(script)
    await anext(stream)
    await anext(stream)
    time.to(5_000)
    await stream.aclose()
    assert recorded.tree() == "chat m-1 0-200 closed_by_consumer"


async def test_async_generator_left_by_break_and_collected(
    recorded: Any, async_generator: Any, script: Any, time: Any, settle: Any
) -> None:
    stream = async_generator(script)
    async for item in stream:
        if item is script[2][1]:
            break
    time.to(60_000)
    del stream
    gc.collect()
    await settle()
    assert recorded.tree() == "chat m-1 0-220 closed_by_consumer"


async def test_async_generator_whose_provider_fails(
    recorded: Any, async_generator: Any, script: Any, until: Any
) -> None:
    error = ProviderError()
    with pytest.raises(ProviderError) as caught:
        async for _ in async_generator(until(script, 230, error)):
            pass
    assert caught.value is error
    assert recorded.tree() == "chat m-1 0-230 failed ProviderError"


async def test_async_generator_whose_consumer_fails(
    recorded: Any, async_generator: Any, script: Any, settle: Any
) -> None:
    with pytest.raises(ConsumerError):
        async for item in async_generator(script):
            if item is script[2][1]:
                raise ConsumerError
    gc.collect()
    await settle()
    assert recorded.tree() == "chat m-1 0-220 closed_by_consumer"


async def test_async_generator_cancelled_while_it_waits_for_a_token(
    recorded: Any, async_generator: Any, script: Any, time: Any, until: Any
) -> None:
    waiting = asyncio.Event()

    async def stall() -> None:
        waiting.set()
        await asyncio.Event().wait()

    async def consume() -> None:
        async for _ in async_generator(until(script, 230, stall)):
            pass

    task = asyncio.create_task(consume())
    await waiting.wait()
    time.to(1_220)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert recorded.tree() == "chat m-1 0-1220 cancelled CancelledError"
    gaps = decode(recorded.attributes()["hopbudget.itl"])
    assert gaps is not None
    assert (gaps.us, gaps.censored) == ([20_000, 1_000_000], True)


async def test_async_generator_whose_reader_is_cancelled_at_work_on_a_chunk(
    recorded: Any, async_generator: Any, script: Any, time: Any, settle: Any
) -> None:
    working = asyncio.Event()

    async def consume() -> None:
        async for item in async_generator(script):
            if item is script[2][1]:
                working.set()
                await asyncio.Event().wait()

    task = asyncio.create_task(consume())
    await working.wait()
    time.to(9_000)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await settle()
    assert recorded.tree() == "chat m-1 0-220 cancelled CancelledError"
    gaps = decode(recorded.attributes()["hopbudget.itl"])
    assert gaps is not None
    assert not gaps.censored  # nobody waited for a token


async def test_a_task_that_reads_many_streams_keeps_nothing_of_them(
    recorded: Any, async_generator: Any, script: Any
) -> None:
    task = asyncio.current_task()
    for _ in range(3):
        stream = async_generator([(0, item) for _, item in script])
        async for _ in stream:
            pass
    assert "done" not in repr(task)
    assert len(recorded.spans) == 3


async def test_async_generator_under_somebody_elses_time_out(
    recorded: Any, async_generator: Any, script: Any, until: Any
) -> None:
    async def stall() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            async for _ in async_generator(until(script, 230, stall)):
                pass
    assert recorded.only().attributes["hopbudget.outcome"] == "cancelled"


async def test_async_generator_never_iterated_is_no_hop(recorded: Any, async_generator: Any, script: Any) -> None:
    async_generator(script)
    assert recorded.tree() == ""


async def test_async_generator_closed_by_another_task(
    recorded: Any, async_generator: Any, script: Any, caplog: Any
) -> None:
    stream = async_generator(script)
    await anext(stream)
    await asyncio.create_task(stream.aclose())
    assert recorded.tree() == "chat m-1 0-50 closed_by_consumer"
    assert not caplog.records


def test_async_generator_left_by_break_just_before_its_loop_ends(
    recorded: Any, async_generator: Any, script: Any
) -> None:
    async def main() -> None:
        async for item in async_generator(script):
            if item is script[2][1]:
                break

    asyncio.run(main())
    gc.collect()
    assert recorded.tree() == "chat m-1 0-220 closed_by_consumer"


@pytest.mark.parametrize(
    ("exceptions", "outcome"),
    [([asyncio.CancelledError(), TimeoutError()], "cancelled"), ([TimeoutError(), ValueError()], "failed")],
)
async def test_a_group_of_cancellations_is_one(
    exceptions: list[BaseException], outcome: str, recorded: Any, async_generator: Any
) -> None:
    group = BaseExceptionGroup("both", exceptions)
    with pytest.raises(BaseExceptionGroup) as caught:
        await anext(async_generator([(100, group)]))
    assert caught.value is group
    assert recorded.attributes()["hopbudget.outcome"] == outcome
