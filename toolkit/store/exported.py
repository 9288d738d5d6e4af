"""Folders of Parquet that `hopbudget store export` wrote, read back into memory as they were stored."""

from pathlib import Path
from typing import Final

import duckdb

from hopbudget.errors import Exit, UserError
from hopbudget.store.duck import Store

_NEEDED: Final = ("trajectories", "hops")
_TABLES: Final = (*_NEEDED, "works")
_DAYS: Final = "day=*"


def is_exported(folder: Path) -> bool:
    """Whether it looks like a folder that an export wrote."""
    return folder.is_dir() and any(_files(folder, table) for table in _TABLES)


def read(folder: Path) -> Store:
    """All days of it, in memory. UserError where a table is missing or can't be read."""
    missing = [table for table in _NEEDED if not _files(folder, table)]
    if missing:
        raise UserError(
            f"{folder} holds no {missing[0]}. Export without --table, or make trajectories of hops alone: "
            f"hopbudget import {folder}/hops/*/hops.parquet"
        )
    store = Store(None)
    with store.writing() as con:
        for table in _TABLES:
            files = _files(folder, table)
            if files:
                _load(con, table, files, folder)
    return store


def _files(folder: Path, table: str) -> list[str]:
    return sorted(str(path) for path in (folder / table).glob(f"{_DAYS}/{table}.parquet"))


def _load(con: duckdb.DuckDBPyConnection, table: str, files: list[str], folder: Path) -> None:
    there = [row[0] for row in con.execute(f"DESCRIBE {table}").fetchall()]
    source = "read_parquet(?, hive_partitioning = false, union_by_name = true)"
    try:
        written = {row[0] for row in con.execute(f"DESCRIBE SELECT * FROM {source}", [files]).fetchall()}
        both = ", ".join(f'"{name}"' for name in there if name in written)
        con.execute(f"INSERT INTO {table} BY NAME SELECT {both} FROM {source}", [files])
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{folder} can't be read as an export: {reason}", Exit.NO) from error
