"""Fail-over and broken streams with a real client over real sockets, instrumented and not."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

import hopbudget as hb
from hopbudget.tracing import clients

openai = pytest.importorskip("openai", minversion="3")


def event(text: str = "", *, finish: str | None = None) -> bytes:
    choices = [{"index": 0, "delta": {"content": text} if text else {"role": "assistant"}, "finish_reason": finish}]
    data = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m-1", "choices": choices}
    return f"data: {json.dumps(data)}\n\n".encode()


ANSWER = [event(), event("It "), event("depends."), event(finish="stop"), b"data: [DONE]\n\n"]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


class Server:
    """Answers by path: /answer, /silent sends no headers, /pings nothing but comments, /cuts stops in the middle."""

    def __init__(self) -> None:
        self.open = 0
        self.asked: list[str] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            path = request.split()[1].decode().split("/")[1]
            self.asked.append(path)
            if path == "silent":
                await reader.read()
            else:
                await self.answer(path, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            writer.close()

    async def answer(self, path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        if path == "pings":
            while not writer.is_closing():
                writer.write(b": ping\n\n")
                await writer.drain()
                await asyncio.sleep(0.01)
        for piece in ANSWER[:2] if path == "cuts" else ANSWER:
            writer.write(piece)
            await writer.drain()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    found = Server()
    listening = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with listening:
        yield found


@pytest.fixture(params=["instrumented", "not instrumented"])
def instrumented(request: pytest.FixtureRequest) -> Any:
    if request.param == "instrumented":
        clients.instrument()
        yield True
        clients.uninstrument()
    else:
        yield False


@pytest.fixture(autouse=True)
def real_clock(recorded: Any, folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from hopbudget.tracing import scope
    from hopbudget.tracing.clock import Clock

    monkeypatch.setattr(scope.setup, "clock", Clock())


def client(server: Server, path: str) -> Any:
    return openai.AsyncOpenAI(base_url=f"{server.url}/{path}", api_key="k", max_retries=0)


def create(asking: Any) -> Any:
    return asking.chat.completions.create(model="m-1", messages=[{"role": "user", "content": "why"}], stream=True)


async def text(stream: Any) -> str:
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])


def hops(recorded: Any) -> list[Any]:
    return [span for span in recorded.spans if "hopbudget.hop" in span.attributes]


@pytest.mark.parametrize("fault", ["silent", "pings"])
async def test_a_dead_first_request_is_answered_by_the_second(
    server: Server, recorded: Any, instrumented: bool, fault: str
) -> None:
    async with client(server, fault) as first, client(server, "answer") as second:

        @hb.hop("answer", final=True)
        async def answer() -> AsyncIterator[Any]:
            async for chunk in await hb.failover(lambda: create(first), lambda: create(second), after_s=0.3):
                yield chunk

        with hb.trajectory("agent"):
            assert await text(answer()) == "It depends."
        assert len(asyncio.all_tasks()) == 1 + server.open
    (hop,) = hops(recorded)
    assert hop.attributes["hopbudget.outcome"] == "ok"
    assert hop.attributes["hopbudget.failover"] == "secondary"
    assert hop.attributes["hopbudget.ttft"] >= 0.3
    assert hop.attributes["hopbudget.attempt_ttft"] < hop.attributes["hopbudget.ttft"]
    assert [span.name for span in recorded.spans if span.attributes.get("hopbudget.failover") == "lost"] == [
        "attempt primary"
    ]
    assert "answer" in server.asked


async def test_a_stream_that_is_cut_is_asked_for_again_elsewhere(
    server: Server, recorded: Any, instrumented: bool
) -> None:
    async with client(server, "cuts") as first, client(server, "answer") as second:
        taken: list[str] = []

        @hb.hop("answer", final=True)
        async def answer() -> AsyncIterator[Any]:
            stream = await hb.recovering(
                lambda: create(first), on_failure="retry", again=lambda: create(second), take_back=taken.append
            )
            async for chunk in stream:
                yield chunk

        with hb.trajectory("agent"):
            assert await text(answer()) == "It It depends."
    assert taken == ["It "]
    (hop,) = hops(recorded)
    assert hop.attributes["hopbudget.midstream"] == "retried"
    assert (hop.attributes["hopbudget.outcome"], hop.attributes["hopbudget.attempts"]) == ("ok", 2)
