"""The screen of `hopbudget check --plan`: what has changed since a plan was learned, in words."""

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from hopbudget.budgets.drifts.cusum import FALSE_ALARMS, WITHIN
from hopbudget.budgets.drifts.drift import LATELY, Change
from hopbudget.budgets.drifts.ratios import DriftCause
from hopbudget.render import base
from hopbudget.units import plural, share

if TYPE_CHECKING:
    from hopbudget.plans.drifting import Checked

_WORDS: Final[Mapping[DriftCause, tuple[str, str]]] = {
    "overall": ("slower", "faster"),
    "failures": ("more failures", "fewer failures"),
    "visits": ("more hops", "fewer hops"),
    "answers": ("longer answers", "shorter answers"),
    "prompt": ("larger prompts", "smaller prompts"),
    "first_token": ("later first tokens", "earlier first tokens"),
    "pace": ("slower for their tokens", "faster for their tokens"),
    "tools": ("more time outside hops", "less time outside hops"),
}


def drift(out: Console, checked: "Checked", heading: str, plan: str) -> None:
    """Draw what was found."""
    out.print(Text(heading, style="bold"))
    said = f"{plan} was learned from {plural(checked.learned, 'trajectory', 'trajectories')}; "
    said += f"looked at {checked.watched.n:,} " + (
        "of the same, for none is newer." if checked.inside else "others, in the order of their start."
    )
    _say(out, said)
    out.print()
    if checked.watched.changes:
        _changes(out, checked)
    for item in checked.unlike:
        if item.changes:
            since = checked.trajectory(item.since)
            _say(
                out,
                f"New {item.kind} `{item.name}`: in {share(item.share)} of trajectories, since {since['started_at']} "
                f"({since['trace_id'][: base.id_digits([since['trace_id']])]}).",
            )
    if not checked.found:
        out.print("Nothing has changed that takes time.")
    quiet = [item for item in checked.unlike if not item.changes]
    if quiet:
        named = ", ".join(f"{item.kind} `{item.name}` ({share(item.share)})" for item in quiet[:4])
        more = f" and {len(quiet) - 4} more" if len(quiet) > 4 else ""
        _say(out, f"Also new, and no change by itself: {named}{more}.", style=base.QUIET)
    out.print()
    _say(
        out,
        f"Alarms: sums of scores past their limits (CUSUM); under {share(2 * FALSE_ALARMS)} of {WITHIN} "
        "unchanged trajectories in a row raise any where the plan learned from some 75 sessions or more. From fewer, "
        "alike inside, more do.",
        style=base.QUIET,
    )
    if checked.changed is None:
        _say(
            out,
            "What the plan was learned from was not steady itself, so it can't be said whether anything has changed "
            "since. Check again when there are newer trajectories, or learn the plan from a steady part.",
        )
    elif checked.changed:
        out.print(Text(f"Make the plan anew: hopbudget allocate --update {shlex.quote(plan)}"))


def words(change: Change) -> str:
    """A change in words, such as "longer answers"."""
    return _WORDS[change.cause][0 if change.way == "more" else 1]


def _changes(out: Console, checked: "Checked") -> None:
    rows = base.table("changed", "since", "before", "after", "lately", "alarm")
    began = [checked.trajectory(change.since) for change in checked.watched.changes]
    digits = base.id_digits([since["trace_id"] for since in began])
    for change, since in zip(checked.watched.changes, began, strict=True):
        rows.add_row(
            words(change),
            since["started_at"][:16].replace("T", " "),
            share(change.before),
            share(change.after),
            share(change.lately),
            f"{change.trajectories:,}",
        )
    out.print(rows)
    named = (
        f"{words(change)} {since['trace_id'][:digits]}"
        for change, since in zip(checked.watched.changes, began, strict=True)
    )
    _say(out, f"began with the trajectories: {', '.join(named)}.")
    _say(
        out,
        "before, after: the share past what 90% kept when the plan was learned (past the median for what became less); "
        f"lately: in the last {LATELY}. alarm: after so many trajectories.",
        style=base.QUIET,
    )


def _say(out: Console, said: str, style: str = "") -> None:
    for line in base.wrap(said, base.WIDTH):
        out.print(Text(line, style=style))
