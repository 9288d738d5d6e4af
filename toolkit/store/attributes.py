"""The attributes of trajectories as columns of words, in the order of a profile's rows."""

from typing import Final

import duckdb
import numpy as np

from hopbudget.budgets.profile import Words
from hopbudget.store.narrow import Where, condition, expression

_COLUMNS: Final = ("run", "service", "plan")
"""Columns that say what kind of trajectory it is; an outcome or a session does not."""
_OURS: Final = "hopbudget."


def keys(con: duckdb.DuckDBPyConnection, where: Where, most_values: int) -> list[str]:
    """Attributes and columns that have 2 to so many values among the trajectories that the filter leaves."""
    chosen = condition(where)
    found = con.execute(
        "SELECT a.key FROM (SELECT unnest(map_entries(t.attributes)) AS a FROM trajectories t "
        f"WHERE {chosen.sql}) WHERE NOT starts_with(a.key, '{_OURS}') "
        "GROUP BY a.key HAVING count(DISTINCT a.value) BETWEEN 2 AND ? ORDER BY a.key",
        [*chosen.parameters, most_values],
    ).fetchall()
    counts = con.execute(
        f"SELECT {', '.join(f'count(DISTINCT t.{name})' for name in _COLUMNS)} FROM trajectories t WHERE {chosen.sql}",
        chosen.parameters,
    ).fetchall()[0]
    of_columns = [name for name, values in zip(_COLUMNS, counts, strict=True) if 2 <= values <= most_values]
    return [*of_columns, *(key for (key,) in found)]


def values(con: duckdb.DuckDBPyConnection, where: Where, key: str, most: int) -> list[tuple[str, int]]:
    """The commonest values of a key with their numbers of trajectories, most first."""
    of_key, chosen = expression(key), condition(where)
    return con.execute(
        f"SELECT v, n FROM (SELECT {of_key.sql} AS v, count(*) AS n FROM trajectories t WHERE {chosen.sql} "
        "GROUP BY v) WHERE v IS NOT NULL ORDER BY n DESC, v LIMIT ?",
        [*of_key.parameters, *chosen.parameters, most],
    ).fetchall()


def columns(con: duckdb.DuckDBPyConnection, where: Where, names: list[str]) -> dict[str, Words]:
    """Their words by key, "" where a trajectory has none, in the order of `profiles.profile`."""
    if not names:
        return {}
    chosen = condition(where)
    of_keys = [expression(name) for name in names]
    selected = ", ".join(f"coalesce({each.sql}, '') AS k{index}" for index, each in enumerate(of_keys))
    parameters = [value for each in of_keys for value in each.parameters]
    rows = con.execute(
        f"SELECT {selected} FROM trajectories t WHERE {chosen.sql} ORDER BY started_at, trace_id, root_span_id",
        [*parameters, *chosen.parameters],
    ).fetchall()
    table = np.array(rows, dtype=object).reshape(len(rows), len(names))
    return {name: table[:, index] for index, name in enumerate(names)}
