"""Following a stream while its consumer reads it: who wants to know, and the tie between a stream and them."""

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from hopbudget.tracing import scope
from hopbudget.tracing.outcomes import is_cancel
from hopbudget.tracing.tasks import ReadingTask, current_reader

if TYPE_CHECKING:
    from hopbudget.tracing.limits_waits import Wait
    from hopbudget.tracing.stream import StreamClock

IDLE: Final = 0
BUSY: Final = 1
"""A step is being made. A library's step may call another of its own that is followed too; the outermost counts."""
UNREAD: Final = 2
"""No step was made yet."""


def _nobody(item: object, asked_ns: int, now_ns: int) -> None:
    pass


def _to_all(followers: "list[Follower]", item: object, asked_ns: int, now_ns: int) -> None:
    for follower in followers:
        follower.chunk(item, asked_ns, now_ns)


class Follower(Protocol):
    """Who wants to know what becomes of a stream."""

    @property
    def chunk(self) -> Callable[[object, int, int], None]:
        """Called with what the consumer pulled, when it asked for it, and when it came."""
        ...

    def ended(self, exc: BaseException | None, by_consumer: bool) -> None:
        """It was exhausted, or ended with this exception, which the consumer may have caused."""

    def dropped(self) -> None:
        """Nobody holds it any more, and it had not ended."""


class Handle:
    """Ties one stream to its followers. It dies with the stream, which is how an abandoned one is noticed.

    Whoever makes the steps reads `now_ns` before and after each, and calls `chunk` with what came.
    """

    __slots__ = ("__weakref__", "chunk", "clock", "ended", "followers", "hides", "now_ns", "reader", "state", "wait")

    def __init__(self, *followers: Follower) -> None:
        self.followers: list[Follower] = []
        self.chunk: Callable[[object, int, int], None] = _nobody
        self.clock: StreamClock | None = None
        """That of the one follower, if there is one: a loop may note plain chunks on it instead of calling `chunk`."""
        self.ended = not followers
        self.state = UNREAD
        self.reader: ReadingTask | None = None
        self.wait: Wait | None = None
        """In which the limits on the stream are held."""
        self.hides: Callable[[object], bool] | None = None
        """Tells what came on the recorder's account only, and is not the consumer's. Never raises."""
        # With nobody to tell the time, the cheapest clock is one that stands still.
        self.now_ns: Callable[[], int] = _steady(scope.setup.clock.now_ns) if followers else int
        for follower in followers:
            self.add(follower)

    def add(self, follower: Follower) -> None:
        """One more who wants to know."""
        self.followers.append(follower)
        if self.wait is None:
            self.wait = getattr(follower, "wait", None)
        # A call for each chunk: the one follower there mostly is gets it without a detour.
        alone = len(self.followers) == 1
        self.chunk = follower.chunk if alone else partial(_to_all, self.followers)
        if self.clock is not None:
            self.clock.share()
        self.clock = getattr(follower, "clock", None) if alone else None

    def begin(self) -> None:
        """The first step is about to be made."""
        self.state = IDLE
        if self.ended:
            return
        try:
            self.reader = current_reader(self.reader_cancelled)
        except Exception:
            scope.recorder_failed()

    def end(self, exc: BaseException | None, *, by_consumer: bool = False) -> None:
        """The stream was exhausted, or ended with this exception."""
        if self.ended:
            return
        self.ended = True
        if by_consumer and is_cancel(exc) and _only_closes():
            exc = None
        if by_consumer and (exc is None or isinstance(exc, GeneratorExit)):
            exc = self._leave() or exc
        else:
            self._leave()
        for follower in self.followers:
            try:
                follower.ended(exc, by_consumer)
            except Exception:
                scope.recorder_failed()

    def closing(self) -> None:
        """The consumer closes the stream; while an exception is being handled, that exception is why."""
        if self.state != BUSY:
            exc = sys.exc_info()[1]
            self.end(exc if is_cancel(exc) else None, by_consumer=True)

    def reader_cancelled(self) -> None:
        """The task that read it ended cancelled; it may have been at work on a chunk."""
        self.end(sys.modules["asyncio"].CancelledError(), by_consumer=True)

    def _leave(self) -> BaseException | None:
        """Part with the reader; returns its cancellation if that is what happens right now."""
        reader, self.reader = self.reader, None
        if reader is None:
            return None
        try:
            cancellation = reader.cancellation()
            reader.leave()
        except Exception:
            scope.recorder_failed()
            return None
        return cancellation

    def __del__(self) -> None:
        if self.ended:
            return
        self.ended = True
        cancellation = self._leave()
        for follower in self.followers:
            try:
                if cancellation is None:
                    follower.dropped()
                else:
                    follower.ended(cancellation, True)
            except Exception:
                scope.recorder_failed()


def _only_closes() -> bool:
    """Whether the task that runs does nothing but close an async generator, as loops do for abandoned ones.

    A loop that comes to its end cancels these tasks too, and the generator hears of a cancellation.
    """
    asyncio = sys.modules.get("asyncio")
    loop = None if asyncio is None else asyncio._get_running_loop()
    task = None if asyncio is None or loop is None else asyncio.current_task(loop)
    return task is not None and type(task.get_coro()).__name__ == "async_generator_athrow"


def _steady(now_ns: Callable[[], int]) -> Callable[[], int]:
    """A clock that may be read in the application's path: the system's can't fail, another is guarded."""
    if now_ns is time.monotonic_ns:
        return now_ns
    last_ns = 0

    def read() -> int:
        nonlocal last_ns
        try:
            last_ns = now_ns()
        except Exception:
            scope.recorder_failed()
        return last_ns

    return read
