"""What the pages of the app show, as SQL: the trend, the spread of a metric, streams, what stalled.

Quantiles are plain: linear-interpolated over `ok` and `truncated`. Where a figure would touch every gap of a large
store, it is taken over a part of the streams, of stated size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

import duckdb
import numpy as np

from hopbudget.budgets.attainment.spread import DOTS, Spread
from hopbudget.budgets.profile import Words
from hopbudget.budgets.streams.pace import Streams
from hopbudget.store.narrow import Condition, Where, condition, expression

Metric = Literal["duration_s", "ttft_s", "tpot_s"]

MOST_READ: Final = 8_000
"""Streams are read gap by gap for at most about this many; of more, a part that is always the same."""
_CAME_OUT: Final = "outcome IN ('ok', 'truncated')"
_BUCKETS_S: Final = (1, 5, 15, 60, 300, 900, 3600, 10_800, 21_600, 86_400, 604_800, 2_592_000)
_ALL: Final = Condition("'all'", [])


@dataclass(frozen=True, slots=True)
class Point:
    """One stretch of time of the trend, of one group."""

    at: datetime
    """Its beginning, UTC."""
    group: str
    n: int
    failed: int
    p50_s: float | None
    p90_s: float | None
    ttft_p90_s: float | None


@dataclass(frozen=True, slots=True)
class Group:
    """Complete trajectories with one value of a key."""

    name: str
    n: int
    failed: int
    hops: float
    """On average."""
    p50_s: float | None
    p90_s: float | None
    p99_s: float | None


def count(con: duckdb.DuckDBPyConnection, where: Where) -> int:
    """How many trajectories the filter leaves."""
    chosen = condition(where)
    ((n,),) = con.execute(f"SELECT count(*) FROM trajectories t WHERE {chosen.sql}", chosen.parameters).fetchall()
    return int(n)


def extent(con: duckdb.DuckDBPyConnection, where: Where) -> tuple[datetime, datetime] | None:
    """The first and the last start, UTC; None where the filter leaves nothing."""
    chosen = condition(where)
    ((first, last),) = con.execute(
        f"SELECT min(started_at), max(started_at) FROM trajectories t WHERE {chosen.sql}", chosen.parameters
    ).fetchall()
    return None if first is None else (first.replace(tzinfo=UTC), last.replace(tzinfo=UTC))


def bucket_s(first: datetime, last: datetime, most: int) -> int:
    """The shortest stretch, in seconds, of which at most about `most` cover that time."""
    span_s = (last - first).total_seconds()
    return next((size for size in _BUCKETS_S if span_s / size <= most), _BUCKETS_S[-1])


def trend(
    con: duckdb.DuckDBPyConnection, where: Where, by: str | None = None, most: int = 48, most_groups: int = 5
) -> tuple[int, list[Point]]:
    """The length of a stretch in seconds, and complete trajectories by stretch of time and group, oldest first.

    Groups past the `most_groups` largest are one, called "others".
    """
    ends = extent(con, where)
    if ends is None:
        return _BUCKETS_S[0], []
    size = bucket_s(*ends, most)
    chosen, group = condition(where), _ALL if by is None else expression(by)
    rows = con.execute(
        f"WITH c AS (SELECT coalesce({group.sql}, '(none)') AS g, t.* FROM trajectories t "
        f"WHERE {chosen.sql} AND complete), "
        "largest AS (SELECT g FROM c GROUP BY g ORDER BY count(*) DESC, g LIMIT ?), "
        "k AS (SELECT CASE WHEN g IN (FROM largest) THEN g ELSE 'others' END AS g, "
        "floor(epoch(started_at) / ?) * ? AS b, * EXCLUDE (g) FROM c), "
        "f AS (SELECT k.b, k.g, quantile_cont(h.ttft_s, 0.9) AS ttft FROM hops h JOIN k USING (trace_id, root_span_id) "
        "WHERE h.outcome IN ('ok', 'truncated') AND h.ttft_s IS NOT NULL GROUP BY ALL) "
        f"SELECT k.b, k.g, count(*), count(*) FILTER (outcome IN ('failed', 'refused')), "
        f"quantile_cont(duration_s, 0.5) FILTER ({_CAME_OUT}), quantile_cont(duration_s, 0.9) FILTER ({_CAME_OUT}), "
        "any_value(f.ttft) FROM k LEFT JOIN f ON f.b = k.b AND f.g = k.g GROUP BY k.b, k.g ORDER BY k.b, k.g",
        [*group.parameters, *chosen.parameters, most_groups, size, size],
    ).fetchall()
    return size, [Point(datetime.fromtimestamp(at, UTC), *rest) for at, *rest in rows]


def hop_spreads(
    con: duckdb.DuckDBPyConnection, where: Where, metric: Metric, by: Literal["hop", "model"] = "hop"
) -> list[Spread]:
    """One for each hop name (or model) with anything observed, in the order in which a trajectory comes to them."""
    return _spreads(con, where, f"hops.{by}", metric)


def work_spreads(con: duckdb.DuckDBPyConnection, where: Where) -> list[Spread]:
    """One for each kind of work, in the order in which a trajectory comes to them."""
    return _spreads(con, where, "works.work", "duration_s")


def trajectory_spread(con: duckdb.DuckDBPyConnection, where: Where) -> Spread | None:
    """Of whole, complete trajectories."""
    chosen = condition(where)
    ((n, found, left_out),) = con.execute(
        f"SELECT count(*) FILTER ({_CAME_OUT}), quantile_cont(duration_s, {_LEVELS}) FILTER ({_CAME_OUT}), "
        f"count(*) FILTER (NOT {_CAME_OUT}) FROM trajectories t WHERE {chosen.sql} AND complete",
        chosen.parameters,
    ).fetchall()
    return _spread("trajectory", n, found, left_out) if n else None


def streams(con: duckdb.DuckDBPyConnection, where: Where) -> tuple[Streams, Words, int]:
    """The gaps of at most about `MOST_READ` streams that came to their end, the hop of each; how many there are."""
    source = _rows_of("hops", where)
    streamed = f"{source.sql} AND len(h.itl_us) > 0 AND h.outcome IN ('ok', 'truncated')"
    ((n,),) = con.execute(f"SELECT count(*) FROM {streamed}", source.parameters).fetchall()
    rows = con.execute(
        "SELECT h.hop, coalesce(h.output_tokens, len(h.itl_us) + 1)::DOUBLE AS tokens, h.itl_us "
        f"FROM {streamed} AND hash(h.span_id) <= ? * 18446744073709551615::DOUBLE ORDER BY h.start_s, h.span_id",
        [*source.parameters, min(1.0, MOST_READ / max(n, 1))],
    ).fetchnumpy()
    gaps = [np.ma.getdata(each).astype(np.float64) for each in rows["itl_us"]]
    return (
        Streams(
            np.concatenate(gaps) / 1e6 if gaps else np.zeros(0),
            np.array([len(each) for each in gaps], dtype=np.int64),
            np.asarray(rows["tokens"], dtype=np.float64),
        ),
        np.array([str(hop) for hop in rows["hop"]], dtype=object),
        int(n),
    )


def groups(con: duckdb.DuckDBPyConnection, where: Where, by: str, most: int = 50) -> list[Group]:
    """Complete trajectories by the values of a key, the largest groups first."""
    chosen, group = condition(where), expression(by)
    rows = con.execute(
        f"SELECT coalesce({group.sql}, '(none)') AS g, count(*) AS n, "
        f"count(*) FILTER (outcome IN ('failed', 'refused')), avg(hop_count), "
        f"quantile_cont(duration_s, [0.5, 0.9, 0.99]) FILTER ({_CAME_OUT}) "
        f"FROM trajectories t WHERE {chosen.sql} AND complete GROUP BY g ORDER BY n DESC, g LIMIT ?",
        [*group.parameters, *chosen.parameters, most],
    ).fetchall()
    return [Group(name, n, failed, hops, *(times or (None, None, None))) for name, n, failed, hops, times in rows]


def stalled(con: duckdb.DuckDBPyConnection, where: Where, most: int) -> list[dict[str, Any]]:
    """The streams with the longest gaps, longest first, one row a hop."""
    source = _rows_of("hops", where)
    cursor = con.execute(
        "WITH longest AS (SELECT h.trace_id, h.root_span_id, h.span_id, list_max(h.itl_us) AS us "
        f"FROM {source.sql} AND len(h.itl_us) > 0 ORDER BY us DESC, h.span_id LIMIT ?) "
        "SELECT h.trace_id, h.root_span_id, h.span_id, h.hop, h.model, h.visit, h.outcome, h.started_at, "
        "us / 1e6 AS longest_s, list_position(h.itl_us, us) AS after_chunk, h.ttft_s, h.tpot_s, h.duration_s, "
        "h.output_tokens, h.output_tokens_source "
        "FROM hops h JOIN longest USING (trace_id, root_span_id, span_id) ORDER BY us DESC, span_id",
        [*source.parameters, most],
    )
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def stream(con: duckdb.DuckDBPyConnection, trace_id: str, span_id: str) -> dict[str, Any] | None:
    """The row of one hop, by (the beginning of) its trace's id and its span's; None where there is none."""
    cursor = con.execute(
        "SELECT * FROM hops WHERE span_id = ? AND starts_with(trace_id, ?) LIMIT 1", [span_id, trace_id]
    )
    names = [column[0] for column in cursor.description or ()]
    row = cursor.fetchone()
    return None if row is None else dict(zip(names, row, strict=True))


def starts_and_ends(con: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """When every trajectory of the store started and ended, in epoch seconds, as two arrays in no order."""
    return con.execute(
        "SELECT epoch_us(started_at) / 1e6 AS start_s, epoch_us(started_at) / 1e6 + duration_s AS end_s "
        "FROM trajectories"
    ).fetchnumpy()


def _spreads(con: duckdb.DuckDBPyConnection, where: Where, of: str, metric: str) -> list[Spread]:
    """`of` is a table and its column of names."""
    table, name = of.split(".")
    source = _rows_of(table, where)
    well = "h.outcome IN ('ok', 'truncated')"
    rows = con.execute(
        f"SELECT coalesce(h.{name}, '(none)'), count(*) FILTER ({well}) AS n, "
        f"quantile_cont(h.{metric}, {_LEVELS}) FILTER ({well}), count(*) FILTER (NOT {well}), avg(h.start_s) "
        f"FROM {source.sql} AND h.{metric} IS NOT NULL GROUP BY 1 HAVING n > 0 ORDER BY 5, 1",
        source.parameters,
    ).fetchall()
    return [_spread(name, n, found, left_out) for name, n, found, left_out, _ in rows]


def _rows_of(table: str, where: Where) -> Condition:
    """The rows `h` of a table that belong to the filter's trajectories; hops know their workload, and need no join."""
    if table == "hops" and where == Where(workload=where.workload) and where.workload is not None:
        return Condition("hops h WHERE h.workload = ?", [where.workload])
    chosen = condition(where)
    joined = f"{table} h JOIN trajectories t USING (trace_id, root_span_id)"
    return Condition(f"{joined} WHERE {chosen.sql}", chosen.parameters)


_LEVELS: Final = [0.5, 0.9, 0.99, *((index + 0.5) / DOTS for index in range(DOTS))]


def _spread(name: str, n: int, found: Sequence[float], left_out: int) -> Spread:
    p50, p90, p99, *dots = found
    if n < DOTS:  # one dot for each that was observed, as near to its level as the levels allow
        dots = [dots[min(int((index + 0.5) / n * DOTS), DOTS - 1)] for index in range(n)]
    return Spread(name, n, p50, p90, p99, tuple(dots), left_out)
