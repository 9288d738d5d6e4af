"""OTLP/JSON: the text of one export request to plain span records.

Tolerant as a receiver should be: 64-bit numbers as strings or numbers, enums as numbers or names, ids in any case,
unknown fields ignored. A span that can't be placed (no ids, no times, an end before its start) is rejected with a
reason and the others of its request are kept. Raises nothing on any input.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from hopbudget.store.content import is_content, is_content_event, safe_status, verdicts

Value = str | int | float | bool | list[Any] | dict[str, Any]
Attributes = dict[str, Value]

UNSET: Final = 0
OK: Final = 1
ERROR: Final = 2
SERVER: Final = 2
CLIENT: Final = 3

_KINDS: Final = {
    f"SPAN_KIND_{name}": number
    for number, name in enumerate(("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"))
}
_STATUSES: Final = {"STATUS_CODE_UNSET": UNSET, "STATUS_CODE_OK": OK, "STATUS_CODE_ERROR": ERROR}
_INT64_MOST: Final = (1 << 63) - 1
_DEEPEST: Final = 8

_decode: Final = msgspec.json.Decoder().decode


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


class _BadSpanError(Exception):
    """The reason why a span can't be stored."""


class _Counter:
    __slots__ = ("dropped",)

    def __init__(self) -> None:
        self.dropped = 0


def decode(text: bytes) -> Decoded:
    """The spans of one export request, given as JSON text."""
    try:
        request = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Decoded([], [f"not JSON: {error}"], 0)
    except RecursionError:
        return Decoded([], ["nested too deeply"], 0)
    return decode_object(request)


def decode_object(request: object) -> Decoded:
    """The spans of one export request, or of a list of them, given as decoded JSON."""
    if isinstance(request, list):
        several = [decode_object(item) for item in request]
        return Decoded(
            [span for one in several for span in one.spans],
            [reason for one in several for reason in one.rejected],
            sum(one.dropped_content for one in several),
        )
    if not isinstance(request, dict):
        return Decoded([], ["not an export request: a JSON object is expected"], 0)
    if "resourceSpans" not in request:
        rejected = ["not an export request of spans: it has no resourceSpans"] if request else []
        return Decoded([], rejected, 0)
    counter = _Counter()
    ids: dict[str, str] = {}
    spans: list[Span] = []
    rejected = []
    for raw, resource, scope in _raw_spans(request, counter):
        try:
            spans.append(_span(raw, resource, scope, counter, ids))
        except _BadSpanError as bad:
            name = raw.get("name") if isinstance(raw, dict) else None
            rejected.append(f"span {name[:60]!r}: {bad}" if isinstance(name, str) else f"span: {bad}")
    return Decoded(spans, rejected, counter.dropped)


def _raw_spans(request: dict[str, Any], counter: _Counter) -> Iterator[tuple[Any, Attributes, str]]:
    for resource_spans in _objects(request.get("resourceSpans")):
        described = resource_spans.get("resource")
        resource = _attributes(described.get("attributes"), counter) if isinstance(described, dict) else {}
        for scope_spans in _objects(resource_spans.get("scopeSpans")):
            scope = scope_spans.get("scope")
            name = scope.get("name") if isinstance(scope, dict) else None
            scope_name = name if isinstance(name, str) else ""
            raw_spans = scope_spans.get("spans")
            if isinstance(raw_spans, list):
                for raw in raw_spans:
                    yield raw, resource, scope_name


