"""How long work took, by its name: what a trajectory did beside its hops."""

from typing import Any

import duckdb

from hopbudget.store.narrow import Where, condition
from hopbudget.store.reports import CAME_OUT, QUANTILES


def worked(con: duckdb.DuckDBPyConnection, where: Where) -> list[dict[str, Any]]:
    """A row for each name: plain quantiles of the durations that came out well, and all outcomes; what took the most
    seconds in all first."""
    chosen = condition(where)
    levels = f"[{', '.join(map(str, QUANTILES.values()))}]"
    rows = con.execute(
        "WITH w AS (SELECT works.* FROM works JOIN trajectories t USING (trace_id, root_span_id) "
        f"WHERE {chosen.sql}), o AS (SELECT work, outcome, count(*) AS n FROM w GROUP BY ALL) "
        f"SELECT w.work, count(*), sum(duration_s), count(*) FILTER (w.{CAME_OUT}), "
        f"quantile_cont(duration_s, {levels}) FILTER (w.{CAME_OUT}), "
        "(SELECT map_from_entries(list((o.outcome, o.n) ORDER BY o.n DESC, o.outcome)) FROM o WHERE o.work = w.work) "
        "FROM w GROUP BY w.work ORDER BY 3 DESC, w.work",
        chosen.parameters,
    ).fetchall()
    return [
        {
            "work": work,
            "n": n,
            "seconds": in_all_s,
            "duration_s": {"n": well} | dict(zip(QUANTILES, levels or [None] * len(QUANTILES), strict=True)),
            "outcomes": dict(outcomes),
        }
        for work, n, in_all_s, well, levels, outcomes in rows
    ]
