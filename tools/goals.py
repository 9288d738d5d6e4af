"""Print what the project is held to beside what was measured, all on trajectories held out.

    python tools/goals.py [FOLDER] [--write]

FOLDER holds the recorded files (../shared/data unless given). `--write` puts the table into docs/backtest.md.
"""

import argparse
import datetime
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # for bench.pipeline

from hopbudget import budgets  # noqa: E402
from hopbudget.budgets.backtests.backtest import Backtest, backtest  # noqa: E402
from hopbudget.budgets.backtests.splits import Named  # noqa: E402
from hopbudget.budgets.drifts.trials import alarm_after, false_alarms  # noqa: E402
from hopbudget.budgets.numbers.paired import Estimate  # noqa: E402
from hopbudget.budgets.numbers.quantiles import clopper_pearson  # noqa: E402
from hopbudget.budgets.profile import Profile, Works  # noqa: E402
from hopbudget.reports.reading import Selection, one_workload  # noqa: E402
from hopbudget.store import queries  # noqa: E402

PAGE: Final = ROOT / "docs" / "backtest.md"
MARKS: Final = ("<!-- goals -->", "<!-- /goals -->")
DEADLINES: Final = [Named(f"p{p}", float(p), None) for p in (80, 90, 95)]
FILES: Final = {
    "A": ("tau2-retail-gpt41", "tau2.run"),
    "G": ("tau2-retail-gemini", "tau2.run"),
    "B": ("coding-turns", None),
    "S": ("coding-streams", None),
}


@dataclass(frozen=True)
class Row:
    """One goal, and what was measured."""

    what: str
    goal: str
    data: str
    value: float
    low: float
    high: float
    n: int
    met: bool
    reaches: bool
    """Its interval reaches the goal."""
    form: str = "{:.3f}"

    def line(self) -> str:
        """A row of the table."""
        value = self.form.format(self.value)
        known = math.isfinite(self.low) and math.isfinite(self.high)
        interval = f"[{self.form.format(self.low)}, {self.form.format(self.high)}]" if known else "-"
        verdict = "met" if self.met else "within the interval" if self.reaches else "**missed**"
        return f"| {self.what} | {self.goal} | {self.data} | {value} | {interval} | {self.n:,} | {verdict} |"


def at_most(what: str, data: str, found: Estimate, goal: float, form: str = "{:.3f}") -> Row:
    """A figure that must not be larger."""
    met, reaches = found.value <= goal, found.low <= goal
    return Row(what, f"<= {goal:g}", data, found.value, found.low, found.high, found.n, met, reaches, form)


def at_least(what: str, data: str, found: Estimate, goal: float, form: str = "{:.3f}") -> Row:
    """A figure that must not be smaller."""
    met, reaches = found.value >= goal, found.high >= goal
    return Row(what, f">= {goal:g}", data, found.value, found.low, found.high, found.n, met, reaches, form)


def between(what: str, data: str, found: Estimate, low: float, high: float) -> Row:
    """A figure that must lie between two."""
    met, reaches = low <= found.value <= high, found.low <= high and found.high >= low
    return Row(what, f"{low:g} to {high:g}", data, found.value, found.low, found.high, found.n, met, reaches)


def load(folder: Path, key: str) -> Profile:
    """The profile of one recorded file."""
    name, run_by = FILES[key]
    with Selection((str(folder / f"{name}.otlp.jsonl.gz"),)).open() as (con, where):
        workload = one_workload(con, where, "Goals are of one workload.")
        return queries.profile(con, where.for_workload(workload), run_by=run_by)


def models_only(profile: Profile) -> Profile:
    """The same hops back to back, as if tools and the person had taken no time (B without them: Bm)."""
    hops, t = profile.hops, profile.trajectories
    took = np.nan_to_num(hops.duration_s)
    before = np.cumsum(took) - took
    first = np.concatenate([[True], hops.trajectory[1:] != hops.trajectory[:-1]])
    base = np.repeat(before[first], np.diff(np.append(np.flatnonzero(first), len(took))))
    total = np.bincount(hops.trajectory, weights=took, minlength=len(profile))
    nothing = Works(**{name: getattr(profile.works, name)[:0] for name in Works.__slots__})
    return Profile(
        replace(t, duration_s=total, work_s=np.zeros(len(total))), replace(hops, started_s=before - base), nothing
    )


