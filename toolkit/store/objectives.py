"""What objectives are counted from: requests, streams, gaps and trajectories of a stretch of time, as arrays.

Gaps are too many to be fetched: their counts and their histogram are SQL, equal to `budgets.attained` by test.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import numpy as np
from numpy.typing import NDArray

from hopbudget.budgets.attainment.attained import CODES
from hopbudget.budgets.profile import Bools, Floats, Ints
from hopbudget.store.narrow import Condition, Where, condition, expression

_MATCHED: Final = {"name": "workload", "service": "service"}
"""Columns of `trajectories` that a workload's match names in its own words; other words are attributes."""
_CODE: Final = "CASE outcome " + " ".join(f"WHEN '{word}' THEN {code}" for word, code in CODES.items()) + " END"
_CODE_OF_HOP: Final = _CODE.replace("outcome", "h.outcome", 1)
_US: Final = 1e6


@dataclass(frozen=True, slots=True)
class Scope:
    """Trajectories of one workload that started after `from_at` and not after `to_at`, seconds since the Unix epoch."""

    chosen: Condition
    from_at: float
    to_at: float

    @property
    def numbered(self) -> Condition:
        """The beginning of a query: the trajectories as `n`, numbered by `i`."""
        sql = (
            "WITH n AS (SELECT *, row_number() OVER (ORDER BY trace_id, root_span_id) - 1 AS i FROM trajectories t "
            f"WHERE {self.chosen.sql} AND t.started_at > make_timestamp(?) AND t.started_at <= make_timestamp(?)), "
            "named AS (SELECT hop, row_number() OVER (ORDER BY hop) - 1 AS name FROM (SELECT DISTINCT hop FROM hops)) "
        )
        between = [round(self.from_at * _US), round(self.to_at * _US)]
        return Condition(sql, [*self.chosen.parameters, *between])


def scope(where: Where, match: Mapping[str, str]) -> Condition:
    """The trajectories (`t`) that a filter leaves and a workload's match takes."""
    chosen = condition(where)
    terms, parameters = [chosen.sql], list(chosen.parameters)
    for key, value in match.items():
        of_key = Condition(f"t.{_MATCHED[key]}", []) if key in _MATCHED else expression(key)
        terms.append(f"{of_key.sql} = ?")
        parameters += [*of_key.parameters, value]
    return Condition(" AND ".join(terms), parameters)


def newest_at(con: duckdb.DuckDBPyConnection, chosen: Condition) -> float:
    """The start of the newest of these trajectories, seconds since the Unix epoch; NaN of none."""
    sql = f"SELECT epoch_us(max(t.started_at)) FROM trajectories t WHERE {chosen.sql}"
    ((found,),) = con.execute(sql, chosen.parameters).fetchall()
    return math.nan if found is None else found / _US


def models(con: duckdb.DuckDBPyConnection, where: Where) -> list[str]:
    """The models of the trajectories that the filter leaves, most calls first."""
    chosen = condition(where)
    sql = (
        "SELECT h.model FROM hops h JOIN trajectories t USING (trace_id, root_span_id) "
        f"WHERE {chosen.sql} AND h.model IS NOT NULL GROUP BY h.model ORDER BY count(*) DESC, h.model"
    )
    return [row[0] for row in con.execute(sql, chosen.parameters).fetchall()]


@dataclass(frozen=True, slots=True)
class TrajectoryRows:
    """Trajectories in the order of their numbers."""

    started_at: Floats
    duration_s: Floats
    answer_start_s: Floats
    code: Ints
    complete: Bools


@dataclass(frozen=True, slots=True)
class HopRows:
    """Hops, in no order; `name` is the number of the hop's name in `names`."""

    trajectory: Ints
    name: Ints
    names: tuple[str, ...]
    duration_s: Floats
    ttft_s: Floats
    ttfa_s: Floats
    tpot_s: Floats
    """NaN too where N is 1 or was counted in chunks."""
    tokens: Floats
    """N; NaN where it was counted in chunks."""
    streamed: Bools
    code: Ints


