"""OTLP in protobuf: the bytes of an export request to span records, by the rules of the JSON way.

A usual request is parsed only as far as its spans (`wire`), and what was read lately is looked up by its bytes. A
request in which anything is unusual is parsed by the official classes, as a whole; both ways give the same for the
same bytes, and both encodings of the same spans give the same records.
"""

import base64
import itertools
from collections.abc import Sequence
from itertools import repeat
from operator import attrgetter, gt
from typing import Any, Final

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OfficialSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from hopbudget.store import caps, sampling, wire
from hopbudget.store.content import PARAMETERS, is_content, is_content_event, safe_status
from hopbudget.store.spans import Attributes, Decoded, Event, Fields, Span, Spans, Value
from hopbudget.store.tolerant import DEEPEST, INT64_MOST, KINDS, STATUSES, BadSpanError, Counter, hide_parameters

_NO_TRACE: Final = bytes(16)
_NO_SPAN: Final = bytes(8)


def decode(body: bytes) -> Decoded:
    """The spans of one export request. Raises ValueError where the bytes are no such request."""
    decoded = decode_usual(body)
    return _decode_any(body) if decoded is None else decoded._replace(spans=list(decoded.spans))


# --- a usual request -------------------------------------------------------------------------------------------


class _UnusualError(Exception):
    """Something that only the official classes can judge."""


_FIELDS: Final = attrgetter(
    *("trace_id", "span_id", "parent_span_id", "name", "kind", "start_time_unix_nano", "end_time_unix_nano"),
    *("status", "attributes", "events", "dropped_events_count", "trace_state"),
)


def decode_usual(body: bytes) -> Decoded | None:
    """The spans of one request, or of several one after the other; None if anything in them is unusual."""
    counter = Counter()
    raws: list[Any] = []
    resources: list[Attributes] = []
    scopes: list[str] = []
    try:
        for resource_spans in wire.Request.FromString(body).resource_spans[:]:  # a list is quicker to go through
            resource = _resource(resource_spans.resource, counter)
            for scope_spans in resource_spans.scope_spans[:]:
                spans = scope_spans.spans[:]
                raws += spans
                resources += repeat(resource, len(spans))
                scopes += repeat(_scope(scope_spans.scope), len(spans))
        fields = _fields(raws, resources, scopes, counter) if raws else Fields()
        return Decoded(Spans(fields), [], counter.dropped)
    except (DecodeError, _UnusualError):
        return None


def _fields(raws: Sequence[Any], resources: Sequence[Attributes], scopes: Sequence[str], counter: Counter) -> Fields:
    """The same field of all of them at a time."""
    fields = zip(*map(_FIELDS, raws), strict=True)
    trace_ids, span_ids, parent_ids, names, kinds, starts, ends, statuses, lists, events, lost, states = fields
    _check_ids({*trace_ids}, _NO_TRACE)
    _check_ids({*span_ids}, _NO_SPAN)
    _check_ids({*parent_ids} - {b""}, _NO_SPAN)
    if (
        any(map(gt, starts, ends))
        or not min(starts)
        or max(ends) > INT64_MOST
        or min(kinds) < 0
        or max(kinds) >= len(KINDS)
    ):
        raise _UnusualError
    attributes = [_list(tuple(pairs[:]), counter) for pairs in lists]
    if any(states):
        attributes = [sampling.noted(*each) if each[1] else each[0] for each in zip(attributes, states, strict=True)]
    said = [_UNSET if not status else _status(status) for status in statuses]
    return Fields(
        [trace_id.hex() for trace_id in trace_ids],
        [span_id.hex() for span_id in span_ids],
        [parent_id.hex() or None for parent_id in parent_ids],
        names,
        kinds,
        starts,
        ends,
        [code for code, _ in said],
        [text for _, text in said],
        scopes,
        resources,
        attributes,
        [_events(_parsed_events(some), counter) if some else None for some in events],
        lost,
    )


