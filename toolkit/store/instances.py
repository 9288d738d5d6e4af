"""DuckDB instances that open a file for a moment. They are kept: to make one takes ten times as long as to open a file.

Nobody else may use the same file meanwhile in the same process; `duck` sees to it.
"""

import ctypes
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import duckdb

ROW_GROUP: Final = 6_144
"""Each closing writes the last group of every table anew, so small groups keep the time with the lock short and even:
a transaction takes a half to a quarter of what it takes with DuckDB's usual 122,880 rows."""
_OPTIONS: Final = {True: "READ_ONLY", False: f"ROW_GROUP_SIZE {ROW_GROUP}"}
_CONFIG: Final[dict[bool, dict[str, str | bool | int | float | list[str]]]] = {
    True: {"memory_limit": "1GB"},
    False: {"memory_limit": "80MB", "threads": 1},
}
_STRAIGHT: Final = ("SET checkpoint_threshold = '1KB'", "SET auto_checkpoint_skip_wal_threshold = 0")
"""A commit goes straight into the file: what is in the log would only be written again at the closing that follows."""

_idle: dict[tuple[int, Path, bool], "Instance"] = {}
"""By process, for a fork's copy has no threads; by file; and by whether it only reads."""


class Instance:
    """Opens one file at a time, to read only or to write."""

    def __init__(self, *, read_only: bool) -> None:
        self._read_only = read_only
        self._whole = duckdb.connect(":memory:", config=_CONFIG[read_only])
        # Never collected: in a fork's copy that would wait for ever for threads which are not there.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._whole))
        for setting in () if read_only else _STRAIGHT:
            with suppress(duckdb.CatalogException):  # older DuckDB does not know it
                self._whole.execute(setting)

    @classmethod
    def of(cls, path: Path, *, read_only: bool) -> "Instance":
        """One that opened this file before and waits, or a new one."""
        return _idle.pop((os.getpid(), path, read_only), None) or cls(read_only=read_only)

    def open(self, path: Path) -> duckdb.DuckDBPyConnection:
        """A connection to this file, which is its default database. Raises duckdb.Error, and can be asked again."""
        con = self._whole.cursor()
        try:
            quoted = str(path).replace("'", "''")
            con.execute(f"ATTACH '{quoted}' AS store ({_OPTIONS[self._read_only]})")
            con.execute("USE store")
        except BaseException:
            self.close(con, path)
            raise
        return con

    def close(self, con: duckdb.DuckDBPyConnection, path: Path) -> None:
        """Let the file go; the instance waits for the next that opens it."""
        con.close()
        try:
            self._whole.execute("DETACH IF EXISTS store")
        except duckdb.Error:  # a fatal error, such as a full disk, ends the whole instance
            self._whole.close()
        else:
            _idle[os.getpid(), path, self._read_only] = self
