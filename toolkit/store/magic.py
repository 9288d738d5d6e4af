"""Whether a file is a DuckDB file, told by its first bytes and without DuckDB."""

from pathlib import Path
from typing import Final

_MAGIC: Final = b"DUCK"
_MAGIC_AT: Final = 8


def is_duckdb(path: Path) -> bool:
    """True for a regular file that begins as DuckDB's do; OSError where it can't be read."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(_MAGIC_AT + len(_MAGIC))[_MAGIC_AT:] == _MAGIC
