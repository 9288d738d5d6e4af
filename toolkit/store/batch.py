"""What is written to the store in one transaction, made ready before the store is opened. Pure but for numpy."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from hopbudget.store import facts
from hopbudget.store.schema import TABLES, Columns, row_columns, span_columns
from hopbudget.store.spans import Span


@dataclass(slots=True)
class Counts:
    """What a drain or an import added."""

    files: int = 0
    spans: int = 0
    duplicates: int = 0
    trajectories: int = 0
    hops: int = 0
    works: int = 0
    dropped_content: int = 0

    def add(self, other: "Counts") -> None:
        """Add the other's counts to these."""
        self.files += other.files
        self.spans += other.spans
        self.duplicates += other.duplicates
        self.trajectories += other.trajectories
        self.hops += other.hops
        self.works += other.works
        self.dropped_content += other.dropped_content


@dataclass(slots=True)
class Part:
    """Spans of one source, and what to book when they are stored."""

    spans: list[Span] = field(default_factory=list)
    done: Path | None = None
    """The spool file that is stored whole with this part."""
    lost: list[tuple[str, int]] = field(default_factory=list)
    """Reason and number of spans that are known to be lost."""
    dropped_content: int = 0


Traces = dict[str, dict[str, Span]]
"""Spans by trace id and span id."""


def group(parts: Iterable[Part]) -> tuple[Traces, int]:
    """The spans by trace, the first of each id kept, and how many there were in all."""
    traces: Traces = {}
    total = 0
    for part in parts:
        total += len(part.spans)
        for span in part.spans:
            trace = traces.get(span.trace_id)
            if trace is None:
                traces[span.trace_id] = {span.span_id: span}
            else:
                trace.setdefault(span.span_id, span)
    return traces, total


@dataclass(slots=True)
class Ready:
    """Columns of new spans, and of the derived rows of their traces."""

    spans: Columns
    rows: dict[str, Columns]
    counts: Counts


def make_ready(spans: list[Span], traces: Traces) -> Ready:
    """Columns for `spans`, which are new, and for the rows of `traces`, which hold all spans of theirs."""
    derived = facts.of_traces(list(trace.values()) for trace in traces.values())
    rows = {table: getattr(derived, table) for table in TABLES}
    counts = Counts(spans=len(spans), **{table: len(found) for table, found in rows.items()})
    return Ready(
        span_columns(spans) if spans else {},
        {table: row_columns(table, found) for table, found in rows.items() if found},
        counts,
    )
