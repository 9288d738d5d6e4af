"""OTLP in protobuf: the bytes of an export request to span records, by the rules of the JSON way.

The official classes parse; everything after that is ours. Both encodings of the same spans give the same records.
"""

import base64
import itertools
from typing import Any, Final

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from hopbudget.store import caps, sampling
from hopbudget.store.content import PARAMETERS, is_content, is_content_event, safe_status
from hopbudget.store.spans import Attributes, Decoded, Event, Span, Value
from hopbudget.store.tolerant import DEEPEST, INT64_MOST, KINDS, STATUSES, BadSpanError, Counter, hide_parameters

_NO_TRACE: Final = bytes(16)
_NO_SPAN: Final = bytes(8)


def decode(body: bytes) -> Decoded:
    """The spans of one export request. Raises ValueError where the bytes are no such request."""
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except DecodeError as error:
        raise ValueError(str(error) or "the bytes can't be parsed") from error
    counter = Counter()
    spans: list[Span] = []
    rejected: list[str] = []
    for resource_spans in request.resource_spans:
        resource = _attributes(resource_spans.resource.attributes, counter)
        for scope_spans in resource_spans.scope_spans:
            scope = scope_spans.scope.name
            for raw in scope_spans.spans:
                try:
                    spans.append(_span(raw, resource, scope, counter))
                except BadSpanError as bad:
                    rejected.append(f"span {raw.name[:60]!r}: {bad}")
    return Decoded(spans, rejected, counter.dropped)


def _span(raw: Any, resource: Attributes, scope: str, counter: Counter) -> Span:
    trace_id, span_id, parent_id = raw.trace_id, raw.span_id, raw.parent_span_id
    _check_id(trace_id, _NO_TRACE, "trace id")
    _check_id(span_id, _NO_SPAN, "span id")
    if not parent_id.strip(b"\0"):
        parent_id = b""
    else:
        _check_id(parent_id, _NO_SPAN, "parent span id")
    start_ns, end_ns = raw.start_time_unix_nano, raw.end_time_unix_nano
    for at_ns, what in ((start_ns, "start"), (end_ns, "end")):
        if not at_ns:
            raise BadSpanError(f"no {what} time")
        if at_ns > INT64_MOST:
            raise BadSpanError(f"its {what} time is out of range")
    if end_ns < start_ns:
        raise BadSpanError(f"it ends {(start_ns - end_ns) / 1e9:.6g} s before its start")
    status = raw.status
    attributes = _attributes(raw.attributes, counter)
    if raw.trace_state:
        attributes = sampling.noted(attributes, raw.trace_state)
    return Span(
        trace_id=trace_id.hex(),
        span_id=span_id.hex(),
        parent_id=parent_id.hex() or None,
        name=raw.name,
        kind=raw.kind if 0 <= raw.kind < len(KINDS) else 0,
        start_ns=start_ns,
        end_ns=end_ns,
        status=status.code if 0 <= status.code < len(STATUSES) else 0,
        status_text=safe_status(status.message) if status.message else None,
        scope=scope,
        resource=resource,
        attributes=attributes,
        events=_events(raw.events, counter) if raw.events else None,
        dropped_events=raw.dropped_events_count,
    )


def _check_id(given: bytes, zeros: bytes, what: str) -> None:
    if len(given) != len(zeros):
        raise BadSpanError(f"bad {what} of {len(given)} bytes: {len(zeros)} are expected" if given else f"no {what}")
    if given == zeros:
        raise BadSpanError(f"the {what} is all zeros")


def _attributes(pairs: Any, counter: Counter) -> Attributes:
    out: Attributes = {}
    for pair in pairs:
        name = pair.key
        if not 0 < len(name) <= caps.LONGEST_NAME:
            continue
        if is_content(name):
            counter.dropped += 1
        elif (plain := _plain(pair.value)) is not None and len(out) < caps.MOST_ATTRIBUTES:
            out[name] = plain
    if PARAMETERS in out:
        hide_parameters(out)
    return out


def _plain(value: Any, depth: int = 0) -> Value | None:
    if depth > DEEPEST:
        return None
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    inner = getattr(value, kind)
    if kind == "string_value":
        text: str = inner
        return text if len(text) <= caps.LONGEST_TEXT else text[: caps.LONGEST_TEXT]
    if kind == "double_value":
        number: float = inner
        return number if number - number == 0 else None  # neither NaN nor infinite
    if kind == "array_value":
        items = inner.values[: caps.MOST_ITEMS]
        return [plain for item in items if (plain := _plain(item, depth + 1)) is not None]
    if kind == "kvlist_value":
        pairs = ((pair.key, _plain(pair.value, depth + 1)) for pair in inner.values)
        kept = ((key, plain) for key, plain in pairs if plain is not None)
        return dict(itertools.islice(kept, caps.MOST_ITEMS))
    if kind == "bytes_value":
        return base64.b64encode(inner).decode()[: caps.LONGEST_TEXT]
    plain_value: Value = inner
    return plain_value


def _events(raws: Any, counter: Counter) -> list[Event] | None:
    found = []
    for raw in raws:
        if raw.time_unix_nano > INT64_MOST:
            continue
        if is_content_event(raw.name):
            counter.dropped += len(raw.attributes)
            found.append(Event(raw.name, raw.time_unix_nano, {}))
        else:
            found.append(Event(raw.name, raw.time_unix_nano, _attributes(raw.attributes, counter)))
        if len(found) >= caps.MOST_EVENTS:
            break
    return found or None
