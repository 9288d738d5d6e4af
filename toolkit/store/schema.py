"""The tables of a store, as numbered migrations that the file itself records, and how rows become columns.

`spans` holds what came, for rebuilding; `trajectories`, `hops` and `works` are derived from it; `drained` and `drops`
keep the account of the spool. No key constrains them: the writer drops duplicates, and an index would cost more than
all the rest.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import duckdb
import msgspec
import numpy as np
from numpy.typing import NDArray

from hopbudget.errors import Exit, UserError
from hopbudget.store.rows import HopRow, TrajectoryRow, WorkRow
from hopbudget.store.spans import Attributes, Event, Span

Columns = dict[str, NDArray[Any]]
Row = TrajectoryRow | HopRow | WorkRow

_FIRST: Final = """
CREATE TABLE spans (
    trace_id VARCHAR NOT NULL, span_id VARCHAR NOT NULL, parent_span_id VARCHAR, name VARCHAR NOT NULL,
    kind TINYINT NOT NULL, start_ns BIGINT NOT NULL, end_ns BIGINT NOT NULL,
    status TINYINT NOT NULL, status_text VARCHAR, scope VARCHAR NOT NULL,
    resource VARCHAR NOT NULL, attributes VARCHAR NOT NULL, events VARCHAR, dropped_events BIGINT NOT NULL);
CREATE TABLE trajectories (
    trace_id VARCHAR NOT NULL, root_span_id VARCHAR NOT NULL, workload VARCHAR NOT NULL, run VARCHAR, session VARCHAR,
    service VARCHAR, started_at TIMESTAMP NOT NULL, duration_s DOUBLE NOT NULL, hop_count BIGINT NOT NULL,
    model_s DOUBLE NOT NULL, work_s DOUBLE NOT NULL, paused_s DOUBLE NOT NULL, answer_start_s DOUBLE,
    outcome VARCHAR NOT NULL, complete BOOLEAN NOT NULL, deadline_s DOUBLE, plan VARCHAR, intervened BOOLEAN NOT NULL,
    attributes MAP(VARCHAR, VARCHAR) NOT NULL);
CREATE TABLE hops (
    trace_id VARCHAR NOT NULL, root_span_id VARCHAR NOT NULL, span_id VARCHAR NOT NULL, workload VARCHAR NOT NULL,
    run VARCHAR, session VARCHAR, hop VARCHAR NOT NULL, visit BIGINT NOT NULL, model VARCHAR, streamed BOOLEAN NOT NULL,
    final BOOLEAN NOT NULL, final_source VARCHAR, started_at TIMESTAMP NOT NULL, start_s DOUBLE NOT NULL,
    duration_s DOUBLE NOT NULL, e2e_s DOUBLE, ttft_s DOUBLE, ttft_source VARCHAR, ttfa_s DOUBLE, attempt_ttft_s DOUBLE,
    tpot_s DOUBLE, tpot_source VARCHAR, input_tokens BIGINT, cached_tokens BIGINT, output_tokens BIGINT,
    reasoning_tokens BIGINT, output_tokens_source VARCHAR, chunks BIGINT, itl_us INTEGER[], itl_exact BIGINT,
    itl_censored BOOLEAN, attempts BIGINT, backoff_s DOUBLE, outcome VARCHAR NOT NULL, limit_hit VARCHAR,
    error_type VARCHAR, budget_s DOUBLE, remaining_s DOUBLE, client_lag_s DOUBLE);
CREATE TABLE works (
    trace_id VARCHAR NOT NULL, root_span_id VARCHAR NOT NULL, span_id VARCHAR NOT NULL, work VARCHAR NOT NULL,
    started_at TIMESTAMP NOT NULL, start_s DOUBLE NOT NULL, duration_s DOUBLE NOT NULL, outcome VARCHAR NOT NULL);
CREATE TABLE drained (file VARCHAR NOT NULL);
CREATE TABLE drops (reason VARCHAR NOT NULL, spans BIGINT NOT NULL);
CREATE VIEW gaps AS
    SELECT trace_id, root_span_id, span_id, workload, hop, model, gap, gap_us / 1e6 AS gap_s,
           itl_censored AND gap = len(itl_us) AS censored
    FROM (SELECT *, unnest(itl_us) AS gap_us, generate_subscripts(itl_us, 1) AS gap FROM hops);
"""


def _first(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(_FIRST)


MIGRATIONS: Final[tuple[Callable[[duckdb.DuckDBPyConnection], None], ...]] = (_first,)
"""Number n makes version n of version n - 1. Only ever append."""
VERSION: Final = len(MIGRATIONS)


def version(con: duckdb.DuckDBPyConnection, name: str) -> int:
    """The version of the open file, 0 for an empty one; UserError if it is not a store or from a newer hopbudget."""
    tables = {row[0] for row in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    if "migrations" not in tables:
        if tables:
            raise UserError(f"{name} is a DuckDB file, but not a hopbudget store. Name another file.")
        return 0
    ((number,),) = con.execute("SELECT coalesce(max(number), 0) FROM migrations").fetchall()
    if number > VERSION:
        raise UserError(
            f"{name} was written by a newer hopbudget (store version {number}, this one reads up to {VERSION}). "
            "Upgrade hopbudget, or name another store.",
            Exit.ENVIRONMENT,
        )
    return int(number)


def migrate(con: duckdb.DuckDBPyConnection, name: str) -> None:
    """Bring the open file to the newest version, inside the caller's transaction."""
    at = version(con, name)
    if at == 0:
        con.execute("CREATE TABLE migrations (number INTEGER NOT NULL, applied_at TIMESTAMP NOT NULL)")
    for number in range(at + 1, VERSION + 1):
        MIGRATIONS[number - 1](con)
        con.execute("INSERT INTO migrations VALUES (?, now() AT TIME ZONE 'UTC')", [number])


