"""OTLP/JSON, the fast way: the text of export requests as exporters usually write it, decoded by type.

A request in which anything is unusual (a name for an enum, a bad id, a field of another type) goes the tolerant way,
as a whole; both give the same for the same text.
"""

from collections.abc import Sequence
from itertools import repeat
from operator import gt
from typing import Annotated, Any, Final

import msgspec

from hopbudget.store import caps, forms, sampling, tolerant
from hopbudget.store.content import PARAMETERS, is_content, safe_status
from hopbudget.store.spans import Attributes, Decoded, Fields, Spans
from hopbudget.store.tolerant import INT64_MOST, KINDS, STATUSES, Counter

_NO_ID: Final = "0" * 16
_NO_TRACE: Final = "0" * 32
_LISTS_MOST: Final = 512
"""So few are still at hand in the processor's own memory."""
_LONGEST_LIST: Final = 4_096
_NAMES_MOST: Final = 10_000

_Int64 = Annotated[int, msgspec.Meta(ge=-INT64_MOST - 1, le=INT64_MOST)]
_Instant = Annotated[int, msgspec.Meta(gt=0, le=INT64_MOST)]
_Kind = Annotated[int, msgspec.Meta(ge=0, lt=len(KINDS))]
_Code = Annotated[int, msgspec.Meta(ge=0, lt=len(STATUSES))]
_Count = Annotated[int, msgspec.Meta(ge=0, le=INT64_MOST)]


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
    code: _Code = 0
    message: str = ""


_UNSET: Final = _Status()


class _RawSpan(msgspec.Struct, gc=False, kw_only=True):
    """A span on the wire, its fields in the order in which `_fields` takes them apart."""

    traceId: str  # noqa: N815
    spanId: str  # noqa: N815
    parentSpanId: str = ""  # noqa: N815
    name: str = ""
    kind: _Kind = 0
    startTimeUnixNano: _Instant  # noqa: N815
    endTimeUnixNano: _Instant  # noqa: N815
    status: _Status | None = None
    attributes: msgspec.Raw = msgspec.Raw(b"[]")
    events: Any = None
    droppedEventsCount: _Count = 0  # noqa: N815
    traceState: str = ""  # noqa: N815


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
_decode_lines: Final = msgspec.json.Decoder(_Request, strict=False).decode_lines
_decode_pairs: Final = msgspec.json.Decoder(list[_Pair], strict=False).decode


class _UnusualError(Exception):
    """Something that only the tolerant way can judge."""


_UNUSUAL: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, _UnusualError)


def decode(text: bytes) -> Decoded:
    """The spans of one export request, given as JSON text. Raises nothing on any input."""
    decoded = decode_lines(text, 1)
    return forms.decode_text(text) if decoded is None else decoded._replace(spans=list(decoded.spans))


def decode_lines(text: bytes, count: int) -> Decoded | None:
    """The spans of so many lines, an export request in each, which is cheaper; None if anything in them is unusual."""
    try:
        requests = _decode_lines(text)
        return _usual(requests) if len(requests) == count else None
    except _UNUSUAL:
        return None


def _usual(requests: Sequence[_Request]) -> Decoded:
    counter = Counter()
    raws: list[_RawSpan] = []
    resources: list[Attributes] = []
    scopes: list[str] = []
    for request in requests:
        for resource_spans in request.resourceSpans:
            described = resource_spans.resource
            resource = _attributes(described.attributes, counter) if described else {}
            for scope_spans in resource_spans.scopeSpans:
                scope = scope_spans.scope.name if scope_spans.scope else ""
                spans = scope_spans.spans
                raws += spans
                resources += repeat(resource, len(spans))
                scopes += repeat(scope, len(spans))
    return Decoded(Spans(_fields(raws, resources, scopes, counter) if raws else Fields()), [], counter.dropped)


def _fields(
    raws: Sequence[_RawSpan], resources: Sequence[Attributes], scopes: Sequence[str], counter: Counter
) -> Fields:
    """The same field of all of them at a time."""
    fields = zip(*map(msgspec.structs.astuple, raws), strict=True)
    trace_ids, span_ids, parent_ids, names, kinds, starts, ends, statuses, texts, events, lost, states = fields
    _check_ids({*trace_ids}, _NO_TRACE)
    _check_ids({*span_ids, *parent_ids} - {""}, _NO_ID)
    if "" in span_ids or any(map(gt, starts, ends)):
        raise _UnusualError
    attributes = [_attributes(text, counter) for text in texts]
    if any(states):
        attributes = list(map(sampling.noted, attributes, states))
    said = [status or _UNSET for status in statuses]
    return Fields(
        trace_ids,
        span_ids,
        [parent or None for parent in parent_ids],
        names,
        kinds,
        starts,
        ends,
        [status.code for status in said],
        [safe_status(status.message) if status.message else None for status in said],
        scopes,
        resources,
        attributes,
        [tolerant.events(one, counter) if one else None for one in events],
        lost,
    )


def _check_ids(ids: set[str], zeros: str) -> None:
    """Lower hex of the right length and not zero, all of them."""
    digits = "".join(ids)
    if (
        {*map(len, ids)} - {len(zeros)}
        or len(bytes.fromhex(digits)) * 2 != len(digits)  # no white space, which `fromhex` passes over
        or digits != digits.lower()
        or zeros in ids
    ):
        raise _UnusualError


# --- what is said again and again ------------------------------------------------------------------------------

_lists: Final[dict[bytes, tuple[Attributes, int]]] = {}
"""Lists of attributes that came lately, with how many were dropped: those of roots and tools are mostly the same."""
_names: Final[dict[str, str]] = {}
"""Every attribute's name once, so that equal ones are the same object; "" for the name of content."""


def _attributes(raw: msgspec.Raw, counter: Counter) -> Attributes:
    """The attributes of such a list; shared with other spans, so never changed."""
    text = bytes(raw)
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
    if len(pairs) > caps.MOST_ATTRIBUTES:
        raise _UnusualError
    out: Attributes = {}
    dropped = 0
    known = _names.get
    for pair in pairs:
        key, value = pair.key, pair.value
        name = known(key)
        if name is None:
            name = _known_name(key)
        if not name:
            dropped += bool(key)
            continue
        text = value.stringValue
        if text is not None:
            out[name] = text if len(text) <= caps.LONGEST_TEXT else _cut(text)
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
