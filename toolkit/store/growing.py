"""What is new goes into the tables, inside the caller's transaction; traces that grew have their rows derived anew."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import duckdb

from hopbudget.store import schema
from hopbudget.store.batch import Counts, Ready, row_tables
from hopbudget.store.schema import insert, read_spans
from hopbudget.store.spans import Span
from hopbudget.store.tables import TABLES

_Known = dict[str, set[str]]
"""Stored span ids by trace id."""
_SETTLED: Final[Mapping[str, int]] = MappingProxyType({})


def insert_new(con: duckdb.DuckDBPyConnection, ready: Ready) -> Counts:
    """Insert what is not stored yet; returns what was added, and how many of the spans were there already."""
    known = _known_spans(con, ready.trace_ids)
    counts = replace(ready.counts)
    for table, given in ready.tables.items():
        setattr(counts, table, insert(con, table, given, but_traces=list(known)))
    if known:
        _grow(con, ready, known, counts)
    counts.duplicates = ready.given - counts.spans
    return counts


def settle(con: duckdb.DuckDBPyConnection, trace_ids: Sequence[str]) -> None:
    """Decide what was left open of these traces, now that nothing more is expected of them.

    Only which stream was the final one is; the rows of the others are what they will be.
    """
    with schema.traces(con, trace_ids) as condition:
        con.execute(f"UPDATE trajectories SET settles_at = NULL WHERE {condition}")
        sql = f"SELECT trace_id FROM hops WHERE {condition} GROUP BY trace_id HAVING bool_or(streamed)"
        open_ones = [row[0] for row in con.execute(sql).fetchall()]
    if open_ones:
        _renew(con, open_ones)


def due(con: duckdb.DuckDBPyConnection, now_ns: int, most: int) -> list[str]:
    """Traces whose quiet period is over and whose rows don't say so yet."""
    sql = (
        "SELECT trace_id FROM trajectories WHERE settles_at IS NOT NULL GROUP BY trace_id "
        "HAVING max(settles_at) <= make_timestamp(?) ORDER BY max(settles_at), trace_id LIMIT ?"
    )
    return [row[0] for row in con.execute(sql, [now_ns // 1000, most]).fetchall()]


def _known_spans(con: duckdb.DuckDBPyConnection, trace_ids: Sequence[str]) -> _Known:
    known: _Known = {}
    with schema.traces(con, trace_ids) as condition:
        for trace_id, span_id in con.execute(f"SELECT trace_id, span_id FROM spans WHERE {condition}").fetchall():
            known.setdefault(trace_id, set()).add(span_id)
    return known


def _grow(con: duckdb.DuckDBPyConnection, ready: Ready, known: _Known, counts: Counts) -> None:
    """Add the new spans of known traces, and put the rows of these traces in the place of the old ones."""
    grown = schema.insert_missing(con, ready.tables["spans"], known)
    if not grown:
        return
    counts.spans += sum(grown.values())
    schema.use_room_again(con, wanted=True)
    for table, added in _renew(con, list(grown), ready.settles).items():
        setattr(counts, table, getattr(counts, table) + added)


def _renew(
    con: duckdb.DuckDBPyConnection, trace_ids: Sequence[str], settles: Mapping[str, int] = _SETTLED
) -> dict[str, int]:
    """Put the rows of these traces in the place of the old ones; how many more they are, by table."""
    whole: dict[str, list[Span]] = {}
    for span in read_spans(con, trace_ids):
        whole.setdefault(span.trace_id, []).append(span)
    added = dict.fromkeys(TABLES, 0)
    for table in TABLES:
        with schema.traces(con, trace_ids) as condition:
            ((removed,),) = con.execute(f"DELETE FROM {table} WHERE {condition}").fetchall()
            added[table] -= removed
    for table, columns in row_tables(list(whole.values()), settles).items():
        added[table] += insert(con, table, columns)
    return added
