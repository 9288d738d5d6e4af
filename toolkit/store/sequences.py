"""Rows of trajectories of the usual form, many at once: their facts are sums and differences of columns.

`facts` says what everything means, also for these; a test holds both to the same rows. Pure but for numpy.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hopbudget.store import outcomes, roots, shapes, streams, usual
from hopbudget.store.columns import Taken, Values, as_list
from hopbudget.store.roots import Said
from hopbudget.store.shapes import Shape
from hopbudget.store.spans import ERROR, UNSET, Attributes, Span
from hopbudget.store.tables import Fields, Keys
from hopbudget.store.usual import Index, Part, Spread, Usual
from hopbudget.store.values import count, text

Rows = Mapping[str, Mapping[str, Values]]
"""Values by table and column; what is not among a table's columns was not observed."""
_Columns = dict[str, Values]

_NS: Final = 1e9
_SETTLED: Final[Mapping[str, int]] = MappingProxyType({})
_READ: Final[dict[str, Callable[[Attributes, str | None], Any]]] = {
    "model": text,
    "input_tokens": count,
    "cached_tokens": count,
    "output_tokens": count,
    "reasoning_tokens": count,
}
"""Columns of hops that stand in one attribute each."""


class Found(NamedTuple):
    """The rows of the usual traces, and the numbers of the other ones."""

    rows: Rows
    others: list[int]


def find(
    spans: Sequence[Span],
    fields: Fields,
    keys: Keys | None,
    sizes: Sequence[int],
    settles: Mapping[str, int] = _SETTLED,
) -> Found:
    """Rows of these spans, which lie trace by trace; `sizes` are the numbers of spans of the traces."""
    if keys is None:
        return Found({}, list(range(len(sizes))))
    spread = usual.spread_out(spans, fields, keys, sizes)
    found = usual.find(spread)
    return Found(_rows(spread, found, settles) if len(found.roots) else {}, found.others)


def _rows(spread: Spread, found: Usual, settles: Mapping[str, int]) -> Rows:
    said = _said(spread, found)
    settles_at = [settles.get(spread.spans[at].trace_id) for at in found.roots.tolist()]
    said["session"] = _sessions(spread, said["session"], found.hops)
    spans, shape_of = spread.taken(found.hops.at)
    how = _outcomes(spans, shape_of)
    hops = _placed(spread, found, found.hops) | _hops(spans, shape_of, how, found.hops.root)
    hops |= streams.columns(spans, shape_of, hops)
    hops |= streams.finals(spread, found, hops, np.array([at is None for at in settles_at], dtype=np.bool_))
    hops |= {name: Taken(said[name].values, said[name].at[found.hops.root]) for name in ("workload", "run", "session")}
    spans, shape_of = spread.taken(found.works.at)
    works = _placed(spread, found, found.works) | {
        "work": list(map(shapes.work_name, spans, shape_of)),
        "outcome": _outcomes(spans, shape_of),
    }
    trajectories = _trajectories(spread, found, how) | {
        name: as_list(values) if name in _NO_TEXTS else values for name, values in said.items()
    }
    if settles:
        trajectories["settles_at"] = settles_at
    rows = {"trajectories": trajectories, "hops": hops, "works": works}
    return {table: columns for table, columns in rows.items() if len(columns["trace_id"])}


# --- trajectories ------------------------------------------------------------------------------------------------

_NO_TEXTS: Final = frozenset({"deadline_s", "intervened", "sampling_ratio"})


def _trajectories(spread: Spread, found: Usual, how: Sequence[str]) -> _Columns:
    at, hops = found.roots, found.hops
    hop_counts = np.bincount(hops.root, minlength=len(at))
    lengths = np.concatenate(([0], np.cumsum(spread.end[hops.at] - spread.start[hops.at])))
    last = np.cumsum(hop_counts)
    covered = lengths[last] - lengths[last - hop_counts]
    total = spread.end[found.ends] - spread.start[at]
    return {
        "trace_id": spread.keys.trace_id[at],
        "root_span_id": _root_ids(spread, found),
        "started_at": spread.start[at],
        "duration_s": total / _NS,
        "hop_count": hop_counts,
        "model_s": covered / _NS,
        "work_s": (total - covered) / _NS,
        "paused_s": np.zeros(len(at)),
        "complete": found.complete,
        "outcome": _came_out(spread, found, how),
    }


def _root_ids(spread: Spread, found: Usual) -> NDArray[np.bytes_]:
    """Also of roots that have not come."""
    return np.where(found.complete, spread.keys.span_id[found.roots], spread.keys.parent_id[found.roots])


