"""OTLP/JSON, the fast way: the text of an export request as exporters usually write it, decoded by type.

A request in which anything is unusual (a name for an enum, a bad id, a field of another type) goes the tolerant way,
as a whole; both give the same for the same text.
"""

from typing import Annotated, Any, Final

import msgspec

from hopbudget.store import caps, forms, sampling, tolerant
from hopbudget.store.content import PARAMETERS, is_content, safe_status
from hopbudget.store.spans import Attributes, Decoded, Span
from hopbudget.store.tolerant import INT64_MOST, KINDS, STATUSES, Counter

_NO_ID: Final = "0" * 16
_NO_TRACE: Final = "0" * 32
_SPAN_DIGITS: Final = {16}
_TRACE_DIGITS: Final = {32}
_LISTS_MOST: Final = 4_096
_LONGEST_LIST: Final = 4_096
_NAMES_MOST: Final = 10_000

_Int64 = Annotated[int, msgspec.Meta(ge=-INT64_MOST - 1, le=INT64_MOST)]


class _Value(msgspec.Struct, gc=False):
    stringValue: str | None = None  # noqa: N815  (the names on the wire)
    intValue: _Int64 | None = None  # noqa: N815
    doubleValue: float | None = None  # noqa: N815
    boolValue: Any = None  # noqa: N815
    arrayValue: Any = None  # noqa: N815
    kvlistValue: Any = None  # noqa: N815
    bytesValue: Any = None  # noqa: N815


class _Pair(msgspec.Struct, gc=False):
    key: str
    value: _Value


class _Status(msgspec.Struct, gc=False):
    code: int = 0
    message: str = ""


class _RawSpan(msgspec.Struct, gc=False):
    traceId: str  # noqa: N815
    spanId: str  # noqa: N815
    startTimeUnixNano: int  # noqa: N815
    endTimeUnixNano: int  # noqa: N815
    parentSpanId: str = ""  # noqa: N815
    traceState: str = ""  # noqa: N815
    name: str = ""
    kind: int = 0
    attributes: msgspec.Raw = msgspec.Raw(b"[]")
    status: _Status | None = None
    events: Any = None
    droppedEventsCount: int = 0  # noqa: N815


class _Scope(msgspec.Struct, gc=False):
    name: str = ""


class _ScopeSpans(msgspec.Struct, gc=False):
    scope: _Scope | None = None
    spans: list[_RawSpan] = []


class _Resource(msgspec.Struct, gc=False):
    attributes: msgspec.Raw = msgspec.Raw(b"[]")


class _ResourceSpans(msgspec.Struct, gc=False):
    resource: _Resource | None = None
    scopeSpans: list[_ScopeSpans] = []  # noqa: N815


class _Request(msgspec.Struct, gc=False):
    resourceSpans: list[_ResourceSpans]  # noqa: N815


# Not strict: a number may be given as text, as the standard has it for those of 64 bits.
_decode: Final = msgspec.json.Decoder(_Request, strict=False).decode
_decode_pairs: Final = msgspec.json.Decoder(list[_Pair], strict=False).decode


class _UnusualError(Exception):
    """Something that only the tolerant way can judge."""


def decode(text: bytes) -> Decoded:
    """The spans of one export request, given as JSON text. Raises nothing on any input."""
    try:
        return _usual(_decode(text))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, _UnusualError):
        return forms.decode_text(text)


def _usual(request: _Request) -> Decoded:
    counter = Counter()
    spans: list[Span] = []
    for resource_spans in request.resourceSpans:
        described = resource_spans.resource
        resource = _attributes(bytes(described.attributes), counter) if described else {}
        for scope_spans in resource_spans.scopeSpans:
            scope = scope_spans.scope.name if scope_spans.scope else ""
            raws = scope_spans.spans
            ids = {raw.spanId for raw in raws}
            _check_ids(ids, {raw.traceId for raw in raws})
            spans += [_span(raw, resource, scope, counter, ids) for raw in raws]
    return Decoded(spans, [], counter.dropped)


