"""The numbers of a report: counts, quantiles and the split of the time, for all or for groups.

Plain quantiles: linear-interpolated over `ok` and `truncated`, with `n`; the other outcomes are counted beside them.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import duckdb

from hopbudget.store.narrow import NONE, Condition, Where, check_key, condition, expression

Numbers = dict[str, Any]

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
_LEVELS: Final = f"[{', '.join(map(str, QUANTILES.values()))}]"
CAME_OUT: Final = "outcome IN ('ok', 'truncated')"
_HOP_TIMES: Final = ("duration_s", "ttft_s", "tpot_s")
_BY_CHUNKS: Final = f"output_tokens_source = 'chunks' AND tpot_s IS NOT NULL AND {CAME_OUT}"
"""The TPOT of these is a time by chunk: N was counted in chunks, and a chunk may hold several tokens."""
_ALL: Final = Condition("''", [])


def report(con: duckdb.DuckDBPyConnection, where: Where, *, gaps: bool = True) -> Numbers:
    """The numbers of all trajectories that the filter leaves; times in seconds. Without `gaps` ITL is left out."""
    return _grouped(con, where, _ALL, gaps=gaps).get("", _empty())


def report_by(con: duckdb.DuckDBPyConnection, where: Where, key: str) -> dict[str, Numbers]:
    """The same for each value of an attribute or column, the largest group first; UserError for an unknown key."""
    check_key(con, key)
    groups = _grouped(con, where, expression(key))
    return dict(sorted(groups.items(), key=lambda item: (-item[1]["trajectories"], item[0])))


def by_hop(con: duckdb.DuckDBPyConnection, where: Where) -> list[Numbers]:
    """The report's numbers by hop name alone, in the order in which a trajectory comes to them."""
    groups = {"": _empty()}
    _fill_hops_by_name(_Asking(con, where, _ALL), groups)
    found: list[Numbers] = groups[""]["by_hop"]
    return found


