"""Objectives against what a store holds: which were kept, by how much, and what is left of their error budgets."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from hopbudget.budgets.attainment import attained
from hopbudget.budgets.attainment.attained import Attained, Counts
from hopbudget.budgets.attainment.objectives import Burn, Day, Objective, State, budget_left, burn, days
from hopbudget.config.configuring import FILE, Config, Workload, find, load
from hopbudget.errors import Exit, UserError
from hopbudget.objectives import verdicts
from hopbudget.objectives.completions import completions
from hopbudget.objectives.counting import Window, window_end
from hopbudget.render import base
from hopbudget.render import check as draw
from hopbudget.reports.reading import Selection
from hopbudget.store import objectives as stored
from hopbudget.store import queries
from hopbudget.store.narrow import Condition, Where, nearest
from hopbudget.store.objectives import Scope


@dataclass(frozen=True, slots=True)
class ObjectiveResult:
    """One objective of one workload, judged over its window."""

    workload: str
    objective: Objective
    state: State
    value: float
    """The attained percentile in the limit's unit (+inf, for `tokens_per_s` 0, where failures put it out of reach), or
    the share that missed; NaN where nothing was counted."""
    attained: Attained
    budget_left: float
    burn: tuple[Burn, ...]
    days: tuple[Day, ...]
    from_at: float
    to_at: float
    note: str | None = None
    """Why nothing was counted."""
    line: int | None = None
    """Where it stands in the configuration."""

    def as_json(self) -> dict[str, Any]:
        """The row of `--json`; times in seconds, shares between 0 and 1, null where nothing was observed or the value
        is worse than anything."""
        o, a = self.objective, self.attained
        worst = o.metric == "tokens_per_s" and self.value == 0
        return {
            "workload": self.workload,
            "metric": o.metric,
            "percentile": o.percentile,
            "limit": o.limit,
            "value": None if worst else self.value,
            "attainment": a.share,
            "low": a.low if a.n else None,
            "high": a.high if a.n else None,
            "n": a.n,
            "failed": a.failed,
            "state": self.state,
            "note": self.note,
            "hop": o.hop,
            "pace": o.pace,
            "target": o.target,
            "missed_by_failing": a.failing_share,
            "missed_by_slowness": a.slow_share,
            "slow": a.slow,
            "left_out": a.left_out,
            "unmeasured": a.unmeasured,
            "sample": a.sample,
            "min_sample": o.needed,
            "budget_left": self.budget_left,
            "burn": [{"window_s": b.window_s, "rate": b.rate, "n": b.n} for b in self.burn],
            "days": [{"day": _date(d.day_at), "n": d.n, "attainment": d.share} for d in self.days],
            "window_s": o.window_s,
            "from": _instant(self.from_at),
            "to": _instant(self.to_at),
        }


def evaluate(
    con: duckdb.DuckDBPyConnection,
    config: Config,
    where: Where | None = None,
    *,
    workload: str | None = None,
    at: float | None = None,
) -> list[ObjectiveResult]:
    """Judge every objective, or those of one workload, in the order of the file.

    Windows end `at`, seconds since the Unix epoch; unless said, at the start of the workload's newest trajectory.
    UserError for an unknown workload.
    """
    return [
        result
        for one in config.chosen(workload)
        for result in _of_workload(con, config, one, stored.scope(where or Where(), one.match), at)
    ]


def _of_workload(
    con: duckdb.DuckDBPyConnection, config: Config, workload: Workload, chosen: Condition, at: float | None
) -> list[ObjectiveResult]:
    to_at = window_end(con, chosen, at)

    @cache
    def window(window_s: float) -> Window:
        return Window(con, Scope(chosen, to_at - window_s, to_at))

    @cache
    def unknown() -> str:
        """What was perhaps meant by a workload's name that nothing stored has."""
        name = workload.match.get("name")
        known = [stored_name for stored_name, _ in queries.workloads(con)]
        return "" if name is None or name in known else nearest(name, known).removesuffix(".")

    def judged(index: int, objective: Objective) -> ObjectiveResult:
        within = window(objective.window_s)
        result = judge(workload.name, objective, *within.counted(objective), to_at)
        note = None if result.attained.n else within.why_nothing(objective) + unknown()
        return replace(result, note=note, line=config.lines.get((workload.name, index)))

    return [judged(index, objective) for index, objective in enumerate(workload.objectives)]


def judge(workload: str, objective: Objective, counts: Counts, quantile: float, to_at: float) -> ObjectiveResult:
    """The verdict on one objective from what was counted in its window."""
    found = attained.attain(counts)
    return ObjectiveResult(
        workload=workload,
        objective=objective,
        state=objective.state(found),
        value=objective.shown(quantile, found),
        attained=found,
        budget_left=budget_left(found, objective.target),
        burn=burn(counts, objective.target, objective.window_s, to_at),
        days=days(counts),
        from_at=to_at - objective.window_s,
        to_at=to_at,
    )


# --- the command -------------------------------------------------------------------------------------------------


def check(
    selection: Selection,
    config_path: str | None,
    *,
    at: str | None,
    junit: Path | None,
    github: bool,
    as_json: bool,
    now: Callable[[], float] = time.time,
) -> int:
    """Judge every objective and say so; returns the exit code."""
    config = _with_objectives(config_path)
    asked = replace(selection, workload=None)
    to_at = None if at is None else _moment(at, now)
    with asked.open() as (con, where):
        results = evaluate(con, config, where, workload=selection.workload, at=to_at)
        whole = completions(con, config, where, workload=selection.workload, at=to_at)
    if junit is not None:
        _write(junit, verdicts.junit(results))
    if as_json:
        base.print_json(
            {"objectives": [result.as_json() for result in results], "workloads": [one.as_json() for one in whole]}
        )
    else:
        draw.check(base.console(), results, whole, f"{asked.heading} · {config.path}")
    if github:
        lines = "".join(line + "\n" for line in verdicts.github(results, config.path))
        (sys.stderr if as_json else sys.stdout).write(lines)
    return exit_code(results)


def exit_code(results: Sequence[ObjectiveResult]) -> Exit:
    """0 all met; 1 one breached; 3 none breached, and one that can't be told."""
    states = {result.state for result in results}
    if "breach" in states:
        return Exit.NO
    return Exit.DONE if states == {"met"} else Exit.CANT_SAY


def _with_objectives(config_path: str | None) -> Config:
    path = find(config_path)
    if path is None:
        raise UserError(
            f"There is no {FILE} here. Name one with --config, or let `hopbudget check --propose --out {FILE}` write "
            "one from what is recorded."
        )
    config = load(path)
    if not any(workload.objectives for workload in config.workloads):
        raise UserError(
            f"{path} holds no objective; what is commented out does not count. `hopbudget check --propose` shows what "
            "they look like, and comments out those that too little was recorded for: record more, or uncomment one.",
            Exit.CANT_SAY,
        )
    return config


def _moment(at: str, now: Callable[[], float]) -> float:
    """Seconds since the Unix epoch of `now` or an ISO time, which is UTC unless it says otherwise."""
    if at == "now":
        return now()
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        raise UserError(f"--at {at!r} is not a time: write now, 2026-03-01 or 2026-03-01T12:00Z.") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path} can't be written: {error.strerror or error}.", Exit.ENVIRONMENT) from error


def _instant(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def _date(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).date().isoformat()