def causes_rows(profiles: dict[str, Profile]) -> Iterator[Row]:
    for key, profile in profiles.items():
        causes = budgets.explain(profile)
        known = ~np.isnan(causes.excess_s)
        worst = float(np.abs(causes.seconds.sum(axis=1) - causes.excess_s)[known].max())
        found = Estimate(worst, math.nan, math.nan, int(known.sum()), 0)
        yield replace(at_most("causes: parts less the excess, worst request, s", key, found, 1e-6, "{:.1e}"))


def expectation_rows(b: Backtest) -> Iterator[Row]:
    part = b.parts
    yield at_most("expectation: pinball loss over flat, p90", "S", part["expectation.pinball_over_flat"], 0.30)
    for quarter in range(1, 5):
        found = part[f"expectation.covered.quarter_{quarter}"]
        yield between(f"expectation: covered, length quarter {quarter}", "S", found, 0.87, 0.93)
    for name, words in (("pace2", "pace x2"), ("first5", "TTFT +5 s")):
        slow, flat = part[f"expectation.{name}_slow"], part[f"expectation.{name}_flat"]
        yield at_least(f"injected {words}: recall", "S", slow, 0.75)
        times = Estimate(slow.value / flat.value, slow.low / flat.high, slow.high / flat.low, slow.n, slow.clusters)
        yield at_least(f"injected {words}: recall over flat's", "S", times, 3.0, "{:.2f}")
    yield at_most("answer x3, provider innocent: flagged", "S", part["expectation.answer3_slow"], 0.15)
    yield at_least("TTFT coverage at .9, worst model x prompt cell", "S", part["first_tokens.worst_cell"], 0.80)
    yield at_least("TTFT and TPOT together at .9, worst model", "S", part["stream.worst_model"], 0.88)


def split_rows(found: dict[str, Backtest]) -> Iterator[Row]:
    ratios = []
    for key, b in found.items():
        for cell in b.cells:
            label = f"{key}, D = {cell.named.label}"
            yield at_least("static: independent over the best split", label, cell.independent_of_best, 0.99)
            ratios.append((label, cell.auto_of_best))
    for label, ratio in ratios:
        yield at_least("static: auto over the best in hindsight", label, ratio, 0.95)
    good = sum(ratio.value >= 0.95 for _, ratio in ratios)
    count = Estimate(float(good), math.nan, math.nan, len(ratios), 0)
    yield at_least("static: cells in which auto reaches .95 of the best", ", ".join(found), count, 11.0, "{:.0f}")


def chance_rows(found: dict[str, Backtest]) -> Iterator[Row]:
    for key, b in found.items():
        yield at_most("chance: Brier over base, later hop starts", key, b.parts["chance.brier_over_base"], 0.82)
        yield at_most("chance: with a noisy hint", key, b.parts["chance.brier_hint_over_base"], 0.62)
        yield at_most("chance: calibration error", key, b.parts["chance.ece"], 0.04)
    worst = max((b.parts["chance.brier_over_base"] for b in found.values()), key=lambda one: one.value)
    yield at_most("chance: never above, worst of these", ", ".join(found), worst, 1.03)
    for key, b in found.items():
        yield between("steps that fit at .9: right", key, b.parts["steps.right"], 0.88, 0.98)


def abort_rows(found: dict[str, Backtest]) -> Iterator[Row]:
    yield at_least("giving up: seconds saved", "A", found["A"].parts["abort.saved"], 0.08)
    yield at_most("giving up: given up though in time", "A", found["A"].parts["abort.false"], 0.01)
    for key, b in found.items():
        if key != "A":
            yield at_least("giving up: seconds saved, nowhere below", key, b.parts["abort.saved"], -0.02)


def fail_over_rows(b: Backtest) -> Iterator[Row]:
    part = b.parts
    yield at_most("fail-over Q99: extra calls", "S", part["first_tokens.extra"], 0.015, "{:.4f}")
    yield at_most("fail-over Q99: TTFT p99 over that without", "S", part["first_tokens.p99"], 0.95)
    yield at_most("  with 2% of calls hanging 60 s", "S", part["first_tokens.hang_p99"], 0.45)


