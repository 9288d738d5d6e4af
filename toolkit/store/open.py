"""What a reading command was given: a store, which is drained first, or files, which are read into memory."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hopbudget.errors import Exit, UserError
from hopbudget.store import exported, spool
from hopbudget.store.duck import Store
from hopbudget.store.magic import is_duckdb

_ENDINGS: Final = (".duckdb", ".ddb", ".db")


def open_source(args: Sequence[str | Path], default: Path) -> Store:
    """The store to read; UserError if what was named is not there, can't be read, or holds no trajectory."""
    if not args:
        return _stored(default)
    stores = [Path(arg).expanduser() for arg in args if is_store(Path(arg).expanduser())]
    if not stores and len(args) == 1 and exported.is_exported(Path(args[0]).expanduser()):
        return exported.read(Path(args[0]).expanduser())
    if not stores:
        return _in_memory(args)
    if len(args) > 1:
        raise UserError("Name one store, or OTLP files, but not both and not several stores.")
    return _stored(stores[0])


def check_fillable(path: Path) -> None:
    """UserError where nothing can be recorded into this store, told before it is tried in vain."""
    if not path.parent.is_dir():
        raise UserError(f"The folder {path.parent} does not exist, so no store can be there.")
    folder = spool.spool_folder(path)
    reason = ""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
    if reason or not os.access(folder, os.W_OK):
        raise UserError(
            f"Nothing can be recorded beside {path} ({reason or 'not writable'}). Name another place with --store.",
            Exit.ENVIRONMENT,
        )
    if path.exists():
        with Store(path).reading():
            pass


def is_store(path: Path) -> bool:
    """Whether it is named like a store, or is a DuckDB file under another name."""
    if path.suffix.lower() in _ENDINGS:
        return True
    return is_duckdb(path)


def _stored(path: Path) -> Store:
    if not path.exists() and not spool.files(spool.spool_folder(path)):
        raise UserError(f"There is no store at {path}. Trace a run into it, import files, or name another.")
    store = Store(path)
    waiting = len(spool.files(spool.spool_folder(path)))
    if path.exists() and not os.access(path, os.W_OK):
        if waiting:
            wait = "1 file waits" if waiting == 1 else f"{waiting:,} files wait"
            sys.stderr.write(f"{path} can't be written, so {wait} in its spool; shown is what it holds\n")
    else:
        store.drain()
        store.settle()
    _refuse_empty(store, f"{path} holds no trajectory yet.")
    return store


def _in_memory(args: Sequence[str | Path]) -> Store:
    store = Store(None)
    result = store.import_paths(args)
    listed = ", ".join(str(arg) for arg in args)
    if not result.spans and result.rejected:
        where, reason = result.rejected[0]
        raise UserError(f"Nothing could be read from {listed}; first: {where}: {reason}.", Exit.NO)
    if result.rejected:
        where, reason = result.rejected[0]
        left_out = (
            "1 line or span was" if result.rejected_count == 1 else f"{result.rejected_count:,} lines or spans were"
        )
        sys.stderr.write(f"{left_out} left out; first: {where}: {reason}\n")
    _refuse_empty(store, f"{listed}: no trajectory in it.")
    return store


def _refuse_empty(store: Store, sentence: str) -> None:
    with store.reading() as con:
        ((some,),) = con.execute("SELECT count(*) > 0 FROM trajectories").fetchall()
    if not some:
        raise UserError(sentence, Exit.CANT_SAY)
