"""The screen of `hopbudget allocate`: a deadline, allotted, and whether it can be met."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from hopbudget.budgets import Allocation, Auto, Feasibility, Share, Slot
from hopbudget.render import base
from hopbudget.render.words import span
from hopbudget.units import count, plural, seconds, share

_BAR = 24
_CLUSTERS = {"run": ("run", "runs"), "session": ("session", "sessions"), "trajectory": ("trajectory", "trajectories")}
_KINDS = {"name": "name", "before": "what came before", "visit": "visit"}
_VERDICT_COLOUR = {"feasible": base.WORK, "infeasible": base.OVER, "undecided": base.FIRST_TOKEN}


def plan(out: Console, allocation: Allocation, workload: str, learned_beside: Mapping[str, Any] | None = None) -> None:
    """Draw an allocation for a person, with what else its plan says, as plain values."""
    beside = learned_beside or {"notes": allocation.notes}
    learned = allocation.learned_from
    binds = "the first answer token" if allocation.binds == "answer" else "the last token"
    both = (
        f", {seconds(allocation.answer_deadline_s)} to the first answer token" if allocation.answer_deadline_s else ""
    )
    out.print(Text(f"{workload}: {seconds(allocation.deadline_s)} to {binds}{both}", style="bold"))
    runs = f" in {plural(learned.runs, 'run', 'runs')}" if learned.runs else ""
    left_out = ", ".join(f"{count(n)} {reason.replace('_', ' ')}" for reason, n in learned.left_out.items() if n)
    out.print(
        Text(
            f"learned from {plural(learned.trajectories, *_unit(allocation))}{runs}"
            + (f"; left out: {left_out}" if left_out else "")
            + (f" ({share(learned.intervened)} of all were intervened in)" if learned.intervened else ""),
            style=base.QUIET,
        )
    )
    if learned.half_life_s is not None:
        halving = f"they weigh half every {span(learned.half_life_s)} before the newest"
        out.print(Text(f"{halving}: as many as {learned.effective:.0f} equal ones", style=base.QUIET))
    out.print()
    out.print(verdict(allocation.feasibility, allocation.percentile))
    _elsewhere(out, allocation.feasibility)
    out.print()
    _budgets(out, allocation)
    _stream(out, allocation)
    _kept(out, allocation)
    _fits(out, beside, allocation.percentile)
    for note in beside["notes"]:
        out.print(Text(f"· {note}"))


def _fits(out: Console, beside: Mapping[str, Any], percentile: float) -> None:
    """What the deadline holds, in what people can turn: steps, tokens, the wait for a first token."""
    lines = []
    steps, answer = beside.get("max_steps"), beside.get("answer")
    if steps is not None:
        lines.append(f"{plural(steps, 'hop fits', 'hops fit')} in it at p{percentile:.10g}")
    if answer and answer.get("tokens"):
        of = f" of {base.name(answer['model'], 40)}" if answer["model"] else ""
        lines.append(
            f"a final answer{of} whose call begins by {seconds(answer['starts_s'])} (p{100 * answer['at']:g}) may take "
            f"{plural(answer['tokens'], 'token', 'tokens')}"
        )
    lines += [
        f"cap {cap['hop']} at {plural(cap['tokens'], 'token', 'tokens')} (p{100 * cap['level']:g} of its answers): "
        f"{100 * cap['in_time']:+.2f} points in time, {share(cap['cuts'])} cut short"
        for cap in beside.get("caps") or []
        if cap["cuts"] > 0
    ]
    if lines:
        out.print(Text("\nWhat fits", style="bold"))
        for line in lines:
            out.print(Padding(Text(line), (0, 0, 0, 2)))


def _unit(allocation: Allocation) -> tuple[str, str]:
    if allocation.learned_from.unit == "conversation":
        return "conversation", "conversations"
    return "trajectory", "trajectories"


def verdict(feasibility: Feasibility, percentile: float) -> Text:
    """The verdict in words: how many meet the deadline, and the smallest deadline that enough of them meet."""
    text = Text()
    text.append(f"{feasibility.verdict} for p{percentile:.10g}", style=f"bold {_VERDICT_COLOUR[feasibility.verdict]}")
    text.append(f"  {share(feasibility.p_deadline)} meet it")
    text.append(f" [{share(feasibility.p_low)}, {share(feasibility.p_high)}]", style=base.QUIET)
    text.append(f"\nsmallest deadline that {percentile:.10g}% meet: {seconds(feasibility.min_deadline_s)}")
    low, high = feasibility.min_deadline_low_s, feasibility.min_deadline_high_s
    beside = feasibility.min_deadline_s
    upper = seconds(high, beside=beside) if math.isfinite(high) else "beyond what was seen"
    text.append(f" [{seconds(low, beside=beside)}, {upper}]", style=base.QUIET)
    if feasibility.possible_high - feasibility.possible_low > 1e-9:
        between = f"{share(feasibility.possible_low)} and {share(feasibility.possible_high)}"
        text.append(f"\nsome were cut off before it: of all, between {between} would have met it")
    if feasibility.extrapolated:
        text.append("\nit lies past a recorded time-out: what those would have taken is unknown (extrapolated)")
    if feasibility.needs:
        text.append(f"\nto decide: {feasibility.needs}")
    return text


def _elsewhere(out: Console, feasibility: Feasibility) -> None:
    """What the figure is worth for a run that nobody has seen, and for classes of trajectories."""
    runs = feasibility.runs
    if runs is not None and not math.isnan(runs.largest_s):
        small = f" ({plural(runs.small, 'run has', 'runs have')} too few)" if runs.small else ""
        largest, t = (
            f"{seconds(bound)} (x{price:.2f})"
            for bound, price in ((runs.largest_s, runs.largest_price), (runs.t_s, runs.t_price))
        )
        out.print(Text(f"for a run not seen yet, by {plural(runs.runs, 'run', 'runs')}{small}:"))
        out.print(Text(f"  {largest}, the largest run's own; {t}, a t interval over runs"))
    if runs is not None and runs.only_this:
        few = {0: "no run has enough trajectories", 1: "1 run is too little"}.get(runs.runs, f"{runs.runs} are too few")
        out.print(Text(f"this configuration only: {few} to say what another run takes", style=base.OVER))
    for found in feasibility.classes:
        parts = [f"{name} {share(one.share)} [{100 * one.low:.1f}, {100 * one.high:.1f}]" for name, one in found.shares]
        out.print(Text(f"unequal by {found.by}: {', '.join(parts)} meet it"))


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
    said = "p50, p90: attained; what failed there never ended. visits: per trajectory"
    out.print(Text(said, style=base.QUIET))
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
            text.append(f", at which {plural(stream.tokens, 'token fits', 'tokens fit')}{of_n}")
        text.append(f"\n              {share(stream.joint)} keep TTFT and TPOT together", style=base.QUIET)
    out.print(text)


def _kept(out: Console, allocation: Allocation) -> None:
    kept, auto = allocation.kept, allocation.auto
    if auto is not None:
        out.print()
        _auto(out, auto)
    else:
        text = Text(f"\n{allocation.method}: {share(kept.share)} keep every budget and the deadline ")
        text.append(
            f"[{share(kept.low)}, {share(kept.high)}], of the {count(kept.n)} it was learned from", style=base.QUIET
        )
        out.print(text)
    out.print(Text("Budgets are for blame and design, not hard stops: unused time flows on.", style=base.QUIET))


def _auto(out: Console, auto: Auto) -> None:
    reserve = "" if auto.reserve is None else f", work and stream set aside at p{100 * auto.reserve:g}"
    clusters = plural(auto.clusters, *_CLUSTERS[auto.cluster])
    out.print(Text(f"auto took {auto.method}{reserve}; {clusters} held out in {auto.folds} folds:"))
    for line in _findings(auto):
        out.print(Padding(Text(line), (0, 0, 0, 2)))


def _findings(auto: Auto) -> Iterator[str]:
    of = auto.kept_of_deadline
    if len(auto.candidates) > 1:
        none_in_time = math.isnan(of.share)
        counted = f", {_n(auto.success)}" if none_in_time else ""
        yield f"{share(auto.success.share)} {_between(auto.success)} keep every budget and the deadline{counted}"
        if not none_in_time:
            yield f"= {share(of.share)} {_between(of)} of those that meet the deadline alone, {_n(auto.success)}"
    if auto.beats_equal:
        gain = [100 * one for one in (auto.gain.share, auto.gain.low, auto.gain.high)]
        yield f"{gain[0]:+.1f} points [{gain[1]:+.1f}, {gain[2]:+.1f}] over an equal split, paired"
    if len(auto.price) > 1:
        yield f"price of more slots: the deadline alone {share(auto.deadline_only.share)}"
        for kind, places, success in auto.price:
            yield f"  {plural(places, 'place', 'places')}, by {_KINDS[kind]}: {share(success)}"
    if auto.binding is not None:
        yield f"{auto.binding} binds: {share(auto.binding_share)} were in time and over its budget alone"
    in_time, kept = 100 * auto.step_in_time, 100 * auto.step_kept
    step = "one more second" if auto.step_s == 1 else f"{seconds(auto.step_s)} more"
    if in_time >= 0.005 or kept >= 0.005:
        yield f"{step}: {in_time:+.2f} points in time, {kept:+.2f} with every budget kept"
    else:
        yield f"{step}: nothing to speak of"


def _n(one: Share) -> str:
    return f"n = {count(one.n)}"


def _between(one: Share) -> str:
    return f"[{100 * one.low:.1f}, {100 * one.high:.1f}]"
