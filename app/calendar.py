"""One small bar a day: the share that kept an objective, against its target."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import altair as alt

from hopbudget.app import look
from hopbudget.budgets.attainment.objectives import Day
from hopbudget.units import count, share

_HEIGHT: Final = 34
_DAY_MS: Final = 86_400_000


def attainment_by_day(days: Sequence[Day], target: float) -> look.Drawn:
    """Bars of the share that missed, a day (UTC) each: past the line it spent more than its part of the budget."""
    values = [
        {
            "at": 1000 * day.day_at,
            "end": 1000 * day.day_at + _DAY_MS,
            "zero": 0.0,
            "missed": 1 - day.share,
            "over": 1 - day.share > 1 - target + 1e-12,
            "words": share(day.share),
            "n": count(day.n),
            "day": f"{datetime.fromtimestamp(day.day_at, UTC):%Y-%m-%d}",
        }
        for day in days
        if day.n
    ]
    most = max([2 * (1 - target), *(value["missed"] for value in values if isinstance(value["missed"], float))])
    scale = alt.Scale(type="utc", nice=False)
    y = alt.Y("zero:Q", axis=None, scale=alt.Scale(domain=[0, most]))
    colours = alt.Scale(domain=[False, True], range=[look.WRITING, look.OVER])
    bars = (
        look.marks(values)
        .mark_bar(cornerRadius=1.5, xOffset=1, x2Offset=-1)
        .encode(
            x=alt.X("at:T", scale=scale, axis=None),
            x2="end",
            y=y,
            y2="missed:Q",
            color=alt.Color("over:N", scale=colours, legend=None),
            tooltip=[
                alt.Tooltip("day:N", title="day (UTC)"),
                alt.Tooltip("words:N", title="kept"),
                alt.Tooltip("n:N", title="of"),
            ],
        )
    )
    line = look.marks([{"zero": 1 - target}]).mark_rule(color=look.QUIET, strokeDash=[3, 3]).encode(y=y)
    return look.finish(bars, line, rows_px=_HEIGHT - 30)
