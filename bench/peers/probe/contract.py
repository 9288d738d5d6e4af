"""What the application gets back, with and without the library: types, attributes, protocols, bytes, exceptions."""

import asyncio
import gc
import inspect
import json
from collections.abc import Callable
from typing import Any

import openai
from openai.resources.chat.completions import AsyncCompletions, Completions

from bench.peers.probe.adapters import Adapter
from bench.peers.probe.wire import MESSAGES, MODEL, Transport

ASKED: dict[str, Any] = {"model": MODEL, "messages": MESSAGES}
CHUNKS = 6


class Boom(Exception):
    """Raised by the transport."""


def check(held: dict[str, str], name: str, test: Callable[[], bool]) -> None:
    """Note `held`, `broken`, or the exception that the test met."""
    try:
        held[name] = "held" if test() else "broken"
    except Exception as error:
        held[name] = f"{type(error).__name__}: {error}"[:200]


def run(adapter: Adapter) -> dict[str, str]:
    """Each point of the contract: `held`, `broken`, or what went wrong."""
    held: dict[str, str] = {}
    _stream(adapter, held)
    _raw(adapter, held)
    _exceptions(adapter, held)
    _request(adapter, held)
    check(held, "create stays a coroutine function (async)", lambda: inspect.iscoroutinefunction(AsyncCompletions.create))
    check(held, "signature of create", lambda: "stream_options" in inspect.signature(Completions.create).parameters)
    asyncio.run(_async(adapter, held))
    gc.collect()
    adapter.take()
    return held


def _opened(adapter: Adapter, transport: Transport) -> Any:
    return adapter.open(transport.sync().chat.completions.create, **ASKED, stream=True)


def _stream(adapter: Adapter, held: dict[str, str]) -> None:
    check(held, "isinstance Stream", lambda: isinstance(_opened(adapter, Transport()), openai.Stream))
    check(held, "stream.response", lambda: _opened(adapter, Transport()).response.headers["x-request-id"] == "req-1")
    check(held, "next(stream)", lambda: next(_opened(adapter, Transport())).choices[0].delta.role == "assistant")
    check(held, "the chunks are those sent", lambda: len(list(_opened(adapter, Transport()))) == CHUNKS)

    def with_block() -> bool:
        with _opened(adapter, Transport()) as stream:
            return isinstance(stream, openai.Stream) and len(list(stream)) == CHUNKS

    check(held, "with stream", with_block)

    def closes() -> bool:
        stream = _opened(adapter, Transport())
        next(iter(stream))
        stream.close()
        return bool(stream.response.is_closed)

    check(held, "stream.close()", closes)


def _raw(adapter: Adapter, held: dict[str, str]) -> None:
    def whole() -> bool:
        raw = adapter.open(Transport().sync().chat.completions.with_raw_response.create, **ASKED)
        return raw.headers["x-request-id"] == "req-1" and type(raw.parse()).__name__ == "ChatCompletion"

    check(held, "with_raw_response", whole)

    def streamed(make: Callable[[], Any], pull: Callable[[Any], Any]) -> Callable[[], bool]:
        def test() -> bool:
            adapter.take()
            raw = make()
            parsed = pull(raw)
            right = raw.headers["x-request-id"] == "req-1" and isinstance(parsed, openai.Stream)
            right = right and len(list(parsed)) == CHUNKS
            del raw, parsed
            gc.collect()
            held["raw stream: spans"] = str(len(adapter.take()))
            return right

        return test

    client = Transport().sync()
    check(
        held,
        "with_raw_response, stream",
        streamed(
            lambda: adapter.open(client.chat.completions.with_raw_response.create, **ASKED, stream=True),
            lambda raw: raw.parse(),
        ),
    )

    def streaming_response() -> bool:
        with client.chat.completions.with_streaming_response.create(**ASKED) as response:
            return response.headers["x-request-id"] == "req-1" and type(response.parse()).__name__ == "ChatCompletion"

    check(held, "with_streaming_response", streaming_response)


def _exceptions(adapter: Adapter, held: dict[str, str]) -> None:
    def in_stream() -> bool:
        boom = Boom("in the stream")
        try:
            list(_opened(adapter, Transport(boom=boom)))
        except Boom as caught:
            return caught is boom
        return False

    def before_headers() -> bool:
        boom = Boom("before the headers")
        try:
            _opened(adapter, Transport(boom=boom, before=True))
        except openai.APIConnectionError as caught:
            return caught.__cause__ is boom
        return False

    check(held, "exception in the stream is the same", in_stream)
    check(held, "exception of the call is the same", before_headers)


def _request(adapter: Adapter, held: dict[str, str]) -> None:
    def body() -> bool:
        transport = Transport()
        list(_opened(adapter, transport))
        sent = json.loads(transport.bodies[0])
        extra = {key: value for key, value in sent.items() if key not in {*ASKED, "stream"}}
        if extra:
            raise ValueError(f"added {json.dumps(extra)}")
        return bool(sent == {**ASKED, "stream": True})

    check(held, "request body unchanged", body)


async def _async(adapter: Adapter, held: dict[str, str]) -> None:
    async def opened(transport: Transport) -> Any:
        return await adapter.open(transport.async_().chat.completions.create, **ASKED, stream=True)

    stream = await opened(Transport())
    check(held, "isinstance AsyncStream", lambda: isinstance(stream, openai.AsyncStream))
    check(held, "stream.response (async)", lambda: stream.response.headers["x-request-id"] == "req-1")

    async def with_block() -> bool:
        async with await opened(Transport()) as inner:
            return isinstance(inner, openai.AsyncStream) and len([chunk async for chunk in inner]) == CHUNKS

    async def by_anext() -> bool:
        return bool((await anext(await opened(Transport()))).choices[0].delta.role == "assistant")

    async def raw() -> bool:
        create = Transport().async_().chat.completions.with_raw_response.create
        answer = await adapter.open(create, **ASKED, stream=True)
        parsed = answer.parse()
        return isinstance(parsed, openai.AsyncStream) and len([chunk async for chunk in parsed]) == CHUNKS

    async def in_stream() -> bool:
        boom = Boom("in the stream")
        try:
            async for _ in await opened(Transport(boom=boom)):
                pass
        except Boom as caught:
            return caught is boom
        return False

    for name, test in {
        "async with stream": with_block,
        "anext(stream)": by_anext,
        "with_raw_response, stream (async)": raw,
        "exception in the stream is the same (async)": in_stream,
    }.items():
        try:
            held[name] = "held" if await test() else "broken"
        except Exception as error:
            held[name] = f"{type(error).__name__}: {error}"[:200]
