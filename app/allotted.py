"""A plan drawn: the deadline as one bar that its parts fill, and each part beside what was observed of it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import altair as alt

from hopbudget.app import look
from hopbudget.app.axis import TimeAxis
from hopbudget.budgets import Allocation
from hopbudget.units import seconds, share

_TEXT_ON: Final = {
    look.HOP: "#ffffff",
    look.WORKING: "#ffffff",
    look.FIRST: "#1a1a1a",
    look.WRITE: "#1a1a1a",
}
_LETTERS: Final = 150
"""How many letters the whole bar has room for on a page of usual width."""
_ROW: Final = 34
_ROOM_FOR_TEXT: Final = 1.35


@dataclass(frozen=True, slots=True)
class Segment:
    """One piece of the bar, in seconds from its left end."""

    name: str
    kind: str
    start_s: float
    end_s: float

    @property
    def size_s(self) -> float:
        """Its length."""
        return self.end_s - self.start_s


def segments(allocation: Allocation) -> list[Segment]:
    """The slots, work, then the final stream's wait and its writing; end to end they are what was given away."""
    found: list[Segment] = []
    edge = 0.0
    for name, kind, size in _sizes(allocation):
        if size > 0:
            found.append(Segment(name, kind, edge, edge + size))
            edge += size
    return found


def _sizes(allocation: Allocation) -> Iterator[tuple[str, str, float]]:
    for slot in allocation.slots:
        yield slot.slot, look.HOP, slot.budget_s
    yield "work", look.WORKING, allocation.work_s
    stream = allocation.stream
    if stream is None:
        return
    if stream.ttft_s is None:
        yield "final stream", look.HOP, stream.budget_s
        return
    first_s = min(stream.ttft_s, stream.budget_s)
    yield "final stream: first token", look.FIRST, first_s
    yield "final stream: writing", look.WRITE, stream.budget_s - first_s


def bar(allocation: Allocation) -> look.Drawn:
    """The deadline as one bar, filled by its parts; a part too thin for words has them in its tooltip."""
    axis = TimeAxis(0.0, allocation.deadline_s, False)
    values = []
    for segment in segments(allocation):
        room = math.floor(segment.size_s / allocation.deadline_s * _LETTERS)
        values.append(
            {
                "name": segment.name,
                "kind": segment.kind,
                "s": segment.start_s,
                "end": segment.end_s,
                "middle": (segment.start_s + segment.end_s) / 2,
                "words": seconds(segment.size_s),
                "label": _fitting(segment.name.removeprefix("final stream: "), room),
                "figure": seconds(segment.size_s) if room >= len(seconds(segment.size_s)) else "",
                "share": share(segment.size_s / allocation.deadline_s),
                "ink": _TEXT_ON[segment.kind],
            }
        )
    base = look.marks(values)
    bars = base.mark_bar(height=52, cornerRadius=3, xOffset=1, x2Offset=-1).encode(
        x=axis.encode("s"),
        x2="end:Q",
        color=look.kinds({str(value["kind"]) for value in values}, alt.Legend(orient="bottom", title=None)),
        tooltip=[
            alt.Tooltip("name:N", title="part"),
            alt.Tooltip("words:N", title="budget"),
            alt.Tooltip("share:N", title="of the deadline"),
        ],
    )
    ink = alt.Color("ink:N", scale=None)
    name = base.mark_text(dy=-8, fontSize=12, limit=150).encode(x=axis.encode("middle"), text="label:N", color=ink)
    figure = base.mark_text(dy=9, fontSize=13, fontWeight="bold").encode(
        x=axis.encode("middle"), text="figure:N", color=ink
    )
    return look.finish(bars, name, figure, rows_px=60, legend=True, own_colours=True)


def _fitting(name: str, letters: int) -> str:
    if len(name) <= letters:
        return name
    return f"{name[: letters - 1]}…" if letters >= 4 else ""


def beside_observed(allocation: Allocation) -> look.Drawn:
    """For each part its budget as a bar, and what was observed there: ticks at p50 and p90, the share that keeps it."""
    values = [
        {
            "name": name,
            "kind": kind,
            "s": 0.0,
            "end": budget_s,
            "p50": look.drawable(p50_s),
            "p90": look.drawable(p90_s),
            "budget": seconds(budget_s),
            "p50_words": seconds(p50_s),
            "p90_words": seconds(p90_s),
            "kept": f"{seconds(budget_s)}, kept by {share(kept)}",
        }
        for name, kind, budget_s, p50_s, p90_s, kept in _parts(allocation)
    ]
    seen = [size for _, _, *sizes, _ in _parts(allocation) for size in sizes if math.isfinite(size)]
    axis = TimeAxis(0.0, max(seen, default=1.0) * _ROOM_FOR_TEXT, False)
    names = [str(value["name"]) for value in values]
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=170, ticks=False, domain=False, grid=False))
    base = look.marks(values).encode(
        y=y,
        tooltip=[
            alt.Tooltip("name:N", title="part"),
            alt.Tooltip("budget:N"),
            alt.Tooltip("p50_words:N", title="observed p50"),
            alt.Tooltip("p90_words:N", title="observed p90"),
        ],
    )
    bars = base.mark_bar(height=18, cornerRadius=3, opacity=0.7).encode(
        x=axis.encode("s"), x2="end:Q", color=look.kinds({str(value["kind"]) for value in values})
    )
    p50 = base.mark_tick(color=look.INK, thickness=3, size=24).encode(x=axis.encode("p50"))
    p90 = base.mark_tick(color=look.INK, thickness=1.5, size=24).encode(x=axis.encode("p90"))
    text = base.mark_text(align="right", fontSize=11, fill=look.INK).encode(x=alt.value("width"), text="kept:N")
    return look.finish(bars, p50, p90, text, rows_px=_ROW * len(values))


def _parts(allocation: Allocation) -> Iterator[tuple[str, str, float, float, float, float]]:
    for slot in allocation.slots:
        yield slot.slot, look.HOP, slot.budget_s, slot.p50_s, slot.p90_s, slot.kept
    work = allocation.work
    if work is not None:
        yield "work", look.WORKING, work.budget_s, work.p50_s, work.p90_s, work.kept
    stream = allocation.stream
    if stream is not None:
        yield "final stream", look.WRITE, stream.budget_s, stream.p50_s, stream.p90_s, stream.kept
