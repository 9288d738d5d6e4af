"""Colours and habits that every chart of the app shares."""

import math
from typing import Any, Final

import altair as alt

from hopbudget.render.base import FIRST_TOKEN, OVER, UNSPLIT, WORK, WRITING

__all__ = ["FIRST_TOKEN", "INK", "OVER", "QUIET", "UNSPLIT", "WORK", "WRITING", "finish", "kinds", "rows"]

INK: Final = "currentColor"
"""The page's own text colour: dark on light, light on dark."""
QUIET: Final = "#808591"
"""Readable on light and on dark; for the earlier and the better."""

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


def rows(values: list[dict[str, Any]]) -> alt.Data:
    """Rows as a chart's data."""
    return alt.Data(values=values)


def finish(chart: alt.LayerChart, height: int) -> alt.LayerChart:
    """The chart at its height, drawn as SVG so that text follows the page's colour."""
    return (
        chart.properties(height=height, usermeta={"embedOptions": {"renderer": "svg", "actions": False}})
        .configure_view(strokeWidth=0)
        .configure_axis(titleFontSize=12, titlePadding=6, labelPadding=6)
    )
