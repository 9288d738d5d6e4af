"""Span records back to OTLP/JSON lines, without the content that was dropped on the way in.

What comes over the network is decoded, checked and stripped first, and only then written down: no prompt reaches a
disk, and a spool holds nothing that can't be read back. Pure.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

import msgspec

from hopbudget.store.spans import Attributes, Event, Span, Value

_encode: Final = msgspec.json.Encoder().encode


def lines(spans: Iterable[Span]) -> list[bytes]:
    """One export request for the spans of each resource, in order."""
    return [_encode(_request(list(group))) for _, group in groupby(spans, key=lambda span: id(span.resource))]


def _request(spans: list[Span]) -> dict[str, Any]:
    scopes = [
        {"scope": {"name": name}, "spans": [_span(span) for span in group]}
        for name, group in groupby(spans, key=lambda span: span.scope)
    ]
    return {"resourceSpans": [{"resource": {"attributes": _pairs(spans[0].resource)}, "scopeSpans": scopes}]}


def _span(span: Span) -> dict[str, Any]:
    found: dict[str, Any] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _pairs(span.attributes),
        "status": {"code": span.status, **({"message": span.status_text} if span.status_text else {})},
    }
    if span.parent_id:
        found["parentSpanId"] = span.parent_id
    if span.events:
        found["events"] = [_event(event) for event in span.events]
    if span.dropped_events:
        found["droppedEventsCount"] = span.dropped_events
    return found


def _event(event: Event) -> dict[str, Any]:
    return {"name": event.name, "timeUnixNano": str(event.at_ns), "attributes": _pairs(event.attributes)}


def _pairs(attributes: Attributes) -> list[dict[str, Any]]:
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
        return {"kvlistValue": {"values": _pairs(value)}}
    return {"arrayValue": {"values": [_value(item) for item in value]}}
