"""The numbers of a report: counts, quantiles and the split of the time, for all or for groups.

Plain quantiles: linear-interpolated over `ok` and `truncated`, with `n`; the other outcomes are counted beside them.
"""

from collections.abc import Sequence
from typing import Any, Final

import duckdb

from hopbudget.store.narrow import Condition, Where, check_key, condition, expression

Numbers = dict[str, Any]

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
_LEVELS: Final = f"[{', '.join(map(str, QUANTILES.values()))}]"
_NONE: Final = "(none)"
_CAME_OUT: Final = "outcome IN ('ok', 'truncated')"
_ALL: Final = Condition("''", [])


def report(con: duckdb.DuckDBPyConnection, where: Where) -> Numbers:
    """The numbers of all trajectories that the filter leaves; times in seconds."""
    return _grouped(con, where, _ALL).get("", _empty())


def report_by(con: duckdb.DuckDBPyConnection, where: Where, key: str) -> dict[str, Numbers]:
    """The same for each value of an attribute or column, the largest group first; UserError for an unknown key."""
    check_key(con, key)
    groups = _grouped(con, where, expression(key))
    return dict(sorted(groups.items(), key=lambda item: (-item[1]["trajectories"], item[0])))


class _Asking:
    """Runs one query a time over the chosen trajectories `c`, which carry their group `g`."""

    def __init__(self, con: duckdb.DuckDBPyConnection, where: Where, group: Condition) -> None:
        chosen = condition(where)
        self._con = con
        self._with = (
            f"WITH c AS (SELECT coalesce({group.sql}, '{_NONE}') AS g, t.* FROM trajectories t WHERE {chosen.sql}), "
            "h AS (SELECT c.g, hops.* FROM hops JOIN c USING (trace_id, root_span_id)) "
        )
        self._parameters = [*group.parameters, *chosen.parameters]

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._con.execute(self._with + sql, self._parameters).fetchall()

    def quantiles(self, value: str, source: str) -> dict[str, Numbers]:
        """By group: n and the quantiles of a value over what came out well."""
        sql = f"SELECT g, count({value}), quantile_cont({value}, {_LEVELS}) FROM {source} GROUP BY g"
        return {group: _quantiles(n, levels) for group, n, levels in self.rows(sql)}


def _grouped(con: duckdb.DuckDBPyConnection, where: Where, group: Condition) -> dict[str, Numbers]:
    ask = _Asking(con, where, group)
    groups: dict[str, Numbers] = {}
    for name, trajectories, incomplete, share, work_s in ask.rows(
        "SELECT g, count(*), count(*) FILTER (NOT complete), "
        "sum(work_s) FILTER (complete) / nullif(sum(duration_s) FILTER (complete), 0), "
        "coalesce(sum(work_s) FILTER (complete), 0) FROM c GROUP BY g"
    ):
        numbers = _empty()
        numbers |= {"trajectories": trajectories, "incomplete": incomplete, "work_share": share}
        numbers["time_split"]["work_s"] = work_s
        groups[name] = numbers
    _fill_quantiles(ask, groups)
    _fill_hops(ask, groups)
    for table, key in (("h", "outcomes"), ("c", "trajectory_outcomes")):
        for name, outcome, n in ask.rows(f"SELECT g, outcome, count(*) AS n FROM {table} GROUP BY ALL ORDER BY n DESC"):
            groups[name][key][outcome] = n
    return groups


def _fill_quantiles(ask: _Asking, groups: dict[str, Numbers]) -> None:
    gaps = f"(SELECT g, unnest(itl_us) / 1e6 AS gap_s FROM h WHERE {_CAME_OUT})"
    for key, value, source in (
        ("trajectory_s", "duration_s", f"c WHERE complete AND {_CAME_OUT}"),
        ("answer_start_s", "answer_start_s", f"c WHERE complete AND {_CAME_OUT}"),
        ("hop_s", "duration_s", f"h WHERE {_CAME_OUT}"),
        ("ttft_s", "ttft_s", f"h WHERE {_CAME_OUT}"),
        ("tpot_s", "tpot_s", f"h WHERE {_CAME_OUT}"),
        ("itl_s", "gap_s", gaps),
    ):
        for name, numbers in ask.quantiles(value, source).items():
            groups[name][key] = numbers


def _fill_hops(ask: _Asking, groups: dict[str, Numbers]) -> None:
    by_hop: dict[tuple[str, str], Numbers] = {}
    well = f"FILTER ({_CAME_OUT})"
    columns = ("duration_s", "ttft_s", "tpot_s")
    asked = ", ".join(f"count({c}) {well}, quantile_cont({c}, {_LEVELS}) {well}" for c in columns)
    for name, hop, n, *numbers in ask.rows(
        f"SELECT g, hop, count(*) AS n, {asked} FROM h GROUP BY g, hop ORDER BY n DESC, hop"
    ):
        row: Numbers = {"hop": hop, "n": n}
        for index, column in enumerate(columns):
            row[column] = _quantiles(numbers[2 * index], numbers[2 * index + 1])
        row["outcomes"] = {}
        by_hop[name, hop] = row
        groups[name]["by_hop"].append(row)
    for name, hop, outcome, n in ask.rows(
        "SELECT g, hop, outcome, count(*) AS n FROM h GROUP BY g, hop, outcome ORDER BY n DESC"
    ):
        by_hop[name, hop]["outcomes"][outcome] = n
        groups[name]["hops"] += n
    for name, first_token_s, writing_s, unsplit_s in ask.rows(
        "SELECT g, coalesce(sum(ttft_s), 0), coalesce(sum(duration_s - ttft_s), 0), "
        "coalesce(sum(duration_s) FILTER (ttft_s IS NULL), 0) FROM h "
        "SEMI JOIN (FROM c WHERE complete) USING (trace_id, root_span_id) GROUP BY g"
    ):
        split = {"first_token_s": first_token_s, "writing_s": writing_s, "hop_unsplit_s": unsplit_s}
        groups[name]["time_split"] |= split


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
        "work_share": None,
        "time_split": {"first_token_s": 0.0, "writing_s": 0.0, "hop_unsplit_s": 0.0, "work_s": 0.0},
        "by_hop": [],
    }
