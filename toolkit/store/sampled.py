"""How much of the traffic was kept, where its sampler says so. Reading; every value is a parameter."""

from typing import Any

import duckdb

from hopbudget.store.narrow import Where, condition


def sampled(con: duckdb.DuckDBPyConnection, where: Where) -> dict[str, Any] | None:
    """Trajectories of which less than all was kept, the smallest and largest share, and how many they stand for.

    None if nothing says that it was sampled. A trajectory kept with the share r stands for 1 / r of its like. With
    `weighted_s`, the quantiles of duration over complete ones that came out well, each counted by its weight: the
    smallest duration that so much of the weight does not pass.
    """
    chosen = condition(where)
    ((n, of, least, most, stands_for),) = con.execute(
        "SELECT count(*) FILTER (sampling_ratio < 1), count(*), min(sampling_ratio), "
        "max(coalesce(sampling_ratio, 1)), sum(1 / coalesce(sampling_ratio, 1)) "
        f"FROM trajectories t WHERE {chosen.sql}",
        chosen.parameters,
    ).fetchall()
    if not n:
        return None
    return {
        "trajectories": n,
        "of": of,
        "least": least,
        "most": most,
        "stands_for": stands_for,
        "weighted_s": _weighted(con, where),
    }


def _weighted(con: duckdb.DuckDBPyConnection, where: Where) -> dict[str, float | None]:
    chosen = condition(where)
    levels = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
    picked = ", ".join(f"min(duration_s) FILTER (below >= {level} * total)" for level in levels.values())
    ((*found,),) = con.execute(
        f"SELECT {picked} FROM (SELECT duration_s, sum(w) OVER (ORDER BY duration_s) AS below, sum(w) OVER () AS total "
        f"FROM (SELECT duration_s, 1 / coalesce(sampling_ratio, 1) AS w FROM trajectories t "
        f"WHERE {chosen.sql} AND complete AND outcome IN ('ok', 'truncated')))",
        chosen.parameters,
    ).fetchall()
    return dict(zip(levels, found, strict=True))
