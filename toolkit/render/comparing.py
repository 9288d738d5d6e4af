"""The screen of `hopbudget report --against`: both sides' figures, their differences and intervals."""

import math
import textwrap
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from hopbudget.budgets.attainment.comparing import Difference
from hopbudget.render import base
from hopbudget.units import count, plural, seconds

if TYPE_CHECKING:
    from hopbudget.reports.comparing import Compared

_WHOLE: Final = 1_000
"""Cells that no name takes: it is wrapped, since what its end says tells it from others."""


def comparison(out: Console, compared: "Compared") -> None:
    """Draw the comparison for a person."""
    from hopbudget.reports.comparing import name

    found = compared.found
    for label, side in (("this   ", compared.this), ("other  ", compared.other)):
        of = "" if side.workload in side.heading.split(" · ") else f" · {side.workload}"
        said = f"{side.heading}{of}: {plural(len(side.profile), 'trajectory', 'trajectories')}"
        for index, line in enumerate(base.wrap(base.name(said, _WHOLE).plain, base.WIDTH - len(label))):
            out.print(Text.assemble((label if index == 0 else " " * len(label), base.QUIET), line))
    out.print(Text(_how(compared), style=base.QUIET))
    out.print()
    rows = base.folding(base.table("", "this", "other", "differ by", "95%", "n, n"))
    for each in found.differences:
        rows.add_row(
            base.name(name(each), _WHOLE),
            _value(each, each.this),
            _value(each, each.other),
            Text(_value(each, each.difference, signed=True), style="bold" if each.beyond else ""),
            _interval(each),
            f"{_short(each.n_this)}, {_short(each.n_other)}",
        )
    out.print(rows)
    for line in textwrap.wrap(compared.sentence, base.WIDTH):
        out.print(Text(line, style="bold"))
    if found.by_chunks_this or found.by_chunks_other:
        this, other = count(found.by_chunks_this), plural(found.by_chunks_other, "hop", "hops")
        said = f"Tokens of {this} and {other} were counted in chunks: those are in no TPOT and in no tokens here."
        for line in base.wrap(said, base.WIDTH):
            out.print(Text(line, style=base.OVER))
    words = (
        "differ by: this minus other (points for shares), bold where its interval does not hold 0. Quantiles are "
        "linear-interpolated over ok and truncated; intervals are a bootstrap over whole "
        + ("tasks." if found.paired else "sessions.")
    )
    for line in textwrap.wrap(words, base.WIDTH):
        out.print(Text(line, style=base.QUIET))


def _how(compared: "Compared") -> str:
    found = compared.found
    if compared.pair_by is None:
        return f"not paired; {count(found.clusters_this)} and {plural(found.clusters_other, 'session', 'sessions')}"
    left_out = found.left_out_this + found.left_out_other
    more = f"; {plural(left_out, 'trajectory', 'trajectories')} of other tasks left out" if left_out else ""
    return f"paired by {compared.pair_by}: {plural(found.clusters_this, 'task', 'tasks')} that both have{more}"


def _interval(each: Difference) -> str:
    """Both ends in the unit of the difference beside it."""
    if math.isnan(each.low):
        return "too few"
    scale, digits = 1.0, 1
    if each.metric == "failed":
        scale = 100.0
    elif each.metric == "steps":
        digits = 2
    elif each.metric != "tokens":
        scale = 1e3 if abs(each.difference) < 0.9995 else 1.0 if abs(each.difference) < 120 else 1 / 60
        largest = scale * max(abs(each.low), abs(each.high))
        digits = 0 if largest >= 99.95 else 1 if largest >= 9.995 else 2
    return f"[{scale * each.low:.{digits}f}, {scale * each.high:.{digits}f}]"


def _short(n: int) -> str:
    return str(n) if n < 10_000 else f"{n / 1000:.1f}k"


def _value(each: Difference, value: float, *, signed: bool = False) -> str:
    if math.isnan(value):
        return "-"
    if each.metric == "failed":
        return f"{100 * value:+.1f}" if signed else f"{100 * value:.1f}%"
    if each.metric in ("steps", "tokens"):
        digits = 2 if each.metric == "steps" else 1
        return f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"
    return seconds(value, signed=signed)
