"""The screen of `hopbudget allocate --update`: two plans side by side."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from hopbudget.render import base
from hopbudget.units import plural, seconds, share

if TYPE_CHECKING:
    from hopbudget.plans.updating import Line


def difference(out: Console, old: dict[str, Any], new: dict[str, Any], lines: Sequence["Line"]) -> None:
    """Draw what changed; what stayed is counted."""
    then = f"plan {old['id'] or '(no id)'} and " if old["id"] != new["id"] else ""
    out.print(Text(f"{new['workload']}: {then}plan {new['id']}", style="bold"))
    changed = [line for line in lines if line.changed]
    if not changed:
        out.print("Nothing changed.")
        return
    rows = base.table("", "before", "after", "change")
    for line in changed:
        rows.add_row(
            base.name(line.what, 30), _value(line.before, line.unit), _value(line.after, line.unit), _change(line)
        )
    out.print(rows)
    out.print(Text(f"{plural(len(lines) - len(changed), 'other figure', 'other figures')} stayed.", style=base.QUIET))


def _value(value: Any, unit: str) -> str:
    if value is None:
        return "-"
    if unit == "s":
        return seconds(float(value))
    return share(float(value)) if unit == "share" else str(value)


def _change(line: "Line") -> str:
    before, after = line.before, line.after
    if not isinstance(before, float | int) or not isinstance(after, float | int):
        return ""
    if line.unit == "share":
        return f"{100 * (after - before):+.1f} points"
    return f"{100 * (after / before - 1):+.0f}%" if before else ""
