"""Streams that end in every way, against the simulated endpoint: what was recorded of each.

A way returns when the last of the stream was observed, in wall nanoseconds. After it the stream is let go and the
collector run; what was recorded then is all there will be.
"""

import asyncio
import contextvars
import gc
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from bench.peers.page import HOLD_S, LATE_S
from bench.peers.probe.adapters import Adapter
from bench.peers.probe.wire import MESSAGES, MODEL

TRIES: Final = 3
"""How often a way is gone whose span ended late by less than the hold: a busy machine makes any span late."""
ENOUGH: Final = 4
"""Chunks read before a way out is taken: the role chunk and three tokens."""


class ConsumerError(Exception):
    """What the reader of a stream raises."""


def ask(row: str) -> dict[str, Any]:
    """The request: a stream of the endpoint's row."""
    return {
        "model": MODEL,
        "messages": MESSAGES,
        "stream": True,
        "extra_headers": {"x-hopbudget-row": row},
    }


# Sync ---------------------------------------------------------------------------------------------------------


def read(stream: Any) -> int:
    last_ns = time.time_ns()
    for _ in stream:
        last_ns = time.time_ns()
    return last_ns


def break_off(stream: Any) -> int:
    last_ns = 0
    for number, _ in enumerate(stream, 1):
        last_ns = time.time_ns()
        if number == ENOUGH:
            break
    time.sleep(HOLD_S)
    return last_ns


def close(stream: Any) -> int:
    for number, _ in enumerate(stream, 1):
        if number == ENOUGH:
            stream.close()
            break
    return time.time_ns()


def never(stream: Any) -> int:
    last_ns = time.time_ns()
    time.sleep(HOLD_S)
    return last_ns


def fail(stream: Any) -> int:
    try:
        for _ in stream:
            pass
    except Exception:
        return time.time_ns()
    return time.time_ns()


def consumer_raises(stream: Any) -> int:
    last_ns = 0
    try:
        for number, _ in enumerate(stream, 1):
            last_ns = time.time_ns()
            if number == ENOUGH:
                raise ConsumerError
    except ConsumerError:
        pass
    return last_ns


# Async --------------------------------------------------------------------------------------------------------


async def read_async(stream: Any) -> int:
    last_ns = time.time_ns()
    async for _ in stream:
        last_ns = time.time_ns()
    return last_ns


async def break_off_async(stream: Any) -> int:
    last_ns = number = 0
    async for _ in stream:
        last_ns = time.time_ns()
        number += 1
        if number == ENOUGH:
            break
    await asyncio.sleep(HOLD_S)
    return last_ns


async def close_async(stream: Any) -> int:
    number = 0
    async for _ in stream:
        number += 1
        if number == ENOUGH:
            await stream.close()
            break
    return time.time_ns()


async def never_async(stream: Any) -> int:
    last_ns = time.time_ns()
    await asyncio.sleep(HOLD_S)
    return last_ns


async def fail_async(stream: Any) -> int:
    try:
        async for _ in stream:
            pass
    except Exception:
        return time.time_ns()
    return time.time_ns()


async def consumer_raises_async(stream: Any) -> int:
    last_ns = number = 0
    try:
        async for _ in stream:
            last_ns = time.time_ns()
            number += 1
            if number == ENOUGH:
                raise ConsumerError
    except ConsumerError:
        pass
    return last_ns


async def cancelled_async(stream: Any) -> int:
    """The task that reads is cancelled while it waits for the next token."""
    enough = asyncio.Event()

    async def consume() -> None:
        number = 0
        async for _ in stream:
            number += 1
            if number == ENOUGH:
                enough.set()

    task = asyncio.create_task(consume())
    await enough.wait()
    task.cancel()
    await asyncio.wait([task])
    return time.time_ns()