def _said(spread: Spread, found: Usual) -> dict[str, Taken]:
    """What the roots say; they share their attributes with one another, and their resource with all."""
    numbers: dict[tuple[int, ...] | tuple[int, int, str], int] = {}
    said: list[Said] = []
    at = []
    for span, shape, is_root in zip(*spread.taken(found.roots), found.complete.tolist(), strict=True):
        key = (id(span.resource), id(span.attributes), span.name)
        number = numbers.get(key)
        if number is None:
            number = numbers[key] = len(said)
            said.append(roots.said(span, shape, is_root=is_root))
        at.append(number)
    places = np.array(at, dtype=np.int64)
    return {name: Taken(values, places) for name, values in zip(Said._fields, zip(*said, strict=True), strict=True)}


def _sessions(spread: Spread, said: Taken, hops: Part) -> Taken:
    """Where the root names none, the first that one of its hops names."""
    if None not in said.values or not any(spread.shapes[at].session for at in hops.at.tolist()):
        return said
    named = as_list(said)
    for at, root in zip(hops.at.tolist(), hops.root.tolist(), strict=True):
        if named[root] is None:
            named[root] = text(spread.spans[at].attributes, spread.shapes[at].session)
    return Taken(named, np.arange(len(named)))


def _came_out(spread: Spread, found: Usual, how: Sequence[str]) -> list[str]:
    """How the trajectories did: as the root says, else as the last hop to end did."""
    out = ["ok"] * len(found.roots)
    if any(outcome != "ok" for outcome in how):
        start = spread.start[found.hops.at]
        ends = start + (spread.end[found.hops.at] - start) / _NS * _NS
        latest = [0.0] * len(out)
        for root, end, outcome in zip(found.hops.root.tolist(), ends.tolist(), how, strict=True):
            if end > latest[root]:
                latest[root], out[root] = end, outcome
    for number, (span, shape) in enumerate(zip(*spread.taken(found.roots), strict=True)):
        if found.complete[number] and (shape.says_outcome or span.status != UNSET):
            out[number] = outcomes.of_root(span) or out[number]
    return out


# --- hops and works ----------------------------------------------------------------------------------------------


def _placed(spread: Spread, found: Usual, part: Part) -> _Columns:
    """Where and when."""
    start, root_of = spread.start[part.at], found.roots[part.root]
    return {
        "trace_id": spread.keys.trace_id[part.at],
        "root_span_id": _root_ids(spread, found)[part.root],
        "span_id": spread.keys.span_id[part.at],
        "started_at": start,
        "start_s": (start - spread.start[root_of]) / _NS,
        "duration_s": (spread.end[part.at] - start) / _NS,
    }


def _outcomes(spans: Sequence[Span], shape_of: Sequence[Shape]) -> list[str]:
    return [
        outcomes.of_span(span, shape) if shape.says_outcome or span.status == ERROR else "ok"
        for span, shape in zip(spans, shape_of, strict=True)
    ]


def _hops(spans: Sequence[Span], shape_of: Sequence[Shape], how: Sequence[str], root: Index) -> _Columns:
    """What their attributes say."""
    attributes = [span.attributes for span in spans]
    names = [shapes.hop_name(each, shape, None) for each, shape in zip(attributes, shape_of, strict=True)]
    columns: _Columns = {
        "hop": names,
        "visit": _visits(root, names),
        "outcome": how,
        "source": [shape.source for shape in shape_of],
    }
    for column, read in _READ.items():
        said = [getattr(shape, column) for shape in shape_of]
        if any(said):
            columns[column] = _values(attributes, said, read)
    if "output_tokens" in columns:
        columns["output_tokens_source"] = [
            None if tokens is None else "usage" for tokens in as_list(columns["output_tokens"])
        ]
    if any(outcome != "ok" for outcome in how):
        columns["error_type"] = [
            None if outcome == "ok" else outcomes.error_type(span) for outcome, span in zip(how, spans, strict=True)
        ]
    return columns


def _values(
    attributes: Sequence[Attributes], names: Sequence[str | None], read: Callable[[Attributes, str | None], Any]
) -> list[Any]:
    """What `read` reads of each; where all are under one name and of one good type, there is nothing to look at."""
    name = names[0]
    if name is not None and names.count(name) == len(names):
        values: list[Any] = [each[name] for each in attributes]
        kinds = {*map(type, values)}
        if read is text and kinds == {str} and "" not in values:
            return values
        if read is count and kinds == {int} and min(values) >= 0:
            return values
    return list(map(read, attributes, names))


def _visits(root: Index, names: Sequence[str]) -> NDArray[np.int64]:
    """Of each hop, the how manieth of its name it is in its trajectory."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    slots = root * len(numbers) + np.fromiter(map(numbers.__getitem__, names), dtype=np.int64, count=len(names))
    order = np.argsort(slots, kind="stable")
    begins = np.flatnonzero(np.diff(slots[order], prepend=-1))
    visits = np.empty(len(names), dtype=np.int64)
    visits[order] = np.arange(1, len(names) + 1) - np.repeat(begins, np.diff(begins, append=len(names)))
    return visits
