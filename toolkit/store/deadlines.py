"""What became of deadlines and limits, and what was done about them. Reading; every value is a parameter."""

import json
from collections.abc import Mapping
from typing import Any, Final

import duckdb

from hopbudget.store.narrow import Where, condition
from hopbudget.tracing.vocabulary import DECISIONS, ENFORCE

FELL_S: Final = 0.005
"""A hop that its completion limit ended no earlier than so many seconds before the deadline was ended by that."""
_FAILED: Final = "t.outcome IN ('failed', 'refused')"
_CAME_OUT: Final = "t.outcome IN ('ok', 'truncated')"
_LIMIT: Final = (
    f"CASE WHEN h.limit_hit = 'completion' AND h.start_s + h.duration_s >= t.deadline_s - {FELL_S} "
    "THEN 'deadline' ELSE h.limit_hit END"
)


def held(con: duckdb.DuckDBPyConnection, where: Where) -> dict[str, Any]:
    """Counts of trajectories and hops; `limits` and `beyond` are of hops, by limit, `decisions` by their kind.

    A trajectory `met` its deadline if it came out well by then, and `missed` it if it took longer or failed; one that
    was cut short before is `left_out`. `limits` ended so many hops; so many others went `beyond` one that was not held.
    """
    chosen = condition(where)
    of_hops = f"FROM hops h JOIN trajectories t USING (trace_id, root_span_id) WHERE {chosen.sql}"
    ((trajectories, with_deadline, met, missed, intervened),) = con.execute(
        "SELECT count(*), count(t.deadline_s), "
        f"count(*) FILTER ({_CAME_OUT} AND t.duration_s <= t.deadline_s), "
        f"count(*) FILTER (t.duration_s > t.deadline_s OR ({_FAILED} AND t.deadline_s IS NOT NULL)), "
        f"count(*) FILTER (t.intervened) FROM trajectories t WHERE t.complete AND ({chosen.sql})",
        chosen.parameters,
    ).fetchall()
    found = con.execute(
        f"SELECT {_LIMIT} AS hit, h.outcome = 'timed_out' AS ended, count(*) {of_hops} AND h.limit_hit IS NOT NULL "
        "GROUP BY ALL ORDER BY count(*) DESC, hit",
        chosen.parameters,
    ).fetchall()
    ((refused,),) = con.execute(
        f"SELECT count(*) FILTER (h.outcome = 'refused') {of_hops}", chosen.parameters
    ).fetchall()
    decisions = con.execute(
        "SELECT regexp_extract(decision, '[^ ]*$') AS kind, count(*) FROM ("
        "SELECT unnest(from_json(t.attributes[?], '[\"VARCHAR\"]')) AS decision "
        f"FROM trajectories t WHERE t.complete AND t.intervened AND ({chosen.sql})) GROUP BY kind "
        "ORDER BY count(*) DESC, kind",
        [DECISIONS, *chosen.parameters],
    ).fetchall()
    return {
        "trajectories": trajectories,
        "with_deadline": with_deadline,
        "met": met,
        "missed": missed,
        "left_out": with_deadline - met - missed,
        "limits": {limit: n for limit, ended, n in found if ended},
        "beyond": {limit: n for limit, ended, n in found if not ended},
        "refused": refused,
        "intervened": intervened,
        "decisions": dict(decisions),
    }


def of_trajectory(detail: Mapping[str, Any]) -> dict[str, Any]:
    """The same of one stored trajectory, as `queries.trajectory` gives it, and what was left when each hop began.

    `ended` is `met`, `missed` or `left_out`, None without a deadline; `decisions` stand in order, as `hop: what`.
    """
    row = detail["trajectory"]
    kept = ("hop", "visit", "remaining_s", "budget_s", "duration_s", "outcome")
    return {
        **{key: row[key] for key in ("deadline_s", "duration_s", "outcome", "plan", "intervened")},
        "enforce": row["attributes"].get(ENFORCE),
        "ended": _ended(row),
        "decisions": _decisions(row["attributes"].get(DECISIONS)),
        "hops": [
            {**{key: hop[key] for key in kept}, "limit_hit": _limit(hop, row["deadline_s"])} for hop in detail["hops"]
        ],
    }


def _ended(row: Mapping[str, Any]) -> str | None:
    if row["deadline_s"] is None:
        return None
    if row["duration_s"] > row["deadline_s"] or row["outcome"] in {"failed", "refused"}:
        return "missed"
    return "met" if row["outcome"] in {"ok", "truncated"} else "left_out"


def _decisions(said: str | None) -> list[str]:
    try:
        found = json.loads(said) if said else []
    except ValueError:
        return []
    return [str(each) for each in found] if isinstance(found, list) else []


def _limit(hop: Mapping[str, Any], deadline_s: float | None) -> str | None:
    limit: str | None = hop["limit_hit"]
    fell = deadline_s is not None and hop["start_s"] + hop["duration_s"] >= deadline_s - FELL_S
    return "deadline" if limit == "completion" and fell else limit
