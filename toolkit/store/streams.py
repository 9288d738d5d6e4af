"""What is known of the streams among calls of usual trajectories, as columns; `hops` and `facts` say what it means.

Pure but for numpy.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from hopbudget.store import shapes
from hopbudget.store.columns import Values, as_list
from hopbudget.store.first_chunks import first_chunk
from hopbudget.store.usual import Index, Sort, Spread, Truth, Usual

_NS: Final = 1e9
_READ_TO_THE_END: Final = frozenset({"ok", "truncated"})
_FROM_A_STREAM: Final = ("ttft_s", "ttft_source", "ttft_from", "tpot_s", "tpot_source", "flags")


def columns(spread: Spread, hops_at: Index, hops: Mapping[str, Values]) -> dict[str, Values]:
    """Which calls streamed, and how soon and fast; `hops` are their columns so far."""
    streamed = np.zeros(len(hops_at), dtype=np.bool_)
    found: dict[str, list[Any]] = {}
    events = spread.spans.fields.events
    speaks = spread.are(_may_stream)[hops_at]
    if any(events):
        speaks |= np.array([events[at] is not None for at in hops_at.tolist()], dtype=np.bool_)
    for at in np.flatnonzero(speaks).tolist():
        place = int(hops_at[at])
        span, shape = spread.spans[place], spread.sorts[spread.sort_of[place]].shape
        said = first_chunk(span, shape) if shape.first or span.events else None
        streamed[at] = said is not None or shapes.streams(span.attributes, shape)
        if said is None:
            continue
        if not found:
            found = {name: [None] * len(hops_at) for name in _FROM_A_STREAM}
        found["ttft_from"][at] = said.said_by
        if said.after_s is None:
            found["flags"][at] = said.flaw
            continue
        found["ttft_s"][at], found["ttft_source"][at] = said.after_s, "first_chunk"
        pace = _pace(hops, at, said.after_s)
        if pace is not None:
            found["tpot_s"][at], found["tpot_source"][at] = pace, "derived"
    return {"streamed": streamed, **found}


def _may_stream(sort: Sort) -> bool:
    return sort.shape.stream is not None or bool(sort.shape.first)


def _pace(hops: Mapping[str, Any], at: int, ttft_s: float) -> float | None:
    tokens = hops["output_tokens"][at] if "output_tokens" in hops else None
    reasoning = hops["reasoning_tokens"][at] if "reasoning_tokens" in hops else None
    if not tokens or tokens < 2 or reasoning or hops["outcome"][at] not in _READ_TO_THE_END:
        return None
    return max(0.0, float(hops["duration_s"][at]) - ttft_s) / int(tokens - 1)


def finals(spread: Spread, found: Usual, hops: Mapping[str, Any], settled: Truth) -> dict[str, Values]:
    """Which call is the final stream of its trajectory, where nothing more of it is expected."""
    final = np.zeros(len(found.hops.at), dtype=np.bool_)
    if not hops["streamed"].any():
        return {"final": final}
    last = _last_to_end(found.hops.root, hops["started_at"] + hops["duration_s"] * _NS)
    root = found.hops.root[last]
    ttft_s = as_list(hops["ttft_s"]) if "ttft_s" in hops else [None] * len(final)
    waits = np.array([int((ttft_s[at] or 0.0) * _NS) for at in last.tolist()], dtype=np.int64)
    begun = np.zeros(len(found.roots), dtype=np.int64)
    for part in (found.hops, found.works):
        np.maximum.at(begun, part.root, spread.start[part.at])
    is_final = hops["streamed"][last] & (begun[root] <= hops["started_at"][last] + waits)
    final[last[is_final & (found.complete & settled)[root]]] = True
    return {"final": final, "final_source": ["inferred" if one else None for one in final.tolist()]}


def _last_to_end(root: Index, end: Any) -> Index:
    """Of each trajectory that has calls, the first of those that end last."""
    begins = np.flatnonzero(np.diff(root, prepend=-1))
    latest = np.maximum.reduceat(end, begins)
    sizes = np.diff(begins, append=len(root))
    is_last = np.flatnonzero(end == np.repeat(latest, sizes))
    _, first = np.unique(root[is_last], return_index=True)
    found: Index = is_last[first]
    return found
