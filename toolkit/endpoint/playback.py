"""One answer going out: each write at its time, each step noted in the record once it is out."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Send

from hopbudget.endpoint.records import Sent
from hopbudget.endpoint.script import Script
from hopbudget.endpoint.wire import ChatWire

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]
Result = TypeVar("Result")

NOTICE: Final = {"x-hopbudget-simulation": "no model ran; words and times are simulated"}
"""Headers of every answer."""


@dataclass(frozen=True, slots=True)
class Playback:
    """An answer with the clock that its request arrived by, at `arrived`."""

    wire: ChatWire
    script: Script
    sent: Sent
    arrived: float
    clock: Clock
    sleep: Sleep

    async def stream(self, send: Send) -> bool:
        """Headers at once, then every write at its time; True at the end."""
        head = Response(headers=self._headers, media_type="text/event-stream")
        del head.headers["content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": head.raw_headers})
        for write in self.wire.writes(self.script):
            await self._until(write.after_s)
            await send({"type": "http.response.body", "body": write.data, "more_body": True})
            if write.step is not None:
                self.sent.wrote(write.step, self.clock() - self.arrived)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return True

    async def reply(self) -> Response:
        """The whole answer, once its last token is written."""
        await self._until(self.script.steps[-1].after_s)
        self.sent.tokens = sum(step.tokens for step in self.script.steps)
        self.sent.done_s = self.clock() - self.arrived
        return JSONResponse(self.wire.reply(self.script), headers=self._headers)

    @property
    def _headers(self) -> dict[str, str]:
        return {**NOTICE, "x-request-id": self.wire.id, "cache-control": "no-cache"}

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
