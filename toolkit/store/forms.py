"""Decoded JSON of any of the forms in which spans are kept: OTLP, plain spans, exports of the Langfuse API."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from hopbudget.store import flat, langfuse, tolerant
from hopbudget.store.spans import Decoded, Span

LISTS: Final = ("observations", "spans", "data", "traces")
"""Under these names, files that are no export requests keep their spans."""
_DEEPEST: Final = 4


def decode_text(text: bytes) -> Decoded:
    """The spans of a JSON text. Raises nothing on any input."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return tolerant.decode_text(text)
    return decode_object(value)


def decode_object(value: object, depth: int = 0) -> Decoded:
    """The spans of a decoded JSON value, or the reason why there are none in it."""
    if isinstance(value, list):
        return _decode_list(value, depth) if depth <= _DEEPEST else Decoded([], ["nested too deeply"], 0)
    if isinstance(value, dict) and "resourceSpans" not in value:
        found = _decode_other(value, depth)
        if found is not None:
            return found
    return tolerant.decode_object(value)


def decode_part(name: str, items: list[Any], head: dict[str, Any], *, whole: bool, depth: int = 0) -> Decoded:
    """The spans in a part of one of `LISTS`, with what stands before it in its object."""
    if name == "observations":
        trace = head.get("trace")
        trace = trace if isinstance(trace, dict) else head
        return langfuse.decode_trace(trace, items) if whole else langfuse.decode(items, trace)
    return decode_object(items, depth + 1)


def _decode_list(items: list[Any], depth: int) -> Decoded:
    if items and all(map(langfuse.looks_like_an_observation, items)):
        return langfuse.decode(items)
    if items and all(map(flat.looks_like_a_span, items)):
        return flat.decode(items)
    return _joined(decode_object(item, depth + 1) for item in items)


def _decode_other(value: dict[str, Any], depth: int) -> Decoded | None:
    if langfuse.looks_like_an_observation(value):
        return langfuse.decode([value])
    if flat.looks_like_a_span(value):
        return flat.decode([value])
    for name in LISTS:
        items = value.get(name)
        if isinstance(items, list) and depth <= _DEEPEST:
            return decode_part(name, items, value, whole=True, depth=depth)
        if name == "data" and isinstance(items, dict) and depth <= _DEEPEST:
            return decode_object(items, depth + 1)
    return None


def _joined(several: Iterable[Decoded]) -> Decoded:
    spans: list[Span] = []
    rejected: list[str] = []
    dropped = 0
    for one in several:
        spans += one.spans
        rejected += one.rejected
        dropped += one.dropped_content
    return Decoded(spans, rejected, dropped)
