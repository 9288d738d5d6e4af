"""Distributions as strips: a row a name, a dot a fiftieth of what was observed, ticks at p50 and p90."""

from collections.abc import Sequence
from typing import Any, Final, Literal

import altair as alt

from hopbudget.app import look
from hopbudget.app.axis import TimeAxis, time_axis
from hopbudget.budgets.attainment.spread import Spread
from hopbudget.units import count, seconds

_ROW: Final = 46
_DOT_BAND: Final = 13
_TOOLTIP: Final = (("name", "name"), ("quantile", "quantile"), ("words", "seconds"))


def strips(spreads: Sequence[Spread], title: str, colour: str) -> look.Drawn:
    """The strips of these spreads."""
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
    return look.finish(*layers, rows_px=_ROW * len(names))


def against(spread: Spread, deadline_s: float) -> look.Drawn:
    """One strip of trajectories, with those past the deadline in another colour and the deadline as a rule."""
    axis = time_axis([*spread.dots, deadline_s], "trajectory time")
    values = [
        {"s": dot, "lift": _lift(index), "late": dot > deadline_s, "words": seconds(dot)}
        for index, dot in enumerate(spread.dots)
    ]
    late = alt.Color("late:N", scale=alt.Scale(domain=[False, True], range=[look.UNSPLIT, look.OVER]), legend=None)
    dots = (
        look.marks(values)
        .mark_circle(size=42, opacity=0.85)
        .encode(
            x=axis.encode("s"),
            y=alt.Y("lift:Q", scale=alt.Scale(domain=[-1, 1]), axis=None),
            color=late,
            tooltip=[alt.Tooltip("words:N", title="trajectory")],
        )
    )
    rule = (
        look.marks([{"s": deadline_s, "words": seconds(deadline_s)}])
        .mark_rule(color=look.INK, strokeWidth=2)
        .encode(x=axis.encode("s"), tooltip=[alt.Tooltip("words:N", title="deadline")])
    )
    return look.finish(dots, rule, rows_px=52, title=True)


def _dots(spreads: Sequence[Spread], axis: TimeAxis, y: alt.Y, title: str, colour: str) -> alt.Chart:
    values: list[dict[str, Any]] = []
    for spread in spreads:
        for index, dot in enumerate(spread.dots):
            values.append(
                {
                    "name": spread.name,
                    "s": dot,
                    "lift": _lift(index),
                    "words": seconds(dot),
                    "n": count(spread.n),
                    "level": f"p{100 * (index + 0.5) / len(spread.dots):.3g}",
                }
            )
    drawn: alt.Chart = (
        look.marks(values)
        .mark_circle(size=24, opacity=0.7, color=colour)
        .encode(
            x=axis.encode("s"),
            y=y,
            yOffset=alt.YOffset("lift:Q", scale=alt.Scale(domain=[-1, 1], range=[_ROW - 6 - 2 * _DOT_BAND, _ROW - 6])),
            tooltip=[
                alt.Tooltip("name:N", title="name"),
                alt.Tooltip("words:N", title=title),
                alt.Tooltip("level:N", title="quantile"),
                alt.Tooltip("n:N", title="n"),
            ],
        )
    )
    return drawn


def _marks(spreads: Sequence[Spread], axis: TimeAxis, y: alt.Y) -> list[alt.Chart]:
    """A heavy tick at p50 with its figure on the left, a light one at p90 with its figure on the right."""
    return [
        *_quantile(
            [(spread.name, spread.p50) for spread in spreads], "p50", axis, y, thickness=3.0, align="right", dx=-5
        ),
        *_quantile(
            [(spread.name, spread.p90) for spread in spreads], "p90", axis, y, thickness=1.5, align="left", dx=5
        ),
    ]


def _quantile(
    at: Sequence[tuple[str, float]],
    quantile: str,
    axis: TimeAxis,
    y: alt.Y,
    *,
    thickness: float,
    align: Literal["left", "right"],
    dx: int,
) -> tuple[alt.Chart, alt.Chart]:
    values = [{"name": name, "s": value, "words": seconds(value), "quantile": quantile} for name, value in at]
    tooltip = [alt.Tooltip(f"{field}:N", title=title) for field, title in _TOOLTIP]
    base = look.marks(values).encode(x=axis.encode("s"), y=y, tooltip=tooltip)
    tick = base.mark_tick(color=look.INK, thickness=thickness, size=2 * _DOT_BAND + 4, yOffset=_DOT_BAND - 6)
    text = base.mark_text(align=align, dx=dx, dy=-_ROW / 2 + 8, fontSize=11, fill=look.INK)
    return tick, text.encode(text="words:N")


def _lift(index: int) -> float:
    """An even, unpatterned spread over -1 to 1: the van der Corput sequence in base 2."""
    value, size, number = 0.0, 0.5, index + 1
    while number:
        value += size * (number & 1)
        number >>= 1
        size /= 2
    return 2 * value - 1