SYNC: Final[dict[str, tuple[str, Callable[[Any], int]]]] = {
    "read to the end": ("A1", read),
    "break": ("A1", break_off),
    "close()": ("A1", close),
    "never read, dropped": ("A1", never),
    "error in the stream": ("A6", fail),
    "cut off": ("A7", fail),
    "consumer's exception": ("A1", consumer_raises),
}
ASYNC: Final[dict[str, tuple[str, Callable[[Any], Awaitable[int]]]]] = {
    "read to the end": ("A1", read_async),
    "break": ("A1", break_off_async),
    "close()": ("A1", close_async),
    "never read, dropped": ("A1", never_async),
    "error in the stream": ("A6", fail_async),
    "cut off": ("A7", fail_async),
    "consumer's exception": ("A1", consumer_raises_async),
    "task cancelled": ("A1", cancelled_async),
}


def run(adapter: Adapter, base_url: str) -> dict[str, dict[str, Any]]:
    """Every way, sync and async: the records of each, and how long after the last event each of them ends.

    Each way is gone in a context of its own, so that what one leaves behind does not spoil the next.
    """
    import openai

    adapter.take()
    client = openai.OpenAI(base_url=base_url, api_key="simulated", max_retries=0)
    found: dict[str, dict[str, Any]] = {"sync": {}}
    for name, (row, way) in SYNC.items():
        for _ in range(TRIES):
            tried = contextvars.copy_context().run(_sync, adapter, client, row, way)
            found["sync"][name] = sooner(found["sync"].get(name), tried)
            if not is_a_little_late(tried):
                break
    client.close()
    found["async"] = asyncio.run(_all_async(adapter, base_url))
    return found


def is_a_little_late(case: dict[str, Any]) -> bool:
    """Whether it may be the machine's doing that the last span ended when it did."""
    return LATE_S < _latest_s(case) < HOLD_S


def sooner(one: dict[str, Any] | None, other: dict[str, Any]) -> dict[str, Any]:
    """The one of two tries whose last span ended sooner."""
    return other if one is None or _latest_s(other) < _latest_s(one) else one


def _latest_s(case: dict[str, Any]) -> float:
    return max((abs(float(record["late_s"])) for record in case["records"]), default=0.0)


def _sync(adapter: Adapter, client: Any, row: str, way: Callable[[Any], int]) -> dict[str, Any]:
    with adapter.isolated():
        raised = None
        last_ns = 0
        try:
            last_ns = way(adapter.open(client.chat.completions.create, **ask(row)))
        except Exception as error:  # the library's own, in the application's way
            raised = f"{type(error).__name__}: {error}"
        gc.collect()
        return _found(adapter, last_ns or time.time_ns(), raised)


async def _all_async(adapter: Adapter, base_url: str) -> dict[str, Any]:
    import openai

    client = openai.AsyncOpenAI(base_url=base_url, api_key="simulated", max_retries=0)
    found: dict[str, Any] = {}
    for name, (row, way) in ASYNC.items():
        for _ in range(TRIES):
            tried = await asyncio.create_task(_async(adapter, client, row, way))
            found[name] = sooner(found.get(name), tried)
            if not is_a_little_late(tried):
                break
    await client.close()
    return found


async def _async(adapter: Adapter, client: Any, row: str, way: Callable[[Any], Awaitable[int]]) -> dict[str, Any]:
    with adapter.isolated():
        raised = None
        last_ns = 0
        try:
            last_ns = await way(await adapter.open(client.chat.completions.create, **ask(row)))
        except Exception as error:
            raised = f"{type(error).__name__}: {error}"
        for _ in range(2):
            gc.collect()
            await asyncio.sleep(0.02)  # the loop closes collected async generators
        return _found(adapter, last_ns or time.time_ns(), raised)


def _found(adapter: Adapter, last_ns: int, raised: str | None) -> dict[str, Any]:
    left = adapter.left_attached()
    records = adapter.take()
    return {
        "raised": raised,
        "spans": len(records),
        "left_attached": left,
        "records": [{**record.as_json(), "late_s": (record.end_ns - last_ns) / 1e9} for record in records],
    }
