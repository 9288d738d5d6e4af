"""What every screen shares: the console, tables, bars and colours."""

import codecs
import json
import math
import re
import sys
import textwrap
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

WIDTH: Final = 80
"""Screens fit a terminal of this width; wider ones are not stretched."""

# Okabe-Ito colours: told apart by people with any colour vision, on dark and on light.
FIRST_TOKEN: Final = "#E69F00"
WRITING: Final = "#56B4E9"
WORK: Final = "#009E73"
UNSPLIT: Final = "#0072B2"
OVER: Final = "#D55E00"
QUIET: Final = "bright_black"

NEVER: Final = "#B87503"
"""Waiting for a first token that never came."""
LIGHT: Final = "░"
FULL: Final = "█"
_SHADES: Final = "░█▒▓"
"""Waiting is light elsewhere too."""

_ID_DIGITS: Final = 12
_LEAST_BAR: Final = 6
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_INSEPARABLE: Final = re.compile(r"[+-]?[\d.,]+ (?:ms|s|min|h|d)\b|[■░█▒▓] (?=\w)")
_JOINT: Final = "\ue000"
"""One cell wide, in no text, and no white space to rich: it breaks lines at a no-break space."""


class Screen(Console):
    """A console that takes names as they are: brackets are no markup."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """As rich does it, but a number and its unit, or a swatch and its word, stay on one line.

        With `soft_wrap` each line stays whole however long it is, so that what it says to type can be copied.
        """
        if not options.get("soft_wrap"):
            objects = tuple(_whole(each, self, self.width) for each in objects)
        super().print(*objects, **options)


def _whole(each: Any, out: Console, width: int) -> Any:
    """The same text in lines of this width, broken where no number loses its unit."""
    if isinstance(each, Padding):
        inner = _whole(each.renderable, out, width - each.left - each.right)
        return Padding(inner, (each.top, each.right, each.bottom, each.left), style=each.style, expand=each.expand)
    text = Text(each) if isinstance(each, str) else each
    if not isinstance(text, Text) or text.no_wrap or max(map(cell_len, text.plain.split("\n"))) <= width:
        return each
    joined = text.copy()
    joined.plain = _joined(text.plain)
    lines = joined.wrap(out, width)
    for line in lines:
        line.plain = line.plain.replace(_JOINT, " ")
        line.rstrip()
    whole = Text("\n", style=text.style).join(lines)
    whole.justify, whole.overflow = text.justify, text.overflow
    return whole


def console(*, stderr: bool = False, moving: bool = False) -> Console:
    """A console of 80 columns; plain text when the output is not a terminal.

    A narrower terminal breaks lines itself, so that no number is cut; but what is drawn anew in place (`moving`) has to
    fit it.
    """
    probe = Console(stderr=stderr)
    return Screen(stderr=stderr, width=min(probe.width, WIDTH) if moving and probe.is_terminal else WIDTH)


def print_json(value: Any) -> None:
    """Write one JSON object to standard output; what is not finite becomes null, and what it can't encode \\u...."""
    encoding = codecs.lookup(getattr(sys.stdout, "encoding", None) or "utf-8").name
    json.dump(finite(value), sys.stdout, indent=2, ensure_ascii=not encoding.startswith("utf"))
    sys.stdout.write("\n")


