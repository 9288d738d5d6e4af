"""The curve of feasibility: the share of trajectories that meet a deadline, for every deadline."""

from collections.abc import Sequence
from typing import Final

import altair as alt

from hopbudget.app import look
from hopbudget.app.axis import time_axis
from hopbudget.budgets import Allocation
from hopbudget.budgets.feasibility.curve import Met
from hopbudget.units import seconds, share

_HEIGHT: Final = 210


def feasibility_curve(met: Sequence[Met], plan: Allocation) -> look.Drawn:
    """The curve with its band, the plan's deadline and the share that was asked for."""
    values = [
        {
            "s": point.deadline_s,
            "share": point.share,
            "low": point.low,
            "high": point.high,
            "words": f"{share(point.share)} [{share(point.low)}, {share(point.high)}]",
            "deadline": seconds(point.deadline_s),
        }
        for point in met
    ]
    axis = time_axis([*(point.deadline_s for point in met), plan.deadline_s], "deadline")
    scale, ticks = alt.Scale(domain=[0, 1]), alt.Axis(title=None, format="%", tickCount=5)
    y = alt.Y("share:Q", scale=scale, axis=ticks)
    base = look.marks(values).encode(x=axis.encode("s"))
    band = base.mark_area(color=look.UNSPLIT, opacity=0.22).encode(
        y=alt.Y("low:Q", scale=scale, axis=ticks), y2="high:Q"
    )
    line = base.mark_line(color=look.UNSPLIT, strokeWidth=2.5).encode(y=y)
    dots = base.mark_point(size=40, opacity=0).encode(
        y=y, tooltip=[alt.Tooltip("deadline:N"), alt.Tooltip("words:N", title="in time")]
    )
    here = look.marks([{"s": plan.deadline_s, "words": seconds(plan.deadline_s)}])
    rule = here.mark_rule(color=look.INK, strokeWidth=1.5, strokeDash=[5, 3]).encode(x=axis.encode("s"))
    wanted = look.marks([{"share": plan.percentile / 100}]).mark_rule(color=look.QUIET, strokeWidth=1.5).encode(y=y)
    at = look.marks([{"s": plan.deadline_s, "share": plan.feasibility.p_deadline}])
    point = at.mark_point(color=look.INK, size=90, filled=True, opacity=1).encode(x=axis.encode("s"), y=y)
    return look.finish(band, line, wanted, rule, point, dots, rows_px=_HEIGHT, title=True)
