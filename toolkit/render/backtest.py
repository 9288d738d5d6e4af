"""The screen of `hopbudget backtest`: what held on runs that nothing was learned from."""

import math
from typing import Final

from rich.console import Console
from rich.text import Text

from hopbudget.budgets.backtests.backtest import Backtest
from hopbudget.budgets.backtests.splits import Cell
from hopbudget.budgets.numbers.paired import Estimate
from hopbudget.render import base
from hopbudget.units import count, plural, seconds, share

_NAMES: Final = {
    "deadline_only": "deadline alone",
    "auto": "auto",
    "equal_tuned": "equal, tuned",
    "independent": "independent",
    "equal_risk": "equal risk",
    "mean": "mean",
    "quantile": "quantile",
    "equal": "equal split",
    "resplit": "re-split by mean",
    "hindsight": "best in hindsight",
}
_PLOTTED: Final = (
    ("deadline_only", base.WORK),
    ("auto", base.UNSPLIT),
    ("equal", base.FIRST_TOKEN),
    ("resplit", base.WRITING),
)
_FIGURES: Final = (
    ("chance.brier_over_base", "chance: Brier score over the base rate's", "{:.2f}"),
    ("chance.brier_hint_over_base", "  with a noisy hint of hops left", "{:.2f}"),
    ("chance.ece", "  calibration error", "{:.3f}"),
    ("steps.right", "steps that fit: right", "share"),
    ("abort.saved", "giving up: seconds saved", "share"),
    ("abort.false", "  given up, though in time", "share"),
    ("expectation.pinball_over_flat", "expectation: pinball loss over a flat one's", "{:.2f}"),
    ("expectation.covered", "  hops inside it", "share"),
    ("first_tokens.covered", "first token inside its quantile", "share"),
    ("first_tokens.worst_cell", "  of the worst model and prompt size", "share"),
    ("first_tokens.extra", "fail-over at Q99: extra calls", "share"),
    ("first_tokens.p99", "  TTFT p99 over that without", "{:.2f}"),
    ("stream.joint", "stream: TTFT and TPOT together", "share"),
    ("stream.worst_model", "  of the worst model", "share"),
)
_BOUNDS: Final = {
    "point": "the percentile",
    "iid": "its iid upper bound",
    "largest_run": "the largest run",
    "t_interval": "t interval over runs",
}
_BAR = 30


def backtest(out: Console, found: Backtest, workload: str) -> None:
    """Draw a backtest for a person."""
    held = {"run": "run", "session": "session", "trajectory": "trajectory"}[found.held_out]
    plurals = {"run": "runs", "session": "sessions", "trajectory": "trajectories"}[found.held_out]
    out.print(Text(f"{workload}: {plural(found.trajectories, 'trajectory', 'trajectories')}", style="bold"))
    left_out = ", ".join(f"{count(n)} {reason.replace('_', ' ')}" for reason, n in found.left_out.items() if n)
    out.print(
        Text(
            f"{plural(found.clusters, held, plurals)} held out whole, in {found.folds} folds; "
            f"everything learned on the rest; brackets: 95% over {plurals}"
            + (f"; left out: {left_out}" if left_out else ""),
            style=base.QUIET,
        )
    )
    out.print(Text(f"places: {', '.join(found.places)}", style=base.QUIET))
    if any(cell.named.percentile is not None for cell in found.cells):
        words = "p50, p90 ...: deadlines attained by those learned from; what failed never came in time"
        out.print(Text(words, style=base.QUIET))
    for cell in found.cells:
        if cell.untold:
            out.print(_untold(cell, found))
    main = next(cell for cell in found.cells if cell.named == found.main)
    out.print()
    _methods(out, found, main)
    out.print()
    _by_deadline(out, found)
    _parts(out, found)
    _reliability(out, found)
    _bounds(out, found)
    out.print()
    out.print(Text(found.sentence, style="bold"))


def _untold(cell: Cell, found: Backtest) -> Text:
    label, n = cell.named.label, f"{count(cell.untold)} of {plural(found.trajectories, 'trajectory', 'trajectories')}"
    if cell.untold == found.trajectories:
        return Text(f"{label}: no number, because too many trajectories failed; nothing is measured for it")
    return Text(
        f"{label}: {cell.folds_untold} of {found.folds} folds left out ({n}), because too many of the trajectories "
        f"learned from failed for it to be a number; the figures are of the other folds, which hold more failures"
    )


