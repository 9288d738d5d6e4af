"""Spans as we keep them: plain records without content, ids in lower hex, times in nanoseconds since the epoch."""

from typing import Any, Final, NamedTuple

import msgspec

Value = str | int | float | bool | list[Any] | dict[str, Any]
Attributes = dict[str, Value]

UNSET: Final = 0
OK: Final = 1
ERROR: Final = 2
SERVER: Final = 2
CLIENT: Final = 3


class Event(msgspec.Struct, gc=False):
    """What happened at one moment of a span."""

    name: str
    at_ns: int
    attributes: Attributes


class Span(msgspec.Struct, gc=False):
    """One span as it came, without content. Ids in lower hex, times in nanoseconds since the Unix epoch."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: int
    start_ns: int
    end_ns: int
    status: int
    status_text: str | None
    scope: str
    resource: Attributes
    attributes: Attributes
    events: list[Event] | None = None
    dropped_events: int = 0


class Decoded(NamedTuple):
    """What one request held."""

    spans: list[Span]
    rejected: list[str]
    dropped_content: int
