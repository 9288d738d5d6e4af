"""The screen of `hopbudget allocate`: a deadline, allotted, and whether it can be met."""

import math
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from hopbudget.budgets import Allocation, Feasibility, Slot
from hopbudget.render import base
from hopbudget.units import count, plural, seconds, share

_BAR = 24
_VERDICT_COLOUR = {"feasible": base.WORK, "infeasible": base.OVER, "undecided": base.FIRST_TOKEN}


def plan(out: Console, allocation: Allocation, workload: str) -> None:
    """Draw an allocation for a person."""
    learned = allocation.learned_from
    binds = "the last token" if allocation.binds == "last" else "the first answer token"
    out.print(Text(f"{workload}: {seconds(allocation.deadline_s)} to {binds}", style="bold"))
    runs = f" in {count(learned.runs)} run{'s' if learned.runs > 1 else ''}" if learned.runs else ""
    left_out = ", ".join(f"{count(n)} {reason.replace('_', ' ')}" for reason, n in learned.left_out.items() if n)
    out.print(
        Text(
            f"learned from {plural(learned.trajectories, 'trajectory', 'trajectories')}{runs}"
            + (f"; left out: {left_out}" if left_out else ""),
            style=base.QUIET,
        )
    )
    out.print()
    out.print(verdict(allocation.feasibility, allocation.percentile))
    out.print()
    _budgets(out, allocation)
    _stream(out, allocation)
    _kept(out, allocation)
    for note in allocation.notes:
        out.print(Text(f"· {note}"))


def verdict(feasibility: Feasibility, percentile: float) -> Text:
    """The verdict in words: how many meet the deadline, and the smallest deadline that enough of them meet."""
    text = Text()
    text.append(f"{feasibility.verdict} for p{percentile:g}", style=f"bold {_VERDICT_COLOUR[feasibility.verdict]}")
    text.append(f"  {share(feasibility.p_deadline)} meet it")
    text.append(f" [{share(feasibility.p_low)}, {share(feasibility.p_high)}]", style=base.QUIET)
    text.append(f"\nsmallest deadline that {percentile:g}% meet: {seconds(feasibility.min_deadline_s)}")
    low, high = feasibility.min_deadline_low_s, feasibility.min_deadline_high_s
    upper = seconds(high) if math.isfinite(high) else "beyond what was seen"
    text.append(f" [{seconds(low)}, {upper}]", style=base.QUIET)
    if feasibility.needs:
        text.append(f"\nto decide: {feasibility.needs}")
    return text


def _budgets(out: Console, allocation: Allocation) -> None:
    rows = base.table("slot", "budget", "", "keep it", "p50", "p90", "visits", title="Budgets")
    rows.columns[2].justify = "left"
    for slot, colour in _rows(allocation):
        rows.add_row(
            base.name(slot.slot, 26),
            seconds(slot.budget_s) + ("*" if slot.extrapolated else ""),
            base.bar(slot.budget_s, allocation.deadline_s, _BAR, colour),
            share(slot.kept),
            seconds(slot.p50_s),
            seconds(slot.p90_s),
            f"{slot.visits:.1f}",
        )
    if allocation.stream is not None:
        stream = allocation.stream
        rows.add_row(
            "final stream",
            seconds(stream.budget_s),
            base.bar(stream.budget_s, allocation.deadline_s, _BAR, base.WRITING),
            share(stream.kept),
            seconds(stream.p50_s),
            seconds(stream.p90_s),
            "",
        )
    out.print(rows)
    if any(slot.extrapolated for slot, _ in _rows(allocation)):
        out.print(Text("* past a recorded time-out: extrapolated", style=base.QUIET))


def _rows(allocation: Allocation) -> Iterator[tuple[Slot, str]]:
    for slot in allocation.slots:
        yield slot, base.UNSPLIT
    if allocation.work is not None:
        yield allocation.work, base.WORK


def _stream(out: Console, allocation: Allocation) -> None:
    stream = allocation.stream
    if stream is None or stream.ttft_s is None:
        return
    text = Text("final stream: ")
    text.append(f"TTFT {seconds(stream.ttft_s)}", style=base.FIRST_TOKEN)
    if stream.tpot_s is not None:
        text.append(" + ")
        text.append(f"TPOT {seconds(stream.tpot_s)}", style=base.WRITING)
        if stream.tokens is not None:
            of_n = f" (p{stream.tokens_percentile:.0f} of N)" if stream.tokens_percentile else ""
            text.append(f", at which {count(stream.tokens)} tokens fit{of_n}")
        text.append(f"\n              {share(stream.joint)} keep TTFT and TPOT together", style=base.QUIET)
    out.print(text)


def _kept(out: Console, allocation: Allocation) -> None:
    kept = allocation.kept
    text = Text(f"\n{allocation.method}: {share(kept.share)} keep every budget and the deadline ")
    text.append(f"[{share(kept.low)}, {share(kept.high)}]", style=base.QUIET)
    out.print(text)
    out.print(Text("Budgets are for blame and design, not hard stops: unused time flows on.", style=base.QUIET))
