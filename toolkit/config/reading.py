"""From a parsed `hopbudget.toml` to values as Python holds them, and to the JSON Schema for editors."""

from collections.abc import Mapping
from typing import Any

from hopbudget.config.kinds import DEFINITIONS, Json, Kind
from hopbudget.config.tables import DOCUMENT, Mistakes, Table, Tables, limit_kind
from hopbudget.config.toml_lines import Path
from hopbudget.store.narrow import nearest


def read(document: Mapping[str, Any], mistakes: Mistakes) -> dict[str, Any]:
    """The document with every value as Python holds it; mistakes are noted and what they concern is left out."""
    found = _table(DOCUMENT, document, (), mistakes)
    for workload in found.get("workloads", {}).values():
        for objective in workload.get("objectives", ()):
            if "limit" in objective and not mistakes.found:
                objective["limit"] = limit_kind(objective["metric"]).read(objective["limit"])
    return found


def _table(table: Table, values: Any, where: Path, mistakes: Mistakes) -> dict[str, Any]:
    if not isinstance(values, dict):
        mistakes.add(where, f"{_dotted(where)} must be a table, not {values!r}")
        return {}
    found = {}
    for key, value in values.items():
        kind = table.keys.get(key) or table.each
        if kind is None:
            mistakes.add((*where, key), f"unknown key {key!r}{nearest(key, list(table.keys))}")
        else:
            found[key] = _value(kind, value, (*where, key), mistakes)
    for key in table.needed:
        if key not in values:
            mistakes.add(where, f"{_dotted(where)} needs {key}")
    if table.check:
        table.check(values, where, mistakes)
    return {key: value for key, value in found.items() if value is not None}


def _value(kind: Kind | Table | Tables, value: Any, where: Path, mistakes: Mistakes) -> Any:
    if isinstance(kind, Table):
        return _table(kind, value, where, mistakes)
    if isinstance(kind, Tables):
        if not isinstance(value, list):
            mistakes.add(where, f"{_dotted(where)} must be an array of tables, not {value!r}")
            return None
        return [_table(kind.of, item, (*where, index), mistakes) for index, item in enumerate(value)]
    try:
        return kind.read(value)
    except ValueError as error:
        mistakes.add(where, f"{where[-1]}: {error}")
        return None


def _dotted(where: Path) -> str:
    return ".".join(str(part) for part in where) or "the file"


def json_schema() -> Json:
    """The JSON Schema of `hopbudget.toml`, for editors."""
    begin = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "hopbudget.toml"}
    return begin | _schema(DOCUMENT) | {"$defs": DEFINITIONS}


def _schema(kind: Kind | Table | Tables) -> Json:
    about = {"description": kind.about} if kind.about else {}
    if isinstance(kind, Kind):
        return about | kind.schema
    if isinstance(kind, Tables):
        return about | {"type": "array", "items": _schema(kind.of)}
    made: Json = about | {"type": "object"}
    if kind.keys:
        made["properties"] = {key: _schema(of) for key, of in kind.keys.items()}
    made["additionalProperties"] = _schema(kind.each) if kind.each else False
    if kind.needed:
        made["required"] = list(kind.needed)
    if kind.rules:
        made["allOf"] = list(kind.rules)
    return made
