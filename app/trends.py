"""Charts over time: a metric as lines, one a group; how many ran and failed; where the time goes."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import altair as alt

from hopbudget.app import look
from hopbudget.app.axis import linear_ticks, time_labels
from hopbudget.app.look import Piece
from hopbudget.store.figures import Point
from hopbudget.units import count, seconds

_HEIGHT: Final = 170
_LEFT: Final = 44
"""Pixels left of both charts, so that they stand under each other."""
SPLIT: Final = (
    ("first_token_s", "waiting for first tokens", look.FIRST),
    ("writing_s", "writing", look.WRITE),
    ("hop_unsplit_s", "hops without a first-token time", look.HOP),
    ("work_s", "work", look.WORKING),
)


def lines(points: Sequence[Point], metric: str, size_s: int, by: str | None) -> look.Drawn:
    """A metric over time, one line a group."""
    values = [
        {
            "at": 1000 * (point.at.timestamp() + size_s / 2),
            "group": point.group,
            "s": getattr(point, metric),
            "words": seconds(getattr(point, metric)),
            "n": count(point.n),
            "from": f"{point.at:%Y-%m-%d %H:%M} UTC",
        }
        for point in points
        if getattr(point, metric) is not None
    ]
    names = sorted({str(value["group"]) for value in values}, key=lambda name: (name == "others", name))
    colour = alt.Color(
        "group:N",
        scale=alt.Scale(domain=names, range=look.series(len(names))),
        legend=alt.Legend(orient="bottom", title=by, titleOrient="left") if by is not None else None,
    )
    high_s = 1.05 * max((float(value["s"]) for value in values), default=1.0) or 1.0
    ticks = linear_ticks(0.0, high_s, most=5)
    axis = alt.Axis(labelExpr=time_labels(high_s), values=ticks, minExtent=_LEFT, maxExtent=_LEFT)
    shape = alt.Shape("group:N", scale=alt.Scale(domain=names), legend=None)
    base = look.marks(values).encode(
        x=look.utc("at"),
        y=alt.Y("s:Q", title=None, axis=axis, scale=alt.Scale(domain=[0.0, high_s], nice=False)),
        color=colour,
    )
    tooltip = [
        alt.Tooltip("from:N", title="from"),
        alt.Tooltip("words:N", title="time"),
        alt.Tooltip("n:N", title="trajectories"),
    ]
    if by is not None:
        tooltip.insert(0, alt.Tooltip("group:N", title=by))
    line = base.mark_line(strokeWidth=2, interpolate="monotone")
    dots = base.mark_point(size=34, filled=True, opacity=1).encode(shape=shape, tooltip=tooltip)
    return look.finish(_ends(points, size_s), line, dots, rows_px=_HEIGHT, legend=by is not None)


def counts(points: Sequence[Point], size_s: int) -> look.Drawn:
    """How many ran in each stretch, and how many of them failed."""
    sums: dict[float, list[int]] = {}
    for point in points:
        here = sums.setdefault(point.at.timestamp() * 1000, [0, 0])
        here[0] += point.n
        here[1] += point.failed
    values = [
        {"at": at, "end": at + 1000 * size_s, "zero": 0, "n": n, "failed": failed or None}
        for at, (n, failed) in sums.items()
    ]
    tooltip = [alt.Tooltip("n:Q", title="trajectories"), alt.Tooltip("failed:Q", title="failed")]
    y = alt.Y("zero:Q", title=None, axis=alt.Axis(tickCount=2, tickMinStep=1, minExtent=_LEFT, maxExtent=_LEFT))
    base = look.marks(values).encode(x=look.utc("at"), x2="end", y=y, tooltip=tooltip)
    ran = base.mark_bar(color=look.QUIET, opacity=0.55, xOffset=1).encode(y2="n:Q")
    failed = base.mark_bar(color=look.OVER, xOffset=1).encode(y2="failed:Q")
    return look.finish(_ends(points, size_s), ran, failed, rows_px=52)


def _ends(points: Sequence[Point], size_s: int) -> alt.Chart:
    """Nothing to be seen, at both ends of the axis, so that both charts reach from the first stretch to the last."""
    at = [1000 * point.at.timestamp() for point in points]
    drawn: alt.Chart = (
        look.marks([{"at": min(at)}, {"at": max(at) + 1000 * size_s}]).mark_rule(opacity=0).encode(x=look.utc("at"))
    )
    return drawn


def split(times: Mapping[str, Any]) -> list[Piece]:
    """The pieces of all recorded time that are not nothing."""
    total = sum(times[key] or 0.0 for key, _, _ in SPLIT)
    if total <= 0:
        return []
    return [
        Piece(name, look.colour_of(kind), times[key] / total, seconds(times[key]))
        for key, name, kind in SPLIT
        if times[key] and times[key] > 0
    ]
