"""The screen of `hopbudget report`: what was recorded, hop by hop."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from hopbudget.render import base, costs, counted, deadlines, servers
from hopbudget.units import count, plural, seconds, share

Numbers = Mapping[str, Any]
_MOST_PACES: Final = 8
_MOST_NAMED: Final = 8
_MOST_WORKS: Final = 12
_ROUNDING: Final = 0.002
"""By so much steps may add up to more than their trajectories before that is told."""


def report(out: Console, numbers: Numbers, heading: str) -> None:
    """Draw the numbers of `queries.report` for a person."""
    out.print(Text(heading, style="bold"))
    out.print(_first_line(numbers))
    workloads(out, numbers.get("workloads", {}))
    out.print()
    _trajectories(out, numbers)
    if "deadlines" in numbers:
        deadlines.over_many(out, numbers["deadlines"])
    _time_split(out, numbers)
    _hops(out, numbers)
    _works(out, numbers.get("works", []))
    _first_token_and_pace(out, numbers)
    _gaps(out, numbers)
    servers.over_many(out, numbers.get("servers"))
    costs.costs(out, numbers.get("cost"))
    _footer(out, numbers)


def by_group(out: Console, groups: Mapping[str, Numbers], key: str) -> None:
    """Draw one row a group: trajectory time by the values of an attribute."""
    spent = [group["cost"] for group in groups.values() if group.get("cost")]
    heads = ("n", "p50", "p90", "p99", "work", *(("cost p50",) if spent else ()))
    rows = base.table(key, *heads, "", title=f"Trajectories by {key}")
    largest = max((group["trajectory_s"]["p90"] or 0.0 for group in groups.values()), default=0.0)
    cells = [
        [
            count(group["trajectories"]),
            *(seconds(group["trajectory_s"][level]) for level in ("p50", "p90", "p99")),
            share(group["work_share"]),
            *([costs.money(group["cost"]["trajectory"]["p50"])] if spent else []),
        ]
        for group in groups.values()
    ]
    names, bars = base.room([key, *groups], [heads, *cells], 34, 12, out.width)
    rows.columns[0].header = base.name(key, names)
    for (value, group), numbers in zip(groups.items(), cells, strict=True):
        drawn = base.bar(group["trajectory_s"]["p90"], largest, bars, base.UNSPLIT)
        rows.add_row(base.name(value, names), *numbers, drawn)
    rows.columns[-1].justify = "left"
    out.print(rows)
    said = "bars: p90; quantiles are linear-interpolated, over ok and truncated; work: of trajectories' time"
    for line in base.wrap(said, base.WIDTH):
        out.print(Text(line, style=base.QUIET))
    if spent:
        for line in base.wrap(costs.known_of(spent), base.WIDTH):
            out.print(Text(line, style=base.QUIET))


def _first_line(numbers: Numbers) -> Text:
    words = f"{plural(numbers['trajectories'], 'trajectory', 'trajectories')}, {plural(numbers['hops'], 'hop', 'hops')}"
    line = Text(words)
    if numbers.get("incomplete"):
        line.append(f", {count(numbers['incomplete'])} without a root (left out of times)", style=base.OVER)
    return line


def workloads(out: Console, found: Mapping[str, int]) -> None:
    """Which workloads the numbers are of, where they are of several."""
    if len(found) < 2:
        return
    listed = ", ".join(f"{base.name(name, 40)} {count(n)}" for name, n in list(found.items())[:_MOST_NAMED])
    more = f" and {count(len(found) - _MOST_NAMED)} more" if len(found) > _MOST_NAMED else ""
    said = f"of {plural(len(found), 'workload', 'workloads')} together (--workload NAME for one): {listed}{more}"
    for line in base.wrap(said, base.WIDTH):
        out.print(Text(line, style=base.QUIET))


def _trajectories(out: Console, numbers: Numbers) -> None:
    out.print(Text("Trajectory time, of those that came out well", style="bold"))
    rows = base.table("", "n", "p50", "p90", "p95", "p99")
    rows.add_row("duration", *_five(numbers["trajectory_s"]))
    if numbers.get("answer_start_s", {}).get("n"):
        rows.add_row("until the answer starts", *_five(numbers["answer_start_s"]))
    out.print(rows)
    out.print(_outcomes("trajectories", numbers.get("trajectory_outcomes", {})))
    out.print()


def _five(quantiles: Mapping[str, Any]) -> list[str]:
    return [count(quantiles["n"]), *(seconds(quantiles[name]) for name in ("p50", "p90", "p95", "p99"))]


def _time_split(out: Console, numbers: Numbers) -> None:
    split = numbers["time_split"]
    names = (
        ("first_token_s", "waiting for first tokens", base.FIRST_TOKEN),
        ("writing_s", "writing", base.WRITING),
        ("hop_unsplit_s", "hops, not split", base.UNSPLIT),
        ("work_s", "work", base.WORK),
    )
    parts = [(split[key] or 0.0, name, colour) for key, name, colour in names]
    total = sum(size for size, _, _ in parts)
    if total <= 0:
        return
    out.print(Text("Where the time went", style="bold"))
    cells = base.cells(out, len(parts))
    out.print(base.stacked([(size, colour) for size, _, colour in parts], base.WIDTH - 2, cells))
    words = Text()
    for (size, name, colour), cell in zip(parts, cells, strict=True):
        if size > 0:
            words.append("■ " if base.coloured(out) else f"{cell} ", style=colour)
            words.append(f"{name} {share(size / total)}   ")
    out.print(words)
    said = side_by_side(total, split["trajectories_s"])
    if said:
        out.print(Text(said, style=base.QUIET))
    out.print()


def side_by_side(steps_s: float, trajectories_s: float) -> str:
    """What to know of shares of the time of steps, where steps ran side by side; "" where they did not."""
    if steps_s <= trajectories_s * (1 + _ROUNDING):
        return ""
    return (
        f"of {seconds(steps_s, beside=trajectories_s)} of steps in {seconds(trajectories_s)} of trajectories: those "
        "side by side count each"
    )


def _hops(out: Console, numbers: Numbers) -> None:
    out.print(Text("Hops: duration, of those that came out well", style="bold"))
    heads = ("n", "p50", "p95", "p99")
    rows = base.table("hop", *heads, "")
    rows.columns[-1].justify = "left"
    largest = max((row["duration_s"]["p95"] or 0.0 for row in numbers["by_hop"]), default=0.0)
    cells = [_counted(row["duration_s"]) for row in numbers["by_hop"]]
    names, bars = base.room(["hop", *(row["hop"] for row in numbers["by_hop"])], [heads, *cells], 28, 22, out.width)
    for row, four in zip(numbers["by_hop"], cells, strict=True):
        times = row["duration_s"]
        rows.add_row(base.name(row["hop"], names), *four, _two_bars(times["p50"], times["p95"], largest, bars))
    out.print(rows)
    out.print(Text("bars: p50 dark, up to p95 light", style=base.QUIET))
    out.print(_outcomes("hops", numbers["outcomes"]))
    out.print()


def _works(out: Console, works: Sequence[Numbers]) -> None:
    """Tools and what else has a span, those that took the most seconds in all first."""
    shown = [row for row in works if row["duration_s"]["n"]][:_MOST_WORKS]
    if not shown:
        return
    out.print(Text("Work: duration, of that which came out well", style="bold"))
    heads = ("n", "p50", "p95", "p99")
    rows = base.table("work", *heads, "")
    rows.columns[-1].justify = "left"
    largest = max(row["duration_s"]["p95"] for row in shown)
    cells = [_counted(row["duration_s"]) for row in shown]
    names, bars = base.room(["work", *(row["work"] for row in shown)], [heads, *cells], 28, 22, out.width)
    for row, four in zip(shown, cells, strict=True):
        drawn = base.bar(row["duration_s"]["p95"], largest, bars, base.WORK)
        rows.add_row(base.name(row["work"], names), *four, drawn)
    out.print(rows)
    said = "bars: p95; the most seconds in all first"
    if len(works) > len(shown):
        said += f"; {count(len(works) - len(shown))} more in --json"
    out.print(Text(said, style=base.QUIET))
    outcomes: dict[str, int] = {}
    for row in works:
        for outcome, n in row["outcomes"].items():
            outcomes[outcome] = outcomes.get(outcome, 0) + n
    if set(outcomes) - {"ok", "truncated"}:
        out.print(_outcomes("work", outcomes))
    out.print()


def _counted(quantiles: Mapping[str, Any]) -> list[str]:
    """How many there are, and their quantiles."""
    return [count(quantiles["n"]), *(seconds(quantiles[name]) for name in ("p50", "p95", "p99"))]


def _two_bars(middle: float | None, upper: float | None, largest: float, width: int) -> Text:
    dark = base.bar(middle, largest, width, base.UNSPLIT)
    if middle is None or upper is None or largest <= 0:
        return dark
    light = round(upper / largest * width) - len(dark.plain)
    return dark.append("░" * max(0, light), style=base.UNSPLIT)


def _first_token_and_pace(out: Console, numbers: Numbers) -> None:
    cut = numbers.get("still_waiting")
    if not numbers["ttft_s"]["n"]:
        out.print(Text("No first-token times were recorded, so there is no TTFT and no TPOT.", style=base.QUIET))
        if cut:
            _say(out, still_waiting(cut))
        out.print()
        return
    heads = ("n", "TTFT p50", "p95", "p99", "TPOT p50", "p95", "p99")
    rows = base.table("hop", *heads, title="Streams: first token and pace")
    streams = [row for row in numbers["by_hop"] if row["ttft_s"]["n"]]
    cells = [[*_counted(row["ttft_s"]), *_counted(row["tpot_s"])[1:]] for row in streams]
    names, _ = base.room(["hop", *(row["hop"] for row in streams)], [heads, *cells], 24, width=out.width)
    for row, seven in zip(streams, cells, strict=True):
        rows.add_row(base.name(row["hop"], names), *seven)
    out.print(rows)
    _fewer_with_a_pace(out, streams)
    if numbers["tpot_by_chunks"]:
        _say(out, counted.by_chunks(streams))
    if cut:
        _say(out, still_waiting(cut, "more streams"))


def _fewer_with_a_pace(out: Console, streams: Sequence[Numbers]) -> None:
    """What TPOT is over where that is not the n of the table."""
    other = [row for row in streams if row["tpot_s"]["n"] != row["ttft_s"]["n"]]
    if not other:
        return
    listed = [f"{base.name(row['hop'], 28)} {count(row['tpot_s']['n'])}" for row in other[:_MOST_PACES]]
    more = f" and {plural(len(other) - _MOST_PACES, 'hop', 'hops')} more" if len(other) > _MOST_PACES else ""
    for line in base.wrap(f"n: streams with a TTFT. With a TPOT: {', '.join(listed)}{more}.", base.WIDTH):
        out.print(Text(line, style=base.QUIET))


def still_waiting(cut: Numbers, streams: str = "streams") -> str:
    """What is known of streams that were cut off before their first token, as a sentence."""
    least, most = seconds(cut["least_s"], beside=cut["most_s"]), seconds(cut["most_s"])
    n, outcomes = cut["n"], ", ".join(f"{outcome} {count(n)}" for outcome, n in cut["outcomes"].items())
    after = f"after {most}" if least == most else f"after {least} to {most}"
    one = streams.removesuffix("s")
    return (
        f"{plural(n, one + ' was', streams + ' were')} cut off while still waiting for a first token, {after} "
        f"({outcomes}): TTFT was at least that, and is in no quantile here."
    )


def _say(out: Console, said: str) -> None:
    for line in base.wrap(said, base.WIDTH):
        out.print(Text(line, style=base.OVER))


def _gaps(out: Console, numbers: Numbers) -> None:
    gaps = numbers["itl_s"]
    if gaps["n"]:
        words = ", ".join(f"{name} {seconds(gaps[name])}" for name in ("p50", "p95", "p99"))
        out.print(Text(f"ITL over {plural(gaps['n'], 'gap', 'gaps')}: {words}"))
    if numbers["ttft_s"]["n"]:
        out.print()


def _outcomes(of_what: str, outcomes: Mapping[str, int]) -> Text:
    line = Text(f"{of_what}: ", style=base.QUIET)
    for index, (outcome, n) in enumerate(outcomes.items()):
        line.append(" · " if index else "", style=base.QUIET)
        line.append(f"{outcome} {count(n)}", style=base.QUIET if outcome in {"ok", "truncated"} else base.OVER)
    return line


def _sampling(out: Console, sampling: Numbers) -> None:
    least, most = share(sampling["least"]), share(sampling["most"])
    ratios = least if least == most else f"{least} to {most}"
    of = plural(sampling["of"], "trajectory is", "trajectories are")
    kept = f"{count(sampling['trajectories'])} of {of} of a sample"
    out.print(
        Text(f"{kept} ({ratios} kept): they stand for about {count(round(sampling['stands_for']))}.", style=base.OVER)
    )
    if least != most:
        weighted = sampling["weighted_s"]
        each = ", ".join(f"{name} {seconds(value)}" for name, value in weighted.items())
        out.print(Text(f"The quantiles above count each once. Weighted, trajectory time is {each}.", style=base.OVER))


def _footer(out: Console, numbers: Numbers) -> None:
    words = "Quantiles are linear-interpolated, over ok and truncated; the rest is counted."
    out.print(Text(words, style=base.QUIET))
    if numbers.get("sampling"):
        _sampling(out, numbers["sampling"])
    spool = numbers.get("spool", {})
    if spool.get("dropped"):
        out.print(
            Text(
                f"{plural(spool['dropped'], 'span was', 'spans were')} dropped before reaching the store.",
                style=base.OVER,
            )
        )
    if spool.get("pending"):
        out.print(Text(f"{plural(spool['pending'], 'span waits', 'spans wait')} in the spool.", style=base.OVER))
