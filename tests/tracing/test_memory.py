"""What the recorder holds: nothing of what ended, and little of what is open."""

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

import hopbudget as hb
from hopbudget.tracing import scope

SPANS = 10_000
FLAT_BYTES = 64_000
"""Six bytes a span: anything kept of each would be ten times that."""


class Count(SpanProcessor):
    def __init__(self) -> None:
        self.spans = 0

    def on_end(self, span: Any) -> None:
        self.spans += 1


@pytest.fixture
def count() -> Iterator[Count]:
    counted = Count()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(counted)
    scope.configure(provider=provider)
    yield counted
    scope.configure()
    assert not scope.open_blocks


class ClientStream:
    def __init__(self) -> None:
        self.left = ["a", "b", "c"]

    def __iter__(self) -> Iterator[str]:
        while self.left:
            yield self.left.pop()

    def __next__(self) -> str:
        return self.left.pop()

    def close(self) -> None: ...


@hb.hop("stand-in")
def stand_in() -> Any:
    return iter(["a", "b"])


@hb.hop("stream")
def client_stream() -> Any:
    return ClientStream()


@hb.hop("generator")
def generator() -> Iterator[str]:
    yield "a"
    yield "b"


@hb.hop("async generator")
async def async_generator() -> AsyncIterator[str]:
    yield "a"
    yield "b"


@hb.hop("plain")
def plain() -> None:
    pass


def abandoned(make: Callable[[], Any]) -> Callable[[], None]:
    return lambda: next(make())


def grown(act: Callable[[], object], times: int) -> int:
    """Bytes that are held after this many times more than before, without the garbage collector's help."""
    act()
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(times):
            act()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.parametrize("make", [stand_in, client_stream, generator], ids=["stand-in", "stream", "generator"])
def test_ten_thousand_abandoned_streams_are_ten_thousand_spans_in_flat_memory(count: Count, make: Any) -> None:
    assert grown(abandoned(make), SPANS) < FLAT_BYTES
    assert count.spans == SPANS + 1


def test_ten_thousand_abandoned_async_generators_are_ten_thousand_spans_in_flat_memory(count: Count) -> None:
    async def abandon() -> None:
        await anext(async_generator())

    async def many() -> None:
        for _ in range(100):
            await abandon()
        await asyncio.sleep(0)  # the loop closes what was dropped

    asyncio.run(many())
    held = grown(lambda: asyncio.run(many()), SPANS // 100)
    assert held < 2 * FLAT_BYTES
    assert count.spans == SPANS + 200


def test_ten_thousand_streams_abandoned_by_one_task_leave_nothing_on_it(count: Count) -> None:
    async def many() -> str:
        for _ in range(SPANS):
            next(stand_in())
        return repr(asyncio.current_task())

    assert "ReadingTask" not in asyncio.run(many())
    assert count.spans == SPANS


@pytest.mark.parametrize(
    "act",
    [plain, lambda: list(stand_in()), lambda: list(client_stream()), lambda: list(generator()), abandoned(stand_in)],
    ids=["plain", "stand-in", "stream", "generator", "abandoned"],
)
def test_what_ended_leaves_no_work_to_the_garbage_collector(count: Count, act: Any) -> None:
    act()
    gc.collect()
    gc.disable()
    try:
        for _ in range(100):
            act()
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_ten_thousand_generators_never_started_are_no_hops_and_no_memory(count: Count) -> None:
    assert grown(generator, SPANS) < FLAT_BYTES
    assert count.spans == 0


def test_a_stream_of_a_thousand_chunks_keeps_at_most_16_kb(count: Count) -> None:
    pieces = ["word "] * 1_000

    def read(to: int) -> Any:
        with hb.hop("answer"):
            stream = hb.watch(iter(pieces))
        for _ in range(to):
            next(stream)
        return stream

    list(read(1))
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        stream = read(999)
        assert tracemalloc.get_traced_memory()[0] - before < 16 * 1024
        list(stream)
    finally:
        tracemalloc.stop()