# --- rows to columns -----------------------------------------------------------------------------------------

_encode: Final = msgspec.json.encode
_SPAN_COLUMNS: Final = (
    *("trace_id", "span_id", "parent_span_id", "name", "kind", "start_ns", "end_ns", "status", "status_text"),
    *("scope", "resource", "attributes", "events", "dropped_events"),
)
_INSERT_AS: Final = {
    "started_at": "make_timestamp(started_at // 1000)",
    "attributes": "from_json(attributes, '\"MAP(VARCHAR, VARCHAR)\"')",
    "itl_us": "itl_us::INTEGER[]",
}
"""How a column given as a number or as text becomes what the table holds."""
TABLES: Final[dict[str, type[Row]]] = {"trajectories": TrajectoryRow, "hops": HopRow, "works": WorkRow}


def _insert_from_given(table: str, names: Sequence[str], special: dict[str, str]) -> str:
    return f"INSERT INTO {table} SELECT {', '.join(special.get(name, name) for name in names)} FROM given"


_insert_sql: Final = {"spans": _insert_from_given("spans", _SPAN_COLUMNS, {})} | {
    table: _insert_from_given(table, row.__struct_fields__, _INSERT_AS) for table, row in TABLES.items()
}


def span_columns(spans: Sequence[Span]) -> Columns:
    """The columns of `spans`; a resource that many spans share is written out once."""
    resources = {id(span.resource): span.resource for span in spans}
    texts = {key: _encode(resource).decode() for key, resource in resources.items()}
    return {
        "trace_id": _words([span.trace_id for span in spans]),
        "span_id": _words([span.span_id for span in spans]),
        "parent_span_id": _words([span.parent_id for span in spans]),
        "name": _words([span.name for span in spans]),
        "kind": np.array([span.kind for span in spans], dtype=np.int8),
        "start_ns": np.array([span.start_ns for span in spans], dtype=np.int64),
        "end_ns": np.array([span.end_ns for span in spans], dtype=np.int64),
        "status": np.array([span.status for span in spans], dtype=np.int8),
        "status_text": _words([span.status_text for span in spans]),
        "scope": _words([span.scope for span in spans]),
        "resource": _words([texts[id(span.resource)] for span in spans]),
        "attributes": _words([_encode(span.attributes).decode() for span in spans]),
        "events": _words([_encode(span.events).decode() if span.events else None for span in spans]),
        "dropped_events": np.array([span.dropped_events for span in spans], dtype=np.int64),
    }


def row_columns(table: str, rows: Sequence[Row]) -> Columns:
    """The columns of one of `TABLES`."""
    row_type = TABLES[table]
    columns = zip(*map(msgspec.structs.astuple, rows), strict=True)
    return {
        name: _column(values, _DTYPES[row_type][name])
        for name, values in zip(row_type.__struct_fields__, columns, strict=True)
    }


def insert(con: duckdb.DuckDBPyConnection, table: str, columns: Columns) -> None:
    """Insert columns made by `span_columns` or `row_columns`."""
    if not columns or not len(next(iter(columns.values()))):
        return
    con.register("given", columns)
    try:
        con.execute(_insert_sql[table])
    finally:
        con.unregister("given")


def read_spans(con: duckdb.DuckDBPyConnection, where: str) -> list[Span]:
    """Stored spans as they came; `where` is a condition of ours on `spans`, in order of storing."""
    rows = con.execute(f"SELECT {', '.join(_SPAN_COLUMNS)} FROM spans WHERE {where} ORDER BY rowid").fetchall()
    resources: dict[str, Attributes] = {}
    spans = []
    for row in rows:
        fields: dict[str, Any] = dict(zip(Span.__struct_fields__, row, strict=True))
        resource_json = fields["resource"]
        if resource_json not in resources:
            resources[resource_json] = msgspec.json.decode(resource_json)
        fields["resource"] = resources[resource_json]
        fields["attributes"] = msgspec.json.decode(fields["attributes"])
        if fields["events"] is not None:
            fields["events"] = msgspec.json.decode(fields["events"], type=list[Event])
        spans.append(Span(**fields))
    return spans


def _words(values: Sequence[str | None]) -> NDArray[Any]:
    return np.array(values, dtype=object)


def _dtype(annotation: Any) -> Any:
    if annotation is int:
        return np.int64
    text = annotation is str or str in getattr(annotation, "__args__", ())
    return object if text else np.float64  # NaN, which numbers and truths need for None, is NULL to DuckDB


_DTYPES: Final = {
    row: {field.name: _dtype(field.type) for field in msgspec.structs.fields(row)} for row in TABLES.values()
}


def _column(values: tuple[Any, ...], dtype: Any) -> NDArray[Any]:
    if dtype is np.float64 and values.count(None) == len(values):  # most columns of most tables
        return np.full(len(values), np.nan)
    return np.array(values, dtype=dtype)
