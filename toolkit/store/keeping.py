"""Keeping a store in shape, while others read and write: old traces out, the file written anew, days to Parquet.

Each step holds the file for a moment only, by the locks that every reader and writer waits for.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

import duckdb

from hopbudget.errors import Exit, UserError
from hopbudget.store import schema
from hopbudget.store.duck import Store, needs_room
from hopbudget.store.instances import ROW_GROUP
from hopbudget.store.narrow import Condition

TABLES: Final[tuple[str, ...]] = ("spans", "trajectories", "hops", "works")
EXPORTED: Final[tuple[str, ...]] = ("trajectories", "hops", "works")
BATCH: Final = 2_000
"""Traces removed in one transaction."""
_TURN_S: Final = 0.06
"""Somebody who waits for the file looks again within this time."""
_US: Final = 1e6
_ATTEMPTS: Final = 5

Protected = tuple[Condition, float]
"""Trajectories (`t`) that started after so many seconds since the Unix epoch stay."""


@dataclass(frozen=True, slots=True)
class Doomed:
    """What a prune would remove: whole traces, all of whose trajectories are older than it says."""

    trace_ids: list[str]
    counts: dict[str, int]
    """Rows by table."""
    kept: int
    """Trajectories as old that stay, because they or their trace's others are inside a window."""


def doomed(con: duckdb.DuckDBPyConnection, before_at: float, protected: Sequence[Protected]) -> Doomed:
    """Traces that started before `before_at`, seconds since the Unix epoch, and lie in no protected window."""
    inside = [f"({condition.sql} AND t.started_at > make_timestamp(?))" for condition, _ in protected]
    parameters: list[object] = [round(before_at * _US)]
    for condition, from_at in protected:
        parameters += [*condition.parameters, round(from_at * _US)]
    old = (
        "WITH judged AS (SELECT t.trace_id, t.started_at < make_timestamp(?) AS old, "
        f"{' OR '.join(inside) or 'false'} AS inside FROM trajectories t), "
        "whole AS (SELECT trace_id, bool_and(old AND NOT inside) AS gone, count(*) FILTER (old) AS old FROM judged "
        "GROUP BY trace_id) "
    )
    rows = con.execute(old + "SELECT trace_id, gone, old FROM whole WHERE gone OR old > 0", parameters).fetchall()
    ids = [trace_id for trace_id, gone, _ in rows if gone]
    stray = (
        "SELECT s.trace_id FROM spans s ANTI JOIN trajectories USING (trace_id) GROUP BY s.trace_id "
        "HAVING max(s.end_ns) < ?"
    )
    ids += [row[0] for row in con.execute(stray, [round(before_at * _US) * 1000]).fetchall()]
    kept = sum(old for _, gone, old in rows if not gone)
    return Doomed(sorted(ids), _counts(con, ids), kept)