def _methods(out: Console, found: Backtest, main: Cell) -> None:
    label = main.named.label
    rows = base.table(
        "split",
        label,
        "95%",
        "- alone",
        "- equal split",
        title=f"Every budget and the deadline kept at {label} ({seconds(main.deadline_s)}); differences are paired",
    )
    base.folding(rows)
    for method, estimate in main.methods.items():
        if method == "hindsight":
            continue
        rows.add_row(
            _NAMES[method],
            share(estimate.value),
            _interval(estimate),
            _points(main.less_than_alone[method]) if method != "deadline_only" else "",
            _points(main.over_equal[method]) if method != "equal" else "",
        )
    out.print(rows)
    if math.isnan(main.auto_of_best.value):
        return
    chose = ", ".join(f"{_NAMES[name]} {n}x" for name, n in sorted(main.chosen.items(), key=lambda item: -item[1]))
    out.print(
        Text(
            f"Best in hindsight: {_NAMES[main.best]}. auto reached {share(main.auto_of_best.value)} of it "
            f"{_interval(main.auto_of_best)}; it took {chose}.",
            style=base.QUIET,
        )
    )


def _by_deadline(out: Console, found: Backtest) -> None:
    rows = base.table("success by deadline", "", "", left=2)
    for cell in (one for one in found.cells if one.untold < found.trajectories):
        for index, (method, colour) in enumerate(_PLOTTED):
            estimate = cell.methods[method]
            head = f"{cell.named.label} {seconds(cell.deadline_s)}" if index == 0 else ""
            rows.add_row(
                head,
                Text.assemble(base.bar(estimate.value, 1.0, _BAR, colour), f" {_NAMES[method]}"),
                share(estimate.value),
            )
    out.print(rows)


def _parts(out: Console, found: Backtest) -> None:
    known = [(found.parts[name], words, how) for name, words, how in _FIGURES if name in found.parts]
    if not known:
        return
    rows = base.table(f"at {found.main.label}", "measured", "95%", "n", title="\nWhat else a plan says")
    base.folding(rows)
    for estimate, words, how in known:
        rows.add_row(words, _figure(estimate.value, how), _interval(estimate, how), count(estimate.n))
    out.print(rows)


def _reliability(out: Console, found: Backtest) -> None:
    if not found.reliability:
        return
    rows = base.table("chance said", "met the deadline", "", "n", left=2, title="\nReliability: bar = met, | = said")
    for said, met, n in found.reliability:
        line = base.bar(met, 1.0, _BAR, base.UNSPLIT)
        line.append(" " * (_BAR + 1 - len(line)))
        mark = min(round(said * _BAR), _BAR)
        plain = line.plain
        drawn = Text(plain[:mark], style=base.UNSPLIT)
        drawn.append("|", style="bold")
        drawn.append(plain[mark + 1 :], style=base.UNSPLIT)
        rows.add_row(share(said), drawn, share(met), count(n))
    out.print(rows)


def _bounds(out: Console, found: Backtest) -> None:
    if not found.bounds:
        return
    rows = base.table(
        f"p{found.percentile:.10g} by",
        "covers",
        "95%",
        "of",
        "held in",
        "price",
        title="\nDoes a deadline learned here hold elsewhere?",
    )
    base.folding(rows)
    for bound in found.bounds:
        over_runs = bound.bound in ("largest_run", "t_interval")
        rows.add_row(
            _BOUNDS[bound.bound],
            share(bound.coverage),
            f"[{100 * bound.low:.1f}, {100 * bound.high:.1f}]",
            _of(bound.n, bound.left_out, "runs" if over_runs else "trajectories"),
            f"{bound.held} of {plural(bound.runs, 'run', 'runs')}" if bound.runs else "-",
            f"{bound.price:.2f}" if math.isfinite(bound.price) else "never",
        )
    out.print(rows)
    if any(bound.runs for bound in found.bounds):
        said = (
            f"covers: {_BOUNDS['point']} and {_BOUNDS['iid']} where a part of each run is learned from, as they "
            "promise it, the others by whole runs; held in: runs held out whole, those with enough trajectories for a "
            f"p{found.percentile:.10g}"
        )
        for line in base.wrap(said, base.WIDTH):
            out.print(Text(line, style=base.QUIET))
    named = {bound.bound for bound in found.bounds}
    for name in [one for one in ("point", "iid") if one not in named]:
        out.print(Text(f"{_BOUNDS[name]} was no number in any fold.", style=base.QUIET))


def _of(n: int, left_out: int, what: str) -> str:
    return f"{count(n)} of {count(n + left_out)} {what}" if left_out else f"{count(n)} {what}"


def _figure(value: float, how: str) -> str:
    return share(value) if how == "share" else how.format(value)


def _interval(estimate: Estimate, how: str = "share") -> str:
    if not math.isfinite(estimate.low):
        return "-"
    if how == "share":
        return f"[{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"
    return f"[{how.format(estimate.low)}, {how.format(estimate.high)}]"


def _points(difference: Estimate | None) -> str:
    if difference is None or not math.isfinite(difference.value):
        return ""
    value, low, high = (100 * one for one in (difference.value, difference.low, difference.high))
    return f"{value:+.1f} [{low:+.1f}, {high:+.1f}]"
