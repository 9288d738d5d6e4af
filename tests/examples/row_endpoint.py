"""`python row_endpoint.py ROW`: the simulated endpoint, each streamed final answer of which is that row.

An agent sets no header that would ask for it, so the row is chosen here: where the request is for a stream and no tool
is left to call. Says where it listens, and ends when its standard input does.
"""

import signal
import socket
import sys
import threading
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from hopbudget.endpoint.apis import APIS
from hopbudget.endpoint.compose import next_tool
from hopbudget.endpoint.server import application


class RowForAnswers:
    """The application, with the header of a row on requests for a final answer."""

    def __init__(self, app: ASGIApp, row: str) -> None:
        self._app = app
        self._header = (b"x-hopbudget-row", row.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        api = next((api for api in APIS if api.path == scope["path"] and scope["method"] == "POST"), None)
        if api is None:
            await self._app(scope, receive, send)
            return
        body = await _body(receive)
        ask = api.read(body)
        if ask.stream and next_tool(ask) is None:
            scope = {**scope, "headers": [*scope["headers"], self._header]}
        waiting: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Any:
            return waiting.pop() if waiting else await receive()

        await self._app(scope, again, send)


async def _body(receive: Receive) -> bytes:
    parts = []
    more = True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


def main(row: str) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        app = RowForAnswers(application(), row)
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="critical", access_log=False))
        threading.Thread(target=lambda: (sys.stdin.read(), signal.raise_signal(signal.SIGTERM)), daemon=True).start()
        print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)  # noqa: T201
        server.run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1])
