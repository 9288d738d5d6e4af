"""Spans from the SDK to the spool, off the application's path.

The SDK's own BatchSpanProcessor is not used: when its queue is full it drops the oldest spans, which are the hops of
the trajectory that comes last, without a count anyone sees, and its `force_flush` does not say what was written.
"""

import contextlib
import logging
import os
import threading
import weakref
from collections import deque
from pathlib import Path
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

from hopbudget.recording.encode import encode
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
        self._warned = False
        self._written = 0
        self._writing = threading.RLock()
        self._counting = threading.RLock()
        self._waiting = threading.Event()
        self._urgent = threading.Event()
        self._worker: threading.Thread | None = None
        self._writer: int | None = None
        self._asked: deque[threading.Event] = deque()
        self._late = False

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

        With a time-out the thread does the writing, so that a disk that hangs holds nobody up; it may then go on.
        """
        if timeout_s is None:
            self._drain()
        else:
            self._drain_in_time(timeout_s)
        with self._counting:
            written, self._written = self._written, 0
        return written

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Write what is queued; False if it did not get done in time."""
        return self._drain_in_time(timeout_millis / 1000)

    def shutdown(self) -> None:
        """Write what is queued and stop the thread. Spans that end later wait for a flush."""
        self._stopped = True
        self._drain_in_time(0 if self._late else EXIT_WAIT_S)

    def _drain(self) -> None:
        with self._writing:
            self._writer = threading.get_ident()
            while self._queue:
                self._write_batch()
            self._note_lost()
            self._writer = None

    def _drain_in_time(self, timeout_s: float) -> bool:
        """As `_drain`, by the thread; False if it takes longer."""
        worker = self._worker
        # A signal may have come while this very thread was writing.
        if worker is None or not worker.is_alive() or self._writer == threading.get_ident():
            self._drain()
            return True
        done = threading.Event()
        self._asked.append(done)
        self._waiting.set()
        self._urgent.set()
        self._late = not done.wait(timeout_s)
        return not self._late

    def move(self, folder: Path) -> None:
        """Write what is queued, and go on in another spool."""
        with self._writing:
            self._drain()
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
        stopped = False
        while not stopped:
            self._waiting.wait()
            self._urgent.wait(self._delay_s)
            self._waiting.clear()
            self._urgent.clear()
            stopped = self._stopped
            asked = [self._asked.popleft() for _ in range(len(self._asked))]
            self._drain()
            for done in asked:
                done.set()

    def _write_batch(self) -> None:
        batch: list[ReadableSpan] = []
        with contextlib.suppress(IndexError):
            while len(batch) < BATCH:
                batch.append(self._queue.popleft())
        try:
            lines, left_out = encode(batch)
        except Exception:
            self._count_lost(len(batch), "encode_failed")
            return
        self._count_lost(left_out, "encode_failed")
        spans = len(batch) - left_out
        try:
            self.spool.append(lines, spans)
        except Exception as error:
            # A folder that is missing, read-only or full is no reason to disturb the application: one line in its log.
            self._count_lost(spans, "write_failed")
            self._warn_once(error)
            return
        with self._counting:
            self._written += spans

    def _warn_once(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            logging.getLogger("hopbudget").warning(
                "spans can't be written to %s and are lost: %s. The application goes on.", self.spool.folder, error
            )

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
