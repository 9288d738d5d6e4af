"""A server that does what real ones have done, on a socket, and real clients of it."""

import asyncio
import contextlib
import gc
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hopbudget.tracing import scope

openai = pytest.importorskip("openai", minversion="3")
anthropic = pytest.importorskip("anthropic")

RETRY_AFTER_S = 3
"""Long after a limit of a second, on a busy machine as well."""
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
Behaviour = Callable[["Connection"], Awaitable[None]]


class Connection:
    """One connection, and what a behaviour does with it."""

    def __init__(self, api: str, writer: asyncio.StreamWriter) -> None:
        self.api = api
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def piece(self, data: bytes) -> None:
        await self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def event(self, kind: str, data: dict[str, Any]) -> None:
        await self.piece(f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode())

    async def token(self) -> None:
        if self.api == "openai":
            choice = {"index": 0, "delta": {"content": "x"}, "finish_reason": None}
            head = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}
            await self.piece(f"data: {json.dumps({**head, 'choices': [choice]})}\n\n".encode())
        else:
            delta = {"type": "text_delta", "text": "x"}
            await self.event("content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta})

    async def ping(self) -> None:
        if self.api == "openai":
            await self.piece(b": ping\n\n")
        else:
            await self.event("ping", {"type": "ping"})


async def no_headers(connection: Connection) -> None:
    await asyncio.sleep(60)


async def silence(connection: Connection) -> None:
    await connection.send(HEAD)
    await asyncio.sleep(60)


async def pings(connection: Connection) -> None:
    await connection.send(HEAD)
    while True:
        await connection.ping()
        await asyncio.sleep(0.01)


async def token_then_pings(connection: Connection) -> None:
    await connection.send(HEAD)
    await connection.token()
    while True:
        await connection.ping()
        await asyncio.sleep(0.01)


async def trickle(connection: Connection) -> None:
    """A token each 0.04 s, for ever."""
    await connection.send(HEAD)
    while True:
        await connection.token()
        await asyncio.sleep(0.04)


async def unavailable(connection: Connection) -> None:
    head = f"HTTP/1.1 503 Service Unavailable\r\nretry-after: {RETRY_AFTER_S}\r\ncontent-length: 0\r\n\r\n"
    await connection.send(head.encode())


async def cut(connection: Connection) -> None:
    await connection.send(HEAD)
    await connection.token()
    await asyncio.sleep(0.02)
    connection.writer.transport.abort()


BEHAVIOURS = {
    behaviour.__name__: behaviour
    for behaviour in (no_headers, silence, pings, token_then_pings, trickle, unavailable, cut)
}


class Server:
    """Serves in a thread of its own; `port` is of this api and behaviour. Knows how many connections are open."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.open = 0
        self.requests = 0
        self._ports: dict[tuple[str, str], int] = {}
        self._listening: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def port(self, api: str, behaviour: str) -> int:
        if (api, behaviour) not in self._ports:
            listening = asyncio.run_coroutine_threadsafe(self._listen(api, BEHAVIOURS[behaviour]), self.loop)
            self._ports[api, behaviour] = listening.result()
        return self._ports[api, behaviour]

    async def _listen(self, api: str, behave: Behaviour) -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.open += 1
            behaving: Any = None
            try:
                while head := await reader.readuntil(b"\r\n\r\n"):
                    length = next(line for line in head.lower().splitlines() if line.startswith(b"content-length:"))
                    await reader.readexactly(int(length.partition(b":")[2]))
                    self.requests += 1
                    if behaving is not None:
                        behaving.cancel()
                    behaving = asyncio.ensure_future(behave(Connection(api, writer)))
            except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                pass
            finally:
                self.open -= 1
                if behaving is not None:
                    behaving.cancel()
                    with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                        await behaving
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self._listening.append(server)
        return int(server.sockets[0].getsockname()[1])

    def settled(self) -> int:
        """Open connections, once the server has seen all that was closed by now."""

        async def look() -> int:
            for _ in range(3000):
                if not self.open:
                    break
                await asyncio.sleep(0.01)
            return self.open

        return asyncio.run_coroutine_threadsafe(look(), self.loop).result()

    def stop(self) -> None:
        async def end() -> None:
            for server in self._listening:
                server.close()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.stop()


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """What is recorded, by the machine's own clock."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    errors = scope.recorder_errors()
    scope.configure(provider=provider)
    yield exporter
    scope.configure()
    assert scope.recorder_errors() == errors, "the recorder failed"
    assert not scope.open_blocks, "something was left open"
    assert not trace.get_current_span().get_span_context().is_valid, "a context was left attached"


MESSAGES: Any = [{"role": "user", "content": "hi"}]


def client(api: str, port: int, timeout_s: float, retries: int) -> Any:
    url = f"http://127.0.0.1:{port}"
    if api == "openai":
        return openai.OpenAI(base_url=f"{url}/v1", api_key="k", timeout=timeout_s, max_retries=retries)
    return anthropic.Anthropic(base_url=url, api_key="k", timeout=timeout_s, max_retries=retries)


def async_client(api: str, port: int, timeout_s: float, retries: int) -> Any:
    url = f"http://127.0.0.1:{port}"
    if api == "openai":
        return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", timeout=timeout_s, max_retries=retries)
    return anthropic.AsyncAnthropic(base_url=url, api_key="k", timeout=timeout_s, max_retries=retries)


def asked(client: Any, *, stream: bool = True) -> Any:
    """Ask for a stream, or a whole reply; the client says of which kind."""
    if hasattr(client, "chat"):
        return client.chat.completions.create(model="m", messages=MESSAGES, stream=stream)
    return client.messages.create(model="m", messages=MESSAGES, max_tokens=9, stream=stream)


@pytest.fixture(params=["openai", "anthropic"])
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Talk:
    """Reads the answer of a behaviour to its end, in either way; `got` is what came."""

    def __init__(self, server: Server, api: str, way: str) -> None:
        self.server = server
        self.api = api
        self.way = way
        self.stream = True
        self.got: list[Any] = []

    def __call__(self, behaviour: str, hop: Any, *, timeout_s: float = 30.0, retries: int = 0) -> None:
        port = self.server.port(self.api, behaviour)
        if self.way == "sync":
            with client(self.api, port, timeout_s, retries) as found:
                before = (found.timeout, found.max_retries, found._client.timeout)
                try:
                    with hop:
                        for chunk in asked(found, stream=self.stream):
                            self.got.append(chunk)
                finally:
                    assert (found.timeout, found.max_retries, found._client.timeout) == before
            return

        async def main() -> None:
            try:
                async with async_client(self.api, port, timeout_s, retries) as found, hop:
                    async for chunk in await asked(found, stream=self.stream):
                        self.got.append(chunk)
            finally:
                assert asyncio.all_tasks() == {asyncio.current_task()}, "a task was left"
                assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]

        asyncio.run(main())


@pytest.fixture(params=["async", "sync"])
def talk(server: Server, api: str, request: pytest.FixtureRequest) -> Iterator[Talk]:
    threads = set(threading.enumerate())
    yield Talk(server, api, request.param)
    gc.collect()
    assert server.settled() == 0, "a connection was left open"
    assert set(threading.enumerate()) <= threads, "a thread was left"
