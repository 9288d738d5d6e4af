"""The store: one DuckDB file and the spool beside it. Nobody keeps it open.

DuckDB lets one process write or many read, so every opening is short and waits for the others: decode and derive
first, then open, check for what is known, insert, commit, close.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb
import numpy as np

from hopbudget.errors import Exit, UserError
from hopbudget.store import schema, spool
from hopbudget.store.batch import Counts, Part, Traces, group, make_ready
from hopbudget.store.schema import insert
from hopbudget.store.spans import Span

if TYPE_CHECKING:
    from hopbudget.store.importing import ImportResult

Progress = Callable[[str, int, int], None]
"""Called with a name, what is done and what there is in all: bytes for an import, files for a drain."""

PATIENCE_S: Final = 120.0
_WRITE_CONFIG: Final[dict[str, str | bool | int | float | list[str]]] = {
    "memory_limit": "128MB",
    "threads": 1,
    "pandas_analyze_sample": 0,
}
_READ_CONFIG: Final[dict[str, str | bool | int | float | list[str]]] = {"memory_limit": "1GB"}
_ROW_GROUP: Final = 6_144
"""Each closing writes the last group of every table anew, so small groups keep the time with the lock short and even:
a transaction of 20,000 spans takes a half to a quarter of what it takes with DuckDB's usual 122,880 rows."""
MOST_SPANS: Final = 20_000
_FEWEST_SPANS: Final = 500
_LOCK_AIM_S: Final = 0.2
_LOCKED: Final = ("could not set lock", "conflicting lock", "used by another process")

_guards: dict[Path, threading.RLock] = {}
_guards_lock = threading.Lock()


