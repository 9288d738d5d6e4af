"""Streams whose call span ends with the response's headers, and whose end is a record of its own beside it. Pure.

Logfire writes a stream so: the span of the call, and later a log without length, under the same parent, which says how
long the stream took and what it used.
"""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from hopbudget.store import shapes
from hopbudget.store.tree import Node
from hopbudget.store.values import number
from hopbudget.tracing import vocabulary as v

_SAME: Final = ("gen_ai.request.model", "gen_ai.response.id")


def join(hops: Sequence[Node], ends: Sequence[Node]) -> None:
    """Let each call last to its stream's end and say what the end says; both are in order of start.

    The end belongs to the last call before it, by the same source under the same parent, that has none yet.
    """
    open_calls = list(hops)
    for end in ends:
        candidates = [call for call in open_calls if _may_end(call, end)]
        if not candidates:
            continue
        call = min(candidates, key=lambda node: _misses_by(node, end))
        open_calls.remove(call)
        span = call.span
        attributes = end.span.attributes | span.attributes | {v.REQUEST_STREAM: True}
        call.span = replace(span, end_ns=_end_ns(call, end), attributes=attributes)
        call.shape = shapes.shape_of(span.scope, attributes)


def _may_end(call: Node, end: Node) -> bool:
    mine, other = call.span, end.span
    return (
        call.shape.source == end.shape.source
        and mine.parent_id == other.parent_id
        and mine.end_ns <= other.start_ns
        and all(
            mine.attributes[name] == other.attributes[name]
            for name in _SAME
            if name in mine.attributes and name in other.attributes
        )
    )


def _end_ns(call: Node, end: Node) -> int:
    """The headers' moment and the stream's stated length after it: the log itself may be written later."""
    length_s = number(end.span.attributes.get("duration"))
    latest = end.span.start_ns
    return latest if length_s is None else min(latest, call.span.end_ns + round(length_s * 1e9))


def _misses_by(call: Node, end: Node) -> int:
    """By how many nanoseconds the stream's stated end misses the moment of its log."""
    return end.span.start_ns - _end_ns(call, end)
