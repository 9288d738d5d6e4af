"""Colours and habits that every chart of the app shares."""

import math
from typing import Any, Final

import altair as alt

from hopbudget.render.base import FIRST_TOKEN, OVER, UNSPLIT, WORK, WRITING

__all__ = ["FIRST_TOKEN", "INK", "OVER", "QUIET", "UNSPLIT", "WORK", "WRITING", "finish", "kinds", "marks"]

INK: Final = "currentColor"
"""The page's own text colour: dark on light, light on dark."""
QUIET: Final = "#808591"
"""Readable on light and on dark; for the earlier and the better."""

_AXIS_PX: Final = 30
_TITLE_PX: Final = 20
_LEGEND_PX: Final = 34

HOP: Final = "hop"
FIRST: Final = "first token"
WRITE: Final = "writing"
WORKING: Final = "work"

_KIND_COLOURS: Final = {FIRST: FIRST_TOKEN, WRITE: WRITING, HOP: UNSPLIT, WORKING: WORK}


def kinds(used: set[str], legend: alt.Legend | None = None) -> alt.Color:
    """The colour encoding of a column `kind`, with a legend of the kinds that are used."""
    domain = [kind for kind in _KIND_COLOURS if kind in used]
    scale = alt.Scale(domain=domain, range=[_KIND_COLOURS[kind] for kind in domain])
    return alt.Color("kind:N", scale=scale, legend=legend)


def drawable(value: float) -> float | None:
    """The value for a chart: what is not a finite number is left undrawn."""
    return value if math.isfinite(value) else None


def marks(values: list[dict[str, Any]]) -> alt.Chart:
    """A chart of these rows, to be given its marks."""
    return alt.Chart(alt.InlineData(values=values))


def finish(
    *layers: alt.Chart, rows_px: int, title: bool = False, legend: bool = False, own_colours: bool = False
) -> alt.LayerChart:
    """The layers as one chart with so many pixels for its rows; drawn as SVG, so that text takes the page's colour."""
    height = rows_px + _AXIS_PX + title * _TITLE_PX + legend * _LEGEND_PX  # the page fits axes into the height
    chart: Any = alt.layer(*layers)
    if own_colours:
        chart = chart.resolve_scale(color="independent")
    made: alt.LayerChart = (
        chart.properties(height=height, usermeta={"embedOptions": {"renderer": "svg", "actions": False}})
        .configure_view(strokeWidth=0)
        .configure_axis(titleFontSize=12, titlePadding=4, labelPadding=6)
        .configure_legend(padding=0, offset=10)
    )
    return made