def _check_ids(ids: set[bytes], zeros: bytes) -> None:
    if {*map(len, ids)} - {len(zeros)} or zeros in ids:
        raise _UnusualError


def _parsed_events(events: Sequence[bytes]) -> list[Any]:
    return [OfficialSpan.Event.FromString(event) for event in events]


# --- what is said again and again ------------------------------------------------------------------------------

_KNOWN_MOST: Final = 4_096
_PAIRS_MOST: Final = 16_384
_LONGEST: Final = 192
"""Bytes of an attribute, and a quarter of those of a resource, that are remembered."""
_UNSET: Final = (0, None)
_CONTENT: Final = ("", None)
"""In the place of an attribute that is dropped, and counted."""

_lists: Final[dict[tuple[bytes, ...], Attributes]] = {}
"""Lists of texts that came lately: those of roots and tools are mostly the same. Shared, so never changed."""
_pairs: Final[dict[bytes, tuple[str, Value]]] = {}
_resources: Final[dict[bytes, Attributes]] = {}
_scopes: Final[dict[bytes, str]] = {}


def _list(pairs: tuple[bytes, ...], counter: Counter) -> Attributes:
    """The attributes of such a list; shared with other spans, so never changed."""
    found = _lists.get(pairs)
    if found is not None:
        return found
    if len(pairs) > caps.MOST_ATTRIBUTES:
        raise _UnusualError
    try:
        out: Attributes = dict(map(_pairs.__getitem__, pairs))
    except KeyError:
        return _new_list(pairs, counter)
    if PARAMETERS in out:
        hide_parameters(out)
    elif int not in map(type, out.values()):
        _remember(_lists, pairs, out, _KNOWN_MOST)
    return out


def _new_list(pairs: tuple[bytes, ...], counter: Counter) -> Attributes:
    out: Attributes = {}
    for pair in pairs:
        name, value = _pairs.get(pair) or _pair(pair)
        if value is not None:
            out[name] = value
        elif not name:
            counter.dropped += 1
    if PARAMETERS in out:
        hide_parameters(out)
    return out


def _pair(text: bytes) -> tuple[str, Value | None]:
    """Name and value of an attribute, remembered if it is short, not content and likely to come again."""
    pair = KeyValue.FromString(text)
    name: str = pair.key
    if not 0 < len(name) <= caps.LONGEST_NAME:
        raise _UnusualError
    if is_content(name):
        return _CONTENT
    value = _plain(pair.value)
    if len(text) <= _LONGEST and type(value) in {str, int, bool}:
        _remember(_pairs, text, (name, value), _PAIRS_MOST)
    return name, value


def _resource(text: bytes, counter: Counter) -> Attributes:
    found = _resources.get(text)
    if found is None:
        before = counter.dropped
        found = _attributes(Resource.FromString(text).attributes, counter)
        if counter.dropped == before and len(text) <= 4 * _LONGEST:
            _remember(_resources, text, found, _KNOWN_MOST)
    return found


def _scope(text: bytes) -> str:
    found = _scopes.get(text)
    if found is None:
        found = InstrumentationScope.FromString(text).name
        if len(text) <= _LONGEST:
            _remember(_scopes, text, found, _KNOWN_MOST)
    return found


def _status(text: bytes) -> tuple[int, str | None]:
    status = Status.FromString(text)
    code = status.code if 0 <= status.code < len(STATUSES) else 0
    return code, safe_status(status.message) if status.message else None


def _remember(known: dict[Any, Any], key: object, value: object, most: int) -> None:
    if len(known) >= most:
        known.clear()
    known[key] = value


# --- any request -----------------------------------------------------------------------------------------------


def _decode_any(body: bytes) -> Decoded:
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
    _judge_id(trace_id, _NO_TRACE, "trace id")
    _judge_id(span_id, _NO_SPAN, "span id")
    if not parent_id.strip(b"\0"):
        parent_id = b""
    else:
        _judge_id(parent_id, _NO_SPAN, "parent span id")
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


def _judge_id(given: bytes, zeros: bytes, what: str) -> None:
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
