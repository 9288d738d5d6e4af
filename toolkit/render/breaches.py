"""The screen of `hopbudget report --breaches`: causes over many, hops, what late ones share, what can be turned."""

import math
import textwrap
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from hopbudget.budgets.blame.breaches import Breaches, CauseShare, HopShare, InCommon
from hopbudget.budgets.numbers.paired import FEWEST_CLUSTERS
from hopbudget.render import base
from hopbudget.render.causes import COLOUR, NAME
from hopbudget.units import count, plural, seconds, share

if TYPE_CHECKING:
    from hopbudget.reports.breaching import Explained

_BAR: Final = 22
_CAUSE_BAR: Final = 14
_SMALL: Final = 0.005
_NOTHING: Final = 0.0005
"""Shares below this are 0.0% on a screen."""
_MOST_HOPS: Final = 8
_MOST_IN_COMMON: Final = 10
_MOST_LISTED: Final = 10
_LEVERS_FROM: Final = 0.1
"""Causes below this share of the excess have no lever shown."""


def breaches(out: Console, explained: "Explained") -> None:
    """Draw the breaches of one workload."""
    b = explained.found
    out.print(
        base.name(f"{explained.workload}: deadline {seconds(b.deadline_s)} ({explained.deadline})", base.WIDTH),
        style="bold",
    )
    _first_lines(out, explained)
    if not b.late:
        return
    if b.excess_s <= 0:
        out.print("The deadline is below what is typical: being late is the rule here, and takes no explaining.")
        return
    for line in base.wrap(f"Compared with {b.reference.description}.", base.WIDTH):
        out.print(Text(line, style=base.QUIET))
    out.print()
    _causes(out, b)
    _hops(out, b)
    _in_common(out, b)
    _listed(out, explained)
    _levers(out, b)


def _first_lines(out: Console, explained: "Explained") -> None:
    b = explained.found
    out.print(
        Text(
            f"{count(b.breached)} of {plural(b.counted, 'trajectory', 'trajectories')} breached it: {share(b.share)} "
            f"[{share(b.low)}, {share(b.high)}]"
        )
    )
    if explained.deadline.endswith("attained"):
        out.print(Text("attained: of all recorded, what failed never came in time", style=base.QUIET))
    words = f"{count(b.late)} took longer, {count(b.failed)} failed within it"
    left_out = ", ".join(f"{count(n)} {reason.replace('_', ' ')}" for reason, n in b.left_out.items())
    out.print(Text(words + (f"; left out: {left_out}" if left_out else ""), style=base.QUIET))


def _causes(out: Console, b: Breaches) -> None:
    late = plural(b.late, "late one", "late ones")
    out.print(Text(f"Of {seconds(b.excess_s)} over the typical in {late}, by cause:", style="bold"))
    rows = base.table("cause", "share", "95%", "", "most in", "")
    rows.columns[5].justify = "left"
    largest = max(abs(cause.seconds) for cause in b.causes)
    for cause in shown_causes(b):
        colour = COLOUR.get(cause.kind, base.QUIET)
        rows.add_row(
            Text(NAME.get(cause.kind, cause.kind.replace("_", " ")), style=colour),
            share(cause.share),
            interval(cause),
            seconds(cause.seconds, signed=True),
            count(cause.main_in),
            base.signed_bar(cause.seconds, largest, _CAUSE_BAR, colour),
        )
    rest = rest_of_causes(b)
    if rest is not None:
        of_excess, rest_s = rest
        drawn = base.signed_bar(rest_s, largest, _CAUSE_BAR, base.QUIET)
        rows.add_row(Text("rest", style=base.QUIET), share(of_excess), "", seconds(rest_s, signed=True), "", drawn)
    out.print(rows)
    for said in notes(b):
        for line in base.wrap(said, base.WIDTH):
            out.print(Text(line, style=base.QUIET))
    out.print()


def shown_causes(b: Breaches) -> list[CauseShare]:
    """The causes that have a row of their own."""
    return [cause for cause in b.causes if abs(cause.share) >= _SMALL or cause.main_in]


def rest_of_causes(b: Breaches) -> tuple[float, float] | None:
    """Share and seconds of the causes that have no row of their own; None where that is no tenth of a percent."""
    shown = shown_causes(b)
    rest = [cause for cause in b.causes if cause not in shown]
    of_excess = sum(cause.share for cause in rest)
    return (of_excess, sum(cause.seconds for cause in rest)) if abs(of_excess) >= _NOTHING else None


def place_name(name: str, work: bool) -> str:
    """A hop or work, or in words what has no name."""
    return name or ("outside of steps" if work else "side by side")


def shown_hops(b: Breaches) -> list[HopShare]:
    """The hops and works that have a row of their own: the largest either way, in their order."""
    told = [hop for hop in b.hops if abs(hop.share) >= _SMALL]
    largest = sorted(told, key=lambda hop: -abs(hop.seconds))[:_MOST_HOPS]
    return [hop for hop in told if hop in largest]


def rest_of_hops(b: Breaches) -> tuple[float, float] | None:
    """Share and seconds of the hops and works that have no row; None where that is no tenth of a percent."""
    shown = shown_hops(b)
    rest = [hop for hop in b.hops if hop not in shown]
    of_excess = sum(hop.share for hop in rest)
    return (of_excess, sum(hop.seconds for hop in rest)) if abs(of_excess) >= _NOTHING else None


