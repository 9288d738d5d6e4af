"""What is written to the store in one transaction, made ready before the store is opened. Pure but for numpy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from hopbudget.store import facts, sequences
from hopbudget.store.columns import Table
from hopbudget.store.spans import Fields, Span, Spans, fields_of, joined
from hopbudget.store.tables import TABLES, Keys, field_columns, keys_of, row_columns


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

    spans: Sequence[Span] = field(default_factory=list)
    done: Path | None = None
    """The spool file that is stored whole with this part."""
    lost: list[tuple[str, int]] = field(default_factory=list)
    """Reason and number of spans that are known to be lost."""
    dropped_content: int = 0
    received_at_ns: int | None = None
    """When they came from elsewhere, in pieces; None where all of their traces is here."""


QUIET_NS: Final = 30 * 1_000_000_000
"""A trace of which nothing came for so long is whole."""


def _by_trace(fields: Fields) -> dict[str, list[int]]:
    """Where the spans of each trace are, the first of each id kept."""
    traces: dict[str, dict[str, int]] = {}
    for at, (trace_id, span_id) in enumerate(zip(fields.trace_id, fields.span_id, strict=True)):
        trace = traces.get(trace_id)
        if trace is None:
            traces[trace_id] = {span_id: at}
        else:
            trace.setdefault(span_id, at)
    return {trace_id: list(trace.values()) for trace_id, trace in traces.items()}


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
    given = joined(part.spans for part in parts)
    counts = Counts(dropped_content=sum(part.dropped_content for part in parts))
    settles = _settles(parts, now_ns)
    if not given:
        return Ready({}, [], 0, counts, settles)
    traces = _by_trace(given.fields)
    spans = given.at(list(chain.from_iterable(traces.values())))
    keys = keys_of(spans.fields)
    rows = _row_tables(spans, keys, list(map(len, traces.values())), settles)
    return Ready({"spans": field_columns(spans.fields, keys)} | rows, list(traces), len(given), counts, settles)


def row_tables(traces: Sequence[Sequence[Span]], settles: Mapping[str, int]) -> dict[str, Table]:
    """The columns of the rows of these traces, each given as its spans without duplicates; no tables of none."""
    spans = Spans(fields_of(list(chain.from_iterable(traces))))
    return _row_tables(spans, keys_of(spans.fields), list(map(len, traces)), settles)


def _row_tables(spans: Spans, keys: Keys | None, sizes: Sequence[int], settles: Mapping[str, int]) -> dict[str, Table]:
    usual = sequences.find(spans, keys, sizes, settles)
    derived = facts.of_traces(usual.others, settles)
    found = {table: (getattr(derived, table), usual.rows.get(table, {})) for table in TABLES}
    return {table: row_columns(table, *some) for table, some in found.items() if any(some)}


def _settles(parts: Sequence[Part], now_ns: int) -> dict[str, int]:
    settles: dict[str, int] = {}
    for part in parts:
        if part.received_at_ns is not None and part.received_at_ns + QUIET_NS > now_ns:
            settles.update(dict.fromkeys(fields_of(part.spans).trace_id, part.received_at_ns + QUIET_NS))
    return settles
