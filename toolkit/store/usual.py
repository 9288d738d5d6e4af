"""Which traces of a batch are of the usual form: an agent's span, and below it calls and tools one after another.

The agent's span may not have come, as is usual while it runs. Nothing is timed by capture of ours, nothing is within
anything else. Pure but for numpy.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hopbudget.store import columns, shapes
from hopbudget.store.dialects import Kind
from hopbudget.store.shapes import Shape
from hopbudget.store.spans import Spans
from hopbudget.store.tables import NO_PARENT, Keys

Index = NDArray[np.int64]
Truth = NDArray[np.bool_]

_LONGEST_NS: Final = 1 << 50
"""Up to here nanoseconds stay what they were on their way through seconds."""
_LEAVES: Final = (Kind.TOOL, Kind.OTHER, Kind.CHAIN)
"""What below an agent is a work, where nothing is below it."""
_SPEAKING: Final = (Kind.HOP, Kind.TOOL)
"""What a trace without its root is known by."""


class Sort(NamedTuple):
    """What spans of the same scope, names of attributes and kind have in common."""

    shape: Shape
    kind: Kind


class Spread(NamedTuple):
    """The spans of a batch, trace by trace, with what they are and in columns."""

    spans: Spans
    sorts: Sequence[Sort]
    sort_of: Index
    """Which of the sorts each span is of."""
    keys: Keys
    start: Index
    end: Index
    status: Index
    sizes: Index
    """How many spans each trace has."""

    def are(self, what: Callable[[Sort], bool]) -> Truth:
        """Which spans are of such a sort."""
        found: Truth = np.array(list(map(what, self.sorts)), dtype=np.bool_)[self.sort_of]
        return found

    def sorts_at(self, at: Index) -> list[Sort]:
        """Of the spans at these places."""
        return list(map(self.sorts.__getitem__, self.sort_of[at].tolist()))


class Part(NamedTuple):
    """The hops, or the works, of the usual traces."""

    at: Index
    """Where in the batch they are."""
    root: Index
    """Which of the trajectories each is of."""


class Usual(NamedTuple):
    """The trajectories of the usual traces: where their parts are in the batch, and the numbers of the other traces."""

    roots: Index
    """Their roots; where the root has not come, the first span that did."""
    complete: Truth
    """Whether the root has come."""
    ends: Index
    """Where what ends last is: the root, if it has come."""
    hops: Part
    works: Part
    others: list[int]


def spread_out(spans: Spans, keys: Keys, sizes: Sequence[int]) -> Spread:
    """Make them ready to be looked at all together."""
    fields = spans.fields
    sorts, sort_of = _sorted(spans)
    return Spread(
        spans=spans,
        sorts=sorts,
        sort_of=sort_of,
        keys=keys,
        start=columns.integers(fields.start_ns),
        end=columns.integers(fields.end_ns),
        status=columns.integers(fields.status),
        sizes=np.array(sizes, dtype=np.int64),
    )


def _sorted(spans: Spans) -> tuple[list[Sort], Index]:
    """The sorts of these spans, and which each is of; attributes that several share are looked at once."""
    numbers: dict[tuple[int, int], int] = {}
    sorts: list[Sort] = []
    sort_of = []
    seen: dict[str, dict[int, int]] = {}
    for at, (scope, attributes) in enumerate(zip(spans.fields.scope, spans.fields.attributes, strict=True)):
        of_scope = seen.get(scope)
        if of_scope is None:
            of_scope = seen[scope] = {}
        number = of_scope.get(id(attributes))
        if number is None:
            shape = shapes.shape_of(scope, attributes)
            told = shapes.kind_told(attributes, shape)
            kind = told or shapes.kind_of(spans[at], shape)
            number = numbers.setdefault((id(shape), id(kind)), len(sorts))
            if number == len(sorts):
                sorts.append(Sort(shape, kind))
            if told:
                of_scope[id(attributes)] = number
        sort_of.append(number)
    return sorts, columns.integers(sort_of)


def find(spread: Spread) -> Usual:
    """The usual ones."""
    first = np.cumsum(spread.sizes) - spread.sizes
    is_top = spread.keys.parent_id == NO_PARENT.encode()
    tops = np.add.reduceat(is_top, first, dtype=np.int64)
    has_root = tops == 1
    root_at = np.where(has_root, np.maximum.reduceat(np.where(is_top, np.arange(len(is_top)), 0), first), first)
    is_root = np.zeros(len(is_top), dtype=np.bool_)
    is_root[root_at[has_root]] = True
    trace_of = np.repeat(np.arange(len(first)), spread.sizes)
    is_usual = np.logical_and.reduceat(_fits(spread, root_at[trace_of], is_root), first)
    is_usual &= has_root | ((tops == 0) & _speak(spread, first))
    number = np.cumsum(is_usual) - 1
    is_leaf = is_usual[trace_of] & ~is_root
    is_hop = spread.are(_is_hop)
    hop_at, work_at = np.flatnonzero(is_leaf & is_hop), np.flatnonzero(is_leaf & ~is_hop)
    return Usual(
        root_at[is_usual],
        has_root[is_usual],
        np.where(has_root, root_at, first + spread.sizes - 1)[is_usual],
        Part(hop_at, number[trace_of[hop_at]]),
        Part(work_at, number[trace_of[work_at]]),
        np.flatnonzero(~is_usual).tolist(),
    )


def _is_hop(sort: Sort) -> bool:
    return sort.kind is Kind.HOP


def _is_known(sort: Sort) -> bool:
    """Whether the usual form has such spans below an agent."""
    if sort.kind is Kind.HOP:
        return not (sort.shape.special or sort.shape.speaks_of_ours)
    return sort.kind in _LEAVES


def _speak(spread: Spread, first: Index) -> Truth:
    """Which traces hold something that only an agent's does."""
    found: Truth = np.logical_or.reduceat(spread.are(lambda sort: sort.kind in _SPEAKING), first)
    return found


