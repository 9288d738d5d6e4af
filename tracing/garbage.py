"""What has to wait while the garbage collector is at work.

The collector stops a thread anywhere, also where it holds a lock of the SDK, and what is dropped then ends in that
thread: to end a span or to record a metric there could wait for that lock for good. It is done in a thread of its own
instead, which the thread that was stopped waits for as long as it gets on: so it is done when a collection is over, but
where a lock stands in the way. Times were taken before.
"""

import gc
import os
from _thread import LockType, allocate_lock, get_ident, start_new_thread
from collections import deque
from collections.abc import Callable
from typing import Final

PATIENCE_S: Final = 0.02
"""How long the collection is kept waiting for one span to end."""
SETTLE_S: Final = 1.0
"""How long what another thread is at is waited for."""
EXIT_S: Final = 4.0
"""So is that at the end of the process, after which it would be lost."""


class _Collector:
    __slots__ = ("done", "helped", "known", "running", "thread", "worker")

    def __init__(self) -> None:
        self.thread = 0
        """The thread that collects garbage right now; 0 for none."""
        self.known = False
        """Whether the collector tells."""
        self.helped = False
        """Whether a thread is on its way to do what waits."""
        self.done = allocate_lock()
        """Held until that thread has done it."""
        self.running = allocate_lock()
        self.worker = 0
        """The thread that does it right now; 0 for none."""


collector: Final = _Collector()
_waiting: Final[deque[Callable[[], object]]] = deque()


def listen() -> None:
    """From now on know when garbage is collected. Safe to call again."""
    if not collector.known:
        collector.known = True
        gc.callbacks.append(_told)


def _told(phase: str, info: object) -> None:
    if phase == "start":
        collector.thread = get_ident()
        return
    collector.thread = 0
    left = len(_waiting) + 1
    while collector.helped and len(_waiting) < left:
        left = len(_waiting)
        if collector.done.acquire(timeout=PATIENCE_S):
            collector.done.release()
            return


def collecting() -> bool:
    """Whether what runs now runs because garbage is collected."""
    return collector.thread != 0 and collector.thread == get_ident()


def afterwards(call: Callable[[], object]) -> None:
    """Call it in a thread of its own. It must not raise."""
    _waiting.append(call)
    if not collector.helped:
        collector.helped = True
        done = collector.done = allocate_lock()
        done.acquire()
        try:
            start_new_thread(_help, (done,))
        except RuntimeError:  # no thread is to be had, or the process ends
            collector.helped = False


def _help(done: LockType) -> None:
    while True:
        try:
            with collector.running:
                _work()
        except BaseException:  # what one raises keeps no other from its end
            pass
        # Who adds something from here on sends another thread; who did before is seen below.
        collector.helped = False
        if not _waiting:
            done.release()
            return


def _work() -> None:
    collector.worker = get_ident()
    try:
        while _waiting:
            _waiting.popleft()()
    finally:
        collector.worker = 0


def settle(wait_s: float = SETTLE_S) -> None:
    """Do what waits, and wait for what is being done elsewhere, though not for long."""
    running = collector.running
    if not collector.known or collector.worker == get_ident() or not running.acquire(timeout=wait_s):
        return
    try:
        _work()
    finally:
        running.release()


def _forget() -> None:
    """What a forked child inherits is its parent's to do."""
    _waiting.clear()
    collector.thread, collector.helped, collector.running, collector.worker = 0, False, allocate_lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
