"""What a reading command reads: a store or files, narrowed to a workload and to attributes."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from hopbudget.config.places import store_path
from hopbudget.errors import Exit, UserError
from hopbudget.store import queries
from hopbudget.store.open import is_store, open_source
from hopbudget.store.spool import pending, spool_folder

if TYPE_CHECKING:
    import duckdb

_TRACE_ID = re.compile(r"\w{1,32}")


@dataclass(frozen=True)
class Selection:
    """Sources, a workload and attribute filters as a person gave them."""

    source: tuple[str, ...]
    workload: str | None = None
    where: tuple[str, ...] = ()
    window: str | None = None
    """FROM..TO, in UTC; either may be left out."""

    @property
    def heading(self) -> str:
        """What a screen says it shows."""
        source = ", ".join(self.source) or str(store_path(None))
        window = [self.window] if self.window else []
        return " · ".join([source, *([self.workload] if self.workload else []), *self.where, *window])

    def pending_spans(self) -> int:
        """Spans that wait in the store's spool; files read in memory have none."""
        named = Path(self.source[0]).expanduser() if self.source else store_path(None)
        return pending(spool_folder(named)).spans if is_store(named) else 0

    def filter(self) -> queries.Where:
        """The filter for queries; raises UserError for one that is not KEY=VALUE."""
        pairs = {}
        for text in self.where:
            key, equals, value = text.partition("=")
            if not equals or not key:
                raise UserError(f"--where {text!r} is not of the form KEY=VALUE, for instance --where tau2.run=42.")
            pairs[key.strip()] = value.strip()
        since_s, until_s = parse_window(self.window) if self.window else (None, None)
        return queries.Where(workload=self.workload, attributes=pairs, since_s=since_s, until_s=until_s)

    @contextmanager
    def open(self) -> Iterator[tuple["duckdb.DuckDBPyConnection", queries.Where]]:
        """A reading connection with the checked filter; hold it only while fetching."""
        where = self.filter()
        store = open_source(self.source, default=store_path(None))
        with store.reading() as con:
            queries.check(con, where)
            if self.window is not None:
                _refuse_nothing_in(self.window, con, where)
            yield con, where


def parse_window(text: str) -> tuple[float | None, float | None]:
    """Seconds since the Unix epoch of FROM..TO, dates or moments in ISO form, UTC unless they say otherwise.

    Raises UserError for anything else.
    """
    first, dots, last = text.partition("..")
    if not dots or not (first or last):
        raise UserError(f"{text!r} is no window; write it like 2026-11-01..2026-11-08, or ..2026-11-08.")
    return _moment(first, text), _moment(last, text)


def _moment(text: str, window: str) -> float | None:
    if not text.strip():
        return None
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UserError(f"{text!r} in {window!r} is no date; write it like 2026-11-01 or 2026-11-01T08:00.") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _refuse_nothing_in(window: str, con: "duckdb.DuckDBPyConnection", where: queries.Where) -> None:
    """UserError where no trajectory of the filter started in its window."""
    if not queries.started(con, where).n:
        at_all = queries.started(con, replace(where, since_s=None, until_s=None))
        known = f"; without it, {at_all.n} started from {at_all.first} to {at_all.last} UTC" if at_all.n else ""
        raise UserError(f"No trajectory started in {window}{known}.", Exit.CANT_SAY)


def split_trace_id(source: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """A trailing argument that is a trace id (and no file) apart from the sources before it."""
    if source and _TRACE_ID.fullmatch(source[-1]) and not Path(source[-1]).exists():
        return source[-1].lower(), source[:-1]
    return None, source


def one_workload(con: "duckdb.DuckDBPyConnection", where: queries.Where, why: str) -> str:
    """The workload to work on: the one asked for, else the only one; raises UserError where several are stored."""
    if where.workload is not None:
        return where.workload
    found = queries.workloads(con, where)
    if len(found) > 1:
        listed = ", ".join(f"{name} ({n})" for name, n in found[:8])
        raise UserError(f"{why} Choose one with --workload: {listed}.")
    return found[0][0]
