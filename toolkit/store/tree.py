"""The spans of one trace to trajectories: which span is a trajectory's root, and which spans belong to it.

The topmost agent span, or the stage that holds agents (a graph whose nodes call themselves agents); else the SERVER
span of one request; else the parentless span; else the root was lost and the trajectory is the extent of what came.
Pure: spans in, trees out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from hopbudget.store.dialects import Kind
from hopbudget.store.shapes import Shape, is_borrowed, kind_of, shape_of
from hopbudget.store.spans import SERVER, Span
from hopbudget.tracing import vocabulary as v

_TOPMOST: Final = frozenset({Kind.AGENT, Kind.HOP})
_SPEAKING: Final = frozenset({Kind.AGENT, Kind.HOP, Kind.TOOL, Kind.PAUSE})
"""Kinds that only an agent's trace holds."""


class Node(msgspec.Struct, gc=False, eq=False):
    """A span in its place."""

    span: Span
    shape: Shape
    kind: Kind
    children: "list[Node]"


@dataclass(slots=True)
class Tree:
    """One trajectory."""

    root_span_id: str
    """The root's id, also where the root itself never came."""
    root: Node | None
    """None where it was lost."""
    tops: list[Node]
    """Under the root: its children, and pieces whose parents were lost but that lie within its time."""

    @property
    def start_ns(self) -> int:
        """Start of the root, or of the first thing that came."""
        return self.root.span.start_ns if self.root else min(top.span.start_ns for top in self.tops)

    @property
    def end_ns(self) -> int:
        """End of the root, or of the last thing that came."""
        return self.root.span.end_ns if self.root else max(node.span.end_ns for node in walk(self.tops))


def walk(nodes: Sequence[Node]) -> list[Node]:
    """These nodes and all below them."""
    found = list(nodes)
    for node in found:  # grows as it goes
        found.extend(node.children)
    return found


def trajectories(spans: Sequence[Span]) -> list[Tree]:
    """The trajectories of one trace's spans, which are free of duplicates."""
    tops = _link(spans)
    if len(tops) == 1 and tops[0].kind is Kind.AGENT:  # nearly always
        return [Tree(tops[0].span.span_id, tops[0], tops[0].children)]
    return _sort_out(tops)


def _node(span: Span) -> Node:
    shape = shape_of(span.scope, span.attributes)
    return Node(span, shape, kind_of(span, shape), [])


def _link(spans: Sequence[Span]) -> list[Node]:
    """Make the tree; returns the nodes whose parent is not here, in order of start."""
    nodes = {span.span_id: _node(span) for span in spans}
    tops = []
    holders: list[Node] = []
    for node in nodes.values():
        parent = nodes.get(node.span.parent_id) if node.span.parent_id else None
        if parent is None or parent is node:
            tops.append(node)
        else:
            parent.children.append(node)
            if parent.kind is Kind.HOP:
                holders.append(parent)
    for holder in holders:
        if _is_loop(holder):
            holder.kind = Kind.AGENT
        elif is_borrowed(holder.span) and any(below.kind is Kind.HOP for below in walk(holder.children)):
            holder.kind = Kind.AGENT if holder.span.name.startswith(v.INVOKE_AGENT) else Kind.OTHER
    if len(tops) == 1 and len(tops[0].children) == len(nodes) - 1:  # nearly always
        return tops
    tops.sort(key=_order)
    if len(walk(tops)) < len(nodes):
        tops += _cut_rings(nodes, tops)
    return tops


def _is_loop(holder: Node) -> bool:
    """Whether a model span holds several calls and tools: it is the loop around them, whatever it is called."""
    calls = tools = 0
    waiting = list(holder.children)
    for node in waiting:
        if node.kind is Kind.HOP:
            calls += 1
        elif node.kind is Kind.TOOL:
            tools += 1
        else:
            waiting.extend(node.children)
    return calls > 1 and tools > 0 and not holder.shape.measured


def _cut_rings(nodes: dict[str, Node], tops: list[Node]) -> list[Node]:
    """Spans that are one another's parents hang on nothing: each ring is cut above its earliest span."""
    seen = {id(node) for node in walk(tops)}
    cut = []
    for node in sorted(nodes.values(), key=_order):
        if id(node) not in seen:
            nodes[node.span.parent_id or ""].children.remove(node)
            cut.append(node)
            seen.update(id(below) for below in walk([node]))
    return cut


def _order(node: Node) -> tuple[int, int, str]:
    return node.span.start_ns, -node.span.end_ns, node.span.span_id


def _sort_out(tops: list[Node]) -> list[Tree]:
    lost_parents = _lost_roots(tops)
    trees: list[Tree] = []
    pieces: list[Node] = []
    for top in tops:
        if top.span.parent_id in lost_parents:
            pieces.append(top)
        else:
            found = _roots_of(top)
            trees += [Tree(root.span.span_id, root, list(root.children)) for root in found]
            if not found and top.span.parent_id and _speaks_of_hops([top]):
                pieces.append(top)
    lost = [piece for piece in pieces if not _adopted(piece, trees)]
    if lost:
        trees.append(Tree(lost[0].span.parent_id or lost[0].span.span_id, None, lost))
    return sorted(trees, key=lambda tree: (tree.start_ns, tree.root_span_id))


def _lost_roots(tops: list[Node]) -> set[str | None]:
    """Parents that ran here and never came, for a hop or a tool hangs on them. An agent's may be anywhere."""
    return {top.span.parent_id for top in tops if top.kind in _SPEAKING - {Kind.AGENT}} - {None}


def _roots_of(top: Node) -> list[Node]:
    """The roots of trajectories in the tree below and with `top`; none if it is about something else."""
    if top.kind is Kind.CHAIN and top.span.parent_id is None and _speaks_of_hops([top]):
        return [top]
    agents = _topmost(top)
    if any(node.kind is not Kind.HOP for node in agents):
        # A model call beside the agents of a request belongs to none of them: it stands alone.
        return agents
    if not _speaks_of_hops([top]):
        return []
    server = next((node for node in walk([top]) if node.span.kind == SERVER and _speaks_of_hops([node])), None)
    if server is not None:
        return [server]
    return [top] if top.span.parent_id is None else []


def _topmost(top: Node) -> list[Node]:
    """Agents, stages that hold agents, and model calls, each with none of them above."""
    found = []
    waiting = [top]
    for node in waiting:
        if node.kind in _TOPMOST or (node.kind is Kind.CHAIN and _holds_agent(node)):
            found.append(node)
        else:
            waiting.extend(node.children)
    return found


def _holds_agent(node: Node) -> bool:
    return any(below.kind is Kind.AGENT for below in walk(node.children))


def _speaks_of_hops(nodes: Sequence[Node]) -> bool:
    return any(node.kind in _SPEAKING for node in walk(nodes))


def _adopted(piece: Node, trees: list[Tree]) -> bool:
    """Give a piece whose parent was lost to the shortest trajectory of its trace that it lies within."""
    around = [
        tree
        for tree in trees
        if tree.root and tree.start_ns <= piece.span.start_ns and piece.span.end_ns <= tree.end_ns
    ]
    if not around:
        return False
    min(around, key=lambda tree: tree.end_ns - tree.start_ns).tops.append(piece)
    return True
