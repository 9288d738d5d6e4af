"""What of an event loop is needed to hold limits: a timer that is set again and again, and the task that runs now."""

import sys
from collections.abc import Callable
from contextvars import Context
from typing import Any

from hopbudget.tracing.clock import NANOSECONDS


class LoopTimer:
    """A timer of an asyncio loop. Set for a time, it comes then, or earlier because it was set for an earlier one."""

    __slots__ = ("_at_ns", "_call", "_handle", "_now_ns", "loop")

    def __init__(self, loop: Any, call: Callable[[], None], now_ns: Callable[[], int]) -> None:
        self.loop = loop
        self._call = call
        self._now_ns = now_ns
        self._handle: Any = None
        self._at_ns = 0.0

    def set(self, at_ns: float) -> None:
        """Come then at the latest."""
        if self._handle is not None:
            if self._at_ns <= at_ns:
                return
            self._handle.cancel()
        self._at_ns = at_ns
        after_s = (at_ns - self._now_ns()) / NANOSECONDS
        # Without a context of its own the timer would keep the one it is set in.
        self._handle = self.loop.call_at(self.loop.time() + after_s, self._come, context=Context())

    def stop(self) -> None:
        """Don't come."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _come(self) -> None:
        self._handle = None
        self._call()


def running_task() -> Any:
    """The asyncio task that runs in this thread; None outside of one, and for one that can't be cancelled twice."""
    asyncio = sys.modules.get("asyncio")
    loop = None if asyncio is None else asyncio._get_running_loop()
    if loop is None:
        return None
    task = current_task()(loop)
    return task if hasattr(task, "uncancel") else None


def no_task(loop: Any) -> Any:
    """The task that runs in a loop, where there is no loop."""
    return None


def current_task() -> Callable[[Any], Any]:
    """The quickest function that tells the task that runs in a loop: before Python 3.12 asyncio's own is not quick."""
    if not _found:
        asyncio = sys.modules["asyncio"]
        tasks: Any = getattr(asyncio.tasks, "_current_tasks", None)
        _found.append(tasks.get if sys.version_info < (3, 12) and isinstance(tasks, dict) else asyncio.current_task)
    return _found[0]


_found: list[Callable[[Any], Any]] = []
