"""Who reads a stream: whether its task is being cancelled tells a cancellation from a consumer who had enough."""

import sys
import weakref
from collections.abc import Callable
from contextvars import Context
from typing import Any


class ReadingTask:
    """The asyncio task that began to read a stream. It is held weakly, and holds nothing of the stream.

    A generator that is closed, or a stream that is dropped, hears nothing of why; the task it happens in knows. And a
    cancelled task keeps the frames that hold its streams for as long as somebody holds the task.
    """

    __slots__ = ("_cancelled", "_done", "_seen", "_task")

    def __init__(self, task: Any, on_cancelled: Callable[[], None], cancelled: type[BaseException]) -> None:
        self._task = weakref.ref(task)
        self._seen: int = task.cancelling()
        self._cancelled = cancelled
        tell = weakref.WeakMethod(on_cancelled)

        def done(task: Any) -> None:
            told = tell()
            if told is not None and task.cancelled():
                told()

        self._done = done
        task.add_done_callback(done, context=Context())

    def cancellation(self) -> BaseException | None:
        """An exception that says so, if this very moment is in the task and the task is being cancelled."""
        task = self._task()
        if task is None or task.cancelling() <= self._seen or _current_task() is not task:
            return None
        return self._cancelled()

    def leave(self) -> None:
        """The stream ended: the task's end is of no more interest."""
        task = self._task()
        if task is not None:
            task.remove_done_callback(self._done)


def current_reader(on_cancelled: Callable[[], None]) -> ReadingTask | None:
    """Who reads now; None outside of asyncio. The bound method is called when the reader ends cancelled."""
    task = _current_task()
    if task is None or not hasattr(task, "cancelling"):
        return None
    return ReadingTask(task, on_cancelled, sys.modules["asyncio"].CancelledError)


def _current_task() -> Any:
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return None
    loop = asyncio._get_running_loop()
    return None if loop is None else asyncio.current_task(loop)
