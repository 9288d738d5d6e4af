"""What can be asked of an open store. Every value is a parameter; nothing here writes."""

from typing import Any, NamedTuple

import duckdb

from hopbudget.errors import UserError
from hopbudget.store.narrow import Where, check, condition
from hopbudget.store.profiles import profile
from hopbudget.store.reports import report, report_by

__all__ = [
    "Where",
    "check",
    "counted",
    "drops",
    "profile",
    "report",
    "report_by",
    "started",
    "trajectory",
    "trajectory_rows",
    "workloads",
]


def drops(con: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Spans that never reached the tables, by reason."""
    rows = con.execute("SELECT reason, sum(spans)::BIGINT FROM drops GROUP BY reason ORDER BY reason").fetchall()
    return dict(rows)


def workloads(con: duckdb.DuckDBPyConnection, where: Where | None = None) -> list[tuple[str, int]]:
    """Workloads and their numbers of trajectories, most first.

    A trajectory whose root never came doesn't know its workload: a workload of only such ones is named where there is
    no other.
    """
    chosen = condition(where or Where())
    found = con.execute(
        "SELECT workload, count(*) AS n, bool_or(complete) AS rooted FROM trajectories t "
        f"WHERE {chosen.sql} GROUP BY workload ORDER BY n DESC, workload",
        chosen.parameters,
    ).fetchall()
    rooted = [(workload, n) for workload, n, whole in found if whole]
    return rooted or [(workload, n) for workload, n, _ in found]


def counted(con: duckdb.DuckDBPyConnection, where: Where) -> tuple[int, int]:
    """How many trajectories the filter leaves, and how many hops they have in all."""
    chosen = condition(where)
    sql = f"SELECT count(*), coalesce(sum(hop_count), 0)::BIGINT FROM trajectories t WHERE {chosen.sql}"
    ((trajectories, hops),) = con.execute(sql, chosen.parameters).fetchall()
    return trajectories, hops


class Started(NamedTuple):
    """How many trajectories, and when the first and the last of them started (to the minute, UTC)."""

    n: int
    first: str | None
    last: str | None


def started(con: duckdb.DuckDBPyConnection, where: Where) -> Started:
    """Of the trajectories that the filter leaves."""
    chosen = condition(where)
    minute = "'%Y-%m-%d %H:%M'"
    ((n, first, last),) = con.execute(
        f"SELECT count(*), strftime(min(started_at), {minute}), strftime(max(started_at), {minute}) "
        f"FROM trajectories t WHERE {chosen.sql}",
        chosen.parameters,
    ).fetchall()
    return Started(n, first, last)


def trajectory_rows(
    con: duckdb.DuckDBPyConnection,
    where: Where,
    *,
    over_s: float | None = None,
    slowest: int | None = None,
    limit: int | None = None,
) -> list[dict[str, Any]]:
    """Rows of `trajectories`, newest first, or the `slowest` so many; `over_s` leaves those that took longer."""
    chosen = condition(where)
    sql = f"SELECT t.* FROM trajectories t WHERE {chosen.sql}"
    parameters = list(chosen.parameters)
    if over_s is not None:
        sql += " AND duration_s > ?"
        parameters.append(over_s)
    sql += " ORDER BY duration_s DESC" if slowest is not None else " ORDER BY started_at DESC"
    most = min((number for number in (slowest, limit) if number is not None), default=None)
    if most is not None:
        sql += " LIMIT ?"
        parameters.append(most)
    return _rows(con, sql, parameters)


def trajectory(con: duckdb.DuckDBPyConnection, trace_id: str) -> dict[str, Any]:
    """One trajectory with its hops and works in order of start, by (the beginning of) its trace id.

    Where a trace holds several, the beginning of a root span's id names one. UserError if it names none, or several.
    """
    start = trace_id.strip().lower()
    for column in ("trace_id", "root_span_id"):
        sql = f"SELECT * FROM trajectories WHERE starts_with({column}, ?) ORDER BY started_at LIMIT 6"
        found = _rows(con, sql, [start]) if start else []
        if found:
            break
    else:
        raise UserError(f"There is no trajectory {trace_id!r}.")
    if len(found) > 1:
        one_trace = len({row["trace_id"] for row in found}) == 1
        listed = ", ".join(row["root_span_id" if one_trace else "trace_id"] for row in found)
        raise UserError(f"{trace_id!r} names more than one trajectory; give more of one of these: {listed}.")
    row = found[0]
    of_it = "WHERE trace_id = ? AND root_span_id = ? ORDER BY start_s, span_id"
    key_values = [row["trace_id"], row["root_span_id"]]
    return {
        "trajectory": row,
        "hops": _rows(con, f"SELECT * FROM hops {of_it}", key_values),
        "works": _rows(con, f"SELECT * FROM works {of_it}", key_values),
    }


def _rows(con: duckdb.DuckDBPyConnection, sql: str, parameters: list[Any]) -> list[dict[str, Any]]:
    cursor = con.execute(sql, parameters)
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
