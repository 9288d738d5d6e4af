"""Spans as plain JSON objects, in the many spellings of SDKs' console exporters, test fixtures and REST exports.

The same span is `{"traceId": ..., "startTime": [s, ns]}` here and `{"context": {"trace_id": "0x..."}, "start_time":
"2026-..."}` there. Ids, times, kinds and statuses are read by what they look like.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from hopbudget.store import caps, ids, sampling
from hopbudget.store.content import PARAMETERS, is_content, is_content_event, safe_status
from hopbudget.store.spans import ERROR, OK, UNSET, Attributes, Decoded, Event, Span, Value
from hopbudget.store.tolerant import KINDS, BadSpanError, Counter, hide_parameters, plain_value
from hopbudget.store.values import instant, signed

Raw = Mapping[str, Any]

_TRACE: Final = ("trace_id", "traceId", "traceID", "context.trace_id", "spanContext.traceId")
_SPAN: Final = ("span_id", "spanId", "spanID", "context.span_id", "spanContext.spanId", "id")
_PARENT: Final = (
    *("parent_span_id", "parentSpanId", "parentSpanID", "parent_id", "parentId", "parent.span_id"),
    *("parentSpanContext.spanId", "context.parent_span_id"),
)
_START: Final = (
    *("start_time", "startTime", "start_time_unix_nano", "startTimeUnixNano", "start_time_ns", "start_timestamp"),
    *("start", "timestamp"),
)
_END: Final = (
    *("end_time", "endTime", "end_time_unix_nano", "endTimeUnixNano", "end_time_ns", "end_timestamp", "end"),
)
_DURATIONS: Final = {
    **dict.fromkeys(("duration_ns", "durationNano", "duration_nano", "durationNs"), 1),
    **dict.fromkeys(("duration_us", "durationUs"), 1_000),
    **dict.fromkeys(("duration_ms", "durationMs"), 1_000_000),
    **dict.fromkeys(("duration_s", "durationS"), 1_000_000_000),
}
"""Nanoseconds in one."""
_EVENT_TIMES: Final = ("timestamp", "time", "time_unix_nano", "timeUnixNano")
_SCOPES: Final = (
    *("scope", "instrumentation_scope", "instrumentationScope", "instrumentationLibrary", "instrumentation_info"),
    *("scope_name", "scopeName"),
)
_KINDS: Final = {name.removeprefix("SPAN_KIND_"): number for name, number in KINDS.items()}
_STATUSES: Final = {"UNSET": UNSET, "OK": OK, "ERROR": ERROR}
_DEEPEST: Final = 6
_ANY_AGENT: Final = "any_agent.version"


def looks_like_a_span(value: object) -> bool:
    """Whether it has a trace, an id and a start."""
    return isinstance(value, dict) and all(_find(value, names) is not None for names in (_TRACE, _SPAN, _START))


def decode(raws: Iterable[object]) -> Decoded:
    """The spans of a list; what can't be placed is rejected with a reason."""
    counter = Counter()
    spans: list[Span] = []
    rejected: list[str] = []
    for raw in raws:
        try:
            spans.append(_span(raw, counter))
        except BadSpanError as bad:
            name = raw.get("name") if isinstance(raw, dict) else None
            rejected.append(f"span {name[:60]!r}: {bad}" if isinstance(name, str) else f"span: {bad}")
    _name_scopes(spans)
    return Decoded(spans, rejected, counter.dropped)


def _name_scopes(spans: list[Span]) -> None:
    """any-agent writes no scopes, and its version on the root alone."""
    traces = {span.trace_id for span in spans if _ANY_AGENT in span.attributes}
    for span in spans:
        if not span.scope and span.trace_id in traces:
            span.scope = "any_agent"


def _span(raw: object, counter: Counter) -> Span:
    if not isinstance(raw, dict):
        raise BadSpanError("not an object")
    start_ns, end_ns = _times(raw)
    code, text = _status(raw)
    attributes = attributes_of(raw.get("attributes"), counter)
    kind = raw.get("span_kind")
    if isinstance(kind, str) and _kind_name(kind) not in _KINDS and "openinference.span.kind" not in attributes:
        attributes["openinference.span.kind"] = kind.upper()  # as Phoenix writes it
    state = raw.get("trace_state") or raw.get("traceState")
    if isinstance(state, str):
        attributes = sampling.noted(attributes, state)
    lost = raw.get("dropped_events_count", raw.get("droppedEventsCount", 0))
    name = raw.get("name")
    return Span(
        trace_id=_id(raw, _TRACE, ids.TRACE_DIGITS, "trace id"),
        span_id=_id(raw, _SPAN, ids.SPAN_DIGITS, "span id"),
        parent_id=ids.to_hex(_find(raw, _PARENT), ids.SPAN_DIGITS),
        name=name[: caps.LONGEST_TEXT] if isinstance(name, str) else "",
        kind=_kind(raw),
        start_ns=start_ns,
        end_ns=end_ns,
        status=code,
        status_text=text,
        scope=_scope(raw),
        resource=_resource(raw, counter),
        attributes=attributes,
        events=_events(raw.get("events") or raw.get("span_events"), counter),
        dropped_events=lost if type(lost) is int and 0 <= lost < 1 << 63 else 0,
    )


def _find(raw: Raw, names: Iterable[str]) -> Any:
    """The first of these that is there; a dot goes into an object, unless the name itself holds it."""
    for name in names:
        value = raw.get(name)
        if value is None and "." in name:
            outer, _, inner = name.partition(".")
            within = raw.get(outer)
            value = within.get(inner) if isinstance(within, dict) else None
        if value is not None:
            return value
    return None


