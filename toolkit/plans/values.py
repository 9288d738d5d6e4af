"""A plan as plain values: what stands in `plan.toml` and what `--json` prints.

Times are rounded to the microsecond, budgets down and deadlines up, so that the budgets of a file never add up to more
than its deadline.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Final

from hopbudget.budgets import Allocation, Slot
from hopbudget.budgets.allocation import Auto, plain
from hopbudget.budgets.run_time.knowledge import Knowledge

FORMAT: Final = 1

PLAN_KEYS: Final = (
    "format",
    "id",
    "workload",
    "deadline_s",
    "percentile",
    "binds",
    "answer_deadline_s",
    "method",
    "slot_kind",
    "work_s",
    "max_steps",
    "notes",
)
ROW_KEYS: Final = ("caps", "tokens", "first_tokens", "first_token_benefits", "expectations")
"""Arrays of tables, written one row a line and replaced whole."""
SLOT_KEYS: Final = ("slot", "budget_s", "kept", "p50_s", "p90_s", "visits", "visited", "extrapolated")
TABLE_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "stream": (
        "ttft_s",
        "tpot_s",
        "tokens",
        "tokens_percentile",
        "level",
        "joint",
        "budget_s",
        "kept",
        "p50_s",
        "p90_s",
        "answer_s",
        "sizes",
    ),
    "feasibility": (
        "p_deadline",
        "p_low",
        "p_high",
        "min_deadline_s",
        "min_deadline_low_s",
        "min_deadline_high_s",
        "verdict",
        "needs",
        "possible_low",
        "possible_high",
        "extrapolated",
        "runs",
        "classes",
    ),
    "kept": ("share", "low", "high", "n"),
    "learned_from": (
        "trajectories",
        "runs",
        "models",
        "first",
        "last",
        "left_out",
        "intervened",
        "half_life_s",
        "effective",
        "unit",
        "run_by",
    ),
    "auto": tuple(field.name for field in fields(Auto)),
    "answer": ("model", "starts_s", "at", "tokens", "n"),
    "steps": ("at", "hops", "within_s"),
    "chance": (
        "base_rate",
        "later_base_rate",
        "scored",
        "base",
        "brier",
        "brier_hint",
        "ece",
        "ece_hint",
        "ranges",
        "known",
        "known_hint",
        "mean_hop_s",
        "logit",
        "hint",
        "visits",
        "reach",
        "remaining_s",
    ),
    "abort": (
        "pays",
        "n",
        "saved",
        "error",
        "false",
        "false_error",
        "saved_hint",
        "error_hint",
        "false_hint",
        "false_error_hint",
        "visits",
        "latest_s",
        "hint_below",
    ),
    "fingerprint": ("models", "hops", "runs", "works", "prompts"),
    "drift": ("n", "within", "false_alarms", "limits", "charts", "some"),
}
"""The keys this version writes into each table. Any other key in a file is somebody else's, and is kept."""


def stated_s(deadline_s: float) -> float:
    """A deadline as a plan states it. Allot this one, so that learning from what the plan states gives it again."""
    return _up(deadline_s) / 1e6


def plan_dict(
    allocation: Allocation, workload: str | None, knowledge: Knowledge | None = None, run_by: str | None = None
) -> dict[str, Any]:
    """The plan as plain values, ready for JSON: None where a figure is not known, never an infinity."""
    a = allocation
    deadline_us = _up(a.deadline_s)
    stream_s = a.stream.budget_s if a.stream else 0.0
    *slots_us, work_us, stream_us = _fit([*(slot.budget_s for slot in a.slots), a.work_s, stream_s], deadline_us)
    plan: dict[str, Any] = {
        "format": FORMAT,
        "id": "",
        "workload": workload,
        "deadline_s": deadline_us / 1e6,
        "percentile": a.percentile,
        "binds": a.binds,
        "answer_deadline_s": None if a.answer_deadline_s is None else _up(a.answer_deadline_s) / 1e6,
        "method": a.method,
        "slot_kind": a.slot_kind,
        "slots": [_slot(slot, us) for slot, us in zip(a.slots, slots_us, strict=True)],
        "work_s": work_us / 1e6,
        "stream": _stream(a, stream_us),
        "feasibility": _feasibility(a),
        "kept": {key: _number(getattr(a.kept, key)) for key in TABLE_KEYS["kept"]},
        "learned_from": _learned(a) | {"run_by": run_by},
        "auto": None if a.auto is None else _table("auto", plain(a.auto)),
        "notes": [*a.notes, *(knowledge.notes if knowledge else ())],
        **_sections(knowledge),
    }
    plan["id"] = plan_id(plan)
    return plan


