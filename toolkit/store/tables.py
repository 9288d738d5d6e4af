"""Spans and rows to the columns of their tables. Pure."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hopbudget.store import columns
from hopbudget.store.columns import Column, Table, Taken, Values
from hopbudget.store.rows import HopRow, TrajectoryRow, WorkRow
from hopbudget.store.spans import Attributes, Event, Fields

Row = TrajectoryRow | HopRow | WorkRow

SPAN_COLUMNS: Final = (
    *("trace_id", "span_id", "parent_span_id", "name", "kind", "start_ns", "end_ns", "status", "status_text"),
    *("scope", "resource", "attributes", "events", "dropped_events"),
)
TABLES: Final[dict[str, type[Row]]] = {"trajectories": TrajectoryRow, "hops": HopRow, "works": WorkRow}
"""The derived tables and the rows they hold."""
COLUMNS: Final[dict[str, tuple[str, ...]]] = {"spans": SPAN_COLUMNS} | {
    table: row.__struct_fields__ for table, row in TABLES.items()
}
_encode: Final = msgspec.json.encode


class Keys(NamedTuple):
    """The ids of spans, to compare and to choose from."""

    trace_id: NDArray[np.bytes_]
    span_id: NDArray[np.bytes_]
    parent_id: NDArray[np.bytes_]
    """`NO_PARENT` for those without."""


NO_PARENT: Final = "0" * 16


def keys_of(fields: Fields) -> Keys | None:
    """Their ids; None if one has not the length of an id."""
    trace_id, span_id = columns.keys(fields.trace_id, 32), columns.keys(fields.span_id, 16)
    parent_id = columns.keys([parent or NO_PARENT for parent in fields.parent_id], 16)
    if trace_id is None or span_id is None or parent_id is None:
        return None
    return Keys(trace_id, span_id, parent_id)


def field_columns(fields: Fields, keys: Keys | None) -> Table:
    """The columns of spans, at least one; attributes that many share are written out once."""
    return {
        "trace_id": columns.texts(keys.trace_id if keys else fields.trace_id),
        "span_id": columns.texts(keys.span_id if keys else fields.span_id),
        "parent_span_id": columns.texts(keys.parent_id if keys else fields.parent_id, null=NO_PARENT.encode()),
        "name": columns.words(fields.name),
        "kind": columns.whole_numbers(fields.kind),
        "start_ns": columns.whole_numbers(fields.start_ns),
        "end_ns": columns.whole_numbers(fields.end_ns),
        "status": columns.whole_numbers(fields.status),
        "status_text": columns.words(fields.status_text),
        "scope": columns.words(fields.scope),
        "resource": columns.words(_resources(fields.resource)),
        "attributes": columns.encoded(_json_of(fields.attributes)),
        "events": _events(fields.events),
        "dropped_events": columns.whole_numbers(fields.dropped_events),
    }


def row_columns(table: str, rows: Sequence[Row], found: Mapping[str, Values] = MappingProxyType({})) -> Table:
    """The columns of one of `TABLES`: of values by column (one that is missing is NULL), and of rows after them."""
    makers = _COLUMN_MAKERS[table]
    count = len(found["trace_id"]) if found else 0
    if not rows:
        return {name: make(found[name]) if name in found else columns.nothing(count) for name, make in makers.items()}
    of_rows = zip(*map(msgspec.structs.astuple, rows), strict=True)
    if not found:
        return {name: make(values) for (name, make), values in zip(makers.items(), of_rows, strict=True)}
    return {
        name: make([*(columns.as_list(found[name]) if name in found else [None] * count), *values])
        for (name, make), values in zip(makers.items(), of_rows, strict=True)
    }


def _json_of(values: Sequence[Attributes]) -> list[bytes]:
    """The JSON of each; what several share is written out once."""
    texts: dict[int, bytes] = {}
    found = []
    for value in values:
        text = texts.get(id(value))
        if text is None:
            text = texts[id(value)] = _encode(value)
        found.append(text)
    return found


def _events(values: Sequence[list[Event] | None]) -> Column:
    if not any(values):
        return columns.nothing(len(values))
    return columns.words([_encode(events).decode() if events else None for events in values])


def _resources(values: Sequence[Attributes]) -> Taken:
    """The JSON of each, for there are few of them."""
    distinct = {id(value): value for value in values}
    numbers = {key: number for number, key in enumerate(distinct)}
    at = np.fromiter((numbers[id(value)] for value in values), dtype=np.int64, count=len(values))
    return Taken([_encode(value).decode() for value in distinct.values()], at)


_MAKERS: Final[tuple[tuple[type, Callable[[Any], Column]], ...]] = (
    (bool, columns.truths),
    (int, columns.whole_numbers),
    (float, columns.numbers),
    (str, columns.words),
)


def _maker(name: str, annotation: Any) -> Callable[[Any], Column]:
    if name in {"trace_id", "root_span_id", "span_id"}:
        return columns.texts
    if name == "attributes":
        return columns.maps
    if name == "itl_us":
        return columns.lists_of_numbers
    parts = getattr(annotation, "__args__", (annotation,))
    return next(maker for kind, maker in _MAKERS if kind in parts)


_COLUMN_MAKERS: Final = {
    table: {field.name: _maker(field.name, field.type) for field in msgspec.structs.fields(row)}
    for table, row in TABLES.items()
}
