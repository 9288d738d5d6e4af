"""The tables of a store, as numbered migrations that the file itself records, and how rows become columns.

`spans` holds what came, for rebuilding; `trajectories`, `hops` and `works` are derived from it; `drained` and `drops`
keep the account of the spool. No key constrains them: the writer drops duplicates, and an index would cost more than
all the rest.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any, Final

import duckdb
import msgspec

from hopbudget.errors import Exit, UserError
from hopbudget.store import columns
from hopbudget.store.arrow import Stream
from hopbudget.store.columns import Table
from hopbudget.store.spans import Event, Span
from hopbudget.store.tables import COLUMNS, SPAN_COLUMNS

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


_SECOND: Final = """
ALTER TABLE hops ADD COLUMN consumer_s DOUBLE;
ALTER TABLE hops ADD COLUMN coalesced BIGINT;
ALTER TABLE hops ADD COLUMN held BIGINT;
"""


_SOURCES: Final = """
ALTER TABLE hops ADD COLUMN source VARCHAR;
ALTER TABLE hops ADD COLUMN ttft_from VARCHAR;
ALTER TABLE hops ADD COLUMN flags VARCHAR;
ALTER TABLE hops ADD COLUMN server_ttft_s DOUBLE;
ALTER TABLE hops ADD COLUMN server_queue_s DOUBLE;
ALTER TABLE hops ADD COLUMN server_prefill_s DOUBLE;
ALTER TABLE hops ADD COLUMN server_decode_s DOUBLE;
ALTER TABLE hops ADD COLUMN server_e2e_s DOUBLE;
ALTER TABLE trajectories ADD COLUMN sampling_ratio DOUBLE;
ALTER TABLE trajectories ADD COLUMN settles_at TIMESTAMP;
"""


def _first(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(_FIRST)


def _second(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(_SECOND)


def _sources(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(_SOURCES)


MIGRATIONS: Final[tuple[Callable[[duckdb.DuckDBPyConnection], None], ...]] = (_first, _second, _sources)
"""Number n makes version n of version n - 1. Only ever append."""
VERSION: Final = len(MIGRATIONS)


def version(con: duckdb.DuckDBPyConnection, name: str) -> int:
    """The version of the open file, 0 for an empty one; UserError if it is not a store or from a newer hopbudget.

    To be asked outside of a transaction, which the question would end where there is no such table.
    """
    try:
        ((number,),) = con.execute("SELECT coalesce(max(number), 0) FROM migrations").fetchall()
    except (duckdb.CatalogException, duckdb.BinderException):  # asking for the tables first takes ten times as long
        if con.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            raise UserError(f"{name} is a DuckDB file, but not a hopbudget store. Name another file.") from None
        return 0
    if number > VERSION:
        raise UserError(
            f"{name} was written by a newer hopbudget (store version {number}, this one reads up to {VERSION}). "
            "Upgrade hopbudget, or name another store.",
            Exit.ENVIRONMENT,
        )
    return int(number)


def migrate(con: duckdb.DuckDBPyConnection, at: int) -> None:
    """Bring the open file from this version to the newest, inside the caller's transaction."""
    if at == 0:
        con.execute("CREATE TABLE migrations (number INTEGER NOT NULL, applied_at TIMESTAMP NOT NULL)")
    for number in range(at + 1, VERSION + 1):
        MIGRATIONS[number - 1](con)
        con.execute("INSERT INTO migrations VALUES (?, now() AT TIME ZONE 'UTC')", [number])


_VACUUM_TASKS: Final = 100
"""DuckDB's own figure."""


def use_room_again(con: duckdb.DuckDBPyConnection, *, wanted: bool) -> None:
    """Whether a commit gives back the room of removed rows; it also joins groups of rows, which costs a fifth more."""
    con.execute(f"SET max_vacuum_tasks = {_VACUUM_TASKS if wanted else 0}")


# --- columns in, spans out -----------------------------------------------------------------------------------------

_AS_TIMESTAMP: Final = {
    name: f"make_timestamp({name}::BIGINT // 1000) AS {name}" for name in ("started_at", "settles_at")
}
_SELECT: Final = {
    table: f"SELECT {', '.join(_AS_TIMESTAMP.get(name, name) for name in names)} FROM given"
    for table, names in COLUMNS.items()
}


def insert(con: duckdb.DuckDBPyConnection, table: str, given: Table, but_traces: Sequence[str] = ()) -> int:
    """Insert columns made by `tables`, without the rows of some traces; returns how many."""
    with _registered(con, "given", given), traces(con, but_traces) as condition:
        but = f" WHERE NOT {condition}" if but_traces else ""
        names = ", ".join(COLUMNS[table])
        ((inserted,),) = con.execute(f"INSERT INTO {table} ({names}) {_SELECT[table]}{but}").fetchall()
    return int(inserted)


@contextmanager
def traces(con: duckdb.DuckDBPyConnection, trace_ids: Sequence[str]) -> Iterator[str]:
    """The condition that a row's trace is one of these, for one query."""
    with _registered(con, "traces", {"id": columns.texts(trace_ids)}):
        yield "trace_id IN (SELECT id FROM traces)"


@contextmanager
def _registered(con: duckdb.DuckDBPyConnection, name: str, table: Table) -> Iterator[None]:
    stream = Stream(table)  # older DuckDB does not keep it alive itself
    con.register(name, stream)
    try:
        yield
    finally:
        con.unregister(name)


def insert_missing(con: duckdb.DuckDBPyConnection, given: Table, known: Mapping[str, Set[str]]) -> dict[str, int]:
    """Insert those spans of known traces (their ids by trace) that are not known; how many of each trace."""
    pairs = [(trace_id, span_id) for trace_id, ids in known.items() for span_id in ids]
    ids = {"id": columns.texts([trace_id for trace_id, _ in pairs]), "span": columns.texts([span for _, span in pairs])}
    new = "trace_id IN (SELECT id FROM known) AND (trace_id, span_id) NOT IN (SELECT (id, span) FROM known)"
    with _registered(con, "given", given), _registered(con, "known", ids):
        grown = con.execute(f"SELECT trace_id, count(*) FROM given WHERE {new} GROUP BY trace_id").fetchall()
        if grown:
            con.execute(f"INSERT INTO spans ({', '.join(SPAN_COLUMNS)}) {_SELECT['spans']} WHERE {new}")
    return dict(grown)


def read_spans(con: duckdb.DuckDBPyConnection, trace_ids: Sequence[str]) -> list[Span]:
    """The stored spans of some traces as they came, in order."""
    names = ", ".join(SPAN_COLUMNS)
    with traces(con, trace_ids) as condition:
        rows = con.execute(f"SELECT {names} FROM spans WHERE {condition} ORDER BY rowid").fetchall()
    if not rows:
        return []
    fields: dict[str, Any] = dict(zip(SPAN_COLUMNS, zip(*rows, strict=True), strict=True))
    resources = {text: msgspec.json.decode(text) for text in {*fields["resource"]}}
    fields["resource"] = map(resources.__getitem__, fields["resource"])
    fields["attributes"] = map(msgspec.json.decode, fields["attributes"])
    fields["events"] = [text and msgspec.json.decode(text, type=list[Event]) for text in fields["events"]]
    return list(map(Span, *fields.values()))
