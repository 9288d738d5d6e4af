"""The waterfall of one trajectory: a lane of the whole, a line a step, the plan's budgets, the deadline as a rule."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import altair as alt

from hopbudget.app import look
from hopbudget.app.axis import TimeAxis
from hopbudget.app.timeline import Line, Timeline
from hopbudget.budgets.splits.spending import STREAM
from hopbudget.render import counted
from hopbudget.units import count, seconds

WHOLE: Final = "all steps"
_ROW: Final = 24
_FAR: Final = 2.5
"""A deadline further off than this many trajectories is told in words, not drawn."""
_LETTER: Final = 0.0075
_GAP: Final = 0.012
"""Widths of a letter, and of what parts words from their bar, as shares of the axis on a page of usual width."""

_BESIDE: Final = 0.08
"""A budget's mark this near to its bar, as a share of the axis, has the bar's words on its far side."""


def waterfall(timeline: Timeline, lines: Sequence[Line], deadline_s: float | None) -> look.Drawn:
    """Draw these lines of the timeline, under a lane that holds all of them."""
    rule_s = deadline_s if deadline_s is not None and in_sight(timeline, deadline_s) else None
    edge_s = max([timeline.total_s, 1.08 * (rule_s or 0.0), 1e-9, *(line.end_s for line in timeline.lines)])
    said = _words(timeline, lines, edge_s)
    axis = TimeAxis(0.0, _width_s(edge_s, said), False, "from the start")
    keys = [WHOLE, *(str(index) for index in range(len(lines)))]
    names = {WHOLE: WHOLE, **{str(index): line.label for index, line in enumerate(lines)}}
    y = _rows(keys, names)
    layers = [
        *(_rule(axis, y, rule_s) if rule_s is not None else ()),
        _whole(timeline, axis, y),
        _bars(lines, axis, y),
        *_over(lines, axis, y),
        _room(lines, axis, y),
        _texts(said, axis, y),
    ]
    return look.finish(*layers, rows_px=_ROW * len(keys), title=True, legend=True, own_colours=True)


def in_sight(timeline: Timeline, deadline_s: float) -> bool:
    """Whether the deadline is near enough to be drawn."""
    return deadline_s <= _FAR * timeline.total_s


def _rows(keys: Sequence[str], names: dict[str, str]) -> alt.Y:
    table = "{" + ",".join(f"{key!r}: {_quoted(name)}" for key, name in names.items()) + "}"
    axis = alt.Axis(
        labelExpr=f"({table})[datum.value]", labelLimit=180, ticks=False, domain=False, grid=False, labelOverlap=False
    )
    return alt.Y(
        "row:N", title=None, scale=alt.Scale(domain=list(keys), paddingInner=0.25, paddingOuter=0.1), axis=axis
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", " ") + "'"


def _whole(timeline: Timeline, axis: TimeAxis, y: alt.Y) -> alt.Chart:
    values = [
        {"row": WHOLE, "kind": part.kind, "s": part.start_s, "end": part.end_s}
        for line in sorted(timeline.lines, key=lambda line: line.parts[0].kind != look.WORKING)
        for part in line.parts
    ]
    return _stretches(values, axis, y, None).encode(tooltip=alt.value(None))


def _bars(lines: Sequence[Line], axis: TimeAxis, y: alt.Y) -> alt.Chart:
    values = [
        {
            "row": str(index),
            "kind": part.kind,
            "s": part.start_s,
            "end": part.end_s,
            **_tooltip(line),
            "part": f"{part.kind} {seconds(part.end_s - part.start_s)}",
        }
        for index, line in enumerate(lines)
        for part in line.parts
    ]
    tooltip = [alt.Tooltip(f"{key}:N", title=title) for key, title in _TOOLTIP if _said(values, key)]
    return _stretches(values, axis, y, alt.Legend(orient="bottom", title=None)).encode(tooltip=tooltip)


_TOOLTIP: Final = (
    ("step", "step"),
    ("part", "part"),
    ("started", "starts after"),
    ("took", "took"),
    ("model", "model"),
    ("prompt", "prompt tokens"),
    ("tokens", "output tokens"),
    ("pace", "TPOT"),
    ("slot", "slot"),
    ("outcome", "outcome"),
)


def _said(values: Iterable[dict[str, Any]], key: str) -> bool:
    return any(value[key] for value in values)


def _tooltip(line: Line) -> dict[str, str]:
    row = line.row
    prompt = row.get("input_tokens")
    return {
        "step": line.label,
        "started": seconds(line.start_s),
        "took": seconds(line.duration_s),
        "model": row.get("model") or "",
        "prompt": count(int(prompt)) if prompt is not None else "",
        "tokens": counted.tokens(row) if row.get("output_tokens") is not None else "",
        "pace": counted.tpot(row) if row.get("tpot_s") is not None else "",
        "slot": line.slot or "",
        "outcome": line.outcome,
    }


def _stretches(values: list[dict[str, Any]], axis: TimeAxis, y: alt.Y, legend: alt.Legend | None) -> alt.Chart:
    used = {str(value["kind"]) for value in values}
    drawn: alt.Chart = (
        look.marks(values)
        .mark_bar(cornerRadius=1.5, minBandSize=2)
        .encode(x=axis.encode("s"), x2="end:Q", y=y, color=look.kinds(used, legend))
    )
    return drawn


def _over(lines: Sequence[Line], axis: TimeAxis, y: alt.Y) -> list[alt.Chart]:
    values = [
        {"row": str(index), "s": line.over_from_s, "end": line.end_s, "slot": line.slot}
        for index, line in enumerate(lines)
        if line.over_from_s is not None
    ]
    if not values:
        return []
    base = look.marks(values).encode(y=y, tooltip=[alt.Tooltip("slot:N", title="past the budget of")])
    under = base.mark_bar(height=3, yOffset=8, color=look.OVER).encode(x=axis.encode("s"), x2="end:Q")
    edge = base.mark_tick(color=look.OVER, thickness=2, size=18).encode(x=axis.encode("s"))
    return [under, edge]


def _room(lines: Sequence[Line], axis: TimeAxis, y: alt.Y) -> alt.Chart:
    values = [
        {"row": str(index), "end": line.end_s, "s": line.room_until_s, "slot": line.slot}
        for index, line in enumerate(lines)
        if line.room_until_s is not None and line.room_until_s <= axis.high
    ]
    drawn: alt.Chart = (
        look.marks(values)
        .mark_tick(color=look.QUIET, thickness=2, size=14)
        .encode(x=axis.encode("s"), y=y, tooltip=[alt.Tooltip("slot:N", title="where the budget would end of")])
    )
    return drawn


@dataclass(frozen=True, slots=True)
class _Words:
    row: str
    at_s: float
    text: str
    red: bool


def _words(timeline: Timeline, lines: Sequence[Line], edge_s: float) -> list[_Words]:
    """How long each step took, to the right of its bar, and what came of it where that was not well."""
    said = [_Words(WHOLE, timeline.total_s, seconds(timeline.total_s), False)]
    for index, line in enumerate(lines):
        text = seconds(line.duration_s) + ("" if line.well else f" {line.outcome.replace('_', ' ')}")
        if line.over_s is not None:
            of_slot = "" if line.slot in (line.label, STREAM) else f"{line.slot} "
            text += f" · {of_slot}{seconds(line.over_s)} over"
        room = line.room_until_s
        beside = room is not None and room - line.end_s < _BESIDE * edge_s
        red = line.over_s is not None or not line.well
        said.append(_Words(str(index), room if beside and room else line.end_s, text, red))
    return said


def _width_s(edge_s: float, said: Sequence[_Words]) -> float:
    """How far the axis must reach for all words to fit on it."""
    return max([edge_s, *(words.at_s / (1 - min(len(words.text) * _LETTER + _GAP, 0.5)) for words in said)])


def _texts(said: Sequence[_Words], axis: TimeAxis, y: alt.Y) -> alt.Chart:
    values = [{"row": words.row, "s": words.at_s, "words": words.text, "red": words.red} for words in said]
    ink = alt.Color("red:N", scale=alt.Scale(domain=[False, True], range=[look.INK, look.OVER]), legend=None)
    drawn: alt.Chart = (
        look.marks(values)
        .mark_text(align="left", dx=6, fontSize=11)
        .encode(x=axis.encode("s"), y=y, text="words:N", color=ink)
    )
    return drawn


def _rule(axis: TimeAxis, y: alt.Y, deadline_s: float) -> list[alt.Chart]:
    base = look.marks([{"s": deadline_s, "row": WHOLE, "words": f"deadline {seconds(deadline_s)}"}])
    rule = base.mark_rule(color=look.INK, strokeWidth=1.5, strokeDash=[5, 3]).encode(x=axis.encode("s"))
    text = base.mark_text(align="left", dx=5, dy=-16, fontSize=11, fontWeight="bold", fill=look.INK).encode(
        x=axis.encode("s"), y=y, text="words:N"
    )
    return [rule, text]
