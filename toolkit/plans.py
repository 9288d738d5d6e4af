"""Plan files: an allocation as `plan.toml` (and as JSON), written and read back.

TOML has no null: a key that is not known is left out of the file and is None here. Times are rounded to the
microsecond, budgets down and deadlines up, so that the budgets of a file never add up to more than its deadline.
"""

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterable, Mapping, MutableMapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.exceptions import TOMLKitError

from hopbudget.budgets import Allocation, Slot
from hopbudget.errors import Exit, UserError

FORMAT: Final = 1

PLAN_KEYS: Final = (
    "format",
    "id",
    "workload",
    "deadline_s",
    "percentile",
    "binds",
    "method",
    "slot_kind",
    "slots",
    "work_s",
    "stream",
    "feasibility",
    "kept",
    "learned_from",
    "notes",
)
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
    ),
    "kept": ("share", "low", "high", "n"),
    "learned_from": ("trajectories", "runs", "models", "first", "last", "left_out"),
}
"""The keys this version writes. Any other key in a file is somebody else's, and is kept."""

SLOT_KEYS: Final = ("slot", "budget_s", "kept", "p50_s", "p90_s", "visits", "visited", "extrapolated")


def plan_dict(allocation: Allocation, workload: str | None) -> dict[str, Any]:
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
        "method": a.method,
        "slot_kind": a.slot_kind,
        "slots": [_slot(slot, us) for slot, us in zip(a.slots, slots_us, strict=True)],
        "work_s": work_us / 1e6,
        "stream": _stream(a, stream_us),
        "feasibility": _feasibility(a),
        "kept": {key: _number(getattr(a.kept, key)) for key in TABLE_KEYS["kept"]},
        "learned_from": {
            "trajectories": a.learned_from.trajectories,
            "runs": a.learned_from.runs,
            "models": list(a.learned_from.models),
            "first": _moment(a.learned_from.first_at),
            "last": _moment(a.learned_from.last_at),
            "left_out": dict(a.learned_from.left_out),
        },
        "notes": list(a.notes),
    }
    plan["id"] = plan_id(plan)
    return plan


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
    row = {key: _number(getattr(a.stream, key), 9 if key == "tpot_s" else 6) for key in TABLE_KEYS["stream"]}
    if a.stream.ttft_s is not None and math.isfinite(a.stream.ttft_s):
        row["ttft_s"] = min(row["ttft_s"], budget_us / 1e6)  # type: ignore[type-var]
    return {**row, "budget_s": budget_us / 1e6}


def _feasibility(a: Allocation) -> dict[str, Any]:
    f = a.feasibility
    row = {key: _number(getattr(f, key)) for key in TABLE_KEYS["feasibility"]}
    for key in ("min_deadline_s", "min_deadline_low_s", "min_deadline_high_s"):
        value = getattr(f, key)
        row[key] = _up(value) / 1e6 if math.isfinite(value) else None
    return row


def _moment(at: float) -> str | None:
    if not math.isfinite(at):
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def write(path: Path, plan: Mapping[str, Any]) -> None:
    """Write a plan file, whole or not at all; an existing file keeps its comments and the keys that are not ours.

    Raises UserError where the existing file is no TOML, or the place can't be written to.
    """
    path = Path(path)
    document = _document(path) if path.exists() else tomlkit.document()
    _update(document, plan)
    try:
        _replace(path, tomlkit.dumps(document))
    except OSError as error:
        raise UserError(f"can't write the plan to {path}: {error.strerror}", Exit.ENVIRONMENT) from error


def _replace(path: Path, text: str) -> None:
    """Write beside the file, then rename, so that no reader ever sees half a plan."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        Path(name).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o644)
        Path(name).replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        raise


def _document(path: Path) -> TOMLDocument:
    try:
        return tomlkit.parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"there is no plan at {path}; `hopbudget allocate --out {path}` writes one") from None
    except (TOMLKitError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not a TOML file: {error}") from error
    except OSError as error:
        raise UserError(f"can't read {path}: {error.strerror}", Exit.ENVIRONMENT) from error


def _update(document: TOMLDocument, plan: Mapping[str, Any]) -> None:
    """Set what is known, take out what is ours and no longer known, leave the rest alone."""
    _set_values(document, plan, [key for key in PLAN_KEYS if key not in TABLE_KEYS and key != "slots"])
    document["slots"] = _slots(document.get("slots"), plan["slots"])
    for key, ours in TABLE_KEYS.items():
        if not isinstance(document.get(key), MutableMapping):
            document[key] = tomlkit.table()
        _set_values(document[key], plan.get(key) or {}, ours)
        if not document[key]:
            del document[key]


def _set_values(table: MutableMapping[str, Any], values: Mapping[str, Any], ours: Iterable[str]) -> None:
    for key in ours:
        value = values.get(key)
        if value is None:
            table.pop(key, None)
        elif table.get(key) != value:
            table[key] = value


def _slots(old: Any, slots: list[Mapping[str, Any]]) -> Any:
    """The array of slot tables; a slot that stays keeps keys that are not ours."""
    before = {row.get("slot"): row for row in old or [] if isinstance(row, Mapping)}
    rows = tomlkit.aot()
    for slot in slots:
        row = tomlkit.table()
        for key, value in before.get(slot["slot"], {}).items():
            if key not in SLOT_KEYS:
                row[key] = value
        for key in SLOT_KEYS:
            if slot.get(key) is not None:
                row[key] = slot[key]
        rows.append(row)
    return rows


def read(path: Path) -> dict[str, Any]:
    """The plan in a file, with None for what it does not say; keys that are not ours are there too.

    Raises UserError where there is no file, it is no plan, or a newer version wrote it.
    """
    path = Path(path)
    plan: dict[str, Any] = _document(path).unwrap()
    _check(path, plan)
    for key in PLAN_KEYS:
        plan.setdefault(key, None)
    for key, ours in TABLE_KEYS.items():
        if isinstance(plan[key], dict):
            for name in ours:
                plan[key].setdefault(name, None)
    plan["slots"] = [{**dict.fromkeys(SLOT_KEYS), **slot} for slot in plan["slots"] or []]
    return plan


def _check(path: Path, plan: Mapping[str, Any]) -> None:
    version = plan.get("format")
    if not isinstance(version, int) or isinstance(version, bool):
        raise UserError(
            f"{path} is not a plan: it has no whole number `format`; `hopbudget allocate --out` writes plans"
        )
    if version > FORMAT:
        raise UserError(
            f"{path} has format {version}, newer than this hopbudget reads ({FORMAT}); upgrade hopbudget",
            Exit.ENVIRONMENT,
        )
    if not _seconds(plan.get("deadline_s")) or not plan["deadline_s"] > 0:
        raise UserError(f"{path}: `deadline_s` must be a positive number of seconds, not {plan.get('deadline_s')!r}")
    slots = plan.get("slots", [])
    if not isinstance(slots, list) or not all(isinstance(slot, dict) for slot in slots):
        raise UserError(f"{path}: `slots` must be an array of tables, each with `slot` and `budget_s`")
    for number, slot in enumerate(slots, 1):
        if not isinstance(slot.get("slot"), str) or not _seconds(slot.get("budget_s")):
            raise UserError(f"{path}: slot {number} needs `slot`, a name, and `budget_s`, seconds of 0 or more")
    for key in ("stream", "feasibility", "kept", "learned_from"):
        if key in plan and not isinstance(plan[key], dict):
            raise UserError(f"{path}: `{key}` must be a table")


def _seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