class Store:
    """Traces in a DuckDB file, or in memory for `None`. Safe to use from several threads and processes."""

    def __init__(self, path: Path | None, *, patience_s: float = PATIENCE_S) -> None:
        self.path: Final = path
        self.name: Final = str(path) if path else "memory"
        self.batch_spans = 2_000
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

    def import_paths(self, paths: Sequence[str | Path], progress: Progress | None = None) -> "ImportResult":
        """Import OTLP/JSON files, folders and globs; UserError for a path that is not there."""
        from hopbudget.store.importing import import_paths

        return import_paths(self, paths, progress)

    @contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection for reading. While it is open nobody can write, so only fetch inside, and compute after."""
        with self._guard:
            if self.path is None:
                yield self._in_memory()
                return
            if not self.path.exists():
                raise UserError(f"There is no store at {self.path}. Trace or import something first.")
            con = self._connect(read_only=True)
            try:
                behind = schema.version(con, self.name) < schema.VERSION
                if behind:
                    con.close()
                    with self.writing():
                        pass
                    con = self._connect(read_only=True)
                yield con
            finally:
                con.close()

    @contextmanager
    def writing(self, after_commit: Callable[[], None] | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
        """A transaction, committed at the end and rolled back on any error.

        `after_commit` runs when all is stored and the lock is still held.
        """
        with self._guard:
            con = self._in_memory() if self.path is None else self._connect(read_only=False)
            try:
                con.begin()
                try:
                    schema.migrate(con, self.name)
                    yield con
                except BaseException:
                    con.rollback()
                    raise
                con.commit()
                if after_commit:
                    after_commit()
            finally:
                if self.path is not None:
                    con.close()

    def write(self, parts: list[Part]) -> Counts:
        """Store the spans of these parts that are not stored yet, and book what the parts say, in one transaction."""
        given = parts
        traces, total = group(parts)
        ready = make_ready(_all(traces), traces)
        # Derived before the lock is taken, as if nothing were known; that is nearly always so.
        held_from = time.perf_counter()
        with self.writing(lambda: _remove_files(given)) as con:
            held_from = time.perf_counter()
            gone = _already_drained(con, parts)
            if gone:
                parts = [part for part in parts if part not in gone]
                traces, total = group(parts)
            known = _known_spans(con, traces)
            if known or gone:
                counts = _write_beside_known(con, traces, known)
            else:
                insert(con, "spans", ready.spans)
                for table, columns in ready.rows.items():
                    insert(con, table, columns)
                counts = ready.counts
            _book(con, parts)
        self._adapt(total, time.perf_counter() - held_from)
        counts.duplicates = total - counts.spans
        counts.files = sum(part.done is not None for part in parts)
        counts.dropped_content = sum(part.dropped_content for part in parts)
        return counts

    def _adapt(self, spans: int, held_s: float) -> None:
        if spans * 2 >= self.batch_spans:  # a small batch says little
            aim = int(spans * _LOCK_AIM_S / max(held_s, 1e-6))
            self.batch_spans = max(_FEWEST_SPANS, min(MOST_SPANS, aim, self.batch_spans * 2))

    def _in_memory(self) -> duckdb.DuckDBPyConnection:
        if self._memory is None:
            self._memory = duckdb.connect(":memory:", config={"pandas_analyze_sample": 0})
            schema.migrate(self._memory, self.name)
        return self._memory

    def _connect(self, *, read_only: bool) -> duckdb.DuckDBPyConnection:
        assert self.path is not None
        give_up_at = time.monotonic() + self._patience_s
        wait_s = 0.002
        while True:
            try:
                return _open_to_read(self.path) if read_only else _open_to_write(self.path)
            except duckdb.Error as error:
                if not _is_lock(error):
                    raise _explained(error, self.path) from error
                if time.monotonic() > give_up_at:
                    raise UserError(
                        f"{self.path} has been held open by another program for {self._patience_s:.0f} s: {error}. "
                        "Close that program.",
                        Exit.ENVIRONMENT,
                    ) from error
            time.sleep(wait_s * random.uniform(0.5, 1.0))  # so that those who wait don't wake together
            wait_s = min(wait_s * 1.5, 0.05)


def _open_to_read(path: Path) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(path, read_only=True, config=_READ_CONFIG)


def _open_to_write(path: Path) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect(":memory:", config=_WRITE_CONFIG)
    try:
        quoted = str(path).replace("'", "''")
        con.execute(f"ATTACH '{quoted}' AS store (ROW_GROUP_SIZE {_ROW_GROUP})")
        con.execute("USE store")
    except BaseException:
        con.close()
        raise
    return con


def _guard(path: Path) -> threading.RLock:
    with _guards_lock:
        return _guards.setdefault(path, threading.RLock())


def _is_lock(error: duckdb.Error) -> bool:
    text = str(error).lower()
    return any(words in text for words in _LOCKED)


def _explained(error: duckdb.Error, path: Path) -> UserError:
    text = str(error).splitlines()[0]
    if "not a valid DuckDB database file" in text:
        return UserError(f"{path} is not a DuckDB file, so it can't be a store. Name another file.")
    if "version number" in text or "storage version" in text:
        return UserError(f"{path} needs another version of DuckDB: {text}", Exit.ENVIRONMENT)
    if not path.parent.is_dir():
        return UserError(f"The folder {path.parent} does not exist, so no store can be there.")
    return UserError(f"{path} can't be opened as a store: {text}", Exit.ENVIRONMENT)


def _all(traces: Traces) -> list[Span]:
    return [span for trace in traces.values() for span in trace.values()]


def _already_drained(con: duckdb.DuckDBPyConnection, parts: list[Part]) -> list[Part]:
    """Parts whose file another drain has stored, or that went with the oldest of a full spool."""
    names = [part.done.name for part in parts if part.done]
    if not names:
        return []
    marks = ", ".join("?" * len(names))
    drained = {row[0] for row in con.execute(f"SELECT file FROM drained WHERE file IN ({marks})", names).fetchall()}
    return [part for part in parts if part.done and (part.done.name in drained or not part.done.exists())]


def _known_spans(con: duckdb.DuckDBPyConnection, traces: Traces) -> dict[str, set[str]]:
    """The stored span ids of these traces."""
    con.register("ids", {"id": np.array(list(traces), dtype=object)})
    try:
        rows = con.execute("SELECT trace_id, span_id FROM spans WHERE trace_id IN (SELECT id FROM ids)").fetchall()
    finally:
        con.unregister("ids")
    known: dict[str, set[str]] = {}
    for trace_id, span_id in rows:
        known.setdefault(trace_id, set()).add(span_id)
    return known


def _write_beside_known(con: duckdb.DuckDBPyConnection, traces: Traces, known: dict[str, set[str]]) -> Counts:
    """Insert what is new, and derive the rows of traces that were known and have grown anew from all their spans."""
    new: Traces = {}
    for trace_id, trace in traces.items():
        stored = known.get(trace_id, set())
        fresh = {span_id: span for span_id, span in trace.items() if span_id not in stored}
        if fresh:
            new[trace_id] = fresh
    grown = [trace_id for trace_id in new if trace_id in known]
    whole: Traces = {trace_id: dict(trace) for trace_id, trace in new.items()}
    removed = Counts()
    if grown:
        con.register("ids", {"id": np.array(grown, dtype=object)})
        try:
            for span in schema.read_spans(con, "trace_id IN (SELECT id FROM ids)"):
                whole[span.trace_id].setdefault(span.span_id, span)
            for table in schema.TABLES:
                gone = con.execute(f"DELETE FROM {table} WHERE trace_id IN (SELECT id FROM ids)").fetchall()
                setattr(removed, table, gone[0][0])
        finally:
            con.unregister("ids")
    ready = make_ready(_all(new), whole)
    insert(con, "spans", ready.spans)
    for table, columns in ready.rows.items():
        insert(con, table, columns)
    for table in schema.TABLES:
        setattr(ready.counts, table, getattr(ready.counts, table) - getattr(removed, table))
    return ready.counts


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