def bound_rows(found: dict[str, Backtest]) -> Iterator[Row]:
    for key, b in found.items():
        point = next(bound for bound in b.bounds if bound.bound == "point")
        estimate = Estimate(point.coverage, point.low, point.high, point.n, 0)
        yield between("smallest deadline: coverage, by session", key, estimate, 0.89, 0.91)
    for name, words in (("largest_run", "largest run"), ("t_interval", "t interval")):
        bounds = [bound for b in found.values() for bound in b.bounds if bound.bound == name]
        held, runs = sum(bound.held for bound in bounds), sum(bound.runs for bound in bounds)
        low, high = clopper_pearson(held, runs)
        share = Estimate(held / runs, low, high, runs, 0)
        yield at_least(f"bound across runs ({words}): holds in {held} of {runs}", "A, G", share, 24 / 27)
        prices = [bound.price for bound in bounds for _ in range(bound.runs)]
        price = Estimate(float(np.median(prices)), min(prices), max(prices), runs, 0)
        goal = 1.45
        if name == "largest_run":
            yield at_most("  its median price", "A, G", price, goal, "{:.2f}")
        else:
            yield replace(at_most("  its median price", "A, G", price, goal, "{:.2f}"), goal="told")


def drift_rows(profiles: dict[str, Profile]) -> Iterator[Row]:
    waits = alarm_after(profiles["A"], profiles["G"])
    low, high = np.quantile(waits, [0.025, 0.975])
    found = Estimate(float(np.median(waits)), float(low), float(high), len(waits), 0)
    yield at_most("drift: trajectories of G until a plan from A alarms, median", "A, G", found, 30.0, "{:.0f}")
    alarms, sequences = false_alarms(profiles["A"], halvings=4, trials=75)
    bounds = clopper_pearson(alarms, sequences)
    share = Estimate(alarms / sequences, *bounds, sequences, 0)
    yield at_most("drift: false alarms per 500 exchangeable trajectories", "A", share, 0.01)


def pipeline_rows() -> Iterator[Row]:
    from bench.pipeline import held_out

    found = held_out(1000, range(12))
    yield at_least("fixed pipeline of eight unlike hops: auto over D/8", "made", found.gain, 1.3, "{:.2f}")
    told = at_least("  over equal budgets for every place", "made", found.gain_over_equal, 0.0, "{:.2f}")
    yield replace(told, goal="told")


def rows(folder: Path) -> Iterator[Row]:
    """Every row, as it is measured."""
    profiles = {key: load(folder, key) for key in FILES}
    yield from causes_rows(profiles)
    by_place = {key: profiles[key] for key in ("A", "G", "B")} | {"Bm": models_only(profiles["B"])}
    found = {key: backtest(profile, DEADLINES, slots="before") for key, profile in by_place.items()}
    streams = backtest(profiles["S"], DEADLINES[1:2])
    yield from expectation_rows(streams)
    yield from split_rows(found)
    yield from chance_rows(found)
    found_streams = streams.parts["chance.brier_over_base"]
    yield at_most("chance: never above, few hops a session", "S", found_streams, 1.03)
    yield from abort_rows(found)
    yield from fail_over_rows(streams)
    yield from bound_rows({key: found[key] for key in ("A", "G", "B")} | {"S": streams})
    yield from drift_rows(profiles)
    yield from pipeline_rows()


def table(measured: list[Row]) -> str:
    """The page's part between the marks."""
    met = sum(row.met for row in measured)
    short = sum(not row.met and row.reaches for row in measured)
    head = (
        f"Measured on {datetime.date.today()} by `python tools/goals.py --write`: {met} of {len(measured)} rows met, "
        f"{short} more with the goal inside their interval, {len(measured) - met - short} missed.\n\n"
        "| figure | goal | data | measured | 95% | n | |\n|---|---|---|---|---|---|---|\n"
    )
    return head + "\n".join(row.line() for row in measured)


def main(arguments: Any = None) -> None:
    """Print the table, and write it if asked to."""
    parser = argparse.ArgumentParser(description="Goals beside what was measured.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--write", action="store_true", help="put the table into docs/backtest.md")
    asked = parser.parse_args(arguments)
    measured = []
    for row in rows(asked.folder):
        print(row.line(), flush=True)
        measured.append(row)
    if asked.write:
        before, rest = PAGE.read_text(encoding="utf-8").split(MARKS[0])
        after = rest.split(MARKS[1])[1]
        PAGE.write_text(f"{before}{MARKS[0]}\n{table(measured)}\n{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
