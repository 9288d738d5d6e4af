"""OTLP/JSON in any form that real senders write: decoded JSON to span records, field by field.

64-bit numbers as strings or numbers, enums as numbers or names, ids in any case, unknown fields ignored. A span that
can't be placed (no ids, no times, an end before its start) is rejected with a reason and the others of its request are
kept. Raises nothing on any input.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from hopbudget.store import caps, sampling
from hopbudget.store.content import PARAMETERS, is_content, is_content_event, safe_parameters, safe_status
from hopbudget.store.spans import ERROR, OK, UNSET, Attributes, Decoded, Event, Span, Value

KINDS: Final = {
    f"SPAN_KIND_{name}": number
    for number, name in enumerate(("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"))
}
STATUSES: Final = {"STATUS_CODE_UNSET": UNSET, "STATUS_CODE_OK": OK, "STATUS_CODE_ERROR": ERROR}
INT64_MOST: Final = (1 << 63) - 1
DEEPEST: Final = 8


class BadSpanError(Exception):
    """The reason why a span can't be stored."""


class Counter:
    """How many content attributes were dropped."""

    __slots__ = ("dropped",)

    def __init__(self) -> None:
        self.dropped = 0


def decode_text(text: bytes) -> Decoded:
    """The spans of one export request, given as JSON text."""
    try:
        request = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Decoded([], [f"not JSON: {error}"], 0)
    except RecursionError:
        return Decoded([], ["nested too deeply"], 0)
    return decode_object(request)


def decode_object(request: object, depth: int = 0) -> Decoded:
    """The spans of one export request, or of a list of them, given as decoded JSON."""
    if isinstance(request, list):
        if depth > DEEPEST:
            return Decoded([], ["nested too deeply"], 0)
        several = [decode_object(item, depth + 1) for item in request]
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
    counter = Counter()
    spans: list[Span] = []
    rejected = []
    for raw, resource, scope in _raw_spans(request, counter):
        try:
            spans.append(_span(raw, resource, scope, counter))
        except BadSpanError as bad:
            name = raw.get("name") if isinstance(raw, dict) else None
            rejected.append(f"span {name[:60]!r}: {bad}" if isinstance(name, str) else f"span: {bad}")
    return Decoded(spans, rejected, counter.dropped)


def _raw_spans(request: dict[str, Any], counter: Counter) -> Iterator[tuple[Any, Attributes, str]]:
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


def _span(raw: Any, resource: Attributes, scope: str, counter: Counter) -> Span:
    if type(raw) is not dict:
        raise BadSpanError("not an object")
    get = raw.get
    start_ns, end_ns = _times(raw)
    parent = get("parentSpanId")
    name = get("name")
    code, text = _status(get("status"))
    lost = _integer(get("droppedEventsCount"))
    attributes = _attributes(get("attributes"), counter)
    state = get("traceState")
    if type(state) is str and state:
        attributes = sampling.noted(attributes, state)
    return Span(
        trace_id=_id(get("traceId"), 32, "trace id"),
        span_id=_id(get("spanId"), 16, "span id"),
        parent_id=_parent_id(parent) if parent else None,
        name=name if isinstance(name, str) else "",
        kind=_enum(get("kind"), KINDS),
        start_ns=start_ns,
        end_ns=end_ns,
        status=code,
        status_text=text,
        scope=scope,
        resource=resource,
        attributes=attributes,
        events=events(get("events"), counter),
        dropped_events=lost if lost is not None and 0 <= lost <= INT64_MOST else 0,
    )


def _times(raw: dict[str, Any]) -> tuple[int, int]:
    start_ns = _nanoseconds(raw.get("startTimeUnixNano"), "start")
    end_ns = _nanoseconds(raw.get("endTimeUnixNano"), "end")
    if end_ns < start_ns:
        raise BadSpanError(f"it ends {(start_ns - end_ns) / 1e9:.6g} s before its start")
    return start_ns, end_ns


def _id(value: object, digits: int, what: str) -> str:
    if type(value) is not str or not value:
        raise BadSpanError(f"no {what}")
    try:
        good = len(value) == digits and len(bytes.fromhex(value)) == digits // 2
    except ValueError:
        good = False
    if not good:
        base64 = {32: 24, 16: 12}[digits]
        hint = " (base64? OTLP/JSON wants hex)" if len(value) == base64 else ""
        raise BadSpanError(f"bad {what} {value[:40]!r}: {digits} hex digits are expected{hint}")
    if not value.strip("0"):
        raise BadSpanError(f"the {what} is all zeros")
    return value.lower()