def _counts(con: duckdb.DuckDBPyConnection, trace_ids: Sequence[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    with schema.traces(con, trace_ids) as condition:
        for table in TABLES:
            ((counts[table],),) = con.execute(f"SELECT count(*) FROM {table} WHERE {condition}").fetchall()
    return counts


def remove(store: Store, trace_ids: Sequence[str], pause: Callable[[float], None] = time.sleep) -> dict[str, int]:
    """Remove these traces from every table, some at a time; returns rows removed by table."""
    removed: dict[str, int] = dict.fromkeys(TABLES, 0)
    for start in range(0, len(trace_ids), BATCH):
        if start:
            pause(_TURN_S)
        with store.writing() as con, schema.traces(con, trace_ids[start : start + BATCH]) as condition:
            for table in TABLES:
                ((rows,),) = con.execute(f"DELETE FROM {table} WHERE {condition}").fetchall()
                removed[table] += rows
    return removed


def compact(store: Store, pause: Callable[[float], None] = time.sleep) -> tuple[int, int]:
    """Write the file anew without the room of what was removed; returns its bytes before and after.

    Readers go on meanwhile, writers wait. The new file takes the old one's name when it is whole, so whoever is killed
    leaves one or the other. UserError where there is too little room, or another compaction is under way.
    """
    path = store.path
    assert path is not None
    with _alone(path):
        _remove_left_over(path)
        before = path.stat().st_size
        if shutil.disk_usage(path.parent).free < before:
            raise UserError(f"There is too little room beside {path} to write it anew.", Exit.ENVIRONMENT)
        for _ in range(_ATTEMPTS):
            with store.writing():  # what a killed writer left in its log goes into the file
                pass
            with store.reading() as con:
                if _log(path).exists():
                    continue
                with needs_room(f"{path}, anew,", "It is as it was"):
                    fresh = _written_anew(con, path)
                fresh.replace(path)
                # Who opened the old file just before is refused it while this lock lasts, and looks again.
                pause(2 * _TURN_S)
                return before, path.stat().st_size
    raise UserError(f"{path} was busy all the time. Try again when less is written to it.", Exit.ENVIRONMENT)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One compaction at a time: readers don't exclude each other, and the second would undo what came after the first.

    The lock is on the folder, which nobody else locks, and leaves nothing behind.
    """
    import fcntl

    folder = os.open(path.parent, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(f"Another compaction is under way beside {path}.", Exit.ENVIRONMENT) from error
        yield
    finally:
        os.close(folder)


def _written_anew(con: duckdb.DuckDBPyConnection, path: Path) -> Path:
    fresh = path.with_name(f"{path.name}.{os.getpid()}.compact")
    ((name,),) = con.execute("SELECT current_database()").fetchall()
    try:
        con.execute(f"ATTACH {_quoted(str(fresh))} AS fresh_one (READ_WRITE, ROW_GROUP_SIZE {ROW_GROUP})")
        try:
            con.execute(f'COPY FROM DATABASE "{name.replace(chr(34), chr(34) * 2)}" TO fresh_one')
        finally:
            con.execute("DETACH fresh_one")
        with fresh.open("rb") as file:
            os.fsync(file.fileno())
    except BaseException:
        fresh.unlink(missing_ok=True)
        _log(fresh).unlink(missing_ok=True)
        raise
    return fresh


def _remove_left_over(path: Path) -> None:
    for left in path.parent.glob(f"{path.name}.*.compact*"):
        with contextlib.suppress(OSError):
            left.unlink()


def _log(path: Path) -> Path:
    return path.with_name(path.name + ".wal")


def export(store: Store, folder: Path, tables: Sequence[str] = EXPORTED) -> Iterator[tuple[Path, int]]:
    """Write each day of UTC of these tables to `folder/TABLE/day=YYYY-MM-DD/TABLE.parquet`; yields file and rows.

    The day is that of the trajectory's start, so that a trajectory and its hops are in the same day. A day that was
    written before is written anew, whole or not at all. The store is let go after each file.
    """
    with store.reading() as con:
        found = con.execute("SELECT DISTINCT started_at::DATE FROM trajectories ORDER BY 1").fetchall()
    for (day,) in found:
        for table in tables:
            target = folder / table / f"day={day.isoformat()}" / f"{table}.parquet"
            target.parent.mkdir(parents=True, exist_ok=True)
            with store.reading() as con, needs_room(str(target), "The files before it are whole"):
                rows = _export_day(con, table, day, target)
            yield target, rows


def _export_day(con: duckdb.DuckDBPyConnection, table: str, day: date, target: Path) -> int:
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    of_day = "SELECT trace_id, root_span_id FROM trajectories WHERE started_at::DATE = ?"
    rows = (
        f"SELECT x.* FROM {table} x SEMI JOIN ({of_day}) USING (trace_id, root_span_id) ORDER BY started_at, trace_id"
    )
    try:
        copied = con.execute(f"COPY ({rows}) TO {_quoted(str(unfinished))} (FORMAT parquet, COMPRESSION zstd)", [day])
        ((n,),) = copied.fetchall()
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return int(n)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
