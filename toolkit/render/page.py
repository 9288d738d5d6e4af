"""The page of `hopbudget report --html`: report, objectives, breaches and waterfalls of one workload each."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any, Final

from hopbudget.budgets.blame.breaches import Breaches
from hopbudget.budgets.blame.causes import WORK_KINDS
from hopbudget.render import base, counted, markup, words
from hopbudget.render.breaches import place_name, rest_of_causes, rest_of_hops, shown_causes, shown_hops
from hopbudget.render.causes import COLOUR, NAME
from hopbudget.render.waterfall import lines
from hopbudget.units import count, plural, seconds, share

if TYPE_CHECKING:
    from hopbudget.reports.paging import Chapter

_MOST_IN_COMMON: Final = 10
_MOST_LATE: Final = 20
_LEVERS_FROM: Final = 0.1
_KINDS: Final = (
    ("first token", base.FIRST_TOKEN),
    ("no first token", base.NEVER),
    ("writing", base.WRITING),
    ("hop", base.UNSPLIT),
    ("work", base.WORK),
)


def document(heading: str, held: str, chapters: list["Chapter"]) -> str:
    """The whole page."""
    parts = [f"<h1>{escape(heading)}</h1>", markup.paragraph(held, quiet=True)]
    for chapter in chapters:
        parts += _chapter(chapter)
    parts.append(markup.paragraph("Written by hopbudget report --html. Times of day are UTC.", quiet=True))
    return markup.page(heading, parts)


def _chapter(chapter: "Chapter") -> Iterator[str]:
    yield f"<h2>{escape(chapter.workload)}</h2>"
    yield from _report(chapter.numbers)
    if chapter.objectives:
        yield from _objectives(chapter)
    if chapter.breaches is not None:
        yield from _breaches(chapter, chapter.breaches)
    else:
        yield markup.paragraph(f"No breaches can be explained: {chapter.why_not}.", quiet=True)


def _report(numbers: Mapping[str, Any]) -> Iterator[str]:
    times, outcomes = numbers["trajectory_s"], numbers["trajectory_outcomes"]
    n = sum(outcomes.values())
    failed = outcomes.get("failed", 0) + outcomes.get("refused", 0)
    yield markup.figures(
        [
            ("Trajectories", count(numbers["trajectories"]), plural(numbers["hops"], "hop", "hops")),
            ("p50", seconds(times["p50"]), f"of {count(times['n'])} that came out well"),
            ("p90", seconds(times["p90"]), f"p99 {seconds(times['p99'])}; of the same"),
            ("Failed", share(failed / n) if n else "-", f"{count(failed)} of {count(n)}"),
            ("TTFT p95", seconds(numbers["ttft_s"]["p95"]), f"n {count(numbers['ttft_s']['n'])}"),
            ("TPOT p95", seconds(numbers["tpot_s"]["p95"]), f"n {count(numbers['tpot_s']['n'])}"),
            ("ITL p99", seconds(numbers["itl_s"]["p99"]), f"n {plural(numbers['itl_s']['n'], 'gap', 'gaps')}"),
        ]
    )
    head = ["hop", "came out well", "p50", "p95", "p99", "TTFT p50", "TTFT p95", "TPOT p50", "TPOT p95", "not ok"]
    yield markup.table(
        head,
        (
            [
                row["hop"],
                count(row["duration_s"]["n"]),
                *(seconds(row["duration_s"][level]) for level in ("p50", "p95", "p99")),
                *(seconds(row["ttft_s"][level]) for level in ("p50", "p95")),
                *(seconds(row["tpot_s"][level]) for level in ("p50", "p95")),
                count(sum(number for outcome, number in row["outcomes"].items() if outcome != "ok")),
            ]
            for row in numbers["by_hop"]
        ),
    )
    yield markup.paragraph("Quantiles are linear-interpolated, over ok and truncated; the rest is counted.", quiet=True)
    if numbers["tpot_by_chunks"]:
        yield markup.paragraph(counted.by_chunks(numbers["by_hop"]))


def _objectives(chapter: "Chapter") -> Iterator[str]:
    yield "<section><h3>Objectives</h3>"
    rows = []
    for result in chapter.objectives:
        rows.append(
            [
                words.title(result.objective),
                words.STATES[result.state].lower(),
                words.value(result),
                words.account(result),
                words.budget(result),
            ]
        )
    yield markup.table(["objective", "state", "attained", "share within it", "error budget"], rows, words=(3, 4))
    yield "</section>"


def _breaches(chapter: "Chapter", b: Breaches) -> Iterator[str]:
    yield f"<section><h3>Breaches of {seconds(b.deadline_s)} ({escape(chapter.deadline)})</h3>"
    yield markup.paragraph(
        f"{count(b.breached)} of {plural(b.counted, 'trajectory', 'trajectories')} breached it: {share(b.share)} "
        f"[{share(b.low)}, {share(b.high)}]; {count(b.late)} took longer, {count(b.failed)} failed within it."
    )
    if not b.late or b.excess_s <= 0:
        if b.late:
            yield markup.paragraph("The deadline is below what is typical: being late is the rule here.")
        yield "</section>"
        return
    yield markup.paragraph(
        f"Of {seconds(b.excess_s)} over the typical in {plural(b.late, 'late one', 'late ones')}, by cause "
        "(in brackets: how many have their largest part there):"
    )
    shown, rest = shown_causes(b), rest_of_causes(b)
    yield markup.stacked(
        [
            (
                NAME.get(cause.kind, cause.kind),
                [(cause.seconds, COLOUR.get(cause.kind, base.QUIET))],
                f"{share(cause.share)} ({count(cause.main_in)})",
            )
            for cause in shown
        ]
        + ([("rest", [(rest[1], base.QUIET)], share(rest[0]))] if rest is not None else []),
        "Causes: "
        + ", ".join(
            [f"{NAME.get(cause.kind, cause.kind)} {share(cause.share)}" for cause in shown]
            + ([f"rest {share(rest[0])}"] if rest is not None else [])
        ),
    )
    yield markup.paragraph(f"Compared with {b.reference.description}.", quiet=True)
    yield "</section><section><h3>Where</h3>"
    hops, others = shown_hops(b), rest_of_hops(b)
    yield markup.stacked(
        [
            (
                place_name(hop.name, hop.work),
                [
                    (place.seconds, COLOUR.get(place.kind, base.QUIET))
                    for place in b.places
                    if place.name == hop.name and (place.kind in WORK_KINDS) == hop.work
                ],
                share(hop.share),
            )
            for hop in hops
        ]
        + ([("others", [(others[1], base.QUIET)], share(others[0]))] if others is not None else []),
        "Where: "
        + ", ".join(
            [f"{place_name(hop.name, hop.work)} {share(hop.share)}" for hop in hops]
            + ([f"others {share(others[0])}"] if others is not None else [])
        ),
    )
    yield "</section>"
    yield from _in_common(b)
    yield from _levers(b)
    yield from _late(chapter, b)


def _in_common(b: Breaches) -> Iterator[str]:
    shown = b.in_common[:_MOST_IN_COMMON]
    if not shown:
        return
    yield "<section><h3>What breached ones have in common</h3>"
    yield markup.intervals(
        [
            (
                f"{common.factor}: {common.level}",
                common.effect.low,
                common.effect.difference,
                common.effect.high,
                common.effect.beyond_chance,
                f"{share(common.effect.risk_with)} of {count(common.effect.n_with)}, "
                f"others {share(common.effect.risk_without)}",
            )
            for common in shown
        ],
        "; ".join(f"{c.factor} {c.level} {100 * c.effect.difference:+.1f} points" for c in shown),
    )
    yield markup.paragraph(
        "Difference in the share that breaches, with its 95% interval; in colour: beyond what so many comparisons "
        f"bring by chance. {b.caution}",
        quiet=True,
    )
    yield "</section>"


def _levers(b: Breaches) -> Iterator[str]:
    causes = [cause for cause in b.causes if cause.share >= _LEVERS_FROM and cause.levers]
    if not causes:
        return
    yield "<section><h3>What can be turned</h3><ul>"
    for cause in causes:
        listed = "; ".join(cause.levers).replace("`", "")
        name = escape(NAME.get(cause.kind, cause.kind))
        yield f"<li><b>{name}</b> ({share(cause.share)}): {escape(listed)}</li>"
    yield "</ul></section>"


def _late(chapter: "Chapter", b: Breaches) -> Iterator[str]:
    t = chapter.profile.trajectories
    yield "<section><h3>Late ones" + (f", the slowest {_MOST_LATE}" if b.late > _MOST_LATE else "") + "</h3>"
    yield markup.table(
        ["trajectory", "took", "over typical", "largest part", "outcome"],
        (
            [
                str(t.trace_id[late.row]),
                seconds(late.duration_s),
                seconds(late.excess_s, signed=True),
                f"{NAME.get(late.kind, late.kind)} {seconds(late.seconds, signed=True)}"
                + (f" in {late.name}" if late.name else ""),
                str(t.outcome[late.row]).replace("_", " "),
            ]
            for late in b.trajectories[:_MOST_LATE]
        ),
        words=(3, 4),
    )
    yield "</section>"
    for detail in chapter.slowest:
        row = detail["trajectory"]
        drawn = lines(row, detail["hops"], detail["works"])
        yield f"<section><h3>{escape(row['trace_id'])}</h3>"
        yield markup.paragraph(
            f"{row['started_at']:%Y-%m-%d %H:%M:%S} UTC, {seconds(row['duration_s'])}, "
            f"{plural(row['hop_count'], 'hop', 'hops')}, {str(row['outcome']).replace('_', ' ')}",
            quiet=True,
        )
        told = "; ".join(f"{line.label} {seconds(line.duration_s)}" for line in drawn[:40])
        yield markup.waterfall(drawn[:60], row["duration_s"], b.deadline_s, told)
        yield markup.legend(_KINDS)
        yield "</section>"
