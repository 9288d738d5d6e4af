"""The store: one DuckDB file and the spool beside it. Nobody keeps it open.

DuckDB lets one process write or many read, so every opening is short and waits for the others: decode and derive
first, then open, check for what is known, insert, commit, close.
"""

import os
import random
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb

from hopbudget.errors import Exit, UserError
from hopbudget.store import schema, spool
from hopbudget.store.batch import Counts, Part, Ready, make_ready
from hopbudget.store.growing import due, insert_new, settle
from hopbudget.store.instances import Instance

if TYPE_CHECKING:
    from hopbudget.store.accounts import Account
    from hopbudget.store.importing import ImportResult, Note
    from hopbudget.store.parquet import Columns
    from hopbudget.store.spans import Span

Progress = Callable[[str, int, int], None]
"""Called with a name, what is done and what there is in all: bytes for an import, files for a drain."""

PATIENCE_S: Final = 120.0
_SILENT_S: Final = 5.0
"""Who waits longer for the file is told for what."""
MOST_SPANS: Final = 20_000
"""Half as many again would bring the two processes of an import near 300 MB."""
_FEWEST_SPANS: Final = 5_000
_TRACES_A_TIME: Final = 2_000
_SHORT_S: Final = 0.2
_LONG_S: Final = 0.35
"""A time with the lock after which the next transaction is made larger, or smaller."""
_UNWRITABLE: Final = ("could not write", "no space left", "failed to commit", "input/output error")
_ERRNO: Final = re.compile(r'"errno":"(\d+)"')
"""In some of DuckDB's errors the system's is a part of a longer text."""
_HOLDER: Final = re.compile(r"PID \d+")
_LOCKED: Final = ("could not set lock", "conflicting lock", "used by another process")

_guards: dict[Path, threading.RLock] = {}
_guards_lock = threading.Lock()