def _fits(spread: Spread, root_of: Index, is_root: Truth) -> Truth:
    """Which spans are what and where the usual form has them. A span whose root has not come is of its first span."""
    start, end, keys = spread.start, spread.end, spread.keys
    has_root = is_root[root_of]
    parent = np.where(has_root, keys.span_id[root_of], keys.parent_id[root_of])
    fits: Truth = (keys.parent_id == parent) & (keys.span_id != parent) & spread.are(_is_known)
    fits &= (start >= start[root_of]) & (~has_root | (end <= end[root_of]))
    fits[is_root] = spread.are(lambda sort: sort.kind is Kind.AGENT)[is_root]
    fits &= end - start < _LONGEST_NS
    fits[_out_of_turn(spread, root_of, np.flatnonzero(~is_root))] = False
    fits[_mixed(spread, root_of, np.flatnonzero(spread.are(_is_hop) & ~is_root))] = False
    return fits


def _out_of_turn(spread: Spread, root_of: Index, leaves: Index) -> Index:
    """Those that do not begin after the one before them in their trace, at its end at the earliest."""
    before, after = leaves[:-1], leaves[1:]
    in_turn = (spread.start[after] >= spread.end[before]) & (spread.start[after] > spread.start[before])
    found: Index = after[(root_of[before] == root_of[after]) & ~in_turn]
    return found


def _mixed(spread: Spread, root_of: Index, hops: Index) -> Index:
    """Calls that another source tells of than of the one before in their trace: they may be the same call."""
    sources = [sort.shape.source for sort in spread.sorts]
    if len(set(sources)) < 2:
        return hops[:0]
    source = np.array([sources.index(one) for one in sources], dtype=np.int64)[spread.sort_of[hops]]
    found: Index = hops[1:][(source[1:] != source[:-1]) & (root_of[hops[:-1]] == root_of[hops[1:]])]
    return found
