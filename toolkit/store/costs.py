"""What calls were charged for: tokens of every hop, by trajectory and model.

`output_tokens` are those that streamed. Reasoning that never did is charged too, so where the two may differ the
provider's own count is taken from the hop's span, and where that is not stored the charge is not known.
"""

from typing import Final, NamedTuple

import duckdb

from hopbudget.store.narrow import NONE, Condition, Where, condition, expression

_STATED: Final = "TRY_CAST(json_extract_string(s.attributes, '$.\"gen_ai.usage.output_tokens\"') AS BIGINT)"
_SURE: Final = (
    "output_tokens_source = 'usage' AND (NOT streamed OR coalesce(reasoning_tokens, 0) = 0 "
    "OR ttft_source IS DISTINCT FROM 'first_token')"
)


class Charged(NamedTuple):
    """The hops of one trajectory on one model under one name."""

    trajectory: int
    came_well: bool
    """Of the trajectory: complete, and `ok` or `truncated`."""
    hop: str
    model: str
    hops: int
    """Hops that were sent."""
    counted: int
    """Of them, those whose tokens are known; the sums are of these."""
    input_tokens: int
    cached_tokens: int
    output_tokens: int


def charged(con: duckdb.DuckDBPyConnection, where: Where) -> list[Charged]:
    """The tokens of all hops that were sent, of the trajectories that the filter leaves."""
    return _charged(con, where, Condition("''", [])).get("", [])


def charged_by(con: duckdb.DuckDBPyConnection, where: Where, key: str) -> dict[str, list[Charged]]:
    """The same for each value of an attribute or column, by the names that `reports.report_by` gives them."""
    return _charged(con, where, expression(key))


def _charged(con: duckdb.DuckDBPyConnection, where: Where, group: Condition) -> dict[str, list[Charged]]:
    chosen = condition(where)
    rows = con.execute(
        "WITH c AS (SELECT row_number() OVER () AS i, trace_id, root_span_id, "
        f"coalesce({group.sql}, '{NONE}') AS g, "
        f"complete AND outcome IN ('ok', 'truncated') AS came FROM trajectories t WHERE {chosen.sql}), "
        f"h AS (SELECT c.i, c.g, c.came, hops.*, {_SURE} AS sure FROM hops JOIN c USING (trace_id, root_span_id) "
        "WHERE hops.outcome <> 'refused'), "
        f"stated AS (SELECT h.trace_id, h.span_id, any_value({_STATED}) AS n FROM h "
        "JOIN spans s USING (trace_id, span_id) WHERE NOT coalesce(h.sure, false) GROUP BY ALL), "
        "b AS (SELECT h.*, CASE WHEN sure THEN output_tokens ELSE stated.n END AS billed FROM h "
        "LEFT JOIN stated USING (trace_id, span_id)) "
        "SELECT g, i, came, hop, coalesce(model, '') AS m, count(*), count(input_tokens + billed), "
        "coalesce(sum(greatest(input_tokens, coalesce(cached_tokens, 0))) FILTER (billed IS NOT NULL), 0)::BIGINT, "
        "coalesce(sum(cached_tokens) FILTER (input_tokens + billed IS NOT NULL), 0)::BIGINT, "
        "coalesce(sum(billed) FILTER (input_tokens IS NOT NULL), 0)::BIGINT "
        "FROM b GROUP BY g, i, came, hop, m ORDER BY i, hop, m",
        [*group.parameters, *chosen.parameters],
    ).fetchall()
    found: dict[str, list[Charged]] = {}
    for name, *row in rows:
        found.setdefault(name, []).append(Charged(*row))
    return found
