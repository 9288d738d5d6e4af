"""The `backtest` command: what a plan says, scored on runs that it was not learned from."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hopbudget import budgets, units
from hopbudget.budgets.backtests.backtest import Backtest
from hopbudget.budgets.backtests.backtest import backtest as measure
from hopbudget.budgets.backtests.splits import Named
from hopbudget.budgets.numbers.paired import Estimate
from hopbudget.errors import Exit, UserError
from hopbudget.plans import planning
from hopbudget.render import backtest as draw
from hopbudget.render import base
from hopbudget.reports.reading import Selection, one_workload
from hopbudget.store import queries


def backtest(
    selection: Selection,
    deadlines: str,
    *,
    run_by: str | None,
    percentile: float,
    binds: budgets.Binds,
    slots: budgets.SlotKind | None,
    as_json: bool,
) -> int:
    """Measure, and print the tables (or JSON); returns the exit code."""
    wanted = parse_deadlines(deadlines)
    with selection.open() as (con, where):
        workload = one_workload(con, where, "A backtest is of one workload.")
        profile = queries.profile(con, where.for_workload(workload), run_by=run_by)
    try:
        _check(profile, wanted, binds)
        with _bar() as progress:
            found = measure(profile, wanted, percentile=percentile, binds=binds, slots=slots, progress=progress)
    except budgets.CannotAllocateError as error:
        raise UserError(f"{workload}: {error}", Exit.CANT_SAY) from error
    if as_json:
        base.print_json(as_dict(found, workload))
    else:
        draw.backtest(base.console(), found, workload)
    return Exit.DONE


def parse_deadlines(text: str) -> list[Named]:
    """The deadlines of `p80,p90,12s`; raises UserError for one that is none."""
    wanted = []
    for label in (part.strip() for part in text.split(",") if part.strip()):
        percentile = units.parse_percentile(label)
        seconds = units.parse_duration(label, "--deadline") if percentile is None else None
        wanted.append(Named(label, percentile, seconds))
    if not wanted:
        raise UserError("--deadline names no deadline; write it like p90 or p80,p90,12s.")
    return wanted


def _check(profile: budgets.Profile, wanted: Sequence[Named], binds: budgets.Binds) -> None:
    """UserError where failures leave not one of the deadlines a number."""
    asked = [one.percentile for one in wanted if one.percentile is not None]
    if len(asked) == len(wanted) and math.isinf(budgets.deadline_at(profile, min(asked), binds)):
        raise UserError(planning.no_number(min(asked)), Exit.CANT_SAY)


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error, where that is a terminal."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    screen = base.console(stderr=True, moving=True)
    with Progress(
        TextColumn("held out and learned anew"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
    ) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def as_dict(found: Backtest, workload: str) -> dict[str, Any]:
    """The object of `--json`: shares between 0 and 1, times in seconds, null for what could not be measured.

    Everything in it is of trajectories held out. `details` has every figure's interval, number and clusters.
    """
    part = found.parts

    def value(name: str) -> float | None:
        return part[name].value if name in part else None

    return {
        "rows": [
            {
                "workload": workload,
                "deadline": cell.named.label,
                "deadline_s": cell.deadline_s,
                "method": method,
                "success": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
            }
            for cell in found.cells
            for method, estimate in cell.methods.items()
        ],
        "chance": {
            "brier": value("chance.brier"),
            "base": value("chance.base"),
            "brier_hint": value("chance.brier_hint"),
            "ece": value("chance.ece"),
        },
        "steps": {"right": value("steps.right")},
        "abort": {"saved": value("abort.saved"), "false": value("abort.false")},
        "expectation": {"pinball_over_flat": value("expectation.pinball_over_flat")},
        "stream": {"joint": value("stream.joint")},
        "feasible": [
            {"bound": bound.bound, "coverage": bound.coverage, "price": bound.price} for bound in found.bounds
        ],
        "details": _details(found),
    }


def _details(found: Backtest) -> dict[str, Any]:
    return {
        "sentence": found.sentence,
        "trajectories": found.trajectories,
        "left_out": found.left_out,
        "held_out": found.held_out,
        "clusters": found.clusters,
        "folds": found.folds,
        "percentile": found.percentile,
        "deadline": found.main.label,
        "slots": found.slot_kind,
        "places": list(found.places),
        "no_deadline": [
            {"deadline": cell.named.label, "folds": cell.folds_untold, "trajectories": cell.untold}
            for cell in found.cells
        ],
        "paired": [
            {
                "deadline": cell.named.label,
                "method": method,
                "less_than_alone": _estimate(cell.less_than_alone[method]),
                "over_equal": _estimate(cell.over_equal[method]),
            }
            for cell in found.cells
            for method in cell.less_than_alone
        ],
        "hindsight": [
            {
                "deadline": cell.named.label,
                "method": cell.best,
                "auto_of_best": _estimate(cell.auto_of_best),
                "auto_chose": dict(cell.chosen),
            }
            for cell in found.cells
        ],
        "figures": {name: _estimate(estimate) for name, estimate in found.parts.items()},
        "bounds": [
            {
                "bound": bound.bound,
                "coverage": bound.coverage,
                "low": bound.low,
                "high": bound.high,
                "n": bound.n,
                "left_out": bound.left_out,
                "price": bound.price,
                "runs_held": bound.held,
                "runs": bound.runs,
            }
            for bound in found.bounds
        ],
        "reliability": [{"said": said, "met": met, "n": n} for said, met, n in found.reliability],
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
        "clusters": estimate.clusters,
    }
