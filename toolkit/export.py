"""Spans from the SDK to the spool, off the application's path.

The SDK's own BatchSpanProcessor is not used: when its queue is full it drops the oldest spans, which are the hops of
the trajectory that comes last, without a count anyone sees, and its `force_flush` does not say what was written.
"""

import contextlib
import os
import threading
import weakref
from collections import deque
from pathlib import Path
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

from hopbudget.encode import encode
from hopbudget.store.spool import Spool

QUEUE_LIMIT: Final = 16_384
"""Spans that may wait; at 2 KB each, 32 MB. Past it new ones are dropped: a trajectory whose root is lost is seen to
be incomplete, one whose hops are lost is not."""
BATCH: Final = 512
DELAY_S: Final = 1.0
"""How long spans gather before they are written."""
EXIT_WAIT_S: Final = 4.0
"""How long an exiting process waits for a disk that hangs."""


class SpoolProcessor(SpanProcessor):
    """Takes ended spans, and writes them in batches to the spool from a thread of its own.

    Never raises into the application: spans that can't be kept are counted, and the counts noted in the spool.
    """

    def __init__(self, folder: Path, *, queue_limit: int = QUEUE_LIMIT, delay_s: float = DELAY_S) -> None:
        self.spool = Spool(folder)
        self._queue_limit = queue_limit
        self._delay_s = delay_s
        self._stopped = False
        self._reset()
        if hasattr(os, "register_at_fork"):
            reset = weakref.WeakMethod(self._reset)
            os.register_at_fork(after_in_child=lambda: (method := reset()) and method())

    def _reset(self) -> None:
        """Start from nothing; also in a forked child, whose parent writes what was queued."""
        self._queue: deque[ReadableSpan] = deque()
        self._lost: dict[str, int] = {}
        self._written = 0
        self._writing = threading.RLock()
        self._counting = threading.RLock()
        self._waiting = threading.Event()
        self._urgent = threading.Event()
        self._worker: threading.Thread | None = None

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Nothing to do."""

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a sampled span."""
        context = span.get_span_context()
        if context is None or not context.trace_flags.sampled:
            return
        if len(self._queue) >= self._queue_limit:
            self._count_lost(1, "queue_full")
            return
        self._queue.append(span)
        if self._stopped:
            return
        if self._worker is None:
            self._start()
        if not self._waiting.is_set():
            self._waiting.set()
        if len(self._queue) >= BATCH and not self._urgent.is_set():
            self._urgent.set()

    def flush(self, timeout_s: float | None = None) -> int:
        """Write what is queued, and return how many spans were written since the last flush.

        With a time-out it may return before everything is written.
        """
        if self._writing.acquire(timeout=-1 if timeout_s is None else timeout_s):
            try:
                while self._queue:
                    self._write_batch()
                self._note_lost()
            finally:
                self._writing.release()
        with self._counting:
            written, self._written = self._written, 0
        return written

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Write what is queued; False if it did not get done in time."""
        if not self._writing.acquire(timeout=timeout_millis / 1000):
            return False
        try:
            while self._queue:
                self._write_batch()
            self._note_lost()
        finally:
            self._writing.release()
        return True

    def shutdown(self) -> None:
        """Write what is queued and stop the thread. Spans that end later wait for a flush."""
        self._stopped = True
        self._waiting.set()
        self._urgent.set()
        self.force_flush(round(EXIT_WAIT_S * 1000))

    def move(self, folder: Path) -> None:
        """Write what is queued, and go on in another spool."""
        with self._writing:
            self.force_flush()
            self.spool = Spool(folder)

    def _start(self) -> None:
        with self._counting:
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name="hopbudget-spool", daemon=True)
                try:
                    self._worker.start()
                except RuntimeError:  # the interpreter is ending; the exit's flush writes
                    self._stopped = True

    def _work(self) -> None:
        while not self._stopped:
            self._waiting.wait()
            self._urgent.wait(self._delay_s)
            self._waiting.clear()
            self._urgent.clear()
            with self._writing:
                while self._queue:
                    self._write_batch()
                self._note_lost()

    def _write_batch(self) -> None:
        batch: list[ReadableSpan] = []
        with contextlib.suppress(IndexError):
            while len(batch) < BATCH:
                batch.append(self._queue.popleft())
        lines, left_out = encode(batch)
        self._count_lost(left_out, "encode_failed")
        spans = len(batch) - left_out
        try:
            self.spool.append(lines, spans)
        except Exception:
            # A folder that is missing, read-only or full is no reason to disturb the application.
            self._count_lost(spans, "write_failed")
            return
        with self._counting:
            self._written += spans

    def _count_lost(self, spans: int, reason: str) -> None:
        if spans:
            with self._counting:
                self._lost[reason] = self._lost.get(reason, 0) + spans

    def _note_lost(self) -> None:
        with self._counting:
            lost, self._lost = self._lost, {}
        for reason, spans in lost.items():
            try:
                self.spool.note_dropped(spans, reason)
            except Exception:
                self._count_lost(spans, reason)

    @property
    def lost(self) -> dict[str, int]:
        """Spans lost and not yet noted in the spool, by reason."""
        with self._counting:
            return dict(self._lost)
