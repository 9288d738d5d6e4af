"""What is written to the store in one transaction, made ready before the store is opened. Pure but for numpy."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from hopbudget.store import facts, sequences
from hopbudget.store.columns import Table
from hopbudget.store.spans import Span
from hopbudget.store.tables import TABLES, Fields, Keys, field_columns, fields_of, keys_of, row_columns


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
    received_at_ns: int | None = None
    """When they came from elsewhere, in pieces; None where all of their traces is here."""


QUIET_NS: Final = 30 * 1_000_000_000
"""A trace of which nothing came for so long is whole."""
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


class Ready(NamedTuple):
    """Columns of new spans and of the rows derived from them, as if nothing of their traces were stored yet."""

    tables: dict[str, Table]
    trace_ids: list[str]
    given: int
    """How many spans there were, duplicates and all."""
    counts: Counts
    """What is known of them before they are stored."""
    settles: Mapping[str, int] = MappingProxyType({})
    """When traces that come in pieces will count as whole, in nanoseconds since the Unix epoch."""


def make_ready(parts: Sequence[Part], now_ns: int = 0) -> Ready:
    """The spans of these parts, each once, and the rows of their traces."""
    traces, given = group(parts)
    settles = _settles(parts, now_ns)
    counts = Counts(dropped_content=sum(part.dropped_content for part in parts))
    if not traces:
        return Ready({}, [], given, counts, settles)
    whole = [list(trace.values()) for trace in traces.values()]
    fields = fields_of([span for trace in whole for span in trace])
    keys = keys_of(fields)
    tables = {"spans": field_columns(fields, keys)} | _row_tables(whole, fields, keys, settles)
    return Ready(tables, list(traces), given, counts, settles)


def row_tables(traces: Sequence[Sequence[Span]], settles: Mapping[str, int]) -> dict[str, Table]:
    """The columns of the rows of these traces, each given as its spans without duplicates; no tables of none."""
    fields = fields_of([span for trace in traces for span in trace])
    return _row_tables(traces, fields, keys_of(fields), settles)


def _row_tables(
    traces: Sequence[Sequence[Span]], fields: Fields, keys: Keys | None, settles: Mapping[str, int]
) -> dict[str, Table]:
    spans = [span for trace in traces for span in trace]
    usual = sequences.find(spans, fields, keys, list(map(len, traces)), settles)
    derived = facts.of_traces((traces[number] for number in usual.others), settles)
    found = {table: (getattr(derived, table), usual.rows.get(table, {})) for table in TABLES}
    return {table: row_columns(table, *some) for table, some in found.items() if any(some)}


def _settles(parts: Sequence[Part], now_ns: int) -> dict[str, int]:
    settles: dict[str, int] = {}
    for part in parts:
        if part.received_at_ns is not None and part.received_at_ns + QUIET_NS > now_ns:
            settles.update({span.trace_id: part.received_at_ns + QUIET_NS for span in part.spans})
    return settles
