"""How late the event loop runs what is due: the client's own part in the times it measures.

A loop that is busy hands a chunk on when it gets to it, and the wait looks like the endpoint's. While hops that await
something are open, a timer in their loop is due every `INTERVAL_S`; how late it runs is the loop's lag.
"""

import sys
import time
import weakref
from collections.abc import Callable, MutableMapping
from contextvars import Context
from typing import Any, Final, Protocol

INTERVAL_S: Final = 0.05


class Waiting(Protocol):
    """What is open in a loop, and is told the largest lag there was; None while none was looked for."""

    lag_s: float | None

    def ticked(self) -> None:
        """Called every `INTERVAL_S` while it is open, unless the loop is late."""


class LoopLag:
    """The lag of one event loop. Its timer stops when nothing is open in the loop."""

    __slots__ = ("__weakref__", "_due_s", "_loop", "_now_s", "_open", "_ticks")

    def __init__(self, loop: Any, now_s: Callable[[], float] = time.monotonic) -> None:
        self._loop = weakref.ref(loop)
        self._now_s = now_s
        self._open: dict[Waiting, float] = {}
        self._due_s = 0.0
        self._ticks = False

    def is_of(self, loop: Any) -> bool:
        """Whether it is this loop's."""
        return self._loop() is loop

    def opened(self, waiting: Waiting) -> None:
        """It is open from now on. To be called in the loop's thread."""
        self._open[waiting] = self._now_s()
        if not self._ticks:
            self._set()

    def closed(self, waiting: Waiting) -> None:
        """It is open no longer."""
        self._open.pop(waiting, None)

    def look(self, waiting: Waiting) -> None:
        """Tell it about a timer that is due by now and has not run."""
        opened_s = self._open.get(waiting)
        if opened_s is not None and self._ticks:
            self._tell(waiting, self._now_s() - max(self._due_s, opened_s))

    def _set(self) -> None:
        loop = self._loop()
        self._ticks = loop is not None and not loop.is_closed()
        if loop is not None and self._ticks:
            self._due_s = self._now_s() + INTERVAL_S
            # Without a context of its own the timer would keep the one it is set in.
            loop.call_later(INTERVAL_S, self._tick, context=Context())

    def _tick(self) -> None:
        now_s = self._now_s()
        for waiting, opened_s in tuple(self._open.items()):
            # What opened after the timer was due has waited from then on only.
            self._tell(waiting, max(now_s - max(self._due_s, opened_s), 0.0))
            waiting.ticked()
        self._ticks = False
        if self._open:
            self._set()

    def _tell(self, waiting: Waiting, late_s: float) -> None:
        if late_s >= 0 and (waiting.lag_s is None or late_s > waiting.lag_s):
            waiting.lag_s = late_s


_loops: Final[MutableMapping[Any, LoopLag]] = weakref.WeakKeyDictionary()


def current_loop_lag() -> LoopLag | None:
    """The lag of the loop that runs in this thread; None if there is none."""
    asyncio = sys.modules.get("asyncio")
    loop = None if asyncio is None else asyncio._get_running_loop()
    if loop is None:
        return None
    known = _loops.get(loop)
    if known is None:
        known = _loops[loop] = LoopLag(loop)
    return known
