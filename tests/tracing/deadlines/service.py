"""A service in a process of its own: says when its deadline falls, by a clock that the whole machine shares.

Prints its port. `?next=URL`: the service that it asks in turn.
"""

import asyncio
import os
import socket
import sys
import time
from typing import Any

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import hopbudget as hb
from hopbudget.tracing.asgi import DeadlineMiddleware

CHILD = "import time, hopbudget as hb; print(hb.remaining_s() + time.monotonic())"


def falls_at() -> float:
    return hb.remaining_s() + time.monotonic()


def client(sent_at: list[float]) -> httpx2.AsyncClient:
    """A client that tells, and notes when it did."""

    async def note(_: Any) -> None:
        sent_at.append(time.monotonic())

    return hb.propagating(httpx2.AsyncClient(event_hooks={"request": [note]}, trust_env=False))


class Clocked:
    """Notes when a request came, before anything is made of it."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        scope["came_at"] = time.monotonic()
        await self.app(scope, receive, send)


async def ask(request: Request) -> JSONResponse:
    came_at = request.scope["came_at"]
    with hb.trajectory("service", deadline_s=60.0):
        said: dict[str, Any] = {"came_at": came_at, "falls_at": falls_at(), "asked": None}
        # The service takes some of the time itself, and hands on what is left.
        await asyncio.sleep(0.03)
        for url in request.query_params.getlist("next"):
            sent_at: list[float] = []
            async with client(sent_at) as asking:
                answer = await asking.get(url)
            said["asked"] = answer.json() | {"sent_at": sent_at[0]}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CHILD, stdout=asyncio.subprocess.PIPE, env=hb.environment()
        )
        out, _ = await process.communicate()
        said["child_falls_at"] = float(out)
    return JSONResponse(said | {"pid": os.getpid()})


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)  # noqa: T201 - how its starter learns the port
    hb.propagate_to("127.0.0.1")
    service = Starlette(routes=[Route("/", ask)], middleware=[Middleware(Clocked), Middleware(DeadlineMiddleware)])
    uvicorn.Server(uvicorn.Config(service, log_level="error")).run(sockets=[listening])
