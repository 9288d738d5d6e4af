"""What the pages show, fetched from the store and kept until the store changes.

A connection is open only while rows are fetched. Every answer is kept under the file's stamp, its time of change and
its size, so a store that agents are writing to is read again as soon as it grows.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import streamlit as st

from hopbudget import budgets, plans
from hopbudget.explaining import Explained, of_profile
from hopbudget.store import queries
from hopbudget.store.duck import Store

_PATIENCE_S: Final = 10.0
_KEPT: Final = 8
MOST_LISTED: Final = 200
"""How many trajectories a list offers; a link may name any other."""


@dataclass(frozen=True, slots=True)
class Source:
    """One state of one store: what every cached answer belongs to."""

    path: str
    stamp: tuple[int, int]

    @property
    def store(self) -> Store:
        """The store, ready to be opened."""
        return Store(Path(self.path), patience_s=_PATIENCE_S)


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a store holds, in a line."""

    workloads: tuple[tuple[str, int], ...]
    dropped: dict[str, int]
    """Reason to number of spans that were lost before they came here."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of `allocate`."""

    deadline_s: float
    percentile: float
    binds: budgets.Binds
    method: budgets.Method
    slots: budgets.SlotKind


def source(path: Path) -> Source | None:
    """The store as it is now, with what waited in its spool; None where there is no store yet. Raises UserError."""
    store = Store(path, patience_s=_PATIENCE_S)
    store.drain()
    if not path.exists():
        return None
    found = path.stat()
    return Source(str(path), (found.st_mtime_ns, found.st_size))


@st.cache_data(show_spinner=False, max_entries=_KEPT)
def holdings(source: Source) -> Holdings:
    """Workloads with their numbers of trajectories, and what was lost."""
    with source.store.reading() as con:
        return Holdings(tuple(queries.workloads(con)), queries.drops(con))


@st.cache_data(show_spinner=False, max_entries=_KEPT)
def report(source: Source, workload: str) -> dict[str, Any]:
    """The numbers of `hopbudget report --workload`."""
    with source.store.reading() as con:
        return queries.report(con, queries.Where(workload=workload))


@st.cache_resource(show_spinner="Reading the store", max_entries=4)
def profile(source: Source, workload: str) -> budgets.Profile:
    """The workload's arrays; shared, never changed."""
    with source.store.reading() as con:
        return queries.profile(con, queries.Where(workload=workload))


@st.cache_data(show_spinner="Allotting the deadline", max_entries=64)
def allocation(source: Source, workload: str, question: Question) -> budgets.Allocation:
    """The deadline, allotted. Raises `CannotAllocateError` where there is nothing to learn from."""
    return budgets.allocate(
        profile(source, workload),
        question.deadline_s,
        percentile=question.percentile,
        binds=question.binds,
        method=question.method,
        slots=question.slots,
    )


@st.cache_data(show_spinner=False, max_entries=64)
def attained(source: Source, workload: str, binds: budgets.Binds, percentile: float) -> float:
    """The deadline that this percentile of trajectories attained, in seconds; infinite where failures forbid it."""
    return budgets.deadline_at(profile(source, workload), percentile, binds)


@st.cache_resource(show_spinner="Comparing trajectories", max_entries=4)
def explained(source: Source, workload: str) -> dict[tuple[str, float], Explained]:
    """By trace id and duration, the causes of a trajectory's excess, where that is known. Raises UserError."""
    return {(row.trace_id, row.duration_s): row for row in of_profile(profile(source, workload))}


@st.cache_data(show_spinner=False, max_entries=32)
def trajectories(source: Source, workload: str, outcome: str | None, *, slowest: bool) -> list[dict[str, Any]]:
    """Rows of `trajectories`, the slowest or the newest first, at most `MOST_LISTED`."""
    where = queries.Where(workload=workload, attributes={} if outcome is None else {"outcome": outcome})
    with source.store.reading() as con:
        if slowest:
            return queries.trajectory_rows(con, where, slowest=MOST_LISTED)
        return queries.trajectory_rows(con, where, limit=MOST_LISTED)


@st.cache_data(show_spinner=False, max_entries=32)
def trajectory(source: Source, trace_id: str) -> dict[str, Any]:
    """One trajectory with its hops and works in order of time. Raises UserError for none, or more than one."""
    with source.store.reading() as con:
        return queries.trajectory(con, trace_id)


def plan_file(allocation: budgets.Allocation, workload: str) -> str:
    """The text of the allocation's plan file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.toml"
        plans.write(path, plans.plan_dict(allocation, workload))
        return path.read_text(encoding="utf-8")
