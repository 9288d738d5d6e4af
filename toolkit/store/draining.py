"""From the spool to the store: each file whole or not at all, exactly once, whoever dies in between.

A file's name is recorded in the transaction that stores its spans, and the file is removed after it, before the lock
is let go. A drainer killed before the commit has changed nothing; one killed after it leaves files whose names are
known.
"""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from hopbudget.store import otlp, spool
from hopbudget.store.batch import Counts, Part
from hopbudget.store.intake import paused_gc
from hopbudget.store.spans import Span
from hopbudget.store.spool import SpoolFile

if TYPE_CHECKING:
    from hopbudget.store.duck import Progress, Store

_MOST_FILES: Final = 32
"""In one transaction: removing a file takes the time of writing one, and the lock is held meanwhile."""


def drain(store: "Store", progress: "Progress | None" = None) -> Counts:
    """Move what waits in the store's spool into its tables; new files may come meanwhile and wait for the next."""
    counts = Counts()
    folder = store.spool
    if folder is None:
        return counts
    spool.remove_stale(folder, now_s=time.time())
    waiting = spool.files(folder)
    parts: list[Part] = []
    size = 0
    with paused_gc():
        for number, file in enumerate(waiting, start=1):
            for part in _parts(file, store):
                parts.append(part)
                size += len(part.spans)
                if size >= store.batch_spans or len(parts) >= _MOST_FILES:
                    counts.add(store.write(parts))
                    parts, size = [], 0
            if progress:
                progress(folder.name, number, len(waiting))
        if parts:
            counts.add(store.write(parts))
    return counts


def _parts(file: SpoolFile, store: "Store") -> Iterator[Part]:
    """The file as one part, or as several if it is larger than a transaction; only the last one books it."""
    try:
        if file.note:
            spans, reason = spool.read_note(file.path)
            yield Part(done=file.path, lost=[(reason, spans)])
            return
        content = file.path.read_bytes()
    except FileNotFoundError:  # drained by another, or gone with the oldest of a full spool
        return
    taken: list[Span] = []
    part = Part(taken, received_at_ns=file.received_at_ns)
    read = rejected = 0
    for line in content.splitlines():
        decoded = otlp.decode(line)
        taken += decoded.spans
        part.dropped_content += decoded.dropped_content
        read += len(decoded.spans)
        rejected += len(decoded.rejected)
        if len(taken) >= store.batch_spans:
            yield part
            taken = []
            part = Part(taken, received_at_ns=file.received_at_ns)
    part.done = file.path
    part.lost = [("unreadable", max(file.spans - read, rejected))]
    yield part
