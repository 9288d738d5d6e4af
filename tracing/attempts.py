"""One call that opens a stream, as far as its first token: what fail-over races, and who may."""

import inspect
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Final

from hopbudget.tracing.limits_steps import aclose
from hopbudget.tracing.reading import Format
from hopbudget.tracing.scope import recorder_failed, setup
from hopbudget.tracing.sse import looks_like_events
from hopbudget.tracing.stream import StreamClock

SHARE: Final = 0.035
BURST: Final = 5


class Cap:
    """How many extra calls may be made: `share` of all calls, and `burst` at once. Safe to share between threads.

    Where an endpoint is down for everybody, this is what keeps the other one from getting twice the load.
    """

    def __init__(self, share: float = SHARE, burst: float = BURST) -> None:
        """`share` is from 0 to 1, `burst` at least 1. Raises ValueError for others."""
        if not 0 <= share <= 1 or not burst >= 1:
            raise ValueError(f"a cap is a share from 0 to 1 and a burst of at least 1, not {share!r} and {burst!r}")
        self.share = share
        self.burst = burst
        self.calls = 0
        """Calls so far."""
        self.extra = 0
        """Second attempts among them."""
        self.refused = 0
        """Second attempts that were not allowed."""
        self._left = float(burst)
        self._lock = threading.Lock()

    def call(self) -> None:
        """One more call is made."""
        with self._lock:
            self.calls += 1
            self._left = min(self._left + self.share, self.burst)

    def take(self) -> bool:
        """Whether a second attempt may be made; counted as made then."""
        with self._lock:
            if self._left < 1:
                self.refused += 1
                return False
            self._left -= 1
            self.extra += 1
            return True


class Attempt:
    """A call that opens a stream. It is read up to its first token, and no further, until somebody wants the rest."""

    def __init__(self, name: str, open: Callable[[], Any], format: Format | None) -> None:
        self.name = name
        self.began_ns = 0
        self.stream: Any = None
        """The client's own stream."""
        self.pieces: list[tuple[Any, int, int]] = []
        """What came so far: chunk, when it was asked for, when it came."""
        self.over = False
        """Whether the stream ended before it had a token."""
        self._open = open
        self._manager: Any = None
        self._iterator: AsyncIterator[Any] | None = None
        self._clock = StreamClock(format=format, fixed=format is not None)
        self._events = False

    @property
    def so_far(self) -> str:
        """What had come of it before its first token, in words."""
        if self.stream is None:
            return "no response"
        return f"{len(self.pieces)} chunks without a token" if self.pieces else "an open response and nothing else"

    async def first_token(self) -> None:
        """Returns when the first generated token is there. Cancelled, or failing, it leaves nothing open."""
        self.began_ns = setup.clock.now_ns()
        try:
            self._iterator = await self._opened()
            while not self.over and not self._has_token():
                await self._pull(self._iterator)
        except BaseException:
            await self.close()
            raise

    async def _opened(self) -> AsyncIterator[Any]:
        opened = self._open()
        if inspect.isawaitable(opened):
            opened = await opened
        if hasattr(opened, "__aenter__") and not hasattr(opened, "__aiter__"):
            self._manager = opened
            opened = await opened.__aenter__()
        if not hasattr(opened, "__aiter__"):
            raise TypeError(f"fail-over needs calls that open async streams, not {type(opened).__name__}")
        self.stream = opened
        return aiter(opened)

    async def _pull(self, iterator: AsyncIterator[Any]) -> None:
        now_ns = setup.clock.now_ns
        asked_ns = now_ns()
        try:
            chunk = await anext(iterator)
        except StopAsyncIteration:
            self.over = True
            return
        came_ns = now_ns()
        self.pieces.append((chunk, asked_ns, came_ns))
        try:
            self._events = self._events or looks_like_events(chunk)
            self._clock.pulled(chunk, asked_ns, came_ns)
        except Exception:
            recorder_failed()

    def _has_token(self) -> bool:
        if self._clock.first_ns is not None:
            return True
        # Chunks that nobody can read count as tokens.
        return bool(self.pieces) and not self._clock.known and not self._events

    async def rest(self) -> Any:
        """The next chunk after those that came so far. Raises StopAsyncIteration at the end."""
        if self.over or self._iterator is None:
            raise StopAsyncIteration
        return await anext(self._iterator)

    async def close(self) -> None:
        """Close what was opened. What fails in it is of no interest any more."""
        if self._manager is not None:
            manager, self._manager = self._manager, None
            with suppress(Exception):
                await manager.__aexit__(None, None, None)
        elif self.stream is not None:
            await aclose(self._iterator, self.stream)
