"""Rows of trajectories of the usual form, many at once: their facts are sums and differences of columns.

`facts` says what everything means, also for these; a test holds both to the same rows. Pure but for numpy.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hopbudget.store import outcomes, roots, shapes, streams, usual
from hopbudget.store.columns import Taken, Values, as_list
from hopbudget.store.roots import Said
from hopbudget.store.spans import ERROR, UNSET, Attributes, Span, Spans
from hopbudget.store.tables import Keys
from hopbudget.store.usual import Index, Part, Sort, Spread, Usual
from hopbudget.store.values import count, text
from hopbudget.tracing import vocabulary as v

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
    """The rows of the usual traces, and the spans of each of the other ones."""

    rows: Rows
    others: Sequence[Sequence[Span]]


def find(spans: Spans, keys: Keys | None, sizes: Sequence[int], settles: Mapping[str, int] = _SETTLED) -> Found:
    """Rows of these spans, which lie trace by trace; `sizes` are the numbers of spans of the traces."""
    ends = list(accumulate(sizes))
    if keys is None:
        return Found({}, [spans[end - size : end] for end, size in zip(ends, sizes, strict=True)])
    spread = usual.spread_out(spans, keys, sizes)
    found = usual.find(spread)
    others = [spans[ends[number] - sizes[number] : ends[number]] for number in found.others]
    return Found(_rows(spread, found, settles) if len(found.roots) else {}, others)


def _rows(spread: Spread, found: Usual, settles: Mapping[str, int]) -> Rows:
    said = _said(spread, found)
    said["session"] = _sessions(spread, said["session"], found.hops)
    how = _outcomes(spread, found.hops.at)
    hops = _placed(spread, found, found.hops) | _hops(spread, found.hops, how)
    hops |= streams.columns(spread, found.hops.at, hops)
    roots_at: list[int] = found.roots.tolist() if settles else []
    settles_at = [settles.get(spread.spans.fields.trace_id[at]) for at in roots_at]
    settled = np.array([at is None for at in settles_at] if settles else True, dtype=np.bool_)
    hops |= streams.finals(spread, found, hops, settled)
    hops |= {name: Taken(said[name].values, said[name].at[found.hops.root]) for name in ("workload", "run", "session")}
    works = _placed(spread, found, found.works) | {
        "work": _work_names(spread, found.works.at),
        "outcome": _outcomes(spread, found.works.at),
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
    numbers: dict[tuple[int, int, str], int] = {}
    said: list[Said] = []
    numbered = []
    fields, sorts = spread.spans.fields, spread.sorts_at(found.roots)
    places: list[int] = found.roots.tolist()
    for root, sort, is_root in zip(places, sorts, found.complete.tolist(), strict=True):
        key = (id(fields.resource[root]), id(fields.attributes[root]), fields.name[root])
        number = numbers.get(key)
        if number is None:
            number = numbers[key] = len(said)
            said.append(roots.said(spread.spans[root], sort.shape, is_root=is_root))
        numbered.append(number)
    at = np.array(numbered, dtype=np.int64)
    return {name: Taken(values, at) for name, values in zip(Said._fields, zip(*said, strict=True), strict=True)}


def _sessions(spread: Spread, said: Taken, hops: Part) -> Taken:
    """Where the root names none, the first that one of its hops names."""
    names = spread.are(lambda sort: sort.shape.session is not None)[hops.at]
    if None not in said.values or not names.any():
        return said
    named = as_list(said)
    at = hops.at[names]
    for place, sort, root in zip(at.tolist(), spread.sorts_at(at), hops.root[names].tolist(), strict=True):
        if named[root] is None:
            named[root] = text(spread.spans.fields.attributes[place], sort.shape.session)
    return Taken(named, np.arange(len(named)))


def _came_out(spread: Spread, found: Usual, how: Sequence[str]) -> list[str]:
    """How the trajectories did: as the root says, else as the last hop to end did."""
    out = ["ok"] * len(found.roots)
    if how.count("ok") < len(how):
        start = spread.start[found.hops.at]
        ends = start + (spread.end[found.hops.at] - start) / _NS * _NS
        latest = [0.0] * len(out)
        for root, end, outcome in zip(found.hops.root.tolist(), ends.tolist(), how, strict=True):
            if end > latest[root]:
                latest[root], out[root] = end, outcome
    says = spread.are(_says_outcome)[found.roots] | (spread.status[found.roots] != UNSET)
    for number in np.flatnonzero(says & found.complete).tolist():
        out[number] = outcomes.of_root(spread.spans[found.roots[number]]) or out[number]
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


def _says_outcome(sort: Sort) -> bool:
    return sort.shape.says_outcome


def _outcomes(spread: Spread, at: Index) -> list[str]:
    out = ["ok"] * len(at)
    says = spread.are(_says_outcome)[at] | (spread.status[at] == ERROR)
    for number in np.flatnonzero(says).tolist():
        place = int(at[number])
        out[number] = outcomes.of_span(spread.spans[place], spread.sorts[spread.sort_of[place]].shape)
    return out


def _work_names(spread: Spread, at: Index) -> list[str]:
    fields = spread.spans.fields
    places: list[int] = at.tolist()
    return [
        shapes.work_name(fields.name[place], fields.attributes[place], sort.shape)
        for place, sort in zip(places, spread.sorts_at(at), strict=True)
    ]


def _hops(spread: Spread, hops: Part, how: Sequence[str]) -> _Columns:
    """What their attributes say."""
    attributes = list(map(spread.spans.fields.attributes.__getitem__, hops.at.tolist()))
    sort_of = spread.sort_of[hops.at]
    sorts = [spread.sorts[number] for number in np.unique(sort_of).tolist()]
    names = _hop_names(attributes, sorts) or [
        shapes.hop_name(each, sort.shape, None) for each, sort in zip(attributes, spread.sorts_at(hops.at), strict=True)
    ]
    columns: _Columns = {
        "hop": names,
        "visit": _visits(hops.root, names),
        "outcome": how,
        "source": Taken([sort.shape.source for sort in spread.sorts], sort_of),
    }
    for column, read in _READ.items():
        said = {getattr(sort.shape, column) for sort in sorts}
        if said - {None}:
            columns[column] = _values(attributes, said, read) or [
                read(each, getattr(sort.shape, column))
                for each, sort in zip(attributes, spread.sorts_at(hops.at), strict=True)
            ]
    if "output_tokens" in columns:
        columns["output_tokens_source"] = [
            None if tokens is None else "usage" for tokens in as_list(columns["output_tokens"])
        ]
    if how.count("ok") < len(how):
        columns["error_type"] = [
            None if outcome == "ok" else outcomes.error_type(spread.spans[at])
            for outcome, at in zip(how, hops.at.tolist(), strict=True)
        ]
    return columns


def _hop_names(attributes: Sequence[Attributes], sorts: Sequence[Sort]) -> list[Any]:
    """Where all are named by their operation; else none."""
    if any(sort.shape.hop or sort.shape.ours for sort in sorts):
        return []
    return _all_good([each.get(v.OPERATION) for each in attributes], text)


def _values(
    attributes: Sequence[Attributes], names: Set[str | None], read: Callable[[Attributes, str | None], Any]
) -> list[Any]:
    """What `read` reads of each, where all have it under one name and there is nothing to look at; else none."""
    name, *others = names
    return [] if others or name is None else _all_good([each[name] for each in attributes], read)


def _all_good(values: list[Any], read: Callable[[Attributes, str | None], Any]) -> list[Any]:
    """These values, if `read` would leave all of them as they are; else none."""
    kinds = {*map(type, values)}
    is_good = (kinds == {str} and "" not in values) if read is text else (kinds == {int} and min(values) >= 0)
    return values if is_good else []


def _visits(root: Index, names: Sequence[str]) -> NDArray[np.int64]:
    """Of each hop, the how manieth of its name it is in its trajectory."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    slots = root * len(numbers) + np.fromiter(map(numbers.__getitem__, names), dtype=np.int64, count=len(names))
    order = np.argsort(slots, kind="stable")
    begins = np.flatnonzero(np.diff(slots[order], prepend=-1))
    visits = np.empty(len(names), dtype=np.int64)
    visits[order] = np.arange(1, len(names) + 1) - np.repeat(begins, np.diff(begins, append=len(names)))
    return visits
