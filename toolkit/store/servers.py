"""A hop's time split by what its inference server told: durations of both sides, and neither's clock.

wait for the first token = queue + prefill + outside the server; writing = decode + delivery.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import duckdb

from hopbudget.store.narrow import Where, condition

_EPS_S: Final = 1e-3
PARTS: Final = ("queue_s", "prefill_s", "outside_s", "decode_s", "delivery_s")


def of_trajectory(detail: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The split of each hop of one trajectory whose server told its times."""
    return [found for hop in detail["hops"] if (found := split(hop)) is not None]


def split(hop: Mapping[str, Any]) -> dict[str, Any] | None:
    """The parts of one row of `hops`, in seconds; None where its server told nothing.

    A part is None where it isn't known, or would be negative because the two sides contradict each other.
    """
    queue_s, prefill_s, decode_s = hop["server_queue_s"], hop["server_prefill_s"], hop["server_decode_s"]
    within_s = hop["server_ttft_s"]
    if within_s is None and queue_s is not None and prefill_s is not None:
        within_s = queue_s + prefill_s
    if within_s is None and queue_s is None and decode_s is None:
        return None
    ttft_s = hop["ttft_s"]
    writing_s = None if ttft_s is None else hop["duration_s"] - ttft_s
    return {
        "hop": hop["hop"],
        "visit": hop["visit"],
        "ttft_s": ttft_s,
        "queue_s": queue_s,
        "prefill_s": prefill_s,
        "outside_s": _rest(ttft_s, within_s),
        "decode_s": decode_s,
        "delivery_s": _rest(writing_s, decode_s),
    }


def _rest(whole_s: float | None, part_s: float | None) -> float | None:
    if whole_s is None or part_s is None or part_s > whole_s + _EPS_S:
        return None
    return max(0.0, whole_s - part_s)


def _p95(ordered: Sequence[float]) -> float:
    """Linear-interpolated, as every plain quantile of a report."""
    place = 0.95 * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def over_many(con: duckdb.DuckDBPyConnection, where: Where) -> dict[str, Any] | None:
    """Sums and p95 of the parts over hops that came well and of which both sides told; None if there is none."""
    chosen = condition(where)
    columns = "h.hop, h.visit, h.ttft_s, h.duration_s, server_ttft_s, server_queue_s, server_prefill_s, server_decode_s"
    cursor = con.execute(
        f"SELECT {columns} FROM hops h JOIN trajectories t USING (trace_id, root_span_id) WHERE {chosen.sql} "
        "AND h.outcome IN ('ok', 'truncated') AND h.ttft_s IS NOT NULL "
        "AND coalesce(server_ttft_s, server_queue_s + server_prefill_s) IS NOT NULL",
        chosen.parameters,
    )
    names = [column[0] for column in cursor.description or ()]
    splits = [split(dict(zip(names, row, strict=True))) for row in cursor.fetchall()]
    known = [found for found in splits if found is not None and found["outside_s"] is not None]
    if not known:
        return None
    parts = {}
    for name in PARTS:
        values = sorted(found[name] for found in known if found[name] is not None)
        if values:
            parts[name] = {"n": len(values), "sum": sum(values), "p95": _p95(values)}
    return {"hops": len(known), "contradicting": len(splits) - len(known), "parts": parts}
