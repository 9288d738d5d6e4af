"""Spans of the SDK as OTLP/JSON: one export request to a line, the standard's file format.

The official encoder makes protobuf, pins a newer SDK than we ask for, and costs four times as much; a test holds this
one against it. Ids are lower hex, enums and small counts numbers, 64-bit numbers strings.
"""

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind

_KINDS: Final = {
    SpanKind.INTERNAL: 1,
    SpanKind.SERVER: 2,
    SpanKind.CLIENT: 3,
    SpanKind.PRODUCER: 4,
    SpanKind.CONSUMER: 5,
}
_HAS_IS_REMOTE: Final = 0x100
_IS_REMOTE: Final = 0x200

_json = msgspec.json.Encoder().encode


def encode(spans: Sequence[ReadableSpan]) -> tuple[list[bytes], int]:
    """The spans as lines, one for each resource, and how many of them could not be encoded and are left out."""
    groups: dict[Resource, dict[InstrumentationScope | None, list[msgspec.Raw]]] = {}
    left_out = 0
    for span in spans:
        try:
            raw = msgspec.Raw(_json(span_dict(span)))
        except Exception:
            left_out += 1
            continue
        groups.setdefault(span.resource, {}).setdefault(span.instrumentation_scope, []).append(raw)
    return [_json(_request(resource, scopes)) for resource, scopes in groups.items()], left_out


def _request(resource: Resource, scopes: Mapping[InstrumentationScope | None, list[msgspec.Raw]]) -> dict[str, Any]:
    scope_spans = []
    for scope, spans in scopes.items():
        entry: dict[str, Any] = {"scope": _scope(scope), "spans": spans}
        if scope is not None and scope.schema_url:
            entry["schemaUrl"] = scope.schema_url
        scope_spans.append(entry)
    found: dict[str, Any] = {
        "resource": {"attributes": _attributes(resource.attributes)},
        "scopeSpans": scope_spans,
    }
    if resource.schema_url:
        found["schemaUrl"] = resource.schema_url
    return {"resourceSpans": [found]}


def _scope(scope: InstrumentationScope | None) -> dict[str, Any]:
    if scope is None:
        return {}
    found: dict[str, Any] = {"name": scope.name}
    if scope.version:
        found["version"] = scope.version
    if scope.attributes:
        found["attributes"] = _attributes(scope.attributes)
    return found


def span_dict(span: ReadableSpan) -> dict[str, Any]:
    """One span as OTLP/JSON names it; fields at their default are left out. Raises ValueError without a context."""
    context = span.get_span_context()
    if context is None:
        raise ValueError("a span without a context")
    found: dict[str, Any] = {
        "traceId": f"{context.trace_id:032x}",
        "spanId": f"{context.span_id:016x}",
        "name": _text(span.name),
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": str(span.start_time),
        "endTimeUnixNano": str(span.end_time),
        "flags": _flags(span.parent),
    }
    if span.parent is not None:
        found["parentSpanId"] = f"{span.parent.span_id:016x}"
    optional = {
        "traceState": context.trace_state.to_header() if context.trace_state else "",
        "attributes": _attributes(span.attributes),
        "events": [_event(event) for event in span.events],
        "links": [_link(link) for link in span.links],
        "status": _status(span),
        "droppedAttributesCount": span.dropped_attributes,
        "droppedEventsCount": span.dropped_events,
        "droppedLinksCount": span.dropped_links,
    }
    found.update({key: value for key, value in optional.items() if value})
    return found


def _flags(context: SpanContext | None) -> int:
    return _HAS_IS_REMOTE | (_IS_REMOTE if context is not None and context.is_remote else 0)


def _status(span: ReadableSpan) -> dict[str, Any]:
    status: dict[str, Any] = {}
    if span.status.status_code.value:
        status["code"] = span.status.status_code.value
    if span.status.description:
        status["message"] = _text(span.status.description)
    return status


def _event(event: Event) -> dict[str, Any]:
    found: dict[str, Any] = {"name": _text(event.name), "timeUnixNano": str(event.timestamp)}
    if event.attributes:
        found["attributes"] = _attributes(event.attributes)
    if event.dropped_attributes:
        found["droppedAttributesCount"] = event.dropped_attributes
    return found


def _link(link: Link) -> dict[str, Any]:
    found: dict[str, Any] = {
        "traceId": f"{link.context.trace_id:032x}",
        "spanId": f"{link.context.span_id:016x}",
        "flags": _flags(link.context),
    }
    if link.attributes:
        found["attributes"] = _attributes(link.attributes)
    dropped = getattr(link, "dropped_attributes", 0)
    if dropped:
        found["droppedAttributesCount"] = dropped
    return found


def _attributes(attributes: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    return [{"key": _text(key), "value": _value(value)} for key, value in (attributes or {}).items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": _text(value)}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value if math.isfinite(value) else _NOT_FINITE[str(value)]}
    if isinstance(value, bytes):
        return {"bytesValue": base64.b64encode(value).decode("ascii")}
    if isinstance(value, Mapping):
        return {"kvlistValue": {"values": _attributes({str(key): item for key, item in value.items()})}}
    if isinstance(value, Sequence):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    if value is None:
        return {}
    raise ValueError(f"an attribute of type {type(value).__name__}")


_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""How JSON for protobuf spells them."""


def _text(text: str) -> str:
    """The text with lone surrogates, which UTF-8 can't hold, replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
