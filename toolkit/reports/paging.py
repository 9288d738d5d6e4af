"""`report --html`: all that a report says, as one file that needs nothing else."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hopbudget import budgets
from hopbudget.budgets.blame.breaches import Breaches
from hopbudget.config.configuring import find, load
from hopbudget.errors import Exit, UserError
from hopbudget.objectives.checking import ObjectiveResult, evaluate
from hopbudget.render import base
from hopbudget.render import page as draw
from hopbudget.reports import breaching
from hopbudget.reports.reading import Selection
from hopbudget.store import queries
from hopbudget.units import count

if TYPE_CHECKING:
    import duckdb

_SLOWEST: Final = 3


@dataclass(slots=True)
class Chapter:
    """What the page says of one workload."""

    workload: str
    numbers: dict[str, Any]
    """Of `queries.report`."""
    objectives: list[ObjectiveResult]
    profile: budgets.Profile
    breaches: Breaches | None
    deadline: str
    why_not: str
    """Why there are no breaches to explain."""
    slowest: list[dict[str, Any]]
    """Trajectories with their hops and works."""


def write_page(selection: Selection, path: Path, *, deadline: str | None) -> int:
    """Write the page; returns the exit code. Raises UserError where it can't be written."""
    config_path = find()
    config = load(config_path) if config_path is not None else None
    chapters = []
    with selection.open() as (con, where):
        names = [where.workload] if where.workload is not None else [name for name, _ in queries.workloads(con, where)]
        dropped = queries.drops(con)
        for name in names:
            chosen = where.for_workload(name)
            judged = evaluate(con, config, chosen) if config is not None else []
            judged = [result for result in judged if result.attained.n or result.workload == name]
            chapters.append(_chapter(con, chosen, name, judged, deadline))
    lost = ", ".join(f"{count(spans)} {reason.replace('_', ' ')}" for reason, spans in dropped.items())
    held = f"{selection.heading} · spans dropped: {lost or 'none'}"
    try:
        path.write_text(draw.document("hopbudget report", held, chapters), encoding="utf-8")
    except OSError as error:
        raise UserError(f"can't write {path}: {error.strerror}", Exit.ENVIRONMENT) from error
    base.console().print(f"Written to {path}.", soft_wrap=True)
    return Exit.DONE


def _chapter(
    con: "duckdb.DuckDBPyConnection",
    where: queries.Where,
    workload: str,
    judged: list[ObjectiveResult],
    deadline: str | None,
) -> Chapter:
    profile, words = breaching.read_workload(con, where)
    chapter = Chapter(workload, queries.report(con, where), judged, profile, None, "", "", [])
    try:
        explained = breaching.of_profile(workload, profile, words, deadline)
    except budgets.CannotAllocateError as error:
        chapter.why_not = str(error)
        return chapter
    chapter.breaches, chapter.deadline = explained.found, explained.deadline
    for late in explained.found.trajectories[:_SLOWEST]:
        rows = queries.trajectory_rows(con, where, over_s=late.duration_s * (1 - 1e-12), slowest=_SLOWEST + 1)
        trace_id = str(profile.trajectories.trace_id[late.row])
        row = next((row for row in rows if row["trace_id"] == trace_id), None)
        if row is not None:
            chapter.slowest.append(_detail(con, row))
    return chapter


def _detail(con: "duckdb.DuckDBPyConnection", row: dict[str, Any]) -> dict[str, Any]:
    try:
        return queries.trajectory(con, row["trace_id"])
    except UserError:  # the trace holds several trajectories, which their roots tell apart
        return queries.trajectory(con, row["root_span_id"])
