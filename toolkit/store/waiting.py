"""Streams cut off before their first token: what it would have taken nobody knows, only how long it was at least."""

from collections.abc import Mapping
from typing import Any, Final

import duckdb

from hopbudget.store.narrow import Where, condition

_OURS: Final = "hopbudget"
"""The source of what our own capture timed."""
_CUT: Final = "('timed_out', 'cancelled', 'closed_by_consumer')"


def never_began(hop: Mapping[str, Any]) -> bool:
    """Whether the row of a hop is a stream whose first token was waited for and never came.

    Only where we timed it ourselves: others may not have recorded a first token that came.
    """
    return (
        bool(hop["streamed"])
        and hop["ttft_s"] is None
        and hop.get("source") == _OURS
        and hop["outcome"] in {"failed", "timed_out", "cancelled", "closed_by_consumer"}
    )


def still_waiting(con: duckdb.DuckDBPyConnection, where: Where) -> dict[str, Any] | None:
    """How many, by outcome, and how long they had waited; None where there is none."""
    chosen = condition(where)
    rows = con.execute(
        "SELECT h.outcome, count(*), min(h.duration_s), max(h.duration_s) FROM hops h "
        f"JOIN trajectories t USING (trace_id, root_span_id) WHERE {chosen.sql} "
        f"AND h.streamed AND h.ttft_s IS NULL AND h.outcome IN {_CUT} GROUP BY ALL ORDER BY 2 DESC, 1",
        chosen.parameters,
    ).fetchall()
    if not rows:
        return None
    return {
        "n": sum(n for _, n, _, _ in rows),
        "outcomes": {outcome: n for outcome, n, _, _ in rows},
        "least_s": min(least_s for _, _, least_s, _ in rows),
        "most_s": max(most_s for _, _, _, most_s in rows),
    }
