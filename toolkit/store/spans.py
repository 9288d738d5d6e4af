"""Spans as we keep them: plain records without content, ids in lower hex, times in nanoseconds since the epoch."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Any, Final, NamedTuple, overload

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


class Fields(NamedTuple):
    """Spans field by field, in the order of theirs."""

    trace_id: Sequence[str] = ()
    span_id: Sequence[str] = ()
    parent_id: Sequence[str | None] = ()
    name: Sequence[str] = ()
    kind: Sequence[int] = ()
    start_ns: Sequence[int] = ()
    end_ns: Sequence[int] = ()
    status: Sequence[int] = ()
    status_text: Sequence[str | None] = ()
    scope: Sequence[str] = ()
    resource: Sequence[Attributes] = ()
    attributes: Sequence[Attributes] = ()
    events: Sequence[list[Event] | None] = ()
    dropped_events: Sequence[int] = ()


class Spans(Sequence[Span]):
    """Spans that are kept field by field, which is cheaper for many; each is made where it is asked for."""

    def __init__(self, fields: Fields) -> None:
        self.fields: Final = fields

    def __len__(self) -> int:
        """How many they are."""
        return len(self.fields.trace_id)

    @overload
    def __getitem__(self, at: int) -> Span: ...
    @overload
    def __getitem__(self, at: slice) -> list[Span]: ...
    def __getitem__(self, at: int | slice) -> Span | list[Span]:
        """One of them, or some."""
        found: list[Any] = [values[at] for values in self.fields]
        return list(map(Span, *found)) if isinstance(at, slice) else Span(*found)

    def __iter__(self) -> Iterator[Span]:
        """All of them."""
        return map(Span, *self.fields)

    def at(self, places: list[int]) -> "Spans":
        """Those at these places, in this order."""
        if places == list(range(len(self))):
            return self
        columns: list[Any] = [list(map(values.__getitem__, places)) for values in self.fields]
        return Spans(Fields(*columns))


def fields_of(spans: Sequence[Span]) -> Fields:
    """The fields of these spans."""
    if isinstance(spans, Spans):
        return spans.fields
    return Fields(*zip(*map(msgspec.structs.astuple, spans), strict=True))


def joined(several: Iterable[Sequence[Span]]) -> Spans:
    """All of them one after the other."""
    fields: list[Fields] = []
    for by_field, run in groupby(several, lambda one: isinstance(one, Spans)):
        some = list(run)
        fields += map(fields_of, some) if by_field else [fields_of(list(chain.from_iterable(some)))]
    if len(fields) == 1:
        return Spans(fields[0])
    return Spans(Fields(*(list(chain.from_iterable(values)) for values in zip(*fields, strict=True))))


class Decoded(NamedTuple):
    """What one request held."""

    spans: Sequence[Span]
    rejected: list[str]
    dropped_content: int
