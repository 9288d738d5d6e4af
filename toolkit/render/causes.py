"""The screens of `hopbudget explain`: what made trajectories slow, in words and seconds that add up."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.text import Text

from hopbudget.budgets import CAUSE_KINDS, CauseKind, Part
from hopbudget.budgets.expectations.expected import FIRST_TOKEN, LONG_ANSWER
from hopbudget.render import base, deadlines, servers, waterfall
from hopbudget.store.deadlines import of_trajectory
from hopbudget.store.servers import of_trajectory as split_by_server
from hopbudget.units import plural, seconds, share

if TYPE_CHECKING:
    from hopbudget.reports.explaining import Alone, Explained, SlowHop

COLOUR: Final[Mapping[CauseKind, str]] = {
    "visits": base.UNSPLIT,
    "answers": base.WRITING,
    "prompt": "#B87503",
    "first_token": base.FIRST_TOKEN,
    "queue": "#C9A400",
    "prefill": "#8A7000",
    "outside": "#5F7D8C",
    "retries": "#CC79A7",
    "backoff": "#99527A",
    "pace": base.OVER,
    "stalls": "#9C4400",
    "client_lag": "#8C6BB1",
    "tools": base.WORK,
    "between_steps": "#7A9E9F",
    "after_last_hop": "#4F6D7A",
    "overlap": base.QUIET,
}
NAME: Final[Mapping[CauseKind, str]] = {
    "visits": "extra visits",
    "answers": "longer answers",
    "prompt": "larger prompts",
    "first_token": "first token",
    "queue": "server's queue",
    "prefill": "slow prefill",
    "outside": "outside the server",
    "retries": "failed attempts",
    "backoff": "between attempts",
    "pace": "pace and rest",
    "stalls": "stalls",
    "client_lag": "the client itself",
    "tools": "tools",
    "between_steps": "between steps",
    "after_last_hop": "after the last hop",
    "overlap": "less overlap",
}
_GENERAL: Final[Mapping[CauseKind, tuple[str, str]]] = {
    "visits": ("more visits", "fewer visits"),
    "answers": ("longer answers", "shorter answers"),
    "prompt": ("larger prompts", "smaller prompts"),
    "first_token": ("later first tokens", "earlier first tokens"),
    "queue": ("longer in the server's queue", "shorter in the server's queue"),
    "prefill": ("slower prefill than prompts explain", "faster prefill than prompts explain"),
    "outside": ("longer between client and server", "shorter between client and server"),
    "retries": ("more failed attempts", "fewer failed attempts"),
    "backoff": ("more waiting between attempts", "less waiting between attempts"),
    "pace": ("slower than the tokens explain", "faster than the tokens explain"),
    "stalls": ("more stalling", "less stalling"),
    "client_lag": ("more held up by the client", "less held up by the client"),
    "tools": ("more tool time", "less tool time"),
    "between_steps": ("more time before or between steps", "less time before or between steps"),
    "after_last_hop": ("more time after the last hop", "less time after the last hop"),
    "overlap": ("less side by side", "more side by side"),
}
_NAMED = 3
_BAR = 24


def slow(out: Console, explained: Sequence["Explained"], heading: str, alone: Sequence["Alone"] = ()) -> None:
    """Draw several slow trajectories, the slowest first, then what the explained ones have in common."""
    out.print(Text(heading, style="bold"))
    for workload, reference in {row.workload: row.reference for row in explained}.items():
        out.print(Text(f"{workload}: compared with {reference.description}", style=base.QUIET))
    if explained:
        by = "by cause, in the colours below; " if base.coloured(out) else ""
        out.print(Text(f"bars: {by}solid what took longer, light what saved time", style=base.QUIET))
    out.print()
    largest = max((sum(abs(part.seconds) for part in row.parts) for row in explained), default=0.0)
    listed = _listed(explained, alone)
    digits = base.id_digits([row.trace_id for row, *_ in listed])
    outcomes = (len(row.outcome) + 1 for row, *_ in listed if row.outcome not in {"ok", "truncated"})
    bars = min(_BAR, base.WIDTH - digits - 23 - max(outcomes, default=0))
    for row, parts, excess_s, said in listed:
        line = Text(f"{row.trace_id[:digits]}  {seconds(row.duration_s):>8}  {seconds(excess_s, signed=True):>9}  ")
        line.append_text(_longer_and_saved(parts, largest, bars))
        if row.outcome not in {"ok", "truncated"}:
            line.append(f" {row.outcome}", style=base.OVER)
        out.print(line)
        for part in base.wrap(said, base.WIDTH - 14):
            out.print(Text(" " * 14 + part, style=base.QUIET))
    _together(out, explained)
    _long_answers(out, [hop for row in explained for hop in row.slow_hops])


def _longer_and_saved(parts: Sequence[Part], largest: float, width: int) -> Text:
    """What took longer, solid, and behind it what saved time, light; `width` cells where both are `largest` seconds."""
    ordered = sorted_by_kind(parts)
    line, edge, drawn = Text(), 0.0, 0
    for cell, sign in (("█", 1.0), (base.LIGHT, -1.0)):
        for part in ordered:
            if sign * part.seconds > 0:
                edge += abs(part.seconds) / largest * width
                line.append(cell * (round(edge) - drawn), style=COLOUR[part.kind])
                drawn = max(drawn, round(edge))
    return line


def one(out: Console, detail: Mapping[str, Any], explained: "Explained | None") -> None:
    """Draw one trajectory as a waterfall, and what made it longer or shorter than usual."""
    row = detail["trajectory"]
    out.print(base.name(f"{row['workload']} · {row['trace_id']}", base.WIDTH), style="bold")
    facts = [f"{row['started_at']:%Y-%m-%d %H:%M:%S} UTC", seconds(row["duration_s"])]
    facts += [f"and {seconds(row['paused_s'])} paused"] if row["paused_s"] else []
    facts += [plural(row["hop_count"], "hop", "hops")]
    facts += [f"work {seconds(row['work_s'])}"] if row["work_s"] is not None else []
    facts += [f"answer starts after {seconds(row['answer_start_s'])}"] if row["answer_start_s"] is not None else []
    out.print(Text(" · ".join([*facts, str(row["outcome"])]), style=base.QUIET))
    out.print()
    drawn = waterfall.lines(row, detail["hops"], detail["works"])
    ends = [line.start_s + line.duration_s for line in drawn]
    waterfall.draw(out, drawn, max([row["duration_s"] or 0.0, *ends]))
    out.print()
    deadlines.of_one(out, of_trajectory(detail))
    servers.of_one(out, split_by_server(detail))
    if explained is None:
        why = "there is no other to compare it with" if row["complete"] else "its root never came"
        out.print(f"No causes: {why}.")
        return
    if not explained.parts:
        out.print(f"No causes: {typical(explained)}.")
    else:
        _parts(out, explained)
    out.print(Text(f"Compared with {explained.reference.description}.", style=base.QUIET))
    _slow_hops(out, explained.slow_hops)


def _parts(out: Console, explained: "Explained") -> None:
    """The excess, and its causes as bars."""
    typical = seconds(explained.reference.duration_s)
    way = "over" if explained.excess_s >= 0 else "under"
    out.print(Text(f"{seconds(abs(explained.excess_s))} {way} the typical {typical}:", style="bold"))
    largest = max((abs(part.seconds) for part in explained.parts), default=0.0)
    rows = base.table("cause", "", "")
    rows.columns[2].justify = "left"
    shown = explained.parts[:12]
    cells = [[seconds(part.seconds, signed=True)] for part in shown]
    names, bars = base.room([part.detail for part in shown], cells, 60, _BAR, out.width)
    for part, numbers in zip(shown, cells, strict=True):
        drawn = base.signed_bar(part.seconds, largest, bars, COLOUR[part.kind])
        rows.add_row(base.name(part.detail, names), *numbers, drawn)
    rest = explained.parts[12:]
    if rest:
        rest_s = sum(part.seconds for part in rest)
        rows.add_row(plural(len(rest), "smaller one", "smaller ones"), seconds(rest_s, signed=True), "")
    out.print(rows)


def _listed(
    explained: Sequence["Explained"], alone: Sequence["Alone"]
) -> list[tuple["Explained | Alone", Sequence[Part], float | None, str]]:
    """Trajectories, the slowest first, each with the parts of its excess, the excess, and both in words."""
    found: list[tuple[Explained | Alone, Sequence[Part], float | None, str]] = []
    for row in explained:
        excess_s, said = (row.excess_s, sentence(row.parts, row.excess_s)) if row.parts else (None, typical(row))
        found.append((row, row.parts, excess_s, said))
    for other in alone:
        found.append((other, (), None, f"nothing to compare with in `{base.name(other.workload, 40)}`"))
    return sorted(found, key=lambda item: -item[0].duration_s)


def typical(row: "Explained") -> str:
    """What to say of one that differs in nothing from what it is compared with."""
    itself = row.reference.trajectories == 1
    return "typical itself: nothing to compare with" if itself else "typical in every part"


def slow_hop(hop: "SlowHop") -> str:
    """What made one hop slow, as a sentence."""
    tokens = plural(round(hop.output_tokens), "token", "tokens")
    took = f"`{hop.hop}` #{hop.visit} took {seconds(hop.duration_s)} for {tokens}"
    if hop.blame == LONG_ANSWER:
        return f"{took}: a long answer, the provider is healthy (expected: up to {seconds(hop.expected_s)})."
    if hop.blame == FIRST_TOKEN:
        limit = seconds(hop.expected_first_token_s)
        return f"{took}: its first token came late, after {seconds(hop.ttft_s)} (expected: up to {limit})."
    return f"{took}: slower than so many tokens explain (expected: up to {seconds(hop.expected_s)})."


def _slow_hops(out: Console, hops: "Sequence[SlowHop]") -> None:
    """The slowest of them in words."""
    if not hops:
        return
    out.print()
    out.print(Text("Hops that were slow (expected: as nine of ten with so many tokens):", style="bold"))
    for hop in sorted(hops, key=lambda hop: -hop.duration_s)[:_NAMED]:
        for line in base.wrap(slow_hop(hop), base.WIDTH - 2):
            out.print(Text(f"  {line}"))
    if len(hops) > _NAMED:
        out.print(Text(f"  and {len(hops) - _NAMED} more", style=base.QUIET))


def sentence(parts: Sequence[Part], excess_s: float) -> str:
    """The causes in words with their seconds, the small ones as one number, so that it adds up to the excess."""
    sums: list[tuple[float, CauseKind, list[Part]]] = []
    for kind in CAUSE_KINDS:
        of_kind = [part for part in parts if part.kind == kind]
        sums.append((sum(part.seconds for part in of_kind), kind, of_kind))
    largest_first = sorted((item for item in sums if item[2]), key=lambda item: -abs(item[0]))
    named = [item for item in largest_first if abs(item[0]) >= 0.08 * abs(excess_s)]
    words = [f"{phrase(kind, of_kind)} {seconds(total_s, signed=True)}" for total_s, kind, of_kind in named]
    rest_s = excess_s - sum(total_s for total_s, _, _ in named)
    if abs(rest_s) >= 0.005 * abs(excess_s) > 0:
        words.append(f"rest {seconds(rest_s, signed=True)}")
    return ", ".join(words)


def phrase(kind: CauseKind, parts: Sequence[Part]) -> str:
    """One cause in words, with the hops or works that make up most of it."""
    total_s = sum(part.seconds for part in parts)
    main = [part for part in parts if part.seconds * total_s > 0 and abs(part.seconds) >= 0.15 * abs(total_s)]
    if kind == "visits" and main:
        return _all_visits(parts, main[:_NAMED])
    if len(main) == 1:
        return main[0].detail
    names = ", ".join(f"`{part.name}`" for part in main[:_NAMED] if part.name)
    general = _GENERAL[kind][0 if total_s > 0 else 1]
    if kind == "first_token" and total_s > 0 and any(part.count for part in main):
        general = "waited for first tokens that came late or never"
    return f"{general} ({names})" if names else general


def _all_visits(parts: Sequence[Part], named: Sequence[Part]) -> str:
    """How many more or fewer visits there were in all, with the hops that make up most of their seconds."""
    visits = round(sum(part.count or 0.0 for part in parts))
    others = round(sum(part.count or 0.0 for part in parts if part not in named))
    if len(named) == 1 and not others:
        return named[0].detail
    more = sum(part.seconds for part in parts) > 0
    counted = [_visits(part.name, round(part.count or 0.0), more) for part in named]
    counted += [_visits("", others, more)] if others else []
    many = f"{abs(visits)} " if (visits > 0) is more and visits else ""
    way = "more" if more else "fewer"
    return f"{many}{way} {'visit' if abs(visits) == 1 else 'visits'} ({', '.join(counted)})"


def _visits(name: str, n: int, more: bool) -> str:
    """How many visits of one hop, or of others; its name alone where it is not even half of one."""
    called = f"`{name}`" if name else "others" if abs(n) > 1 else "other"
    against = "" if (n > 0) is more else " more" if n > 0 else " fewer"
    return f"{abs(n)}{against} {called}" if n else called


def sorted_by_kind(parts: Sequence[Part]) -> list[Part]:
    """Parts in the order of the legend, so that bars of different trajectories compare."""
    order = list(COLOUR)
    return sorted(parts, key=lambda part: (order.index(part.kind), -part.seconds))


def _together(out: Console, explained: Sequence["Explained"]) -> None:
    total = sum(row.excess_s for row in explained)
    sums: dict[CauseKind, float] = {
        kind: sum(p.seconds for row in explained for p in row.parts if p.kind == kind) for kind in CAUSE_KINDS
    }
    if total <= 0:
        return
    out.print()
    out.print(Text(f"Of the {seconds(total)} over the typical in all:", style="bold"))
    rows = base.table("cause", "share", "", "")
    rows.columns[3].justify = "left"
    largest = max(abs(size) for size in sums.values())
    rest_s = sum(size for size in sums.values() if abs(size) < 0.0005 * total)
    for kind, size in sorted(sums.items(), key=lambda item: -item[1]):
        if abs(size) >= 0.0005 * total:
            drawn = base.signed_bar(size, largest, _BAR, COLOUR[kind])
            rows.add_row(Text(NAME[kind], style=COLOUR[kind]), share(size / total), seconds(size, signed=True), drawn)
    if abs(rest_s) >= 0.0005 * total:
        rows.add_row(Text("rest", style=base.QUIET), share(rest_s / total), seconds(rest_s, signed=True))
    out.print(rows)


def _long_answers(out: Console, hops: "Sequence[SlowHop]") -> None:
    over = [hop for hop in hops if hop.duration_s > hop.usual_s]
    if not over:
        return
    expected = sum(hop.blame == LONG_ANSWER for hop in over)
    its = "its" if len(over) == 1 else "their"
    said = f"{plural(len(over), 'slow hop', 'slow hops')} here took longer than 90% of all hops of {its} model. "
    if expected:
        said += f"{expected} of them took no longer than nine of ten with so many tokens: a long answer, the provider "
        said += "is healthy."
    else:
        said += "None of them had an answer long enough to explain it."
    out.print()
    for line in base.wrap(said, base.WIDTH):
        out.print(Text(line))