def _objects(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                yield item


def _span(raw: Any, resource: Attributes, scope: str, counter: _Counter, ids: dict[str, str]) -> Span:
    """A span record; `ids` holds the ids of this request that have been found good."""
    if type(raw) is not dict:
        raise _BadSpanError("not an object")
    get = raw.get
    trace_id = get("traceId")
    span_id = get("spanId")
    parent_id = get("parentSpanId")
    try:
        start_ns, end_ns = int(raw["startTimeUnixNano"]), int(raw["endTimeUnixNano"])
        good = 0 < start_ns <= end_ns <= _INT64_MOST
        trace_id = ids.get(trace_id) or _id(trace_id, 32, "trace id", ids)
        parent_id = (ids.get(parent_id) or _parent_id(parent_id, ids)) if parent_id else None
    except (KeyError, TypeError, ValueError, OverflowError):
        good = False
    if not good:
        start_ns, end_ns = _times(raw)
        trace_id = _id(trace_id, 32, "trace id", ids)
        parent_id = _parent_id(parent_id, ids) if parent_id else None
    name = get("name")
    kind = get("kind")
    status = get("status")
    code, text = _status(status) if status else (UNSET, None)
    events = get("events")
    lost = get("droppedEventsCount")
    return Span(
        trace_id,
        _id(span_id, 16, "span id", ids),
        parent_id,
        name if type(name) is str else "",
        kind if type(kind) is int and 0 <= kind < len(_KINDS) else _enum(kind, _KINDS),
        start_ns,
        end_ns,
        code,
        text,
        scope,
        resource,
        _attributes(get("attributes"), counter),
        _events(events, counter) if events else None,
        lost if type(lost) is int and 0 <= lost <= _INT64_MOST else 0,
    )


def _times(raw: dict[str, Any]) -> tuple[int, int]:
    start_ns = _nanoseconds(raw.get("startTimeUnixNano"), "start")
    end_ns = _nanoseconds(raw.get("endTimeUnixNano"), "end")
    if end_ns < start_ns:
        raise _BadSpanError(f"it ends {(start_ns - end_ns) / 1e9:.6g} s before its start")
    return start_ns, end_ns


def _id(value: object, digits: int, what: str, ids: dict[str, str]) -> str:
    if type(value) is not str or not value:
        raise _BadSpanError(f"no {what}")
    try:
        good = len(value) == digits and len(bytes.fromhex(value)) == digits // 2
    except ValueError:
        good = False
    if not good:
        base64 = {32: 24, 16: 12}[digits]
        hint = " (base64? OTLP/JSON wants hex)" if len(value) == base64 else ""
        raise _BadSpanError(f"bad {what} {value[:40]!r}: {digits} hex digits are expected{hint}")
    if not value.strip("0"):
        raise _BadSpanError(f"the {what} is all zeros")
    ids[value] = lower = value.lower()
    return lower


def _parent_id(value: object, ids: dict[str, str]) -> str | None:
    if type(value) is str and not value.strip("0"):
        return None
    return _id(value, 16, "parent span id", ids)


def _nanoseconds(value: object, what: str) -> int:
    number = _integer(value)
    if number is None or number == 0:
        raise _BadSpanError(f"no {what} time")
    if not 0 < number <= _INT64_MOST:
        raise _BadSpanError(f"its {what} time is out of range")
    return number


def _integer(value: object) -> int | None:
    """An integer given as a number or as text; None if it is neither."""
    if type(value) is int:
        return value
    try:
        if type(value) is str and len(value) <= 40:
            return int(value)
        if type(value) is float and value.is_integer():
            return int(value)
    except ValueError:
        pass
    return None


def _enum(value: object, names: dict[str, int]) -> int:
    if type(value) is int:
        return value if 0 <= value < len(names) else 0
    return names.get(value, 0) if type(value) is str else 0


def _status(value: object) -> tuple[int, str | None]:
    if not isinstance(value, dict):
        return UNSET, None
    message = value.get("message")
    return _enum(value.get("code"), _STATUSES), safe_status(message) if type(message) is str else None


def _attributes(pairs: object, counter: _Counter) -> Attributes:
    out: Attributes = {}
    if type(pairs) is not list:
        return out
    for pair in pairs:
        try:
            name = pair["key"]
            value = pair["value"]
            drop = verdicts.get(name)
            if drop or (drop is None and is_content(name)):
                counter.dropped += 1
                continue
            text = value.get("stringValue")
            if type(text) is str:
                out[name] = text
            elif (plain := _value(value, 0)) is not None:
                out[name] = plain
        except (KeyError, TypeError, AttributeError):  # it is no attribute; the span is good without it
            continue
    return out


def _value(value: object, depth: int) -> Value | None:
    if type(value) is not dict or depth > _DEEPEST:
        return None
    for kind, inner in value.items():
        reader = _READERS.get(kind)
        if reader is not None:
            return reader(inner, depth)
    return None


def _text(value: object, _depth: int) -> Value | None:
    return value if type(value) is str else None


def _int64(value: object, _depth: int) -> Value | None:
    number = _integer(value)
    return number if number is not None and -_INT64_MOST - 1 <= number <= _INT64_MOST else None


def _double(value: object, _depth: int) -> Value | None:
    try:
        number = float(value) if type(value) in {int, float, str} else None  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        return None
    return number if number is not None and number - number == 0 else None  # neither NaN nor infinite


def _bool(value: object, _depth: int) -> Value | None:
    return value if type(value) is bool else None


def _array(value: object, depth: int) -> Value | None:
    values = value.get("values") if type(value) is dict else None
    if type(values) is not list:
        return []
    return [plain for item in values if (plain := _value(item, depth + 1)) is not None]


def _pairs(value: object, depth: int) -> Value | None:
    values = value.get("values") if type(value) is dict else None
    out: Attributes = {}
    for pair in _objects(values):
        name = pair.get("key")
        if type(name) is str and (plain := _value(pair.get("value"), depth + 1)) is not None:
            out[name] = plain
    return out


_READERS: Final[dict[str, Callable[[object, int], Value | None]]] = {
    "stringValue": _text,
    "intValue": _int64,
    "doubleValue": _double,
    "boolValue": _bool,
    "arrayValue": _array,
    "kvlistValue": _pairs,
    "bytesValue": _text,
}


def _events(values: object, counter: _Counter) -> list[Event] | None:
    events = []
    for raw in _objects(values):
        name = raw.get("name")
        at_ns = _integer(raw.get("timeUnixNano"))
        if type(name) is not str or at_ns is None or not 0 <= at_ns <= _INT64_MOST:
            continue
        pairs = raw.get("attributes")
        if is_content_event(name):
            counter.dropped += len(pairs) if type(pairs) is list else 0
            pairs = None
        events.append(Event(name, at_ns, _attributes(pairs, counter)))
    return events or None