def interval(cause: CauseShare) -> str:
    """The interval of a cause's share in words; "-" where there are too few for one."""
    return "-" if math.isnan(cause.low) else f"{share(cause.low)} to {share(cause.high)}"


def notes(b: Breaches) -> list[str]:
    """What to know of the shares of causes: what they count, and how much of the waits the servers told."""
    said = "most in: late trajectories whose largest part it is; light bars: time saved"
    if all(math.isnan(cause.low) for cause in b.causes):
        said += f"; fewer than {FEWEST_CLUSTERS} sessions were late: too few for intervals"
    return [said, *([told(b)] if b.told.hops else [])]


def told(b: Breaches) -> str:
    """Of how much the inference servers told, as a sentence."""
    causes = "Queue, slow prefill and outside the server"
    hops = plural(b.told.of, "hop", "hops")
    if b.told.hops == b.told.of:
        return f"{causes}: as the inference servers told of all {hops} of late ones."
    return (
        f"{causes}: as the inference servers told of {count(b.told.hops)} of the {hops} of late ones, in "
        f"{count(b.told.trajectories)} of {plural(b.late, 'trajectory', 'trajectories')}. The others' waits are in "
        "first token."
    )


def _hops(out: Console, b: Breaches) -> None:
    rows = base.table("where", "share", "", "")
    rows.columns[3].justify = "left"
    largest = max(abs(hop.seconds) for hop in b.hops)
    for hop in shown_hops(b):
        colour = base.WORK if hop.work else base.UNSPLIT
        rows.add_row(
            base.name(place_name(hop.name, hop.work), 30),
            share(hop.share),
            seconds(hop.seconds, signed=True),
            base.signed_bar(hop.seconds, largest, _BAR, colour),
        )
    rest = rest_of_hops(b)
    if rest is not None:
        rows.add_row("others", share(rest[0]), seconds(rest[1], signed=True))
    out.print(rows)
    out.print()


def _in_common(out: Console, b: Breaches) -> None:
    if not b.in_common:
        return
    out.print(Text("What breached ones have in common", style="bold"))
    heads = ("n", "breach", "others", "points", "95%", "*")
    rows = base.table("those with", *heads[:-1], "")
    shown = b.in_common[:_MOST_IN_COMMON]
    cells = [
        [
            count(common.effect.n_with),
            share(common.effect.risk_with),
            share(common.effect.risk_without),
            _points(common.effect.difference),
            f"{_points(common.effect.low)} to {_points(common.effect.high)}",
            "*" if common.effect.beyond_chance else "",
        ]
        for common in shown
    ]
    names, _ = base.room(["those with", *map(_trait, shown)], [heads, *cells], 31, width=out.width)
    for common, numbers in zip(shown, cells, strict=True):
        rows.add_row(base.name(_trait(common), names), *numbers)
    out.print(rows)
    said = "points: percentage points more than the others, below 0 where those with it breach less; the surest first"
    for line in base.wrap(f"{said}; * beyond what chance brings", base.WIDTH):
        out.print(Text(line, style=base.QUIET))
    for line in textwrap.wrap(b.caution, base.WIDTH):
        out.print(Text(line, style=base.QUIET))
    out.print()


def _trait(common: InCommon) -> str:
    short = {"observed concurrency at the start": "beside", "prompt tokens of the first hop": "prompt"}
    return f"{short.get(common.factor, common.factor)}: {common.level}"


def _points(value: float) -> str:
    return f"{100 * value:+.1f}"


def _listed(out: Console, explained: "Explained") -> None:
    b, t = explained.found, explained.profile.trajectories
    most = f", the slowest {_MOST_LISTED}" if b.late > _MOST_LISTED else ""
    out.print(Text(f"Late{most}", style="bold"))
    rows = base.table("trace", "took", "over typical", "largest part")
    rows.columns[3].justify = "left"
    digits = base.id_digits([str(t.trace_id[late.row]) for late in b.trajectories[:_MOST_LISTED]])
    for late in b.trajectories[:_MOST_LISTED]:
        kind = NAME.get(late.kind, late.kind.replace("_", " "))
        rows.add_row(
            base.name(str(t.trace_id[late.row])[:digits], digits),
            seconds(late.duration_s),
            seconds(late.excess_s, signed=True),
            base.name(
                f"{seconds(late.seconds, signed=True)} {kind}" + (f" in {late.name}" if late.name else ""), 56 - digits
            ),
        )
    out.print(rows)
    out.print()


def _levers(out: Console, b: Breaches) -> None:
    out.print(Text("What can be turned", style="bold"))
    for cause in b.causes:
        if cause.share >= _LEVERS_FROM:
            colour = COLOUR.get(cause.kind, base.QUIET)
            out.print(Text(f"{NAME.get(cause.kind, cause.kind)} ({share(cause.share)})", style=colour))
            for lever in cause.levers:
                for index, line in enumerate(textwrap.wrap(lever, base.WIDTH - 4)):
                    out.print(Text(("  · " if index == 0 else "    ") + line))
