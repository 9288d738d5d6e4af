"""OTLP/JSON, the fast way: the text of an export request as exporters usually write it, decoded by type.

A request in which anything is unusual (a name for an enum, a bad id, a field of another type) goes the tolerant way,
as a whole; both give the same for the same text.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from hopbudget.store import tolerant
from hopbudget.store.content import is_content, safe_status, verdicts
from hopbudget.store.spans import Attributes, Decoded, Span
from hopbudget.store.tolerant import INT64_MOST, KINDS, STATUSES, Counter

_NO_ID: Final = "0" * 16
_NO_TRACE: Final = "0" * 32


class _Value(msgspec.Struct, gc=False):
    stringValue: str | None = None  # noqa: N815  (the names on the wire)
    intValue: str | int | None = None  # noqa: N815
    doubleValue: float | None = None  # noqa: N815
    boolValue: bool | None = None  # noqa: N815
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
    startTimeUnixNano: str | int  # noqa: N815
    endTimeUnixNano: str | int  # noqa: N815
    parentSpanId: str = ""  # noqa: N815
    name: str = ""
    kind: int = 0
    attributes: list[_Pair] = []
    status: _Status | None = None
    events: Any = None
    droppedEventsCount: int = 0  # noqa: N815


class _Scope(msgspec.Struct, gc=False):
    name: str = ""


class _ScopeSpans(msgspec.Struct, gc=False):
    scope: _Scope | None = None
    spans: list[_RawSpan] = []


class _Resource(msgspec.Struct, gc=False):
    attributes: list[_Pair] = []


class _ResourceSpans(msgspec.Struct, gc=False):
    resource: _Resource | None = None
    scopeSpans: list[_ScopeSpans] = []  # noqa: N815


class _Request(msgspec.Struct, gc=False):
    resourceSpans: list[_ResourceSpans]  # noqa: N815


_decode: Final = msgspec.json.Decoder(_Request).decode


class _UnusualError(Exception):
    """Something that only the tolerant way can judge."""


def decode(text: bytes) -> Decoded:
    """The spans of one export request, given as JSON text. Raises nothing on any input."""
    try:
        return _usual(_decode(text))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, _UnusualError):
        return tolerant.decode_text(text)


def _usual(request: _Request) -> Decoded:
    counter = Counter()
    spans: list[Span] = []
    for resource_spans in request.resourceSpans:
        described = resource_spans.resource
        resource = _attributes(described.attributes, counter) if described else {}
        for scope_spans in resource_spans.scopeSpans:
            scope = scope_spans.scope.name if scope_spans.scope else ""
            raws = scope_spans.spans
            ids = [raw.spanId for raw in raws]
            _check_ids(ids, 16)
            good = {raw.traceId for raw in raws}
            _check_ids(good, 32)
            good.update(ids)
            spans += [_span(raw, resource, scope, counter, good) for raw in raws]
    return Decoded(spans, [], counter.dropped)


def _check_ids(ids: Sequence[str] | set[str], digits: int) -> None:
    """Lower hex of the right length and not zero, all of them."""
    joined = "".join(ids)
    if (
        len(bytes.fromhex(joined)) * 2 != len(ids) * digits
        or any(len(each) != digits for each in ids)
        or joined != joined.lower()
        or _NO_ID in ids
        or _NO_TRACE in ids
    ):
        raise _UnusualError


def _span(raw: _RawSpan, resource: Attributes, scope: str, counter: Counter, good_ids: set[str]) -> Span:
    start_ns = int(raw.startTimeUnixNano)
    end_ns = int(raw.endTimeUnixNano)
    parent = raw.parentSpanId
    if parent and parent not in good_ids:
        _check_ids([parent], 16)
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
    return Span(
        raw.traceId,
        raw.spanId,
        parent or None,
        raw.name,
        raw.kind,
        start_ns,
        end_ns,
        code,
        text,
        scope,
        resource,
        _attributes(raw.attributes, counter),
        tolerant.events(raw.events, counter) if raw.events else None,
        lost,
    )


def _attributes(pairs: list[_Pair], counter: Counter) -> Attributes:
    out: Attributes = {}
    for pair in pairs:
        name = pair.key
        drop = verdicts.get(name)
        if drop or (drop is None and is_content(name)):
            counter.dropped += 1
            continue
        value = pair.value
        text = value.stringValue
        if text is not None:
            out[name] = text
        elif value.intValue is not None:
            number = tolerant.int64(value.intValue)
            if number is not None:
                out[name] = number
        elif (plain := tolerant.plain_value(msgspec.structs.asdict(value))) is not None:
            out[name] = plain
    return out
