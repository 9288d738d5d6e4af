"""The endpoint without sockets and without waiting: a clock that moves only when the server sleeps."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.applications import Starlette

from hopbudget.endpoint.playback import RESET
from hopbudget.endpoint.server import application


class FakeTime:
    """Seconds that pass in `sleep` and nowhere else."""

    def __init__(self) -> None:
        self.now = 1000.0

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


@dataclass
class Answer:
    """What came back, each body part with its time since the request."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    parts: list[tuple[float, bytes]] = field(default_factory=list)
    complete: bool = False
    reset_at: float | None = None

    @property
    def body(self) -> bytes:
        return b"".join(data for _, data in self.parts)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[tuple[float, Any]]:
        """The JSON events of a stream with their times; one part may hold several."""
        lines = [(at, line) for at, data in self.parts for line in data.splitlines()]
        return [(at, json.loads(line[5:])) for at, line in lines if line.startswith(b"data: {")]


HELLO: dict[str, Any] = {"model": "sim-small", "messages": [{"role": "user", "content": "hello"}]}
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", HELLO),
    "completions": ("/v1/completions", {"model": "sim-small", "prompt": "hello"}),
    "responses": ("/v1/responses", {"model": "sim-small", "input": "hello"}),
    "messages": ("/v1/messages", {**HELLO, "max_tokens": 1000}),
}
"""The smallest request to each API."""


class Desk:
    """A place to put requests to an application by hand."""

    def __init__(self, app: Starlette, time: FakeTime) -> None:
        self.app = app
        self.time = time

    async def get(self, path: str) -> Answer:
        return await self.ask("GET", path)

    async def chat(self, headers: dict[str, str] | None = None, leave_after: int | None = None, **body: Any) -> Answer:
        return await self.post("chat", headers, leave_after, **body)

    async def post(
        self, api: str, headers: dict[str, str] | None = None, leave_after: int | None = None, **body: Any
    ) -> Answer:
        """The smallest request to `api`, with this besides."""
        path, smallest = REQUESTS[api]
        return await self.ask("POST", path, json.dumps({**smallest, **body}).encode(), headers, leave_after)

    async def sent(self) -> list[dict[str, Any]]:
        """The server's records."""
        found: list[dict[str, Any]] = (await self.get("/hopbudget/sent")).json["sent"]
        return found

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        leave_after: int | None = None,
    ) -> Answer:
        """One request; with `leave_after` the client goes once it has that many body parts (0: once it has asked)."""
        answer = Answer()
        start = self.time.now
        left = asyncio.Event()
        asked = False
        if leave_after == 0:
            left.set()

        async def receive() -> dict[str, Any]:
            nonlocal asked
            if not asked:
                asked = True
                return {"type": "http.request", "body": body, "more_body": False}
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
                return
            if message.get("body"):
                answer.parts.append((round(self.time.now - start, 6), message["body"]))
                if len(answer.parts) == leave_after:
                    left.set()
            answer.complete = not message.get("more_body", False)

        def reset() -> None:
            answer.reset_at = round(self.time.now - start, 6)
            left.set()

        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "extensions": {RESET: reset},
            "headers": [(name.encode(), value.encode()) for name, value in (headers or {}).items()],
        }
        await self.app(scope, receive, send)
        return answer


@pytest.fixture
def desk() -> Desk:
    time = FakeTime()
    began = time.now
    wall = lambda: 1_700_000_000.0 + time.now - began  # noqa: E731
    return Desk(application(seed=7, clock=time.clock, sleep=time.sleep, wall=wall), time)


@pytest.fixture
def desk_of() -> Callable[[int], Desk]:
    """A desk at a server with a given seed."""

    def make(seed: int) -> Desk:
        time = FakeTime()
        return Desk(application(seed=seed, clock=time.clock, sleep=time.sleep), time)

    return make
