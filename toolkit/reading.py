"""What a reading command reads: a store or files, narrowed to a workload and to attributes."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hopbudget.config import store_path
from hopbudget.errors import UserError
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

    @property
    def heading(self) -> str:
        """What a screen says it shows."""
        source = ", ".join(self.source) or str(store_path(None))
        return " · ".join([source, *([self.workload] if self.workload else []), *self.where])

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
        return queries.Where(workload=self.workload, attributes=pairs)

    @contextmanager
    def open(self) -> Iterator[tuple["duckdb.DuckDBPyConnection", queries.Where]]:
        """A reading connection with the checked filter; hold it only while fetching."""
        where = self.filter()
        store = open_source(self.source, default=store_path(None))
        with store.reading() as con:
            queries.check(con, where)
            yield con, where


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
