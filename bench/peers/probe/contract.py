"""What the application gets back, with and without the library: types, attributes, protocols, bytes, exceptions."""

import asyncio
import contextvars
import gc
import inspect
import json
from collections.abc import Callable, Coroutine
from typing import Any

import openai
from openai.resources.chat.completions import AsyncCompletions, Completions

from bench.peers.probe.adapters import Adapter
from bench.peers.probe.wire import MESSAGES, MODEL, Transport

ASKED: dict[str, Any] = {"model": MODEL, "messages": MESSAGES}
CHUNKS = 6


class TransportError(Exception):
    """Raised by the transport."""


class Held:
    """What was found of each point: `held`, `broken`, or what went wrong."""

    def __init__(self, adapter: Adapter) -> None:
        self.found: dict[str, str] = {}
        self._adapter = adapter

    def check(self, name: str, test: Callable[[], bool]) -> None:
        """One point, in a context of its own."""
        contextvars.copy_context().run(self._check, name, test)

    def _check(self, name: str, test: Callable[[], bool]) -> None:
        with self._adapter.isolated():
            try:
                self.found[name] = "held" if test() else "broken"
            except Exception as error:
                self.found[name] = f"{type(error).__name__}: {error}"[:200]

    def fresh(self) -> None:
        """Forget what was recorded so far."""
        gc.collect()
        self._adapter.take()

    def spans(self) -> int:
        """How many spans came since."""
        gc.collect()
        return len(self._adapter.take())


def facts() -> list[str]:
    """What introspection says of the client's methods; to be asked before and after the library is set up."""
    methods = (Completions.create, AsyncCompletions.create)
    return [f"{inspect.signature(method)} {inspect.iscoroutinefunction(method)}" for method in methods]


def run(adapter: Adapter, before: list[str]) -> dict[str, str]:
    """Each point of the contract: `held`, `broken`, or what went wrong; `before` is what `facts` said before."""
    held = Held(adapter)
    held.check("introspection of create", lambda: facts() == before)
    _stream(adapter, held)
    _raw(adapter, held)
    _exceptions(adapter, held)
    _request(adapter, held)
    for name, test in _async_tests(adapter).items():
        held.check(name, lambda test=test: asyncio.run(test()))  # type: ignore[misc]
    held.fresh()
    return held.found


def _opened(adapter: Adapter, transport: Transport) -> Any:
    return adapter.open(transport.sync().chat.completions.create, **ASKED, stream=True)


def _stream(adapter: Adapter, held: Held) -> None:
    held.check("isinstance Stream", lambda: isinstance(_opened(adapter, Transport()), openai.Stream))
    held.check("stream.response", lambda: _opened(adapter, Transport()).response.headers["x-request-id"] == "req-1")
    held.check("next(stream)", lambda: next(_opened(adapter, Transport())).choices[0].delta.role == "assistant")
    held.check("the chunks are those sent", lambda: len(list(_opened(adapter, Transport()))) == CHUNKS)

    def with_block() -> bool:
        with _opened(adapter, Transport()) as stream:
            return len(list(stream)) == CHUNKS

    def closes() -> bool:
        stream = _opened(adapter, Transport())
        next(iter(stream))
        stream.close()
        return bool(stream.response.is_closed)

    held.check("with stream", with_block)
    held.check("stream.close()", closes)


def _raw(adapter: Adapter, held: Held) -> None:
    completions = Transport().sync().chat.completions

    def whole() -> bool:
        raw = adapter.open(completions.with_raw_response.create, **ASKED)
        return raw.headers["x-request-id"] == "req-1" and type(raw.parse()).__name__ == "ChatCompletion"

    def streamed() -> bool:
        raw = adapter.open(completions.with_raw_response.create, **ASKED, stream=True)
        parsed = raw.parse()
        same = raw.headers["x-request-id"] == "req-1" and isinstance(parsed, openai.Stream)
        return same and len(list(parsed)) == CHUNKS

    def streamed_is_traced() -> bool:
        held.fresh()
        list(adapter.open(completions.with_raw_response.create, **ASKED, stream=True).parse())
        return held.spans() == 1

    def streaming_response() -> bool:
        with completions.with_streaming_response.create(**ASKED) as response:
            return response.headers["x-request-id"] == "req-1" and type(response.parse()).__name__ == "ChatCompletion"

    held.check("with_raw_response", whole)
    held.check("with_raw_response, stream", streamed)
    held.check("with_raw_response, stream: one span", streamed_is_traced)
    held.check("with_streaming_response", streaming_response)


def _exceptions(adapter: Adapter, held: Held) -> None:
    def in_stream() -> bool:
        boom = TransportError("in the stream")
        try:
            list(_opened(adapter, Transport(boom=boom)))
        except TransportError as caught:
            return caught is boom
        return False

    def before_headers() -> bool:
        boom = TransportError("before the headers")
        try:
            _opened(adapter, Transport(boom=boom, before=True))
        except Exception as caught:
            return caught is boom or caught.__cause__ is boom
        return False

    held.check("the stream's exception", in_stream)
    held.check("the call's exception", before_headers)


def _request(adapter: Adapter, held: Held) -> None:
    def body() -> bool:
        transport = Transport()
        list(_opened(adapter, transport))
        sent = json.loads(transport.bodies[0])
        extra = {key: value for key, value in sent.items() if key not in {*ASKED, "stream"}}
        if extra:
            raise ValueError(f"added {json.dumps(extra)}")
        return bool(sent == {**ASKED, "stream": True})

    held.check("request body", body)


def _async_tests(adapter: Adapter) -> dict[str, Callable[[], Coroutine[Any, Any, bool]]]:
    async def opened(transport: Transport) -> Any:
        return await adapter.open(transport.async_().chat.completions.create, **ASKED, stream=True)

    async def is_stream() -> bool:
        return isinstance(await opened(Transport()), openai.AsyncStream)

    async def response() -> bool:
        return bool((await opened(Transport())).response.headers["x-request-id"] == "req-1")

    async def with_block() -> bool:
        async with await opened(Transport()) as stream:
            return len([chunk async for chunk in stream]) == CHUNKS

    async def by_anext() -> bool:
        return bool((await anext(await opened(Transport()))).choices[0].delta.role == "assistant")

    async def closes() -> bool:
        stream = await opened(Transport())
        await anext(aiter(stream))
        await stream.close()
        return bool(stream.response.is_closed)

    async def raw() -> bool:
        create = Transport().async_().chat.completions.with_raw_response.create
        answer = await adapter.open(create, **ASKED, stream=True)
        parsed = answer.parse()
        return isinstance(parsed, openai.AsyncStream) and len([chunk async for chunk in parsed]) == CHUNKS

    async def in_stream() -> bool:
        boom = TransportError("in the stream")
        try:
            async for _ in await opened(Transport(boom=boom)):
                pass
        except TransportError as caught:
            return caught is boom
        return False

    return {
        "isinstance AsyncStream": is_stream,
        "stream.response, async": response,
        "async with stream": with_block,
        "anext(stream)": by_anext,
        "stream.close(), async": closes,
        "with_raw_response, stream, async": raw,
        "the stream's exception, async": in_stream,
    }
