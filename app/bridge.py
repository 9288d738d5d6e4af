"""From a typical trajectory to this one: its causes as bars that stand end to end and reach its excess."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import altair as alt

from hopbudget.app import look
from hopbudget.app.axis import TimeAxis
from hopbudget.budgets import CauseKind, Part
from hopbudget.render.causes import COLOUR
from hopbudget.units import seconds

_MOST: Final = 7
_ROW: Final = 27
_COLOURS: Final[Mapping[CauseKind, str]] = {**COLOUR, "overlap": look.QUIET}
TOTAL: Final = "together"
REST: Final = "everything else"


@dataclass(frozen=True, slots=True)
class Stone:
    """One bar of the bridge, from one edge to the next."""

    label: str
    kind: CauseKind | None
    """None for the rest and the sum."""
    start_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        """What it adds; negative where it saved time."""
        return self.end_s - self.start_s


def stones(parts: Sequence[Part], most: int = _MOST) -> list[Stone]:
    """The largest parts, what is left as one, then the sum from zero; each starts where the one before it ended."""
    shown, rest = list(parts[:most]), parts[most:]
    named: list[tuple[str, CauseKind | None, float]] = [(part.detail, part.kind, part.seconds) for part in shown]
    if rest:
        named.append((REST, None, sum(part.seconds for part in rest)))
    edge, made = 0.0, []
    for label, kind, size in named:
        made.append(Stone(label, kind, edge, edge + size))
        edge += size
    return [*made, Stone(TOTAL, None, 0.0, edge)]


def bridge(parts: Sequence[Part]) -> look.Drawn:
    """Draw the stones of these parts."""
    placed = stones(parts)
    edges = [edge for stone in placed for edge in (stone.start_s, stone.end_s)]
    low, high = min(edges), max(edges)
    room = 0.16 * (high - low or 1.0)
    axis = TimeAxis(low - (room if low < 0 else 0.0), high + room, False, "more than a typical one")
    keys = [str(index) for index in range(len(placed))]
    values = [
        {
            "row": key,
            "label": stone.label.replace("`", ""),
            "s": stone.start_s,
            "end": stone.end_s,
            "right": max(stone.start_s, stone.end_s),
            "words": seconds(stone.seconds, signed=True),
            "colour": _COLOURS[stone.kind] if stone.kind else look.QUIET,
        }
        for key, stone in zip(keys, placed, strict=True)
    ]
    names = ",".join(f"'{value['row']}': '{_safe(str(value['label']))}'" for value in values)
    y = alt.Y(
        "row:N",
        title=None,
        scale=alt.Scale(domain=keys, paddingInner=0.3),
        axis=alt.Axis(labelExpr=f"({{{names}}})[datum.value]", labelLimit=230, ticks=False, domain=False, grid=False),
    )
    base = look.marks(values).encode(
        y=y, tooltip=[alt.Tooltip("label:N", title="cause"), alt.Tooltip("words:N", title="adds")]
    )
    bars = base.mark_bar(cornerRadius=2).encode(x=axis.encode("s"), x2="end:Q", color=alt.Color("colour:N", scale=None))
    text = base.mark_text(align="left", dx=5, fontSize=11, fill=look.INK).encode(x=axis.encode("right"), text="words:N")
    zero = look.marks([{"s": 0.0}]).mark_rule(color=look.QUIET).encode(x=axis.encode("s"))
    return look.finish(zero, bars, text, rows_px=_ROW * len(keys), title=True)


def _safe(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", " ")