class _Asking:
    """Runs one query a time over the chosen trajectories `c`, which carry their group `g`, and their hops.

    `h` are the hops with whether their trajectory is complete, `n` the same ones without. Of `n`, `g` is the group's
    column and `by` what rows of one group have to be grouped by: nothing where there is only one.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, where: Where, group: Condition) -> None:
        chosen = condition(where)
        self._con = con
        self.g, self.by = ("'' AS g", "") if group is _ALL else ("g", "g, ")
        self._with = (
            f"WITH c AS (SELECT coalesce({group.sql}, '{NONE}') AS g, t.* FROM trajectories t WHERE {chosen.sql}), "
            "h AS (SELECT c.g, c.complete, hops.* FROM hops JOIN c USING (trace_id, root_span_id)), "
        )
        self._parameters = [*group.parameters, *chosen.parameters]
        # Hops know their workload: where nothing else narrows, what asks nothing of trajectories needs no join.
        if group is _ALL and where.workload is not None and where == Where(workload=where.workload):
            self._with += "n AS (SELECT hops.* FROM hops WHERE workload = ?) "
            self._parameters.append(where.workload)
        else:
            self._with += "n AS (FROM h) "

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._con.execute(self._with + sql, self._parameters).fetchall()


def _grouped(
    con: duckdb.DuckDBPyConnection, where: Where, group: Condition, *, gaps: bool = True
) -> dict[str, Numbers]:
    ask = _Asking(con, where, group)
    groups: dict[str, Numbers] = {}
    times = ("duration_s", "answer_start_s")
    for name, trajectories, incomplete, share, work_s, whole_s, *found in ask.rows(
        "SELECT g, count(*), count(*) FILTER (NOT complete), "
        "sum(work_s) FILTER (complete) / nullif(sum(duration_s) FILTER (complete), 0), "
        "coalesce(sum(work_s) FILTER (complete), 0), coalesce(sum(duration_s) FILTER (complete), 0), "
        f"{_asked(times, f'complete AND {CAME_OUT}')} FROM c GROUP BY g"
    ):
        numbers = groups[name] = _empty()
        numbers |= {"trajectories": trajectories, "incomplete": incomplete, "work_share": share}
        numbers["time_split"] |= {"work_s": work_s, "trajectories_s": whole_s}
        numbers["trajectory_s"], numbers["answer_start_s"] = _answered(found)
    for name, outcome, n in ask.rows(
        "SELECT g, outcome, count(*) AS n FROM c WHERE complete GROUP BY ALL ORDER BY n DESC, outcome"
    ):
        groups[name]["trajectory_outcomes"][outcome] = n
    _fill_hops(ask, groups)
    _fill_hops_by_name(ask, groups)
    if gaps:
        each = f"(SELECT g, unnest(itl_us) / 1e6 AS gap_s FROM h WHERE {CAME_OUT})"
        for name, *found in ask.rows(f"SELECT g, {_asked(('gap_s',))} FROM {each} GROUP BY g"):
            (groups[name]["itl_s"],) = _answered(found)
    return groups


def _fill_hops(ask: _Asking, groups: dict[str, Numbers]) -> None:
    for name, n, first_token_s, writing_s, unsplit_s, *found in ask.rows(
        "SELECT g, count(*), coalesce(sum(ttft_s) FILTER (complete), 0), "
        "coalesce(sum(duration_s - ttft_s) FILTER (complete), 0), "
        "coalesce(sum(duration_s) FILTER (complete AND ttft_s IS NULL), 0), "
        f"{_asked(_HOP_TIMES, CAME_OUT)} FROM h GROUP BY g"
    ):
        groups[name]["hops"] = n
        split = {"first_token_s": first_token_s, "writing_s": writing_s, "hop_unsplit_s": unsplit_s}
        groups[name]["time_split"] |= split
        groups[name]["hop_s"], groups[name]["ttft_s"], groups[name]["tpot_s"] = _answered(found)


def _fill_hops_by_name(ask: _Asking, groups: dict[str, Numbers]) -> None:
    rows: dict[tuple[str, str], Numbers] = {}
    for name, hop, outcome, n in ask.rows(
        f"SELECT {ask.g}, hop, outcome, count(*) AS n FROM n GROUP BY {ask.by}hop, outcome ORDER BY n DESC, outcome"
    ):
        row = rows.setdefault((name, hop), _hop_row(hop))
        row["n"] += n
        row["outcomes"][outcome] = n
        outcomes = groups[name]["outcomes"]
        outcomes[outcome] = outcomes.get(outcome, 0) + n
    begins: dict[tuple[str, str], float] = {}
    for name, hop, begins_s, *found in ask.rows(
        f"SELECT {ask.g}, hop, avg(start_s), {_asked(_HOP_TIMES)} FROM n WHERE {CAME_OUT} GROUP BY {ask.by}hop"
    ):
        begins[name, hop] = begins_s
        rows[name, hop] |= dict(zip(_HOP_TIMES, _answered(found), strict=True))
    # Apart, for DuckDB passes over the rows of a store in which there are none.
    for name, hop, n in ask.rows(f"SELECT {ask.g}, hop, count(*) FROM n WHERE {_BY_CHUNKS} GROUP BY {ask.by}hop"):
        rows[name, hop]["tpot_by_chunks"] = n
        groups[name]["tpot_by_chunks"] += n
    # In the order in which a trajectory comes to them.
    for name, hop in sorted(rows, key=lambda key: (begins.get(key, math.inf), key)):
        groups[name]["by_hop"].append(rows[name, hop])


def _hop_row(hop: str) -> Numbers:
    times = {name: _quantiles(0, None) for name in _HOP_TIMES}
    return {"hop": hop, "n": 0} | times | {"tpot_by_chunks": 0, "outcomes": {}}


def _asked(columns: Sequence[str], condition: str | None = None) -> str:
    """For each column: how many values there are, and their quantiles."""
    only = f" FILTER ({condition})" if condition is not None else ""
    return ", ".join(f"count({each}){only}, quantile_cont({each}, {_LEVELS}){only}" for each in columns)


def _answered(found: Sequence[Any]) -> list[Numbers]:
    return [_quantiles(n, levels) for n, levels in zip(found[::2], found[1::2], strict=True)]


def _quantiles(n: int, levels: Sequence[float] | None) -> Numbers:
    return {"n": n} | {name: levels[index] if levels else None for index, name in enumerate(QUANTILES)}


def _empty() -> Numbers:
    times = ("trajectory_s", "answer_start_s", "hop_s", "ttft_s", "tpot_s", "itl_s")
    return {
        "trajectories": 0,
        "incomplete": 0,
        "hops": 0,
        "outcomes": {},
        "trajectory_outcomes": {},
        **{name: _quantiles(0, None) for name in times},
        "tpot_by_chunks": 0,
        "work_share": None,
        "time_split": {
            "first_token_s": 0.0,
            "writing_s": 0.0,
            "hop_unsplit_s": 0.0,
            "work_s": 0.0,
            "trajectories_s": 0.0,
        },
        "by_hop": [],
    }
