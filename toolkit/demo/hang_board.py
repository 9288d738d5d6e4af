"""The two panels of `demo --fault hang`: the same agent twice, each hop drawn over time as far as it has come."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from hopbudget.render import base
from hopbudget.units import plural

STEPS: Final = ("plan", "search", "read", "answer")
TOOLS: Final = frozenset({"search"})
DEADLINE_S: Final = 5.0
SHOWN_S: Final = 6.75
"""When the side that hangs is not shown any longer."""
_LABEL: Final = 7
_CELLS: Final = 27
_ANSWER_LINES: Final = 3


@dataclass
class Lane:
    """One step of the agent; times in seconds since its side started."""

    began_s: float | None = None
    asked_again_s: float | None = None
    """When a second endpoint was asked too."""
    first_s: float | None = None
    ended_s: float | None = None
    pieces: int = 0
    """Pieces of the first endpoint's body, whatever they hold."""
    first_piece_s: float | None = None


@dataclass
class Side:
    """One run of the agent as it is seen. Its clock is for the eye; what is said of it later was recorded."""

    title: str
    started: float = field(default_factory=time.perf_counter)
    lanes: dict[str, Lane] = field(default_factory=lambda: {step: Lane() for step in STEPS})
    text: str = ""
    now: str = STEPS[0]
    state: str = "runs"
    """`runs`, `came` or `stopped`."""
    ended_s: float | None = None

    @property
    def elapsed_s(self) -> float:
        """Since the start, or from it to the end."""
        return time.perf_counter() - self.started if self.ended_s is None else self.ended_s

    @property
    def lane(self) -> Lane:
        """Of the step that runs now."""
        return self.lanes[self.now]

    def begin(self, step: str) -> None:
        """The step begins."""
        self.now = step
        self.lane.began_s = self.elapsed_s

    def piece(self) -> None:
        """The first endpoint sent some bytes of a body."""
        self.lane.pieces += 1
        if self.lane.first_piece_s is None:
            self.lane.first_piece_s = self.elapsed_s

    def hear(self, said: str) -> None:
        """A chunk was read, with this text in it."""
        if said and self.lane.first_s is None:
            self.lane.first_s = self.elapsed_s
        if self.now == STEPS[-1]:
            self.text += said

    def end(self, step: str) -> None:
        """The step has ended."""
        self.lanes[step].ended_s = self.elapsed_s

    def leave(self, state: str) -> None:
        """Nothing more is shown of it."""
        self.ended_s = self.elapsed_s
        self.state = state

    def first_chunk_s(self, step: str) -> float | None:
        """What a measurement says that takes the first bytes for the first token."""
        lane = self.lanes[step]
        return None if lane.first_piece_s is None or lane.began_s is None else lane.first_piece_s - lane.began_s


def panels(sides: Sequence[Side]) -> Table:
    """All sides beside each other."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_row(*(_panel(side) for side in sides))
    return grid


def _panel(side: Side) -> Panel:
    state, colour = _state(side)
    answer = Text(side.text.strip() or "no answer yet", style="" if side.text else base.QUIET)
    rows = [_row(step, lane, side.elapsed_s) for step, lane in side.lanes.items()]
    return Panel(
        Group(*rows, _axis(), Text(), answer),
        title=Text(side.title, style="bold"),
        subtitle=Text(state, style=colour),
        border_style=colour,
        height=len(STEPS) + _ANSWER_LINES + 4,
        width=(base.WIDTH - 2) // 2,
    )


def _state(side: Side) -> tuple[str, str]:
    at = f"{side.elapsed_s:.1f} s"
    if side.state == "came":
        return f"answered after {at}", base.WORK
    if side.state == "stopped":
        return f"still waiting after {at}", base.OVER
    if side.lane.first_s is None and side.lane.pieces > 1:
        late = side.elapsed_s > DEADLINE_S
        return f"{plural(side.lane.pieces, 'ping', 'pings')}, no token, {at}", base.OVER if late else base.FIRST_TOKEN
    return at, base.WRITING


def _row(step: str, lane: Lane, now_s: float) -> Text:
    line = Text(f"{step:<{_LABEL}}", style=base.QUIET if lane.began_s is None else "")
    for cell in range(_CELLS):
        line.append_text(_cell(step, lane, cell, now_s))
    return line


def _cell(step: str, lane: Lane, cell: int, now_s: float) -> Text:
    """What went on for most of this cell's time."""
    at_s = (cell + 0.5) * SHOWN_S / _CELLS
    end_s = now_s if lane.ended_s is None else lane.ended_s
    if lane.began_s is None or not lane.began_s <= at_s < end_s:
        return Text("┊", style=base.QUIET) if cell == _cell_of(DEADLINE_S) else Text(" ")
    if step in TOOLS:
        return Text("█", style=base.WORK)
    if lane.asked_again_s is not None and cell == _cell_of(lane.asked_again_s):
        return Text("▶", style=f"bold {base.OVER}")
    if lane.first_s is None or at_s < lane.first_s:
        return Text("░", style=base.FIRST_TOKEN)
    return Text("█", style=base.WRITING)


def _axis() -> Text:
    words = f"deadline {DEADLINE_S:.0f} s ┊"
    return Text(f"{'':<{_LABEL}}0{words:>{_cell_of(DEADLINE_S)}}", style=base.QUIET)


def _cell_of(at_s: float) -> int:
    return int(at_s / SHOWN_S * _CELLS)


def legend() -> Text:
    """What the lanes are drawn with."""
    return Text.assemble(
        ("░", base.FIRST_TOKEN), " waiting for a first token  ",
        ("█", base.WRITING), " writing  ",
        ("█", base.WORK), " a tool  ",
        ("▶", f"bold {base.OVER}"), " another endpoint asked",
        style=base.QUIET,
    )  # fmt: skip
