"""The board that the demo shows while its agents run: which hop each of them is in."""

import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from rich.console import Group, RenderableType
from rich.text import Text

from hopbudget.render import base
from hopbudget.tracing import vocabulary as v
from hopbudget.units import count

HOPS: Final = ("understand", "plan", "search-queries", "read", "extract", "verify", "outline", "answer")
_DOTS: Final = 44
_BAR: Final = 44


class Board(SpanProcessor):
    """Counts hops and works as their spans begin and end; the spans come from many tasks and are only looked at."""

    def __init__(self, trajectories: int) -> None:
        self._lock = threading.Lock()
        self._trajectories = trajectories
        self._started = time.perf_counter()
        self._running: Counter[str] = Counter()
        self._done: Counter[str] = Counter()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """One more is running."""
        with self._lock:
            self._running[_name(span)] += 1

    def on_end(self, span: ReadableSpan) -> None:
        """One more is done."""
        with self._lock:
            self._running[_name(span)] -= 1
            self._done[_name(span)] += 1

    @property
    def hops(self) -> int:
        """Hops that have ended."""
        return sum(self._done[hop] for hop in HOPS)

    @property
    def works(self) -> int:
        """Works that have ended."""
        return self._done["tools"]

    @property
    def elapsed_s(self) -> float:
        """Since the board was made."""
        return time.perf_counter() - self._started

    def __rich__(self) -> RenderableType:
        """One line for each hop, a dot for each that runs now; the last line says how far it all is."""
        lines = [self._line(hop, base.WRITING) for hop in HOPS]
        return Group(*lines, self._line("tools", base.WORK), Text(), self._progress())

    def _line(self, name: str, colour: str) -> Text:
        running = self._running[name]
        line = Text(f"  {name:<16}", style="" if running else base.QUIET)
        line.append(("●" * min(running, _DOTS)).ljust(_DOTS), style=colour)
        line.append(f"{count(self._done[name]):>10} done", style=base.QUIET)
        return line

    def _progress(self) -> Text:
        done = self._done["trajectory"]
        line = Text("  trajectories    ", style="bold")
        drawn = base.bar(done, self._trajectories, _BAR, base.UNSPLIT)
        line.append_text(drawn)
        line.append("─" * (_BAR - len(drawn.plain)), style=base.QUIET)
        line.append(f"{done:>6}/{self._trajectories}", style="bold")
        line.append(f" {self.elapsed_s:3.0f} s", style=base.QUIET)
        return line


def _name(span: ReadableSpan) -> str:
    attributes = span.attributes or {}
    if (hop := attributes.get(v.HOP)) is not None:
        return str(hop)
    return "tools" if attributes.get(v.OPERATION) == v.EXECUTE_TOOL else "trajectory"


def route(hops: Sequence[str] = HOPS) -> Text:
    """The way through the hops, as one line or two."""
    line = Text()
    for index, hop in enumerate(hops):
        line.append(" › " if index else "", style=base.QUIET)
        line.append(hop, style=f"bold {base.WRITING}" if index == len(hops) - 1 else base.WRITING)
    return line
