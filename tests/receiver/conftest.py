"""A receiver on a real socket of this process, and a client for it."""

import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
import uvicorn

from hopbudget import listening
from hopbudget.receiver.account import Account
from hopbudget.receiver.application import Rules, application
from hopbudget.store import otlp
from hopbudget.store.spans import Span
from hopbudget.store.spool import Pending


class MemoryFolder:
    """What was written down, or the error that writing gives."""

    def __init__(self) -> None:
        self.files: list[list[bytes]] = []
        self.spans = 0
        self.error: OSError | None = None
        self.waiting = 0

    def append(self, lines: Sequence[bytes], spans: int) -> None:
        if self.error:
            raise self.error
        self.files.append(list(lines))
        self.spans += spans

    def pending(self) -> Pending:
        return Pending(len(self.files), self.spans)

    def waiting_bytes(self) -> int:
        return self.waiting

    def stored(self) -> list[Span]:
        return [span for lines in self.files for line in lines for span in otlp.decode(line).spans]


class Receiving:
    """One receiver and what a test may want of it."""

    def __init__(self, url: str, folder: MemoryFolder, account: Account, client: httpx2.Client) -> None:
        self.url = url
        self.folder = folder
        self.account = account
        self.client = client

    def post(self, body: bytes, media: str = "application/json", **headers: str) -> httpx2.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post("/v1/traces", content=body, headers={"content-type": media, **named})


@contextmanager
def receiving(rules: Rules | None = None) -> Iterator[Receiving]:
    folder, account = MemoryFolder(), Account()
    config = uvicorn.Config(application(folder, account, rules), lifespan="off", log_level="critical", ws="none")
    with listening.listen("127.0.0.1", 0) as listener:
        up = threading.Event()
        server = listening.server(config, up.set)
        thread = threading.Thread(target=_run, args=(server, listener))
        thread.start()
        try:
            assert up.wait(20)
            url = listening.address(listener)
            with httpx2.Client(base_url=url, trust_env=False, timeout=30) as client:
                yield Receiving(url, folder, account, client)
        finally:
            server.should_exit = True
            thread.join()


def _run(server: uvicorn.Server, listener: socket.socket) -> None:
    server.run(sockets=[listener])


@pytest.fixture
def receiver() -> Iterator[Receiving]:
    with receiving() as found:
        yield found


@pytest.fixture
def receiver_with() -> Iterator[Callable[..., Receiving]]:
    """A receiver under other rules."""
    opened = []

    def make(**rules: Any) -> Receiving:
        one = receiving(Rules(**rules))
        opened.append(one)
        return one.__enter__()

    yield make
    for one in opened:
        one.__exit__(None, None, None)


def span(number: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "traceId": f"{number:032x}",
        "spanId": f"{number:016x}",
        "name": "chat m",
        "kind": 3,
        "startTimeUnixNano": "1700000000000000000",
        "endTimeUnixNano": "1700000001000000000",
        **fields,
    }


def request(*spans: dict[str, Any]) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"scope": {"name": "s"}, "spans": list(spans)}]}]}).encode()


def zipped(body: bytes) -> bytes:
    return gzip.compress(body)
