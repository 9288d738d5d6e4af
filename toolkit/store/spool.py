"""The spool: a folder beside the store where any number of processes leave spans, one new file at a time.

A file is complete as soon as it has its name, so writers never wait for one another or for the store. Its
name tells when it was written, by whom, and how many spans it holds:

    0177163631550367583124-4711-3-12.jsonl      12 spans, one OTLP/JSON export request a line
    0177163631550367583125-4711-4-7.dropped     7 spans that were lost, and why
    0177163631550367583126-4711-5-9.received.jsonl    9 spans that came over the network, from anywhere
"""

import contextlib
import itertools
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

MAX_BYTES: Final = 1 << 30
STALE_AFTER_S: Final = 3600.0
"""A temporary file this old belongs to a writer that died in the middle."""

_NAME: Final = re.compile(r"(\d{20})-\d+-\d+-(\d+)\.(jsonl|received\.jsonl|dropped)")
_LOOK_AGAIN_AFTER_FILES: Final = 512
_MANY_NOTES: Final = 256
_sequence = itertools.count()


class Pending(NamedTuple):
    """What waits to be drained."""

    files: int
    spans: int


@dataclass(frozen=True, slots=True)
class SpoolFile:
    """One file of the spool. `spans` and `note` come from its name."""

    path: Path
    spans: int
    note: bool
    """True for a note of lost spans, False for spans."""
    received_at_ns: int | None = None
    """When spans came that others sent, whose traces may not be whole yet; None for those of agents here."""


def spool_folder(store: Path) -> Path:
    """The folder that belongs to a store."""
    return store.with_name(store.name + ".spool")


def files(folder: Path) -> list[SpoolFile]:
    """Every complete file, oldest first; none if the folder is missing. Files of other names are not ours."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = []
    for name in names:
        if match := _NAME.fullmatch(name):
            received = int(match[1]) if match[3] == "received.jsonl" else None
            found.append(SpoolFile(folder / name, int(match[2]), match[3] == "dropped", received))
    return found


def pending(folder: Path) -> Pending:
    """How many files and spans wait to be drained."""
    waiting = [file for file in files(folder) if not file.note]
    return Pending(len(waiting), sum(file.spans for file in waiting))


def read_note(path: Path) -> tuple[int, str]:
    """Spans and reason of a note; a torn note counts by its name. Raises OSError if it has gone."""
    text = path.read_bytes()
    match = _NAME.fullmatch(path.name)
    by_name = int(match[2]) if match else 0
    try:
        note = json.loads(text)
        return int(note["spans"]), str(note["reason"])
    except (ValueError, KeyError, TypeError):
        return by_name, "unknown"


def remove_stale(folder: Path, *, now_s: float) -> None:
    """Remove temporary files that a killed writer left; `now_s` is seconds since the Unix epoch."""
    for temporary in _temporary_files(folder):
        with contextlib.suppress(OSError):
            if temporary.stat().st_mtime < now_s - STALE_AFTER_S:
                temporary.unlink()


class Spool:
    """The writer's side. One instance may serve several threads; several processes may share a folder.

    `received` marks what it writes as sent by others, whose traces come in pieces.
    """

    def __init__(self, folder: Path, *, max_bytes: int = MAX_BYTES, received: bool = False) -> None:
        self.folder: Final = folder
        self.max_bytes: Final = max_bytes
        self._ending: Final = "received.jsonl" if received else "jsonl"
        self._bytes_left = 0  # what may be written before the folder is looked at again
        self._files_left = 0

    def append(self, lines: Sequence[bytes], spans: int) -> None:
        """Store these lines, each one export request without a newline in it, as one new file.

        When it returns, they survive a crash. Past the size cap the oldest files go, counted. Raises OSError.
        """
        if not lines:
            return
        content = b"\n".join(lines) + b"\n"
        if len(content) > self.max_bytes:
            self.note_dropped(spans, "spool_full")
            return
        self._make_room(len(content))
        self._write(content, spans, self._ending)

    def note_dropped(self, spans: int, reason: str) -> None:
        """Record lost spans: queue_full, spool_full, encode_failed or write_failed. Raises OSError."""
        if spans > 0:
            self._write(json.dumps({"spans": spans, "reason": reason}).encode(), spans, "dropped")

    def pending(self) -> Pending:
        """How many files and spans wait to be drained."""
        return pending(self.folder)

    def _write(self, content: bytes, spans: int, kind: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"{time.time_ns():020d}-{os.getpid()}-{next(_sequence)}-{spans}.{kind}"
        temporary = self.folder / f".{name}.tmp"
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(self.folder / name)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(self.folder)
        self._bytes_left -= len(content)
        self._files_left -= 1

    def _make_room(self, size: int) -> None:
        # Looking at the folder costs a pass over it, so it is done once in a sixteenth of the cap.
        if size <= self._bytes_left and self._files_left > 0:
            return
        found, total = _sizes(self.folder)
        if sum(file.note for file, _ in found) > _MANY_NOTES:
            self._merge_notes([file for file, _ in found if file.note])
        step = self.max_bytes // 16
        if total + size > self.max_bytes:
            total -= self._evict(found, total + size - (self.max_bytes - step))
        self._bytes_left = max(0, min(step, self.max_bytes - total))
        self._files_left = _LOOK_AGAIN_AFTER_FILES

    def _evict(self, found: list[tuple[SpoolFile, int]], too_much: int) -> int:
        """Remove the oldest files until `too_much` bytes are gone; returns the bytes freed."""
        freed = spans = 0
        for file, size in found:
            if freed >= too_much:
                break
            if not file.note and _removed(file.path):
                freed += size
                spans += file.spans
        self.note_dropped(spans, "spool_full")
        return freed

    def _merge_notes(self, notes: list[SpoolFile]) -> None:
        """An undrained spool must not fill with notes either: make them one a reason."""
        sums: dict[str, int] = {}
        for note in notes:
            with contextlib.suppress(OSError):
                spans, reason = read_note(note.path)
                if _removed(note.path):
                    sums[reason] = sums.get(reason, 0) + spans
        for reason, spans in sums.items():
            self.note_dropped(spans, reason)


def _sizes(folder: Path) -> tuple[list[tuple[SpoolFile, int]], int]:
    found = []
    for file in files(folder):
        with contextlib.suppress(OSError):
            found.append((file, file.path.stat().st_size))
    return found, sum(size for _, size in found)


def _removed(path: Path) -> bool:
    """Remove it; False if somebody else was first, so that two never count the same file."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def _temporary_files(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        yield from folder.glob(".*.tmp")


def _sync_folder(folder: Path) -> None:
    # The name itself must survive a crash; a system that can't sync a folder (Windows) needs no such step.
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
