"""Every way out of every kind of callable, with tracing on, off, and with an exporter that fails.

With tracing on there is exactly one span, told by its golden line, and the application sees what it sees undecorated.
With tracing off, or failing, the application sees the same.
"""

import asyncio
import gc
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

import hopbudget as hb
from hopbudget.tracing import scope
from hopbudget.tracing.clock import Clock

PLAIN, COROUTINE, GENERATOR, ASYNC_GENERATOR = KINDS = ("plain", "coroutine", "generator", "async generator")
SYNC = {PLAIN, GENERATOR}

READ, CLOSED, CANCELLED = "chat m-1 0-242 ok", "chat m-1 0-220 closed_by_consumer", "cancelled CancelledError"
UNREAD = {PLAIN: "chat 0-0 closed_by_consumer", COROUTINE: "chat 0-0 closed_by_consumer"}
"""Opened, and nobody read. A generator that never started made no request: no hop."""

GOLDEN: dict[str, str | dict[str, str]] = {
    "read to the end": READ,
    "left by break": CLOSED,
    "closed": CLOSED,
    "never iterated": {**UNREAD, GENERATOR: "", ASYNC_GENERATOR: ""},
    "dropped": CLOSED,
    "provider fails": "chat m-1 0-230 failed ProviderError",
    "consumer fails": CLOSED,
    "cancelled before headers": f"chat 0-700 {CANCELLED}",
    "cancelled between tokens": f"chat m-1 0-1220 {CANCELLED}",
    "cancelled in the consumer's body": f"chat m-1 0-220 {CANCELLED}",
    "time-out between tokens": f"chat m-1 0-1220 {CANCELLED}",
    # The stream, kept in a variable, outlives the time-out and is dropped when that is forgotten. Closed in time, as an
    # orderly consumer does, it is known: the next row.
    "time-out in the consumer's body": CLOSED,
    "time-out in the body of an orderly consumer": f"chat m-1 0-220 {CANCELLED}",
    "process ends": CLOSED,
    "connection dropped": "chat m-1 0-220 failed cut_off",
}

NO_AWAIT = "there is no await in it: a task is cancelled, and times out, at an await only"
CANT_BE: dict[tuple[str, str], str] = {
    (kind, way): NO_AWAIT
    for kind in SYNC
    for way in ("cancelled before headers", "cancelled between tokens", "time-out between tokens")
}


class ProviderError(Exception):
    pass


class ConsumerError(Exception):
    pass


class Broken(SpanProcessor, SpanExporter):
    """Fails at everything a recorder is asked for at the end of a span."""

    def on_end(self, span: Any) -> None:
        raise RuntimeError("processor")

    def export(self, spans: Any) -> SpanExportResult:
        raise RuntimeError("exporter")


