"""The screen of `hopbudget allocate --what-if`."""

import math
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from hopbudget.budgets.feasibility.whatif import WhatIf
from hopbudget.render import base
from hopbudget.units import count, plural, seconds, share


def what_if(
    out: Console, workload: str, deadline_s: float, percentile: float, found: Sequence[tuple[str, WhatIf]]
) -> None:
    """Draw the effect of each change, with what it assumes."""
    first = found[0][1]
    out.print(Text(f"{workload}: {seconds(deadline_s)}, what if", style="bold"))
    out.print(
        Text(
            f"on {count(first.trajectories)} recorded trajectories, each change alone; brackets: 95%", style=base.QUIET
        )
    )
    rows = base.table("change", "in time", "95%", f"p{percentile:.10g}", "95%")
    rows.add_row("as recorded", share(first.before.share), _shares(first.before), seconds(first.min_before_s), "")
    for text, one in found:
        rows.add_row(
            base.name(text, 30),
            share(one.after.share),
            _shares(one.after),
            seconds(one.min_after_s),
            _limits(one.min_after_low_s, one.min_after_high_s, one.min_after_s),
        )
    out.print(rows)
    said = f"p{percentile:.10g}: the smallest deadline that {percentile:.10g}% meet; failures meet none"
    out.print(Text(said, style=base.QUIET))
    for text, one in found:
        out.print(Text(f"· {text} changes {plural(one.changed, 'step', 'steps')}. It assumes that {one.assumption}."))


def _shares(one: object) -> str:
    return f"[{100 * one.low:.1f}, {100 * one.high:.1f}]"  # type: ignore[attr-defined]


def _limits(low: float, high: float, beside: float) -> str:
    upper = seconds(high, beside=beside) if math.isfinite(high) else "beyond"
    return f"[{seconds(low, beside=beside)}, {upper}]"
