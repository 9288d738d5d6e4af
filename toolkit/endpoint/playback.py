"""One answer going out: each write at its time, each step noted in the record once it is out."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from hopbudget.endpoint.breaks import PING_EVERY_S
from hopbudget.endpoint.records import Sent
from hopbudget.endpoint.script import Script
from hopbudget.endpoint.wire import Wire, writes

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]
Result = TypeVar("Result")

NOTICE: Final = {"x-hopbudget-simulation": "no model ran; words and times are simulated"}
"""Headers of every answer."""
RESET: Final = "hopbudget.reset"
"""The extension of ASGI by which an answer resets its own connection."""


def reset_of(scope: Scope) -> Callable[[], None] | None:
    """What resets the connection of this request; None where the server can't."""
    return (scope.get("extensions") or {}).get(RESET)


def answer_headers(answer_id: str) -> Mapping[str, str]:
    """The headers of the answer of this id, which each client looks for under its own name."""
    return {**NOTICE, "x-request-id": answer_id, "request-id": answer_id, "cache-control": "no-cache"}


@dataclass(frozen=True, slots=True)
class Playback:
    """An answer with the clock that its request arrived by, at `arrived`; `reset` breaks its connection."""

    wire: Wire
    script: Script
    sent: Sent
    arrived: float
    clock: Clock
    sleep: Sleep
    reset: Callable[[], None] | None

    async def stream(self, send: Send) -> bool:
        """Headers at once, then every write at its time; True at the end, if there is one."""
        if self.script.headers:
            head = Response(headers=answer_headers(self.wire.id), media_type="text/event-stream")
            del head.headers["content-length"]
            await send({"type": "http.response.start", "status": 200, "headers": head.raw_headers})
            self.sent.status = 200
        for write in writes(self.wire, self.script):
            await self._until(write.after_s)
            await send({"type": "http.response.body", "body": write.data, "more_body": True})
            if write.step is not None:
                self.sent.wrote(write.step, self.clock() - self.arrived)
        await self._until(self.script.end_s)
        await self._end(send)
        return True

    async def _end(self, send: Send) -> None:
        match self.script.ending:
            case "close":
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            case "reset" if self.reset is not None:
                self.reset()
                await _for_ever()  # that is, until the server notices that the connection is gone
            case "reset":
                pass  # a server that can't reset a connection drops one whose answer is not complete
            case "hang":
                await _for_ever()
            case "ping":
                ping = self.wire.ping(self.script.framing)
                for number in itertools.count(1):
                    await self._until(self.script.end_s + number * PING_EVERY_S)
                    await send({"type": "http.response.body", "body": ping, "more_body": True})

    async def reply(self) -> Response:
        """The whole answer, once its last token is written."""
        await self._until(self.script.steps[-1].after_s)
        self.sent.status = 200
        self.sent.tokens = sum(step.tokens for step in self.script.steps)
        self.sent.done_s = self.clock() - self.arrived
        return JSONResponse(self.wire.reply(self.script), headers=answer_headers(self.wire.id))

    async def _until(self, after_s: float) -> None:
        """Sleep to that time; when it is past, still give way, so that writes stay apart and a cancel gets in."""
        await self.sleep(max(0.0, self.arrived + after_s - self.clock()))


async def while_connected(receive: Receive, work: Coroutine[Any, Any, Result]) -> Result | None:
    """What `work` returns; None if the client goes first, which ends `work` at once."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, gone):
            task.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)
    return None if working.cancelled() else working.result()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()