def _sections(knowledge: Knowledge | None) -> dict[str, Any]:
    found = knowledge.to_plan() if knowledge else {}
    rows = {key: _known(found.get(key) or []) for key in ROW_KEYS}
    names = ("answer", "steps", "chance", "abort", "fingerprint", "drift")
    tables = {name: None if found.get(name) is None else _table(name, found[name]) for name in names}
    return {"max_steps": found.get("max_steps"), **rows, **tables}


def _table(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """A table with None for the keys that are not known, and without them further down."""
    return {key: _known(values.get(key)) for key in TABLE_KEYS[name]}


def _known(value: Any) -> Any:
    """The value without what is None in it; there is no such thing in a file."""
    if isinstance(value, Mapping):
        return {key: _known(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_known(inner) for inner in value if inner is not None]
    return value


def _learned(a: Allocation) -> dict[str, Any]:
    learned = a.learned_from
    return {
        "trajectories": learned.trajectories,
        "runs": learned.runs,
        "models": list(learned.models),
        "first": _moment(learned.first_at),
        "last": _moment(learned.last_at),
        "left_out": dict(learned.left_out),
        **{key: _number(getattr(learned, key)) for key in ("intervened", "half_life_s", "effective", "unit")},
    }


def plan_id(plan: Mapping[str, Any]) -> str:
    """Twelve hex digits that name the plan's content: equal plans have equal ids."""
    content = {key: value for key, value in plan.items() if key != "id"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _up(seconds: float) -> int:
    return max(math.ceil(seconds * 1e6 - 1e-3), 1)


def _fit(budgets_s: list[float], deadline_us: int) -> list[int]:
    """Whole microseconds, rounded down, that add up to the deadline at most."""
    rounded = [max(math.floor(seconds * 1e6 + 1e-3), 0) for seconds in budgets_s]
    excess = sum(rounded) - deadline_us
    if excess > 0:
        rounded[rounded.index(max(rounded))] -= excess
    return rounded


def _number(value: float | int | str | None, digits: int = 6) -> float | int | str | None:
    if not isinstance(value, float):
        return value
    return round(value, digits) if math.isfinite(value) else None


def _slot(slot: Slot, budget_us: int) -> dict[str, Any]:
    row = {key: _number(getattr(slot, key)) for key in SLOT_KEYS}
    return {**row, "budget_s": budget_us / 1e6}


def _stream(a: Allocation, budget_us: int) -> dict[str, Any] | None:
    if a.stream is None:
        return None
    row: dict[str, Any] = {key: _number(getattr(a.stream, key)) for key in TABLE_KEYS["stream"]}
    ttft_s, tpot_s = a.stream.ttft_s, a.stream.tpot_s
    # Rounded up: the stream that a limit was read from keeps it.
    if ttft_s is not None and math.isfinite(ttft_s):
        row["ttft_s"] = min(_up(ttft_s), budget_us) / 1e6
    if tpot_s is not None and math.isfinite(tpot_s):
        row["tpot_s"] = math.ceil(tpot_s * 1e9 - 1e-3) / 1e9
    return {**row, "budget_s": budget_us / 1e6, "sizes": _known(plain(a.stream.sizes)) or None}


def _feasibility(a: Allocation) -> dict[str, Any]:
    f = a.feasibility
    row: dict[str, Any] = {key: _number(getattr(f, key)) for key in TABLE_KEYS["feasibility"]}
    row["runs"] = None if f.runs is None else _known(plain(f.runs))
    row["classes"] = _known(plain(f.classes)) or None
    for key in ("min_deadline_s", "min_deadline_low_s", "min_deadline_high_s"):
        value = getattr(f, key)
        row[key] = _up(value) / 1e6 if math.isfinite(value) else None
    return row


def _moment(at: float) -> str | None:
    if not math.isfinite(at):
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
