"""A recorder that fails is counted, and the application sees nothing of it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

import hopbudget as hb
from hopbudget.tracing import scope


class Broken(SpanProcessor):
    def __init__(self, at: str) -> None:
        self.at = at

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if self.at == "start":
            raise RuntimeError("recorder")

    def on_end(self, span: Any) -> None:
        if self.at == "end":
            raise RuntimeError("recorder")


def broken_clock() -> int:
    raise RuntimeError("recorder")


@pytest.fixture(params=["start", "end", "clock", "late clock"])
def broken(request: Any) -> Iterator[Any]:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Broken(request.param))
    scope.configure(provider=provider)
    before = scope.recorder_errors()
    if request.param == "clock":
        scope.setup.clock.now_ns = broken_clock
    if request.param == "late clock":
        times = iter([1, 2, 3])
        scope.setup.clock.now_ns = lambda: next(times)
    yield
    scope.configure()
    assert scope.recorder_errors() > before
    scope.forget_open()


async def test_the_application_sees_nothing(broken: Any, open_stream: Any, script: Any) -> None:
    @hb.work("w")
    def work() -> int:
        return 1

    @hb.hop("g")
    def generator() -> Iterator[Any]:
        yield from open_stream(script)

    @hb.hop("a")
    async def async_generator() -> AsyncIterator[str]:
        yield "a"

    @hb.hop("f")
    def fail() -> None:
        raise KeyError("own")

    @hb.trajectory("t")
    async def agent() -> str:
        assert work() == 1
        assert len(list(generator())) == 6
        assert [item async for item in async_generator()] == ["a"]
        with pytest.raises(KeyError, match="own"):
            fail()
        with hb.hop("x"):
            assert len(list(hb.watch(iter(["a", "b"])))) == 2
        await asyncio.sleep(0)
        return "done"

    assert await agent() == "done"


def test_a_tokenizer_that_fails_costs_its_count_only(recorded: Any) -> None:
    def tokenizer(text: str) -> int:
        raise ValueError(text)

    before = scope.setup.errors
    scope.setup.tokenizer = tokenizer
    with hb.hop("x"):
        assert list(hb.watch(iter(["a", "b"]))) == ["a", "b"]
    assert scope.setup.errors == before + 1
    scope.setup.errors = before
    found = recorded.attributes()
    assert (found["hopbudget.output_tokens"], found["hopbudget.output_tokens.source"]) == (2, "chunks")
