"""One trajectory drawn over time: a line a hop or work, its wait for the first token apart from its writing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from hopbudget.render import base
from hopbudget.store.waiting import never_began
from hopbudget.units import count, seconds

_LABEL = 20
_BAR = 46
_REST = 11
"""Cells of a line that are neither label, bar nor note."""
_MOST_LINES = 40
_CELLS = {base.FIRST_TOKEN: base.LIGHT, base.NEVER: "╌"}
"""Waiting for the first token has cells of its own, so that it shows without colour too."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a waterfall; times in seconds from the trajectory's start."""

    label: str
    start_s: float
    parts: tuple[tuple[float, str], ...]
    """Sizes in seconds and their colours, in order."""
    note: str = ""

    @property
    def duration_s(self) -> float:
        """From its start to its end."""
        return sum(size for size, _ in self.parts)


def lines(
    trajectory: Mapping[str, Any], hops: Sequence[Mapping[str, Any]], works: Sequence[Mapping[str, Any]]
) -> list[Line]:
    """The lines of one stored trajectory, in order of time."""
    origin = trajectory["started_at"]
    visits: dict[str, int] = {}
    for hop in hops:
        visits[hop["hop"]] = max(visits.get(hop["hop"], 0), hop["visit"])
    made = [_hop_line(hop, origin, numbered=visits[hop["hop"]] > 1) for hop in hops]
    for work in works:
        start, size = _offset_s(work["started_at"], origin), work["duration_s"] or 0.0
        made.append(Line(work["work"], start, ((size, base.WORK),), _outcome_note(work)))
    return sorted(made, key=lambda line: (line.start_s, -line.duration_s))


def draw(out: Console, drawn: Sequence[Line], total_s: float) -> None:
    """Draw the lines on a scale from 0 to `total_s`; the shortest are left out where there are very many."""
    shown = sorted(sorted(drawn, key=lambda line: -line.duration_s)[:_MOST_LINES], key=lambda line: line.start_s)
    bar = min(_BAR, base.WIDTH - _LABEL - _REST - max((len(line.note) for line in shown), default=0))
    for line in shown:
        out.print(_text(line, max(total_s, 1e-9), bar), no_wrap=True, overflow="ellipsis")
    left = f"{'0':>{_LABEL + 2}}"
    out.print(Text(left + seconds(total_s).rjust(bar - 1), style=base.QUIET))
    if len(shown) < len(drawn):
        out.print(Text(f"{count(len(drawn) - len(shown))} shorter ones are not drawn.", style=base.QUIET))
    out.print(_legend(drawn))


def _hop_line(hop: Mapping[str, Any], origin: datetime, *, numbered: bool) -> Line:
    label = f"{hop['hop']} #{hop['visit']}" if numbered else hop["hop"]
    size = hop["duration_s"] or 0.0
    first = hop["ttft_s"]
    if never_began(hop):
        parts: tuple[tuple[float, str], ...] = ((size, base.NEVER),)
    elif first is None or first > size:
        parts = ((size, base.UNSPLIT),)
    else:
        parts = ((first, base.FIRST_TOKEN), (size - first, base.WRITING))
    return Line(label, _offset_s(hop["started_at"], origin), parts, _outcome_note(hop))


def _outcome_note(row: Mapping[str, Any]) -> str:
    return "" if row["outcome"] in {"ok", None} else str(row["outcome"])


def _offset_s(at: datetime, origin: datetime) -> float:
    return max(0.0, (at - origin).total_seconds())


def _text(line: Line, total_s: float, bar: int) -> Text:
    text = base.name(line.label, _LABEL)
    text.append(" " * (_LABEL + 1 - text.cell_len))
    drawn = min(bar - 1, round(line.start_s / total_s * bar))
    text.append(" " * drawn)
    edge = line.start_s
    for size, colour in line.parts:
        edge += size
        cells = min(bar, round(edge / total_s * bar)) - drawn
        text.append(_CELLS.get(colour, "█") * max(0, cells), style=colour)
        drawn += max(0, cells)
    if drawn == min(bar - 1, round(line.start_s / total_s * bar)):
        text.append("▏", style=line.parts[-1][1])
        drawn += 1
    text.append(" " * max(0, bar - drawn))
    text.append(f" {seconds(line.duration_s):>8}")
    if line.note:
        text.append(f" {line.note}", style=base.OVER)
    return text


def _legend(drawn: Sequence[Line]) -> Text:
    used = {colour for line in drawn for size, colour in line.parts if size > 0}
    names = (
        (base.FIRST_TOKEN, "first token"),
        (base.NEVER, "no first token"),
        (base.WRITING, "writing"),
        (base.UNSPLIT, "hop"),
        (base.WORK, "work"),
    )
    text = Text()
    for colour, name in names:
        if colour in used:
            text.append(f"{_CELLS.get(colour, '■')} ", style=colour)
            text.append(f"{name}   ", style=base.QUIET)
    return text