class Store:
    """Traces in a DuckDB file, or in memory for `None`. Safe to use from several threads and processes."""

    def __init__(self, path: Path | None, *, patience_s: float = PATIENCE_S) -> None:
        self.path: Final = path
        self.name: Final = str(path) if path else "memory"
        self.batch_spans = 10_000
        """How many spans the next transaction should hold, so that the lock is held for a moment only."""
        self._patience_s = patience_s
        self._guard = _guard(path.resolve()) if path else threading.RLock()
        self._memory: duckdb.DuckDBPyConnection | None = None

    @property
    def spool(self) -> Path | None:
        """The folder where agents leave spans for this store; None in memory."""
        return spool.spool_folder(self.path) if self.path else None

    def drain(self, progress: Progress | None = None) -> Counts:
        """Move what waits in the spool into the tables; does nothing, and makes no file, if nothing waits."""
        from hopbudget.store.draining import drain

        return drain(self, progress)

    def settle(self, now_ns: int | None = None) -> int:
        """Decide what could not be said of traces while more of them might come; returns how many were decided.

        `now_ns` is the time since the Unix epoch, of the machine's clock unless it is given.
        """
        from hopbudget.store.intake import paused_gc

        now_ns = time.time_ns() if now_ns is None else now_ns
        settled = 0
        while self.path is None or self.path.exists():
            with self.reading() as con:
                if not due(con, now_ns, 1):
                    return settled
            with paused_gc(), self.writing() as con:
                traces = due(con, now_ns, _TRACES_A_TIME)
                settle(con, traces)
                settled += len(traces)
        return settled

    def import_paths(
        self,
        paths: Sequence[str | Path],
        progress: Progress | None = None,
        note: "Note | None" = None,
        columns: "Columns | None" = None,
    ) -> "ImportResult":
        """Import files of spans, folders and globs; UserError for a path that is not there."""
        from hopbudget.store.importing import import_paths

        return import_paths(self, paths, progress, note, columns)

    def account(self, trace_ids: Sequence[str]) -> "Account":
        """What these stored traces tell, source by source; a few are read at a time."""
        from hopbudget.store.accounts import Account

        account = Account()
        for start in range(0, len(trace_ids), _TRACES_A_TIME):
            with self.reading() as con:
                spans = schema.read_spans(con, trace_ids[start : start + _TRACES_A_TIME])
            traces: dict[str, list[Span]] = {}
            for span in spans:
                traces.setdefault(span.trace_id, []).append(span)
            account.add(traces.values())
        return account

    @contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection for reading. While it is open nobody can write, so only fetch inside, and compute after."""
        if self.path and not self.path.exists():
            raise UserError(f"There is no store at {self.path}. Trace or import something first.")
        with self._guard, _whole(self.name):
            with self._opened(read_only=True) as con:
                behind = schema.version(con, self.name) < schema.VERSION
                if not behind:
                    yield con
            if behind:
                with self.writing():
                    pass
                with self._opened(read_only=True) as con:
                    yield con

    @contextmanager
    def writing(
        self, after_commit: Callable[[], None] | None = None, *, removes: bool = True
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """A transaction, committed at the end and rolled back on any error.

        `after_commit` runs when all is stored and the lock is still held. Where nothing is to be removed, say so: it
        is cheaper.
        """
        left = "Nothing that was stored or waits in the spool is lost"
        with self._guard, self._opened(read_only=False) as con, needs_room(self.name, left):
            schema.use_room_again(con, wanted=removes)
            at = schema.version(con, self.name)
            con.begin()
            try:
                schema.migrate(con, at)
                yield con
            except BaseException:
                with suppress(duckdb.Error):  # it is over already where the disk is full
                    con.rollback()
                raise
            con.commit()
            if after_commit:
                after_commit()

    def write(self, parts: list[Part]) -> Counts:
        """Store the spans of these parts that are not stored yet, and book what the parts say, in one transaction."""
        return self.put(make_ready(parts, time.time_ns()), parts=parts)

    def put(self, *ready: Ready, parts: list[Part] | None = None) -> Counts:
        """The same where the columns have been made already, of these parts' spans."""
        parts = given = parts or []
        with self.writing(lambda: _remove_files(given), removes=False) as con:
            held_from = time.perf_counter()
            gone = _already_drained(con, parts)
            if gone:
                parts = [part for part in parts if part not in gone]
                ready = (make_ready(parts, time.time_ns()),)
            counts = Counts()
            for one in ready:
                counts.add(insert_new(con, one))
            _book(con, parts)
        self._adapt(sum(one.given for one in ready), time.perf_counter() - held_from)
        counts.files = sum(part.done is not None for part in parts)
        return counts

    def _adapt(self, spans: int, held_s: float) -> None:
        # Most of what a transaction costs is the same for any size, so it is made small only where it must be.
        if held_s > _LONG_S:
            self.batch_spans = max(min(_FEWEST_SPANS, self.batch_spans), self.batch_spans // 2)
        elif held_s < _SHORT_S and spans * 2 >= self.batch_spans:  # a small batch says little
            self.batch_spans = min(MOST_SPANS, self.batch_spans * 2)

    def _in_memory(self) -> duckdb.DuckDBPyConnection:
        if self._memory is None:
            self._memory = duckdb.connect(":memory:")
            schema.migrate(self._memory, 0)
        return self._memory

    @contextmanager
    def _opened(self, *, read_only: bool) -> Iterator[duckdb.DuckDBPyConnection]:
        if self.path is None:
            yield self._in_memory()
            return
        instance, con = self._open(self.path, read_only=read_only)
        try:
            yield con
        finally:
            instance.close(con, self.path)

    def _open(self, path: Path, *, read_only: bool) -> tuple[Instance, duckdb.DuckDBPyConnection]:
        """Wait for whoever has the file open, for as long as patience lasts."""
        began_at, told = time.monotonic(), False
        wait_s = 0.002
        while True:
            instance, identity = Instance.of(path, read_only=read_only), _identity(path)
            con = failed = None
            try:
                con = instance.open(path)
            except duckdb.Error as error:
                failed = error
            # A file that its compacted form replaced meanwhile may have been read with the log of the new one.
            replaced = identity is not None and _identity(path) != identity
            if con and not replaced:
                return instance, con
            if con:
                instance.close(con, path)
            if failed and not (replaced or is_lock(failed)):
                raise _explained(failed, path) from failed
            waited_s = time.monotonic() - began_at
            if waited_s > self._patience_s:
                raise UserError(
                    f"{path} has been held open by another program for {self._patience_s:.0f} s: {failed}. "
                    "Close that program.",
                    Exit.ENVIRONMENT,
                ) from failed
            if waited_s > _SILENT_S and not told:
                told = True
                holder = _HOLDER.search(str(failed))
                by = f" ({holder[0]})" if holder else ""
                sys.stderr.write(f"hopbudget: {path} is held open by another program{by}; waiting for it\n")
            time.sleep(wait_s * random.uniform(0.5, 1.0))  # so that those who wait don't wake together
            wait_s = min(wait_s * 1.5, 0.05)


@contextmanager
def _whole(name: str) -> Iterator[None]:
    """UserError where a table or a column is not there that our own statements are about."""
    try:
        yield
    except (duckdb.CatalogException, duckdb.BinderException) as error:
        raise UserError(
            f"{name} is damaged, or another program changed its tables: {str(error).splitlines()[0]}", Exit.ENVIRONMENT
        ) from error


def _guard(path: Path) -> threading.RLock:
    with _guards_lock:
        return _guards.setdefault(path, threading.RLock())


def is_lock(error: duckdb.Error) -> bool:
    """Whether it says that somebody else has the file open."""
    text = str(error).lower()
    return any(words in text for words in _LOCKED)


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells the file that is here from one that takes its place; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def needs_room(what: str, left: str) -> Iterator[None]:
    """UserError where DuckDB has no room to write `what`; `left` says how things stand then."""
    try:
        yield
    except duckdb.Error as error:
        text = str(error)
        if not any(words in text.lower() for words in _UNWRITABLE):
            raise
        number = _ERRNO.search(text)
        reason = os.strerror(int(number[1])) if number else text.splitlines()[0].rpartition(": ")[2].rstrip(".")
        raise UserError(
            f"{what} can't be written: {reason}. {left}: make room, then try again.", Exit.ENVIRONMENT
        ) from error


def _explained(error: duckdb.Error, path: Path) -> UserError:
    text = str(error).splitlines()[0]
    if "not a valid DuckDB database file" in text:
        return UserError(f"{path} is not a DuckDB file, so it can't be a store. Name another file.")
    if "version number" in text or "storage version" in text:
        return UserError(f"{path} needs another version of DuckDB: {text}", Exit.ENVIRONMENT)
    if not path.parent.is_dir():
        return UserError(f"The folder {path.parent} does not exist, so no store can be there.")
    return UserError(f"{path} can't be opened as a store: {text}", Exit.ENVIRONMENT)


def _already_drained(con: duckdb.DuckDBPyConnection, parts: list[Part]) -> list[Part]:
    """Parts whose file another drain has stored, or that went with the oldest of a full spool."""
    names = [part.done.name for part in parts if part.done]
    if not names:
        return []
    marks = ", ".join("?" * len(names))
    drained = {row[0] for row in con.execute(f"SELECT file FROM drained WHERE file IN ({marks})", names).fetchall()}
    return [part for part in parts if part.done and (part.done.name in drained or not part.done.exists())]


def _remove_files(parts: list[Part]) -> None:
    for part in parts:
        if part.done:
            part.done.unlink(missing_ok=True)


def _book(con: duckdb.DuckDBPyConnection, parts: list[Part]) -> None:
    names = [[part.done.name] for part in parts if part.done]
    if names:
        # A name is needed only while its file may still be there: older ones than the oldest file can go.
        con.execute("DELETE FROM drained WHERE file < ?", min(names))
        con.executemany("INSERT INTO drained VALUES (?)", names)
    losses = [[reason, spans] for part in parts for reason, spans in part.lost if spans > 0]
    if losses:
        con.executemany("INSERT INTO drops VALUES (?, ?)", losses)
