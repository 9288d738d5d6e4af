"""The screen of `hopbudget check`: a verdict an objective, with what it was counted from."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from hopbudget.render import base, words
from hopbudget.units import plural, seconds

if TYPE_CHECKING:
    from hopbudget.objectives.checking import ObjectiveResult
    from hopbudget.objectives.completions import Completion

_COLOURS: Final = {"met": base.WORK, "breach": base.OVER, "cant_say": base.FIRST_TOKEN}
_MARKS: Final = {"met": "✓", "breach": "✗", "cant_say": "?"}
_BAR: Final = 8
_INDENT: Final = 4


def check(out: Console, results: Sequence["ObjectiveResult"], whole: Sequence["Completion"], heading: str) -> None:
    """Draw the verdicts by workload, and completion and speeds of those without objectives on streams."""
    out.print(Text(heading, style="bold"))
    of_workload = {one.workload: one for one in whole}
    for workload, group in groupby(results, key=lambda result: result.workload):
        of_it = list(group)
        out.print()
        line = base.name(workload, 40)
        line.stylize("bold")
        if of_it[0].to_at:
            line.append(f"  until {_moment(of_it[0].to_at)}", style=base.QUIET)
        out.print(line)
        for result in of_it:
            _objective(out, result)
        if workload in of_workload:
            out.print(_indented(_completion(of_workload[workload]), 2))
    out.print()
    _footer(out, results)


def _objective(out: Console, result: "ObjectiveResult") -> None:
    colour = _COLOURS[result.state]
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{_MARKS[result.state]} {words.STATES[result.state]:<10}", style=colour)
    line.append_text(base.name(words.title(result.objective), 44))
    line.append(" " * max(1, 59 - line.cell_len))
    line.append(words.value(result), style=colour)
    out.print(line)
    out.print(_indented(Text(words.account(result))))
    if result.note is not None:
        return
    spent = _bar(result)
    spent.append(f" {words.budget(result)}")
    out.print(_indented(spent))


def _indented(text: Text, by: int = _INDENT) -> Padding:
    return Padding(text, (0, 0, 0, by), expand=False)


def _bar(result: "ObjectiveResult") -> Text:
    """What is left of the error budget, of eight cells."""
    full = base.bar(result.budget_left, 1.0, _BAR, _COLOURS[result.state])
    full.append("·" * (_BAR - full.cell_len), style=base.QUIET)
    return full


def _completion(one: "Completion") -> Text:
    said = (
        f"{plural(one.trajectories, 'trajectory', 'trajectories')} in 30d; of those that came out well, completion p50 "
    )
    said += f"{seconds(one.p50_s)}, p90 {seconds(one.p90_s)}"
    if not math.isnan(one.throughput):
        said += f"; throughput {one.throughput:.3g} tokens/s while any hop ran"
    if not math.isnan(one.pace):
        said += f"; the median stream's pace {one.pace:.3g} tokens/s"
    return Text(said, style=base.QUIET)


def _footer(out: Console, results: Sequence["ObjectiveResult"]) -> None:
    states = [result.state for result in results]
    parts = [f"{states.count(state)} {words.STATES[state].lower()}" for state in words.STATES if state in states]
    out.print(Text(", ".join(parts), style="bold"))
    about = (
        "Attained percentiles: a failure is worse than any limit. Shares are of all requests, with their 95% interval "
        "(requests of one trajectory count as alike). Burn 1 spends the error budget exactly in its window."
    )
    out.print(Text(about, style=base.QUIET))


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