@dataclass(frozen=True, slots=True)
class GapRows:
    """Hops with the counts of their gaps; streams that failed have none, whatever came before."""

    trajectory: Ints
    name: Ints
    good: Floats
    slow: Floats
    left_out: Floats
    seen: Bools
    """Gaps were recorded."""
    streamed: Bools
    """It is a stream of more than one chunk, so there were gaps to record."""
    code: Ints


def trajectories(con: duckdb.DuckDBPyConnection, of: Scope) -> TrajectoryRows:
    """Every trajectory of the scope."""
    columns = "epoch_us(started_at) / 1e6 AS started_at, duration_s, answer_start_s, complete"
    found = _fetch(con, of.numbered, f"SELECT {columns}, {_CODE} AS code FROM n ORDER BY i")
    return TrajectoryRows(**found)


def hops(con: duckdb.DuckDBPyConnection, of: Scope) -> HopRows:
    """Every hop of these trajectories."""
    by_tokens = "h.output_tokens_source IS DISTINCT FROM 'chunks'"
    found = _fetch(
        con,
        of.numbered,
        "SELECT n.i AS trajectory, named.name, h.streamed, h.duration_s, h.ttft_s, h.ttfa_s, "
        f"CASE WHEN {by_tokens} AND h.output_tokens > 1 THEN h.tpot_s END AS tpot_s, "
        f"CASE WHEN {by_tokens} THEN h.output_tokens::DOUBLE END AS tokens, {_CODE_OF_HOP} "
        "AS code FROM hops h JOIN n USING (trace_id, root_span_id) JOIN named USING (hop)",
    )
    return HopRows(**found, names=names(con))


