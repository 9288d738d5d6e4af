"""Colours and habits that every chart of the app shares."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import altair as alt
import pandas as pd  # type: ignore[import-untyped]
from altair.utils import schemapi

from hopbudget.render.base import FIRST_TOKEN, NEVER, OVER, UNSPLIT, WORK, WRITING

__all__ = [
    "FIRST",
    "FIRST_TOKEN",
    "HOP",
    "INK",
    "NO_FIRST",
    "OVER",
    "QUIET",
    "UNSPLIT",
    "WORK",
    "WORKING",
    "WRITE",
    "WRITING",
    "Drawn",
    "Piece",
    "colour_of",
    "finish",
    "kinds",
    "labelled",
    "marks",
    "series",
    "stacked",
    "utc",
]

# Otherwise every part of a chart is checked against Vega-Lite's schema as it is made; see `Drawn`.
schemapi.disable_debug_mode()

INK: Final = "currentColor"
"""The page's own text colour: dark on light, light on dark."""
QUIET: Final = "#808591"
"""Readable on light and on dark; for the earlier and the better."""

_AXIS_PX: Final = 30
_TITLE_PX: Final = 20
_LEGEND_PX: Final = 34

HOP: Final = "hop"
FIRST: Final = "first token"
NO_FIRST: Final = "no first token"
WRITE: Final = "writing"
WORKING: Final = "work"

_KIND_COLOURS: Final = {FIRST: FIRST_TOKEN, NO_FIRST: NEVER, WRITE: WRITING, HOP: UNSPLIT, WORKING: WORK}


# Okabe and Ito's, those that stand on light and on dark; each group has a shape of its own too.
_SERIES: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9")


class Drawn(alt.LayerChart):
    """Layers that are done with: taking them on does not copy them again, nor check them against Vega-Lite's schema.

    Both took longer than everything else on a page. Tests check every chart.
    """

    def properties(self, **given: Any) -> "Drawn":
        """The same chart with these properties."""
        made: Drawn = object.__new__(type(self))
        object.__setattr__(made, "_args", self._args)
        object.__setattr__(made, "_kwds", {**self._kwds, **given})
        return made

    def to_dict(self, validate: bool = False, **how: Any) -> dict[str, Any]:
        """The specification."""
        found: dict[str, Any] = super().to_dict(validate=False, **how)
        return found


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of a whole."""

    name: str
    colour: str
    share: float
    words: str
    """Its size, as it is told."""


def colour_of(kind: str) -> str:
    """The colour of a kind of time."""
    return _KIND_COLOURS[kind]


def series(n: int) -> list[str]:
    """Colours for so many lines; the last, of more than five, is grey."""
    return [*_SERIES, *[QUIET] * n][:n]


def utc(field: str) -> alt.X:
    """The x encoding of moments, milliseconds since the epoch, told in UTC."""
    axis = alt.Axis(title=None, labelOverlap=True, tickCount=8, grid=False)
    return alt.X(f"{field}:T", scale=alt.Scale(type="utc", nice=False), axis=axis)


def labelled(rows: Mapping[str, str], *, width: int = 230, **scale: Any) -> alt.Y:
    """The y encoding of a column `row`, whose keys stand in this order and are told by their labels."""
    names = ",".join(f"{_quoted(key)}: {_quoted(label)}" for key, label in rows.items())
    axis = alt.Axis(
        labelExpr=f"({{{names}}})[datum.value]",
        labelLimit=width,
        ticks=False,
        domain=False,
        grid=False,
        labelOverlap=False,
    )
    return alt.Y("row:N", title=None, scale=alt.Scale(domain=list(rows), **scale), axis=axis)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", " ") + "'"


def stacked(pieces: Sequence[Piece]) -> Drawn:
    """Pieces of a whole as one bar, with their names and shares below."""
    edge, values = 0.0, []
    for piece in pieces:
        label = f"{piece.name} {100 * piece.share:.0f}%"
        values.append({"label": label, "s": edge, "end": edge + piece.share, "words": piece.words})
        edge += piece.share
    labels = [str(value["label"]) for value in values]
    colour = alt.Color(
        "label:N",
        scale=alt.Scale(domain=labels, range=[piece.colour for piece in pieces]),
        legend=alt.Legend(orient="bottom", title=None, labelLimit=320),
    )
    bars = (
        marks(values)
        .mark_bar(height=26, cornerRadius=3, xOffset=0.5, x2Offset=-0.5)
        .encode(
            x=alt.X("s:Q", axis=None, scale=alt.Scale(domain=[0, 1])),
            x2="end:Q",
            color=colour,
            tooltip=[alt.Tooltip("label:N", title="part"), alt.Tooltip("words:N", title="seconds in all")],
        )
    )
    return finish(bars, rows_px=6, legend=True)


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
    # A frame, because inline rows are copied whole with every step of a chart.
    return alt.Chart(pd.DataFrame(values))


def finish(
    *layers: alt.Chart, rows_px: int, title: bool = False, legend: bool = False, own_colours: bool = False
) -> Drawn:
    """The layers as one chart with so many pixels for its rows; drawn as SVG, so that text takes the page's colour."""
    height = rows_px + _AXIS_PX + title * _TITLE_PX + legend * _LEGEND_PX  # the page fits axes into the height
    made = Drawn(
        layer=list(layers),
        height=height,
        usermeta={"embedOptions": {"renderer": "svg", "actions": False}},
        config=alt.Config(
            view=alt.ViewConfig(strokeWidth=0),
            axis=alt.AxisConfig(titleFontSize=12, titlePadding=4, labelPadding=6),
            legend=alt.LegendConfig(padding=0, offset=10),
        ),
    )
    return made.properties(resolve=alt.Resolve(scale=alt.ScaleResolveMap(color="independent"))) if own_colours else made
