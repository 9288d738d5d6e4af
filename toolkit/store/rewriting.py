"""Span records back to OTLP/JSON lines, without the content that was dropped on the way in.

What comes over the network is decoded, checked and stripped first, and only then written down: no prompt reaches a
disk, and a spool holds nothing that can't be read back. Pure.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

import msgspec

from hopbudget.store.spans import Attributes, Event, Span, Value

_PAIRS_MOST: Final = 8_192
_LONGEST: Final = 64
"""Characters of a text that is remembered."""
_REMEMBERED: Final = {str, int, bool}
_encode: Final = msgspec.json.Encoder().encode
_pairs: Final[dict[tuple[str, type, object], bytes]] = {}
"""Attributes that were written lately, as they were written: the same ones come again and again."""


def lines(spans: Iterable[Span]) -> list[bytes]:
    """One export request for the spans of each resource, in order."""
    return [_request(list(group)) for _, group in groupby(spans, key=lambda span: id(span.resource))]


def _request(spans: list[Span]) -> bytes:
    scopes = [
        b'{"scope":{"name":%b},"spans":[%b]}' % (_encode(name), b",".join(map(_span, group)))
        for name, group in groupby(spans, key=lambda span: span.scope)
    ]
    resource = _attributes(spans[0].resource)
    return b'{"resourceSpans":[{"resource":{"attributes":%b},"scopeSpans":[%b]}]}' % (resource, b",".join(scopes))


def _span(span: Span) -> bytes:
    more = b""
    if span.parent_id:
        more = b',"parentSpanId":"%b"' % span.parent_id.encode()
    if span.events:
        more += b',"events":[%b]' % b",".join(map(_event, span.events))
    if span.dropped_events:
        more += b',"droppedEventsCount":%d' % span.dropped_events
    said = b',"message":%b' % _encode(span.status_text) if span.status_text else b""
    return (
        b'{"traceId":"%b","spanId":"%b","name":%b,"kind":%d,"startTimeUnixNano":"%d","endTimeUnixNano":"%d",'
        b'"attributes":%b,"status":{"code":%d%b}%b}'
    ) % (
        span.trace_id.encode(),
        span.span_id.encode(),
        _encode(span.name),
        span.kind,
        span.start_ns,
        span.end_ns,
        _attributes(span.attributes),
        span.status,
        said,
        more,
    )


def _event(event: Event) -> bytes:
    attributes = _attributes(event.attributes)
    return b'{"name":%b,"timeUnixNano":"%d","attributes":%b}' % (_encode(event.name), event.at_ns, attributes)


def _attributes(attributes: Attributes) -> bytes:
    return b"[%b]" % b",".join([_pair(name, value) for name, value in attributes.items()])


def _pair(name: str, value: Value) -> bytes:
    kind = type(value)
    if kind not in _REMEMBERED or (kind is str and len(value) > _LONGEST):  # type: ignore[arg-type]
        return _encode({"key": name, "value": _value(value)})
    key = (name, kind, value)  # the type, for True is 1
    found = _pairs.get(key)
    if found is None:
        found = _encode({"key": name, "value": _value(value)})
        if len(_pairs) >= _PAIRS_MOST:
            _pairs.clear()
        _pairs[key] = found
    return found


def _pairs_of(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Value) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": _pairs_of(value)}}
    return {"arrayValue": {"values": [_value(item) for item in value]}}
