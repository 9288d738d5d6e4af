"""A failure leaves no store where none was before."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb

from hopbudget.store.duck import is_lock


@contextmanager
def unmade_on_failure(path: Path) -> Iterator[None]:
    """On an error, take a store away that was not there before and holds no span."""
    was_there = path.exists()
    try:
        yield
    except BaseException:
        if not was_there:
            with suppress(OSError, duckdb.Error):
                _take_away(path)
        raise


def _take_away(path: Path) -> None:
    """Remove the file and its log. While it is looked into, nobody else writes to it."""
    if not path.exists():
        return
    try:
        con = duckdb.connect(path, read_only=True)
    except duckdb.Error as error:
        if not is_lock(error):  # half made: no DuckDB opens it
            _unlink(path)
        return
    try:
        if not _spans(con):
            _unlink(path)
    finally:
        con.close()


def _spans(con: duckdb.DuckDBPyConnection) -> bool:
    tables = con.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'spans'").fetchall()
    return tables != [(0,)] and con.execute("SELECT count(*) FROM spans").fetchall() != [(0,)]


def _unlink(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.with_name(f"{path.name}.wal").unlink(missing_ok=True)
