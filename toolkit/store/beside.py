"""Spans of one call that stand beside one another, not within: some are only made when the call is over. Pure.

OpenLLMetry makes its span of a streamed response so: at the stream's end, with the time of the request as its start,
below whatever was around the call and not around the spans of other instrumentations.
"""

from collections.abc import Sequence
from typing import Final

from hopbudget.store.dialects import Kind
from hopbudget.store.tree import Node
from hopbudget.store.values import count, text
from hopbudget.tracing import vocabulary as v

_RESPONSE: Final = "gen_ai.response.id"
_SHORTEST_ID: Final = 8
_EPS_NS: Final = 20_000_000
"""The span within may end later by so much: both are ended one after the other."""


def nest(siblings: Sequence[Node]) -> Sequence[Node]:
    """The siblings that remain when each model span is put below the longer one of another source for the same call."""
    if not _are_mixed(siblings):  # nearly always
        return siblings
    kept: list[Node] = []
    calls: list[Node] = []
    for node in sorted(siblings, key=lambda node: (node.span.start_ns, -node.span.end_ns, node.span.span_id)):
        if node.kind is not Kind.HOP:
            kept.append(node)
            continue
        calls = [call for call in calls if call.span.end_ns > node.span.start_ns]
        around = next((call for call in calls if _is_same_call(call, node) or _is_abandoned(call, node)), None)
        if around is None:
            calls.append(node)
            kept.append(node)
        else:
            around.children.append(node)
    return kept


def _are_mixed(siblings: Sequence[Node]) -> bool:
    first: Node | None = None
    for node in siblings:
        if node.kind is Kind.HOP:
            if first is None:
                first = node
            elif node.shape.source != first.shape.source:
                return True
    return False


def _is_same_call(around: Node, node: Node) -> bool:
    """By the response's id where both state it, else by time and tokens, which both must state."""
    if around.shape.source == node.shape.source or node.span.end_ns > around.span.end_ns + _EPS_NS:
        return False
    ids = [text(each.span.attributes, _RESPONSE) for each in (around, node)]
    if ids[0] and ids[1]:
        return ids[0] == ids[1] and len(ids[0]) >= _SHORTEST_ID
    mine, other = _tokens(around), _tokens(node)
    return mine == other and None not in mine


def _is_abandoned(around: Node, node: Node) -> bool:
    """Whether `around` is of the stream that `node` of ours saw its consumer leave, and so could not say what came."""
    mine, theirs = node.span, around.span
    return (
        node.shape.measured
        and mine.attributes.get(v.OUTCOME) == "closed_by_consumer"
        and around.shape.source != node.shape.source
        and mine.start_ns - theirs.start_ns <= _EPS_NS
        and mine.end_ns <= theirs.end_ns + _EPS_NS
        and mine.attributes.get(v.REQUEST_MODEL) == theirs.attributes.get(v.REQUEST_MODEL)
        and text(theirs.attributes, _RESPONSE) is None
        and _tokens(around) == (None, None)
        and not any(inner.shape.measured for inner in around.children)
    )


def _tokens(node: Node) -> tuple[int | None, int | None]:
    attributes, shape = node.span.attributes, node.shape
    return count(attributes, shape.input_tokens), count(attributes, shape.output_tokens)
