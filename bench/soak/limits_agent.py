"""An agent in trouble: what it meets is drawn at random, and what it saw of each hop and of itself is kept."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing
from typing import Any

import openai
from opentelemetry.context import get_current

import hopbudget as hb

FAULTS = (
    "A2", "A6", "A7", "A10", "cut", "reset", "headers-never", "silence", "pings-forever", "stall", "stall-pings",
    "503", "503x1, A1",
)  # fmt: skip
FAULTY = 0.15
"""The share of requests that one of these befalls."""
THINKS_S = 1.0, 9.0
"""What a trajectory does beside its requests. So 200 of them send some 90 requests a second, at 5 ms of a processor's
time each in the client: the loop is at work half of the time, and what times out does so for its fault."""
CUT_OFF = "A7"
"""A stream that the client takes for whole and the record for cut off."""
WAITS_S = 20.0
"""The longest that its caller waits for it; who cancels waits for a part of `CANCELS_S`."""
CANCELS_S = 10.0
CANCELLED = 0.15


class Lag:
    """Looks every `EVERY_S` whether the loop was blocked."""

    EVERY_S = 0.02
    BLOCKED_S = 0.03

    def __init__(self) -> None:
        self.blocked_at = 0.0
        """When it was seen last."""
        self.late_s: list[float] = []
        """How late each look was."""

    async def look(self) -> None:
        """For ever."""
        while True:
            due = time.monotonic() + self.EVERY_S
            await asyncio.sleep(self.EVERY_S)
            now = time.monotonic()
            self.late_s.append(now - due)
            if now - due > self.BLOCKED_S:
                self.blocked_at = now

    def quantile(self, p: float) -> float:
        """How late it was at most, in this share of the looks."""
        return sorted(self.late_s)[int(p * len(self.late_s))]


class Agent:
    """One trajectory. `seen` counts how its hops ended as the application saw it, by hop name and outcome."""

    def __init__(
        self, number: int, client: openai.AsyncOpenAI, other: openai.AsyncOpenAI, lag: "Lag", *, watched: bool
    ) -> None:
        self.number = number
        self.lag = lag
        self.chance = random.Random(number)
        self.client = client
        self.other = other
        self.watched = watched
        self.seen: Counter[tuple[str, str]] = Counter()
        self.came_out = ""
        self.last = ""
        self.kept_context = True
        self.late_s = 0.0
        self.faults = 0
        """Requests of its that a fault befell."""
        self.unprovoked = 0
        """Hops that reached limits of their own without one: the machine was too slow for them."""

    async def live(self) -> None:
        """Run, with a caller who waits so long, or cancels when it likes. What it raises has been seen then."""
        outside = get_current()
        patience_s = self.chance.uniform(0, CANCELS_S) if self.chance.random() < CANCELLED else WAITS_S
        try:
            async with asyncio.timeout(patience_s):
                self.came_out = await self._ended(self._trajectory())
        except TimeoutError:
            pass
        self.kept_context = get_current() is outside

    async def _trajectory(self) -> None:
        async with hb.trajectory("soak", attributes={"soak.number": self.number}):
            await self.tool()
            await self._seen("plan", self.plan())
            if self.chance.random() < 0.3:
                async with hb.pause("approval"):
                    await asyncio.sleep(self.chance.uniform(0, 0.3))
            if self.chance.random() < 0.3:
                await hb.all_of(self._seen("read", self.read()), self._seen("read", self.read()))
            else:
                await self._seen("read", self.read())
            await self._seen("answer", self._listen())

    async def _ended(self, running: Awaitable[None]) -> str:
        """How it came out. What ends it goes on, if it is its caller's."""
        try:
            await running
        except hb.DeadlineExceeded as error:
            return error.outcome
        except asyncio.CancelledError:
            self.came_out = "cancelled"
            raise
        except (openai.APIError, hb.BrokenStreamError):
            return "failed"
        return self.last

    async def _seen(self, name: str, running: Awaitable[str]) -> None:
        """Await one hop, and keep how it ended. A limit on the way is taken as it comes, half of the time."""
        began, in_time, faults = time.monotonic(), hb.remaining_s() > 0, self.faults
        try:
            self.last = await running
        except hb.DeadlineExceeded as error:
            self.last = error.outcome
            self.unprovoked += error.outcome == "timed_out" and not error.capped and self.faults == faults
            if in_time and not error.client_lag and self.lag.blocked_at < began:
                self.late_s = max(self.late_s, error.late_s)
            if self.chance.random() < 0.5:
                raise
        except asyncio.CancelledError:
            self.last = "cancelled"
            raise
        except (openai.APIError, hb.BrokenStreamError):
            self.last = "failed"
            raise
        finally:
            self.seen[name, self.last] += 1

    @hb.work("tool")
    async def tool(self) -> None:
        """Work beside the hops."""
        await asyncio.sleep(self.chance.uniform(*THINKS_S))

    @hb.hop("plan")
    async def plan(self) -> str:
        """A hop that reads its stream itself; its limits stand in the configuration."""
        row = self._row()
        stream = await self._ask(row)
        return await _read(hb.watch(stream) if self.watched else stream, row)

    @hb.hop("read", first_token_s=0.8, stall_s=0.5, completion_s=2.5, refuse=0.2)
    async def read(self) -> str:
        """A hop with limits of its own, half of the time with a second endpoint."""
        row, again = self._row(), self._row()
        if self.chance.random() < 0.5:
            stream = await hb.failover(
                lambda: self._ask(row), lambda: self._ask(again, self.other), after_s=0.4, cap=_NO_CAP
            )
            return await _read(stream, row if stream.sent_by == "primary" else again)
        stream = await self._ask(row)
        return await _read(hb.watch(stream) if self.watched else stream, row)

    @hb.hop("answer", final=True, first_token_s=1.0, stall_s=0.5, enforce="deadline")
    async def answer(self, row: str) -> AsyncIterator[Any]:
        """The final stream."""
        async for chunk in await self._ask(row):
            yield chunk

    async def _listen(self) -> str:
        """Hear the final stream, and sometimes have enough of it."""
        row, enough = self._row(), self.chance.random() < 0.2
        async with aclosing(self.answer(row)) as stream:
            async for chunk in stream:
                if enough and chunk.choices and chunk.choices[0].delta.content:
                    return "closed_by_consumer"
        return "failed" if row == CUT_OFF else "ok"

    def _row(self) -> str:
        row = self.chance.choice(FAULTS) if self.chance.random() < FAULTY else ""
        self.faults += bool(row)
        return row

    def _ask(self, row: str, client: openai.AsyncOpenAI | None = None) -> Any:
        fault = {"x-hopbudget-row": row, "x-hopbudget-key": f"{self.number}-{self.chance.random()}"}
        quick = {"x-hopbudget-ttft": "0.1", "x-hopbudget-tpot": "0.02", "x-hopbudget-tokens": "6"}
        return (client or self.client).chat.completions.create(
            model="sim-small",
            messages=[{"role": "user", "content": "why"}],
            stream=True,
            extra_headers=fault if row else quick,
        )


_NO_CAP = hb.Cap(1.0, 1000)


async def _read(stream: Any, row: str) -> str:
    async for _ in stream:
        pass
    return "failed" if row == CUT_OFF else "ok"
