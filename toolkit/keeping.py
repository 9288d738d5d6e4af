"""The `store` commands: what would go and what went, in figures."""

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from hopbudget.budgets.attainment.objectives import WINDOW_S
from hopbudget.config import kinds
from hopbudget.config.configuring import Config, find, load
from hopbudget.config.places import store_path
from hopbudget.errors import Exit, UserError
from hopbudget.render import base, words
from hopbudget.store import keeping
from hopbudget.store import objectives as stored
from hopbudget.store.duck import Store
from hopbudget.store.narrow import Where
from hopbudget.units import count, plural


def prune(
    given: str | None,
    older_than: str,
    *,
    config_path: str | None,
    yes: bool,
    as_json: bool,
    now: Callable[[], float] = time.time,
) -> int:
    """Say what is older and in no window, and with `yes` remove it; returns the exit code."""
    try:
        age_s = kinds.WINDOW.read(older_than)
    except ValueError as error:
        raise UserError(f"--older-than: {error}") from error
    config = _config(config_path)
    longest_s = config.longest_window_s if config else WINDOW_S
    if age_s < longest_s:
        why = f"the longest window of {config.path}" if config else "the window of an objective unless it says another"
        raise UserError(f"--older-than {older_than} is inside {words.span(longest_s)}, {why}. Name that or more.")
    store = _store(given)
    store.drain()
    before_at = now() - age_s
    with store.reading() as con:
        found = keeping.doomed(con, before_at, _protected(con, config))
    removed = keeping.remove(store, found.trace_ids) if yes else dict.fromkeys(found.counts, 0)
    if as_json:
        told = {"before": _instant(before_at), "would_remove": found.counts, "kept_in_windows": found.kept}
        base.print_json(told | {"removed": removed})
        return Exit.DONE
    out = base.console()
    figures = ", ".join(f"{count(n)} {table}" for table, n in (removed if yes else found.counts).items())
    out.print(f"Started before {_instant(before_at)}: {figures}{' removed' if yes else ''}.")
    if found.kept:
        out.print(f"{plural(found.kept, 'trajectory', 'trajectories')} as old stay: they are inside a window.")
    if not yes and found.trace_ids:
        out.print("Nothing was removed. Add --yes to remove them; `hopbudget store compact` gives the room back.")
    return Exit.DONE


def compact(given: str | None, *, as_json: bool) -> int:
    """Write the store anew and say what that freed; returns the exit code."""
    store = _store(given)
    store.drain()
    before, after = keeping.compact(store)
    if as_json:
        base.print_json({"bytes_before": before, "bytes_after": after})
    else:
        base.console().print(f"{store.path}: {before / 1e6:,.1f} MB became {after / 1e6:,.1f} MB.")
    return Exit.DONE


def export(given: str | None, folder: Path, *, tables: tuple[str, ...], as_json: bool) -> int:
    """Write Parquet by day and say where; returns the exit code."""
    store = _store(given)
    store.drain()
    try:
        files = list(keeping.export(store, folder, tables or keeping.EXPORTED))
    except OSError as error:
        raise UserError(f"{folder} can't be written to: {error.strerror or error}.", Exit.ENVIRONMENT) from error
    if not files:
        raise UserError(f"{store.path} holds no trajectory yet.", Exit.CANT_SAY)
    if as_json:
        base.print_json({"files": [{"path": str(path), "rows": rows} for path, rows in files]})
        return Exit.DONE
    days = len({path.parent.name for path, _ in files})
    rows = sum(rows for _, rows in files)
    said = f"{plural(rows, 'row', 'rows')} of {plural(days, 'day', 'days')} in {plural(len(files), 'file', 'files')}"
    base.console().print(f"{said} under {folder}.")
    return Exit.DONE


def _store(given: str | None) -> Store:
    path = store_path(given)
    if not path.is_file():
        raise UserError(f"There is no store at {path}. Trace or import something first, or name another.")
    return Store(path)


def _config(config_path: str | None) -> Config | None:
    path = find(config_path)
    return load(path) if path is not None else None


def _protected(con: duckdb.DuckDBPyConnection, config: Config | None) -> list[keeping.Protected]:
    """The windows of the configured objectives, each ending at its workload's newest trajectory."""
    protected = []
    for workload in config.workloads if config else ():
        if workload.objectives:
            chosen = stored.scope(Where(), workload.match)
            newest = stored.newest_at(con, chosen)
            if not math.isnan(newest):
                protected.append((chosen, newest - max(objective.window_s for objective in workload.objectives)))
    return protected


def _instant(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