class Cell:
    """One kind of callable, one way out: run it, and say what the application saw."""

    def __init__(self, kind: str, way: str, time: Any, script: Any, open_sync: Any, open_async: Any) -> None:
        self.kind, self.way, self.time = kind, way, time
        self.script = script
        self.open = open_sync if kind in SYNC else open_async
        self.waiting = asyncio.Event()
        self.error = ProviderError()
        self.seen: list[Any] = []

    # The provider's side ------------------------------------------------------------------------------------------

    def chunks(self) -> Any:
        head = [row for row in self.script if row[0] < 230]
        match self.way:
            case "provider fails":
                return [*head, (230, self.error)]
            case "cancelled between tokens" | "time-out between tokens":
                return [*head, (230, self.stall)]
            case "connection dropped":
                return head
        return self.script

    async def stall(self) -> None:
        self.waiting.set()
        await asyncio.Event().wait()

    async def headers(self) -> None:
        if self.way == "cancelled before headers":
            await self.stall()

    def function(self) -> Callable[[], Any]:
        cell = self

        def plain() -> Any:
            return cell.open(cell.chunks())

        async def coroutine() -> Any:
            await cell.headers()
            return cell.open(cell.chunks())

        def generator() -> Iterator[Any]:
            yield from cell.open(cell.chunks())

        async def async_generator() -> AsyncIterator[Any]:
            await cell.headers()
            async for item in cell.open(cell.chunks()):
                yield item

        functions = (plain, coroutine, generator, async_generator)
        return dict(zip(KINDS, functions, strict=True))[self.kind]

    # The consumer's side ------------------------------------------------------------------------------------------

    async def run(self, function: Callable[[], Any]) -> list[Any]:
        """What the application saw, in order; the last thing is how it ended."""
        try:
            await self.consume(function)
            self.seen.append("done")
        except (Exception, asyncio.CancelledError) as exc:
            self.seen.append((type(exc), inspect.trace()[-1].function, exc is self.error))
        for _ in range(2):
            gc.collect()
            for _ in range(5):
                await asyncio.sleep(0)
        return self.seen

    async def consume(self, function: Callable[[], Any]) -> None:
        match self.way:
            case "cancelled before headers":
                await self.cancelled(function, at_ms=700)
            case "cancelled between tokens":
                await self.cancelled(function, at_ms=1_220)
            case "cancelled in the consumer's body":
                await self.cancelled(function, at_ms=9_000)
            case "time-out between tokens":
                limit = asyncio.create_task(self.time_out(function))
                await self.waiting.wait()
                self.time.to(1_220)
                self.limit.reschedule(0)
                await limit
            case way if way.startswith("time-out"):
                await self.time_out(function)
            case _:
                await self.read(function)

    async def cancelled(self, function: Callable[[], Any], at_ms: float) -> None:
        task = asyncio.create_task(self.read(function))
        await self.waiting.wait()
        self.time.to(at_ms)
        task.cancel()
        await task

    async def time_out(self, function: Callable[[], Any]) -> None:
        async with asyncio.timeout(None) as self.limit:
            await self.read(function)

    async def opened(self, function: Callable[[], Any]) -> Any:
        return await function() if self.kind == COROUTINE else function()

    async def read(self, function: Callable[[], Any]) -> None:
        match self.way:
            case "closed" | "process ends" | "time-out in the body of an orderly consumer":
                stream = await self.opened(function)
                try:
                    await self.loop(stream)
                finally:
                    if self.way == "process ends":
                        scope.end_open()
                        self.time.to(60_000)
                    await self.close(stream)
            case "dropped":
                stream = await self.opened(function)
                await self.loop(stream)
                self.time.to(60_000)
                del stream
            case _:
                await self.loop(await self.opened(function))
                if self.way == "left by break":
                    self.time.to(60_000)

    async def loop(self, stream: Any) -> None:
        if self.way == "never iterated":
            self.time.to(9_000)
        elif self.kind in SYNC:
            for item in stream:
                if await self.leaves(item):
                    break
        else:
            async for item in stream:
                if await self.leaves(item):
                    break

    async def leaves(self, item: Any) -> bool:
        """The work on one chunk; the last the consumer wants is the one at 220 ms."""
        self.seen.append(item)
        if item is not self.script[2][1]:
            return False
        match self.way:
            case "consumer fails":
                raise ConsumerError
            case "cancelled in the consumer's body":
                await self.stall()
            case "time-out in the consumer's body" | "time-out in the body of an orderly consumer":
                self.time.to(9_000)
                self.limit.reschedule(0)
                await self.stall()
        return self.way in {"left by break", "closed", "dropped", "process ends"}

    async def close(self, stream: Any) -> None:
        if self.kind in SYNC:
            stream.close()
        else:
            await (stream.aclose() if self.kind == ASYNC_GENERATOR else stream.close())


CELLS = [pytest.param(kind, way, id=f"{kind}, {way}") for way in GOLDEN for kind in KINDS if (kind, way) not in CANT_BE]


@pytest.fixture
def cell(request: Any, time: Any, script: Any, open_stream: Any, open_async_stream: Any) -> Any:
    def make(kind: str, way: str) -> Cell:
        time.ms = 0
        return Cell(kind, way, time, script, open_stream, open_async_stream)

    return make


@pytest.mark.parametrize(("kind", "way"), CELLS)
async def test_on_there_is_one_span_with_the_right_outcome_and_end(
    recorded: Any, cell: Any, kind: str, way: str
) -> None:
    plain = cell(kind, way)
    expected = await plain.run(plain.function())
    traced = cell(kind, way)
    seen = await traced.run(hb.hop("answer")(traced.function()))
    assert seen == expected
    golden = GOLDEN[way]
    assert recorded.tree() == (golden if isinstance(golden, str) else golden[kind])


@pytest.mark.parametrize(("kind", "way"), CELLS)
async def test_off_the_application_sees_the_same(cell: Any, kind: str, way: str) -> None:
    assert scope.tracer() is None
    plain = cell(kind, way)
    expected = await plain.run(plain.function())
    untraced = cell(kind, way)
    assert await untraced.run(hb.hop("answer")(untraced.function())) == expected
    assert not scope.open_blocks


@pytest.mark.parametrize(("kind", "way"), CELLS)
async def test_failing_the_application_sees_the_same(time: Any, cell: Any, kind: str, way: str) -> None:
    plain = cell(kind, way)
    expected = await plain.run(plain.function())
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(Broken()))
    provider.add_span_processor(Broken())
    scope.configure(clock=Clock(time.now_ns, time.wall_ns), provider=provider)
    before = scope.recorder_errors()
    try:
        failing = cell(kind, way)
        assert await failing.run(hb.hop("answer")(failing.function())) == expected
        made_no_hop = way == "never iterated" and "generator" in kind
        assert scope.recorder_errors() == before + (not made_no_hop)
    finally:
        scope.configure()
    assert not scope.open_blocks


def test_the_cells_that_cant_be_are_these() -> None:
    assert len(CELLS) + len(CANT_BE) == len(GOLDEN) * len(KINDS)
    assert {kind for kind, _ in CANT_BE} == SYNC
