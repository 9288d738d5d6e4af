"""Spans and rows to the columns of their tables. Pure."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from hopbudget.store import columns
from hopbudget.store.columns import Column, Table
from hopbudget.store.rows import HopRow, TrajectoryRow, WorkRow
from hopbudget.store.spans import Attributes, Span

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


def span_columns(spans: Sequence[Span]) -> Table:
    """The columns of `spans`; attributes that many spans share are written out once."""
    return {
        "trace_id": columns.texts([span.trace_id for span in spans]),
        "span_id": columns.texts([span.span_id for span in spans]),
        "parent_span_id": columns.texts([span.parent_id for span in spans]),
        "name": columns.words([span.name for span in spans]),
        "kind": columns.whole_numbers([span.kind for span in spans]),
        "start_ns": columns.whole_numbers([span.start_ns for span in spans]),
        "end_ns": columns.whole_numbers([span.end_ns for span in spans]),
        "status": columns.whole_numbers([span.status for span in spans]),
        "status_text": columns.words([span.status_text for span in spans]),
        "scope": columns.words([span.scope for span in spans]),
        "resource": columns.words(_shared_json([span.resource for span in spans])),
        "attributes": columns.texts(_shared_json([span.attributes for span in spans])),
        "events": columns.words([_json(span.events) if span.events else None for span in spans]),
        "dropped_events": columns.whole_numbers([span.dropped_events for span in spans]),
    }


def row_columns(table: str, rows: Sequence[Row]) -> Table:
    """The columns of one of `TABLES`."""
    values = zip(*map(msgspec.structs.astuple, rows), strict=True)
    return {name: make(each) for (name, make), each in zip(_COLUMN_MAKERS[table].items(), values, strict=True)}


def _shared_json(values: Sequence[Attributes]) -> list[str]:
    distinct = {id(value): value for value in values}
    texts = {key: _json(value) for key, value in distinct.items()}
    return [texts[id(value)] for value in values]


def _json(value: object) -> str:
    return _encode(value).decode()


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