def finite(value: Any) -> Any:
    """The same value with every NaN or infinity replaced by None, since JSON has neither."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def table(*columns: str, title: str | None = None, left: int = 1) -> Table:
    """A light table: the first `left` columns to the left, numbers to the right."""
    made = Table(
        box=None,
        title=title,
        title_justify="left",
        title_style="bold",
        header_style=QUIET,
        padding=(0, 1, 0, 0),
    )
    for index, column in enumerate(columns):
        if index < left:
            made.add_column(column, overflow="ellipsis", no_wrap=True)
        else:
            made.add_column(column, justify="right", no_wrap=True)
    return made


def folding(made: Table) -> Table:
    """The same table, whose first column takes more lines where there is no room: nothing in it is cut."""
    made.columns[0].no_wrap = False
    made.columns[0].overflow = "fold"
    return made


def name(text: str, width: int) -> Text:
    """A name that somebody else chose, safe to print (no control characters) and cut to so many cells."""
    printable = "".join(character if character.isprintable() else "·" for character in text)
    return Text(printable if cell_len(printable) <= width else set_cell_size(printable, width - 1).rstrip() + "…")


def room(
    names: Iterable[str], rows: Sequence[Sequence[str]], longest: int, bars: int = 0, width: int = WIDTH
) -> tuple[int, int]:
    """Cells for the names and the bars of a table whose other cells, heads included, are `rows`: those are never cut.

    The bars give way first, down to a few cells, then the names.
    """
    taken = sum(max(map(cell_len, column)) + 1 for column in zip(*rows, strict=True))
    left = width - taken - 1 - (1 if bars else 0)
    wanted = max((cell_len(name(each, longest).plain) for each in names), default=1)
    drawn = max(min(bars, _LEAST_BAR), min(bars, left - wanted))
    return max(1, min(wanted, left - drawn)), drawn


def id_digits(ids: Collection[str]) -> int:
    """How many first digits of trace ids to show: 12 that are not zeros of a padding, and more until all differ."""
    different = set(ids)
    longest = max(map(len, different), default=0)
    digits = max((min(_ID_DIGITS + _padding(each), len(each)) for each in different), default=_ID_DIGITS)
    while digits < longest and len({each[:digits] for each in different}) < len(different):
        digits += 1
    return digits


def _padding(trace_id: str) -> int:
    """The zeros that stand before an id of fewer bits; a few at the beginning are no padding."""
    zeros = len(trace_id) - len(trace_id.lstrip("0"))
    return zeros if zeros >= _ID_DIGITS else 0


def bar(value: float | None, largest: float, width: int, colour: str) -> Text:
    """A bar of `width` cells at `largest`, drawn in eighths of a cell; empty where nothing was observed."""
    if value is None or not math.isfinite(value) or largest <= 0 or value <= 0:
        return Text("")
    eighths = max(1, round(min(value / largest, 1) * width * 8))
    full, rest = divmod(eighths, 8)
    return Text("█" * full + (_EIGHTHS[rest] if rest else ""), style=colour)


def signed_bar(value: float | None, largest: float, width: int, colour: str) -> Text:
    """As `bar`, and what is below zero in a light shade: told apart without colour too."""
    if value is None or not value < 0:
        return bar(value, largest, width, colour)
    return Text(LIGHT * max(1, len(bar(-value, largest, width, colour))), style=colour)


def coloured(out: Console) -> bool:
    """Whether what is printed there shows colours."""
    return bool(out.color_system) and not out.no_color


def cells(out: Console, parts: int) -> Sequence[str]:
    """What each part of a bar is drawn with: where there are no colours, cells that differ."""
    return [FULL] * parts if coloured(out) else [_SHADES[part % len(_SHADES)] for part in range(parts)]


def stacked(parts: list[tuple[float, str]], width: int, drawn_with: Sequence[str]) -> Text:
    """One bar of `width` cells split in proportion to the parts (size, colour); sizes need not add to one."""
    total = sum(size for size, _ in parts)
    line = Text()
    if total <= 0:
        return line
    edge, drawn = 0.0, 0
    for (size, colour), cell in zip(parts, drawn_with, strict=True):
        edge += size / total * width
        wide = round(edge) - drawn
        drawn += wide
        line.append(cell * wide, style=colour)
    return line


def wrap(words: str, width: int) -> list[str]:
    """Lines of at most so many characters that keep a number and its unit, and a name with hyphens, together."""
    return [line.replace(_JOINT, " ") for line in textwrap.wrap(_joined(words), width, break_on_hyphens=False)]


def _joined(words: str) -> str:
    """The same words with joints where no line may end."""
    return _INSEPARABLE.sub(lambda match: match[0].replace(" ", _JOINT), words)
