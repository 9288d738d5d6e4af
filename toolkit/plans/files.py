"""Plan files: written whole, read back, and rewritten without losing what a person put in.

TOML has no null: a key that is not known is left out of the file and is None here.
"""

import math
import os
import tempfile
from collections.abc import Iterable, Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.exceptions import TOMLKitError

from hopbudget.errors import Exit, UserError
from hopbudget.plans.values import FORMAT, PLAN_KEYS, ROW_KEYS, SLOT_KEYS, TABLE_KEYS, plan_dict, plan_id, stated_s
from hopbudget.units import LONGEST_S

__all__ = ["FORMAT", "plan_dict", "plan_id", "read", "stated_s", "write"]

SMALL: Final = 4
"""A table in a table with no more keys than this stands on one line."""


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
        said = str(error).replace("Unexpected character: '\\x00'", "it ends too early,")  # tomlkit's mark of the end
        raise UserError(f"{path} is not a TOML file: {said}") from error
    except OSError as error:
        raise UserError(f"can't read {path}: {error.strerror}", Exit.ENVIRONMENT) from error


def _update(document: TOMLDocument, plan: Mapping[str, Any]) -> None:
    """Set what is known, take out what is ours and no longer known, leave the rest alone."""
    _set_values(document, plan, PLAN_KEYS)
    _set_values(document, {key: plan.get(key) or None for key in ROW_KEYS}, ROW_KEYS)
    document["slots"] = _slots(document.get("slots"), plan["slots"])
    for key, ours in TABLE_KEYS.items():
        values = plan.get(key) or {}
        if not isinstance(document.get(key), MutableMapping):
            document[key] = tomlkit.table()
        _set_values(document[key], values, ours)
        if not document[key]:
            del document[key]


def _set_values(table: MutableMapping[str, Any], values: Mapping[str, Any], ours: Iterable[str]) -> None:
    for key in ours:
        value = values.get(key)
        if value is None:
            table.pop(key, None)
        elif table.get(key) != value:
            table[key] = _compact(value)


def _compact(value: Any) -> Any:
    """An array of rows with a line for each, a small table on one line, anything else as it is."""
    if isinstance(value, list) and any(isinstance(inner, list | Mapping) for inner in value):
        return tomlkit.value("[\n" + "".join(f"    {_line(row)},\n" for row in value) + "]")
    if isinstance(value, Mapping) and 0 < len(value) <= SMALL:
        return tomlkit.value(_line(value))
    return value


def _line(value: Any) -> str:
    if isinstance(value, Mapping):
        return (
            "{ " + ", ".join(f"{tomlkit.key(key).as_string()} = {_line(inner)}" for key, inner in value.items()) + " }"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_line, value)) + "]"
    return str(tomlkit.item(value).as_string())


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
    for key in (*PLAN_KEYS, *TABLE_KEYS):
        plan.setdefault(key, None)
    for key in ROW_KEYS:
        plan.setdefault(key, [])
    for key, ours in TABLE_KEYS.items():
        if isinstance(plan[key], dict):
            for name in ours:
                plan[key].setdefault(name, None)
    plan["slots"] = [{**dict.fromkeys(SLOT_KEYS), **slot} for slot in plan.get("slots") or []]
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
    if plan["deadline_s"] > LONGEST_S:
        raise UserError(f"{path}: `deadline_s` is longer than ten years: {plan['deadline_s']:.3g} seconds")
    slots = plan.get("slots", [])
    if not isinstance(slots, list) or not all(isinstance(slot, dict) for slot in slots):
        raise UserError(f"{path}: `slots` must be an array of tables, each with `slot` and `budget_s`")
    for number, slot in enumerate(slots, 1):
        if not isinstance(slot.get("slot"), str) or not _seconds(slot.get("budget_s")):
            raise UserError(f"{path}: slot {number} needs `slot`, a name, and `budget_s`, seconds of 0 or more")
    for key in TABLE_KEYS:
        if key in plan and not isinstance(plan[key], dict):
            raise UserError(f"{path}: `{key}` must be a table")
    for key in ROW_KEYS:
        rows = plan.get(key, [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise UserError(f"{path}: `{key}` must be an array of tables")


def _seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
