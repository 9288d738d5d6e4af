"""Which traces of a batch are of the usual form: an agent's span, and below it calls and tools one after another.

The agent's span may not have come, as is usual while it runs. Nothing is timed by capture of ours, nothing is within
anything else. Pure but for numpy.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hopbudget.store import shapes
from hopbudget.store.dialects import Kind
from hopbudget.store.shapes import Shape
from hopbudget.store.spans import Span
from hopbudget.store.tables import NO_PARENT, Fields, Keys

Index = NDArray[np.int64]
Truth = NDArray[np.bool_]

_LONGEST_NS: Final = 1 << 50
"""Up to here nanoseconds stay what they were on their way through seconds."""
_LEAVES: Final = (Kind.TOOL, Kind.OTHER, Kind.CHAIN)
"""What below an agent is a work, where nothing is below it."""
_SPEAKING: Final = (Kind.HOP, Kind.TOOL)
"""What a trace without its root is known by."""


class Spread(NamedTuple):
    """The spans of a batch, trace by trace, with what they are and in columns."""

    spans: Sequence[Span]
    shapes: Sequence[Shape]
    kinds: Sequence[Kind]
    keys: Keys
    start: Index
    end: Index
    sizes: Index
    """How many spans each trace has."""

    def taken(self, at: Index) -> tuple[list[Span], list[Shape]]:
        """The spans at these places, and their shapes."""
        places = at.tolist()
        return list(map(self.spans.__getitem__, places)), list(map(self.shapes.__getitem__, places))


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


def spread_out(spans: Sequence[Span], fields: Fields, keys: Keys, sizes: Sequence[int]) -> Spread:
    """Make them ready to be looked at all together."""
    shape_of = shapes.shapes_of(spans)
    return Spread(
        spans=spans,
        shapes=shape_of,
        kinds=list(map(shapes.kind_of, spans, shape_of)),
        keys=keys,
        start=np.array(fields.start_ns, dtype=np.int64),
        end=np.array(fields.end_ns, dtype=np.int64),
        sizes=np.array(sizes, dtype=np.int64),
    )


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
    is_hop = _are(spread, Kind.HOP)
    hop_at, work_at = np.flatnonzero(is_leaf & is_hop), np.flatnonzero(is_leaf & ~is_hop)
    return Usual(
        root_at[is_usual],
        has_root[is_usual],
        np.where(has_root, root_at, first + spread.sizes - 1)[is_usual],
        Part(hop_at, number[trace_of[hop_at]]),
        Part(work_at, number[trace_of[work_at]]),
        np.flatnonzero(~is_usual).tolist(),
    )


def _are(spread: Spread, *kinds: Kind) -> Truth:
    return np.array([kind in kinds for kind in spread.kinds], dtype=np.bool_)


def _speak(spread: Spread, first: Index) -> Truth:
    """Which traces hold something that only an agent's does."""
    found: Truth = np.logical_or.reduceat(_are(spread, *_SPEAKING), first)
    return found


def _fits(spread: Spread, root_of: Index, is_root: Truth) -> Truth:
    """Which spans are what and where the usual form has them. A span whose root has not come is of its first span."""
    start, end, keys = spread.start, spread.end, spread.keys
    is_known = [
        not (shape.special or shape.speaks_of_ours) if kind is Kind.HOP else kind in _LEAVES
        for shape, kind in zip(spread.shapes, spread.kinds, strict=True)
    ]
    has_root = is_root[root_of]
    parent = np.where(has_root, keys.span_id[root_of], keys.parent_id[root_of])
    fits: Truth = (keys.parent_id == parent) & (keys.span_id != parent) & np.array(is_known, dtype=np.bool_)
    fits &= (start >= start[root_of]) & (~has_root | (end <= end[root_of]))
    fits[is_root] = [spread.kinds[at] is Kind.AGENT for at in np.flatnonzero(is_root).tolist()]
    fits &= end - start < _LONGEST_NS
    fits[_out_of_turn(spread, root_of, np.flatnonzero(~is_root))] = False
    fits[_mixed(spread, root_of, np.flatnonzero(_are(spread, Kind.HOP) & ~is_root))] = False
    return fits


def _out_of_turn(spread: Spread, root_of: Index, leaves: Index) -> Index:
    """Those that do not begin after the one before them in their trace, at its end at the earliest."""
    before, after = leaves[:-1], leaves[1:]
    in_turn = (spread.start[after] >= spread.end[before]) & (spread.start[after] > spread.start[before])
    found: Index = after[(root_of[before] == root_of[after]) & ~in_turn]
    return found


def _mixed(spread: Spread, root_of: Index, hops: Index) -> Index:
    """Calls that another source tells of than of the one before in their trace: they may be the same call."""
    sources = [spread.shapes[at].source for at in hops.tolist()]
    if len(set(sources)) < 2:
        return hops[:0]
    differs = np.array([one != other for one, other in pairwise(sources)], dtype=np.bool_)
    found: Index = hops[1:][differs & (root_of[hops[:-1]] == root_of[hops[1:]])]
    return found
