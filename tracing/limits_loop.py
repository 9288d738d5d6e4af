"""What of an event loop is needed to hold limits: a timer that is set again and again, and the task that runs now."""

import sys
from collections.abc import Callable
from contextvars import Context
from typing import Any, Final

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

    def overdue_ns(self, now_ns: int) -> float:
        """By how much it should have come, and did not, because the loop had no turn."""
        return 0.0 if self._handle is None else max(now_ns - self._at_ns, 0.0)

    def stop(self) -> None:
        """Don't come."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _come(self) -> None:
        self._handle = None
        self._call()


NOBODY: Final[tuple[Any, Any]] = None, None


def running_task() -> tuple[Any, Any]:
    """The asyncio task that runs in this thread, and its loop.

    None for both outside of one, and for one that can't be cancelled twice.
    """
    if not _found and not _find():
        return NOBODY
    loop = _running[0]()
    if loop is None:
        return NOBODY
    task = _found[0](loop)
    return (task, loop) if hasattr(task, "uncancel") else NOBODY


def no_task(loop: Any) -> Any:
    """The task that runs in a loop, where there is no loop."""
    return None


def current_task() -> Callable[[Any], Any]:
    """The quickest function that tells the task that runs in a loop: before Python 3.12 asyncio's own is not quick."""
    return _found[0] if _found or _find() else no_task


_found: list[Callable[[Any], Any]] = []
_running: list[Callable[[], Any]] = []
"""Tells the loop that runs in this thread."""


def _find() -> bool:
    """Look asyncio's functions up, once; False while nobody has loaded it."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or not hasattr(asyncio, "current_task"):
        return False
    tasks: Any = getattr(asyncio.tasks, "_current_tasks", None)
    _running.append(asyncio._get_running_loop)
    _found.append(tasks.get if sys.version_info < (3, 12) and isinstance(tasks, dict) else asyncio.current_task)
    return True