def names(con: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Every hop's name that is stored, in the order of their numbers."""
    return tuple(row[0] for row in con.execute("SELECT DISTINCT hop FROM hops ORDER BY hop").fetchall())


def gaps(con: duckdb.DuckDBPyConnection, of: Scope, limit_s: float) -> GapRows:
    """The gaps of each hop within the limit and past it; one still open when the stream was cut counts past it only."""
    limit_us = round(limit_s * _US, 3)
    within, past = math.floor(limit_us), math.ceil(limit_us)
    open_us = "(CASE WHEN h.itl_censored THEN h.itl_us[-1] END)"
    found = _fetch(
        con,
        of.numbered,
        f"SELECT n.i AS trajectory, named.name, {_CODE_OF_HOP} AS code, "
        f"(len(list_filter(h.itl_us, lambda us: us <= {within})) "
        f"- coalesce(({open_us} <= {within})::INT, 0))::DOUBLE AS good, "
        f"coalesce(({open_us} < {past})::INT, 0)::DOUBLE AS left_out, "
        "len(h.itl_us)::DOUBLE AS all_gaps, h.itl_us IS NOT NULL AS seen, "
        "h.streamed AND coalesce(h.chunks, 2) > 1 AS streamed "
        "FROM hops h JOIN n USING (trace_id, root_span_id) JOIN named USING (hop)",
    )
    good, left_out, all_gaps = (np.nan_to_num(found.pop(key)) for key in ("good", "left_out", "all_gaps"))
    return GapRows(**found, good=good, left_out=left_out, slow=all_gaps - good - left_out)


def gap_histogram(con: duckdb.DuckDBPyConnection, of: Scope, hop: str | None) -> tuple[Floats, Floats, Floats]:
    """Distinct gaps in rising seconds, how often each occurred, and how often as the open gap of a stream cut short."""
    named = "" if hop is None else " AND h.hop = ?"
    start = of.numbered
    wanted = "FROM hops h JOIN n USING (trace_id, root_span_id) WHERE h.outcome NOT IN ('failed', 'refused')" + named
    again = [] if hop is None else [hop]
    found = _fetch(
        con,
        Condition(start.sql, [*start.parameters, *again, *again]),
        f"SELECT us / 1e6 AS gap_s, sum(times)::DOUBLE AS times, sum(cut)::DOUBLE AS cut FROM ("
        f"SELECT us, count(*) AS times, 0 AS cut FROM (SELECT unnest(h.itl_us) AS us {wanted}) GROUP BY us UNION ALL "
        f"SELECT h.itl_us[-1] AS us, 0 AS times, count(*) AS cut {wanted} AND h.itl_censored GROUP BY us) "
        "GROUP BY us ORDER BY us",
    )
    return found["gap_s"], found["times"] - found["cut"], found["cut"]


def waits(con: duckdb.DuckDBPyConnection, of: Scope, pace: float) -> dict[str, NDArray[Any]]:
    """By hop, the seconds that somebody who takes `pace` tokens a second would have waited for its stream.

    `wait_s` is NaN where gaps or tokens were not observed. A chunk holds the stream's tokens over its chunks; where
    tokens were not counted, those a chunk of the same hop's other streams holds. Gaps past the exact ones have lost
    their order and are not looked at.
    """
    exact = "h.itl_exact + coalesce(h.itl_censored::INT, 0)"
    ordered = f"CASE WHEN len(h.itl_us) = {exact} THEN h.itl_us ELSE h.itl_us[:h.itl_exact] END"
    by_tokens = "output_tokens_source <> 'chunks' AND chunks > 0"
    own, by_hop = "h.output_tokens / h.chunks", "o.tokens"
    joined = "JOIN n USING (trace_id, root_span_id)"
    return _fetch(
        con,
        of.numbered,
        f", o AS (SELECT hop, sum(output_tokens) / sum(chunks) AS tokens FROM hops {joined} "
        f"WHERE {by_tokens} GROUP BY hop), "
        f"s AS (SELECT n.i AS trajectory, named.name, {_CODE_OF_HOP} AS code, h.streamed, h.chunks, {ordered} AS us, "
        f"CASE WHEN {by_tokens} THEN {own} ELSE {by_hop} END * {_US / pace!r} AS chunk_us "
        f"FROM hops h {joined} JOIN named USING (hop) LEFT JOIN o USING (hop)) "
        "SELECT trajectory, name, code, streamed, CASE WHEN chunk_us IS NULL THEN NULL WHEN us IS NOT NULL THEN "
        # Folded from the last gap: the largest sum of the first gaps, each less a chunk's time.
        "list_reduce(list_reverse(us)::DOUBLE[], lambda m, u: greatest(0.0, m + u - chunk_us), 0.0::DOUBLE) / 1e6 "
        "WHEN chunks = 1 THEN 0.0 END AS wait_s FROM s",
    )


def throughput(con: duckdb.DuckDBPyConnection, of: Scope) -> tuple[float, float]:
    """Output tokens of all hops, and the seconds in which at least one hop was under way (overlaps once)."""
    start = of.numbered
    sql = (
        ", h AS (SELECT epoch_us(h.started_at) / 1e6 AS began, began + h.duration_s AS ended, "
        "h.output_tokens AS tokens FROM hops h JOIN n USING (trace_id, root_span_id)), "
        "m AS (SELECT *, max(ended) OVER (ORDER BY began ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS covered "
        "FROM h) SELECT coalesce(sum(tokens), 0)::DOUBLE, "
        "coalesce(sum(greatest(0, ended - greatest(began, coalesce(covered, began)))), 0) FROM m"
    )
    ((tokens, busy_s),) = con.execute(start.sql + sql, start.parameters).fetchall()
    return float(tokens), float(busy_s)


def _fetch(con: duckdb.DuckDBPyConnection, start: Condition, sql: str) -> dict[str, NDArray[Any]]:
    columns = con.execute(start.sql + sql, start.parameters).fetchnumpy()
    return {name: _plain(np.ma.asarray(values)) for name, values in columns.items()}


def _plain(masked: Any) -> NDArray[Any]:
    if masked.dtype == np.bool_:
        return np.asarray(masked.filled(False))
    if masked.dtype.kind == "f":
        return np.asarray(masked.filled(np.nan), dtype=np.float64)
    return np.asarray(masked.filled(0), dtype=np.int64)
