"""Distributions as strips: a row a name, a dot a hundredth of what was observed, ticks at p50 and p90."""

from collections.abc import Sequence
from typing import Any, Final

import altair as alt

from hopbudget.app import look
from hopbudget.app.axis import TimeAxis, time_axis
from hopbudget.app.spread import Spread
from hopbudget.units import count, seconds

_ROW: Final = 46
_DOT_BAND: Final = 13
_NARROW: Final = 1


def strips(spreads: Sequence[Spread], title: str, colour: str) -> alt.LayerChart:
    """The strips of these spreads; work keeps its own colour."""
    axis = time_axis(dot for spread in spreads for dot in spread.dots)
    names = [spread.name for spread in spreads]
    y = alt.Y(
        "name:N",
        sort=names,
        title=None,
        scale=alt.Scale(domain=names, paddingInner=0, paddingOuter=0),
        axis=alt.Axis(labelLimit=110, ticks=False, domain=False, grid=False),
    )
    layers = [_dots(spreads, axis, y, title, colour), *_marks(spreads, axis, y)]
    return look.finish(alt.layer(*layers), _ROW * max(len(names), _NARROW))


def against(spread: Spread, deadline_s: float) -> alt.LayerChart:
    """One strip of trajectories, with those past the deadline in another colour and the deadline as a rule."""
    axis = time_axis([*spread.dots, deadline_s])
    values = [
        {"s": dot, "lift": _lift(index), "late": dot > deadline_s, "words": seconds(dot)}
        for index, dot in enumerate(spread.dots)
    ]
    late = alt.Color(
        "late:N", scale=alt.Scale(domain=[False, True], range=[look.UNSPLIT, look.OVER]), legend=None
    )
    dots = (
        alt.Chart(look.rows(values))
        .mark_circle(size=42, opacity=0.65)
        .encode(
            x=axis.encode("s", title="trajectory time"),
            y=alt.Y("lift:Q", scale=alt.Scale(domain=[-1, 1]), axis=None),
            color=late,
            tooltip=[alt.Tooltip("words:N", title="trajectory")],
        )
    )
    rule = (
        alt.Chart(look.rows([{"s": deadline_s, "words": seconds(deadline_s)}]))
        .mark_rule(color=look.INK, strokeWidth=2)
        .encode(x=axis.encode("s"), tooltip=[alt.Tooltip("words:N", title="deadline")])
    )
    return look.finish(alt.layer(dots, rule), 58)


def _dots(spreads: Sequence[Spread], axis: TimeAxis, y: alt.Y, title: str, colour: str) -> alt.Chart:
    values: list[dict[str, Any]] = []
    for spread in spreads:
        for index, dot in enumerate(spread.dots):
            values.append(
                {
                    "name": spread.name,
                    "kind": spread.kind,
                    "s": dot,
                    "lift": _lift(index),
                    "words": seconds(dot),
                    "n": count(spread.n),
                    "level": f"p{100 * (index + 0.5) / len(spread.dots):.3g}",
                }
            )
    shade = alt.Color("kind:N", scale=alt.Scale(domain=["hop", "work"], range=[colour, look.WORK]), legend=None)
    return (
        alt.Chart(look.rows(values))
        .mark_circle(size=26, opacity=0.45)
        .encode(
            x=axis.encode("s"),
            y=y,
            yOffset=alt.YOffset("lift:Q", scale=alt.Scale(domain=[-1, 1], range=[_ROW - 6 - 2 * _DOT_BAND, _ROW - 6])),
            color=shade,
            tooltip=[
                alt.Tooltip("name:N", title="name"),
                alt.Tooltip("words:N", title=title),
                alt.Tooltip("level:N", title="quantile"),
                alt.Tooltip("n:N", title="n"),
            ],
        )
    )


def _marks(spreads: Sequence[Spread], axis: TimeAxis, y: alt.Y) -> list[alt.Chart]:
    """A heavy tick at p50 with its figure on the left, a light one at p90 with its figure on the right."""
    made: list[alt.Chart] = []
    for key, weight, align, dx in (("p50", 3.0, "right", -5), ("p90", 1.5, "left", 5)):
        values = [
            {"name": spread.name, "s": getattr(spread, key), "words": seconds(getattr(spread, key)), "q": key}
            for spread in spreads
        ]
        base = alt.Chart(look.rows(values)).encode(x=axis.encode("s"), y=y)
        tip = [
            alt.Tooltip("name:N", title="name"),
            alt.Tooltip("q:N", title="quantile"),
            alt.Tooltip("words:N", title="seconds"),
        ]
        made.append(
            base.mark_tick(color=look.INK, thickness=weight, size=2 * _DOT_BAND + 4, yOffset=_DOT_BAND - 6).encode(
                tooltip=tip
            )
        )
        made.append(base.mark_text(align=align, dx=dx, dy=-_ROW / 2 + 8, fontSize=11, fill=look.INK))
        made[-1] = made[-1].encode(text="words:N")
    return made


def _lift(index: int) -> float:
    """An even, unpatterned spread over -1 to 1: the van der Corput sequence in base 2."""
    value, size, number = 0.0, 0.5, index + 1
    while number:
        value += size * (number & 1)
        number >>= 1
        size /= 2
    return 2 * value - 1