def _check_ids(span_ids: set[str], trace_ids: set[str]) -> None:
    """Lower hex of the right length and not zero, all of them."""
    digits = "".join(span_ids) + "".join(trace_ids)
    if (
        {*map(len, span_ids)} - _SPAN_DIGITS
        or {*map(len, trace_ids)} - _TRACE_DIGITS
        or len(bytes.fromhex(digits)) * 2 != len(digits)  # no white space, which `fromhex` passes over
        or digits != digits.lower()
        or _NO_ID in span_ids
        or _NO_TRACE in trace_ids
    ):
        raise _UnusualError


def _span(raw: _RawSpan, resource: Attributes, scope: str, counter: Counter, known_ids: set[str]) -> Span:
    start_ns, end_ns = raw.startTimeUnixNano, raw.endTimeUnixNano
    parent = raw.parentSpanId
    if parent and parent not in known_ids:
        _check_ids({parent}, set())
    code, text = 0, None
    status = raw.status
    if status is not None:
        code = status.code
        text = safe_status(status.message) if status.message else None
    lost = raw.droppedEventsCount
    if not (
        0 < start_ns <= end_ns <= INT64_MOST
        and 0 <= raw.kind < len(KINDS)
        and 0 <= code < len(STATUSES)
        and 0 <= lost <= INT64_MOST
    ):
        raise _UnusualError
    attributes = _attributes(bytes(raw.attributes), counter)
    if raw.traceState:
        attributes = sampling.noted(attributes, raw.traceState)
    return Span(
        raw.traceId,
        raw.spanId,
        parent or None,
        _name(raw.name),
        raw.kind,
        start_ns,
        end_ns,
        code,
        text,
        scope,
        resource,
        attributes,
        tolerant.events(raw.events, counter) if raw.events else None,
        lost,
    )


# --- what is said again and again ------------------------------------------------------------------------------

_lists: Final[dict[bytes, tuple[Attributes, int]]] = {}
"""Lists of attributes that came lately, with how many were dropped: those of roots and tools are mostly the same."""
_names: Final[dict[str, str]] = {}
"""Every attribute's name once, so that equal ones are the same object; "" for the name of content."""
_span_names: Final[dict[str, str]] = {}


def _attributes(text: bytes, counter: Counter) -> Attributes:
    """The attributes of such a list; shared with other spans, so never changed."""
    found = _lists.get(text)
    if found is None:
        found = _read(_decode_pairs(text))
        if len(text) <= _LONGEST_LIST:
            if len(_lists) >= _LISTS_MOST:
                _lists.clear()
            _lists[text] = found
    counter.dropped += found[1]
    return found[0]


def _read(pairs: list[_Pair]) -> tuple[Attributes, int]:
    out: Attributes = {}
    dropped = 0
    for pair in pairs:
        name = _names.get(pair.key)
        if name is None:
            name = _known_name(pair.key)
        if not name:
            dropped += bool(pair.key)
            continue
        value = pair.value
        if len(out) >= caps.MOST_ATTRIBUTES:
            continue
        if value.stringValue is not None:
            out[name] = value.stringValue if len(value.stringValue) <= caps.LONGEST_TEXT else _cut(value.stringValue)
        elif value.intValue is not None:
            out[name] = value.intValue
        elif value.doubleValue is not None:
            if value.doubleValue - value.doubleValue == 0:  # neither NaN nor infinite
                out[name] = value.doubleValue
        elif (plain := tolerant.plain_value(msgspec.structs.asdict(value))) is not None:
            out[name] = plain
    if PARAMETERS in out:
        tolerant.hide_parameters(out)
    return out, dropped


def _cut(text: str) -> str:
    return text[: caps.LONGEST_TEXT]


def _known_name(key: str) -> str:
    name = "" if is_content(key) else key
    if len(key) > caps.LONGEST_NAME:
        raise _UnusualError
    if len(_names) < _NAMES_MOST:  # names may come from outside without end
        _names[key] = name
    return name


def _name(name: str) -> str:
    known = _span_names.get(name)
    if known is None and len(_span_names) < _NAMES_MOST and len(name) <= caps.LONGEST_NAME:
        _span_names[name] = name
    return known or name