def _id(raw: Raw, names: Iterable[str], digits: int, what: str) -> str:
    value = _find(raw, names)
    if value is None or value == "":
        raise BadSpanError(f"no {what}")
    found = ids.to_hex(value, digits)
    if found is None:
        raise BadSpanError(f"bad {what} {str(value)[:40]!r}")
    return found


def _times(raw: Raw) -> tuple[int, int]:
    start_ns = instant(_find(raw, _START))
    if start_ns is None:
        raise BadSpanError("no start time that can be read")
    end = _find(raw, _END)
    end_ns = instant(end) if end is not None else _after(raw, start_ns)
    if end_ns is None:
        raise BadSpanError("no end time that can be read")
    if end_ns < start_ns:
        raise BadSpanError(f"it ends {(start_ns - end_ns) / 1e9:.6g} s before its start")
    return start_ns, end_ns


def _after(raw: Raw, start_ns: int) -> int | None:
    """The end by the duration: in the unit of its name, as [s, ns], or in the microseconds of JavaScript's console."""
    length_ns: float | None = None
    for name, unit in _DURATIONS.items():
        length = signed(raw.get(name))
        if length is not None:
            length_ns = length * unit
    duration = raw.get("duration")
    if isinstance(duration, list) and len(duration) == 2 and all(type(part) is int for part in duration):
        length_ns = duration[0] * 1_000_000_000 + duration[1]
    elif length_ns is None and "timestamp" in raw and (length := signed(duration)) is not None:
        length_ns = length * 1_000
    if length_ns is None or not abs(length_ns) < 1 << 62:
        return None
    end_ns = start_ns + round(length_ns)
    return end_ns if end_ns < 1 << 63 else None


def _kind(raw: Raw) -> int:
    value = raw.get("kind", raw.get("span_kind"))
    if isinstance(value, str):
        return _KINDS.get(_kind_name(value), 0)
    if type(value) is int:
        from_javascript = "timestamp" in raw or "spanContext" in raw  # its kinds begin at 0 with INTERNAL
        number = value + from_javascript
        return number if 0 <= number < len(KINDS) else 0
    return 0


def _kind_name(value: str) -> str:
    return value.upper().removeprefix("SPANKIND.").removeprefix("SPAN_KIND_")


def _status(raw: Raw) -> tuple[int, str | None]:
    status = raw.get("status")
    fields = status if isinstance(status, dict) else {"code": status if status is not None else raw.get("status_code")}
    value = fields.get("code", fields.get("status_code"))
    code = UNSET
    if isinstance(value, str):
        code = _STATUSES.get(value.upper().removeprefix("STATUSCODE.").removeprefix("STATUS_CODE_"), UNSET)
    elif type(value) is int and value in {OK, ERROR}:
        code = value
    message = fields.get("message") or fields.get("description") or raw.get("status_message")
    return code, safe_status(message) if isinstance(message, str) and message else None


def _scope(raw: Raw) -> str:
    value = _find(raw, _SCOPES)
    name = value.get("name") if isinstance(value, dict) else value
    return name if isinstance(name, str) else ""


def _resource(raw: Raw, counter: Counter) -> Attributes:
    value = raw.get("resource")
    if isinstance(value, dict):
        return attributes_of(value.get("attributes", value), counter)
    return attributes_of(raw.get("resource_attributes"), counter)


def attributes_of(value: object, counter: Counter) -> Attributes:
    """Attributes given as an object, also of objects, or as OTLP's list of pairs; content is dropped and counted."""
    out: Attributes = {}
    if isinstance(value, dict):
        _flatten("", value, out, counter, 0)
    elif isinstance(value, list):
        for pair in value:
            if isinstance(pair, dict) and isinstance(pair.get("key"), str):
                inner = pair.get("value")
                _keep(pair["key"], plain_value(inner) if isinstance(inner, dict) else _plain(inner, 0), out, counter)
    if PARAMETERS in out:
        hide_parameters(out)
    return out


def _flatten(prefix: str, value: Raw, out: Attributes, counter: Counter, depth: int) -> None:
    for name, inner in value.items():
        if not isinstance(name, str):
            continue
        full = f"{prefix}{name}"
        if isinstance(inner, dict) and depth < _DEEPEST and not is_content(full):
            _flatten(f"{full}.", inner, out, counter, depth + 1)
        else:
            _keep(full, _plain(inner, depth), out, counter)


def _keep(name: str, value: Value | None, out: Attributes, counter: Counter) -> None:
    if value is None or not 0 < len(name) <= caps.LONGEST_NAME:
        return
    if is_content(name):
        counter.dropped += 1
    elif len(out) < caps.MOST_ATTRIBUTES:
        out[name] = value


def _plain(value: object, depth: int) -> Value | None:
    if isinstance(value, str):
        return value[: caps.LONGEST_TEXT]
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 63 else None
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, list) and depth < _DEEPEST:
        return [plain for item in value[: caps.MOST_ITEMS] if (plain := _plain(item, depth + 1)) is not None]
    return None


def _events(values: object, counter: Counter) -> list[Event] | None:
    found = []
    for raw in values[: caps.MOST_EVENTS] if isinstance(values, list) else ():
        if not isinstance(raw, dict):
            continue
        name, at_ns = raw.get("name", raw.get("event_name")), instant(_find(raw, _EVENT_TIMES))
        if not isinstance(name, str) or at_ns is None:
            continue
        given = raw.get("attributes")
        if is_content_event(name):
            counter.dropped += len(given) if isinstance(given, dict | list) else 0
            given = None
        found.append(Event(name, at_ns, attributes_of(given, counter)))
    return found or None