def _parent_id(value: object) -> str | None:
    if type(value) is str and not value.strip("0"):
        return None
    return _id(value, 16, "parent span id")


def _nanoseconds(value: object, what: str) -> int:
    number = _integer(value)
    if number is None or number == 0:
        raise BadSpanError(f"no {what} time")
    if not 0 < number <= INT64_MOST:
        raise BadSpanError(f"its {what} time is out of range")
    return number


def _integer(value: object) -> int | None:
    """An integer given as a number or as text; None if it is neither."""
    if type(value) is int:
        return value
    if type(value) is str and len(value) <= 40:
        try:
            return int(value)
        except ValueError:
            value = _number(value)
    return int(value) if type(value) is float and value.is_integer() else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _enum(value: object, names: dict[str, int]) -> int:
    if type(value) is str and value in names:
        return names[value]
    number = _integer(value)
    return number if number is not None and 0 <= number < len(names) else 0


def _status(value: object) -> tuple[int, str | None]:
    if not isinstance(value, dict):
        return UNSET, None
    message = value.get("message")
    return _enum(value.get("code"), STATUSES), safe_status(message) if type(message) is str else None


def _attributes(pairs: object, counter: Counter) -> Attributes:
    out: Attributes = {}
    for pair in _objects(pairs):
        name = pair.get("key")
        if not isinstance(name, str) or not 0 < len(name) <= caps.LONGEST_NAME:
            continue
        if is_content(name):
            counter.dropped += 1
        elif (plain := plain_value(pair.get("value"))) is not None and len(out) < caps.MOST_ATTRIBUTES:
            out[name] = plain
    if PARAMETERS in out:
        hide_parameters(out)
    return out


def hide_parameters(attributes: Attributes) -> None:
    """Keep of a request's parameters what is no content."""
    kept = safe_parameters(attributes.pop(PARAMETERS))
    if kept is not None:
        attributes[PARAMETERS] = kept


def plain_value(value: object, depth: int = 0) -> Value | None:
    """What an AnyValue holds; None if it holds nothing that can be kept."""
    if type(value) is not dict or depth > DEEPEST:
        return None
    for kind, reader in _READERS.items():
        inner = value.get(kind)
        if inner is not None:
            return reader(inner, depth)
    return None


def _text(value: object, _depth: int) -> Value | None:
    return value[: caps.LONGEST_TEXT] if type(value) is str else None


def int64(value: object, _depth: int = 0) -> int | None:
    """A whole number of 64 bits given as a number or as text, or None."""
    number = _integer(value)
    return number if number is not None and -INT64_MOST - 1 <= number <= INT64_MOST else None


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
    return [plain for item in values[: caps.MOST_ITEMS] if (plain := plain_value(item, depth + 1)) is not None]


def _pairs(value: object, depth: int) -> Value | None:
    values = value.get("values") if type(value) is dict else None
    out: Attributes = {}
    for pair in _objects(values):
        name = pair.get("key")
        if len(out) >= caps.MOST_ITEMS:
            break
        if type(name) is str and (plain := plain_value(pair.get("value"), depth + 1)) is not None:
            out[name] = plain
    return out


_READERS: Final[dict[str, Callable[[object, int], Value | None]]] = {
    "stringValue": _text,
    "intValue": int64,
    "doubleValue": _double,
    "boolValue": _bool,
    "arrayValue": _array,
    "kvlistValue": _pairs,
    "bytesValue": _text,
}


def events(values: object, counter: Counter) -> list[Event] | None:
    """The events that have a name and a time; None if there are none."""
    found = []
    for raw in _objects(values):
        name = raw.get("name")
        at_ns = _integer(raw.get("timeUnixNano"))
        if type(name) is not str or at_ns is None or not 0 <= at_ns <= INT64_MOST:
            continue
        pairs = raw.get("attributes")
        if is_content_event(name):
            counter.dropped += len(pairs) if type(pairs) is list else 0
            pairs = None
        found.append(Event(name, at_ns, _attributes(pairs, counter)))
        if len(found) >= caps.MOST_EVENTS:
            break
    return found or None
