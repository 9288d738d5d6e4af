"""A recorder under a clock that the test moves: spans come out with exact times."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hopbudget.tracing import garbage, scope
from hopbudget.tracing.clock import Clock

WALL_NS = 1_800_000_000_000_000_000
MS = 1_000_000


@dataclass
class FakeTime:
    """Milliseconds that pass only when told to."""

    ms: float = 0.0

    def now_ns(self) -> int:
        return round(self.ms * MS) + 5_000

    def wall_ns(self) -> int:
        return WALL_NS + round(self.ms * MS)

    def to(self, ms: float) -> None:
        assert ms >= self.ms
        self.ms = ms


@dataclass
class Recorded:
    time: FakeTime
    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)

    @property
    def spans(self) -> list[ReadableSpan]:
        """Ended spans by the time they began; what began together, the last to end first."""
        garbage.settle()
        last_first = self.exporter.get_finished_spans()[::-1]
        return sorted(last_first, key=lambda span: span.start_time or 0)

    def only(self) -> ReadableSpan:
        (span,) = self.spans
        return span

    def attributes(self) -> dict[str, Any]:
        return dict(self.only().attributes or {})

    def tree(self) -> str:
        """One line a span: indentation, name, begin and end in ms, outcome, error.type."""
        by_parent: dict[int | None, list[ReadableSpan]] = {}
        ids = {span.context.span_id for span in self.spans}
        for span in self.spans:
            parent = span.parent.span_id if span.parent and span.parent.span_id in ids else None
            by_parent.setdefault(parent, []).append(span)

        def lines(parent: int | None, depth: int) -> Iterator[str]:
            for span in by_parent.get(parent, []):
                assert span.start_time is not None and span.end_time is not None
                begin, end = ((ns - WALL_NS) / MS for ns in (span.start_time, span.end_time))
                facts = [span.attributes.get(key) for key in ("hopbudget.outcome", "error.type")]
                told = " ".join(str(fact) for fact in facts if fact is not None)
                yield f"{'  ' * depth}{span.name} {begin:g}-{end:g} {told}".rstrip()
                yield from lines(span.context.span_id, depth + 1)

        return "\n".join(lines(None, 0))


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def recorded(time: FakeTime) -> Iterator[Recorded]:
    found = Recorded(time)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(found.exporter))
    errors = scope.recorder_errors()
    scope.configure(clock=Clock(time.now_ns, time.wall_ns), provider=provider)
    yield found
    scope.configure()
    assert scope.recorder_errors() == errors, "the recorder failed"
    assert not scope.open_blocks, "something was left open"
    assert not trace.get_current_span().get_span_context().is_valid, "a context was left attached"


def chat_chunk(
    content: str | None = None, *, finish: str | None = None, usage: dict[str, Any] | None = None, **delta: Any
) -> dict[str, Any]:
    """An OpenAI chat completion chunk as a dict."""
    fields = {**({"content": content} if content is not None else {}), **delta}
    choices = (
        []
        if usage is not None and not fields and finish is None
        else [{"index": 0, "delta": fields, "finish_reason": finish}]
    )
    return {"id": "c1", "object": "chat.completion.chunk", "model": "m-1", "choices": choices, "usage": usage}


@pytest.fixture(scope="session")
def chunk() -> Any:
    return chat_chunk


@pytest.fixture(scope="session")
def as_openai() -> Any:
    """Turns a chunk's dict into the openai library's own object."""
    types = pytest.importorskip("openai.types.chat")

    def make(data: dict[str, Any]) -> Any:
        filled = {"created": 0, **data}
        return types.ChatCompletionChunk.construct(**filled) if "choices" in data else data

    return make


Script = list[tuple[float, Any]]
"""(milliseconds, chunk or exception)."""


class Stream:
    """A client library's stream: own iterator, close, context manager, attributes."""

    def __init__(self, time: FakeTime, script: Script) -> None:
        self.response = "the response"
        self.closed = False
        self._iterator = self._pull(time, script)

    def _pull(self, time: FakeTime, script: Script) -> Iterator[Any]:
        for ms, item in script:
            time.to(ms)
            if isinstance(item, BaseException):
                raise item
            yield item

    def __next__(self) -> Any:
        return next(self._iterator)

    def __iter__(self) -> Iterator[Any]:
        for item in self._iterator:  # noqa: UP028 - as client libraries do
            yield item

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self.closed = True


class AsyncStream:
    """The same for asyncio."""

    def __init__(self, time: FakeTime, script: Script) -> None:
        self.response = "the response"
        self.closed = False
        self._iterator = self._pull(time, script)

    async def _pull(self, time: FakeTime, script: Script) -> AsyncIterator[Any]:
        for ms, item in script:
            time.to(ms)
            if isinstance(item, BaseException):
                raise item
            if callable(item):
                await item()
                continue
            yield item

    async def __anext__(self) -> Any:
        return await anext(self._iterator)

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for item in self._iterator:
            yield item

    async def __aenter__(self) -> "AsyncStream":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def open_stream(time: FakeTime) -> Callable[[Script], Stream]:
    return lambda script: Stream(time, script)


@pytest.fixture
def open_async_stream(time: FakeTime) -> Callable[[Script], AsyncStream]:
    return lambda script: AsyncStream(time, script)


@pytest.fixture
def script(chunk: Any) -> Script:
    """Role at 50 ms, tokens at 200, 220, 240, stop at 241, usage at 242."""
    return [
        (50, chunk(role="assistant", content="")),
        (200, chunk("a")),
        (220, chunk("b")),
        (240, chunk("c")),
        (241, chunk(finish="stop")),
        (242, chunk(usage={"prompt_tokens": 7, "completion_tokens": 3})),
    ]


@pytest.fixture(scope="session")
def until() -> Callable[[Script, float, Any], Script]:
    """The script up to a time, then something else."""
    return lambda script, ms, then: [*(row for row in script if row[0] < ms), (ms, then)]


@pytest.fixture
def settle() -> Any:
    """Lets the loop finalize what was collected."""

    async def settle() -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    return settle
