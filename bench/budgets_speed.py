"""How long splits, a loaded plan and a backtest take; beside each what sorting the same seconds takes here."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from bench.pipeline import HOPS, make
from hopbudget.budgets import Profile, allocate, deadline_at
from hopbudget.budgets.allocate import LEAST_CAP_S
from hopbudget.budgets.population import population
from hopbudget.budgets.run_time.knowledge import learn
from hopbudget.budgets.splits.auto import Aim
from hopbudget.budgets.splits.slots import Times, slot_times
from hopbudget.budgets.streams.stream import final_hops
from hopbudget.plans import files
from hopbudget.tracing.plan import Plan

_ROOT: Final = Path(__file__).resolve().parent.parent
_RECORDED: Final = _ROOT.parent / "shared" / "data" / "tau2-retail-gpt41.otlp.jsonl.gz"
_LOAD: Final = (
    "import sys, time; from hopbudget.tracing.plan import Plan; Plan.read(sys.argv[1]); t = time.perf_counter();"
    "Plan.read(sys.argv[1]); print(time.perf_counter() - t, 'numpy' in sys.modules)"
)


def run() -> str:
    """Measure, and return a Markdown section."""
    lines = [
        "## Budgets",
        "",
        f"A made pipeline of {HOPS} hops with tools between them and a final stream (`bench/pipeline.py`). A split is "
        "worked out from seconds by slot; `allocate` also reads them from the profile and tells intervals, classes and "
        "the stream. The baseline is `numpy.sort` of the seconds, column by column.",
        "",
        "| | took | at most | over sorting |",
        "|---|---|---|---|",
    ]
    for n, rounds in ((2_000, 9), (100_000, 3)):
        profile = make(n, 1)
        deadline_s = deadline_at(profile, 90)
        times = slot_times(profile, population(profile, "last"), "name", final_hops(profile))
        sorting = _took(lambda times=times: np.sort(times.seconds, axis=0), rounds)
        lines += [_row(*row, sorting) for row in _splits(profile, times, deadline_s, n, rounds)]
    return "\n".join([*lines, "", *_plan(make(2_000, 1)), "", *_backtest(), ""])


def _splits(
    profile: Profile, times: Times, deadline_s: float, n: int, rounds: int
) -> list[tuple[str, float, float | None]]:
    aim = Aim(deadline_s, 0.9, LEAST_CAP_S)
    small = n == 2_000
    rows: list[tuple[str, float, float | None]] = [
        (
            f"`{rule}`, {n:,} trajectories",
            _took(lambda rule=rule: aim.split(times, [(rule, None)]), rounds),
            0.05 if small else None,
        )
        for rule in ("independent", "equal_risk")
    ]
    took = _took(lambda: allocate(profile, deadline_s), rounds)
    return [*rows, (f"`allocate` with `auto`, {n:,} trajectories", took, 1.0 if small else 10.0)]


def _took(call: Callable[[], Any], rounds: int) -> float:
    call()
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return median(seconds)


def _row(what: str, took: float, most: float | None, sorting: float) -> str:
    limit = "-" if most is None else f"{most * 1e3:,.0f} ms"
    return f"| {what} | {took * 1e3:,.1f} ms | {limit} | {took / sorting:,.0f} |"


def _plan(profile: Profile) -> list[str]:
    """Loading a plan in a process of its own, without numpy; and the chance from it."""
    deadline_s = deadline_at(profile, 90)
    with tempfile.TemporaryDirectory(prefix="hopbudget-bench-") as folder:
        path = Path(folder) / "plan.toml"
        files.write(path, files.plan_dict(allocate(profile, deadline_s), "pipeline", learn(profile, deadline_s)))
        told = [
            subprocess.run([sys.executable, "-c", _LOAD, str(path)], capture_output=True, text=True, check=True).stdout
            for _ in range(7)
        ]
        plan = Plan.read(path)
        size = path.stat().st_size
    load_s = median(float(line.split()[0]) for line in told)
    numpy = "no" if all(line.split()[1] == "False" for line in told) else "yes"
    states = [(visit, share * deadline_s) for visit in range(1, HOPS + 1) for share in (0.1, 0.3, 0.5, 0.7, 0.9)]
    each = _took(lambda: [plan.chance(visit, elapsed) for visit, elapsed in states * 50], 9) / (50 * len(states))
    hinted = _took(lambda: [plan.chance(visit, elapsed, 4.0) for visit, elapsed in states * 50], 9) / (50 * len(states))
    return [
        f"A plan of {size / 1e3:.0f} KB is loaded in {load_s * 1e3:.1f} ms (at most 10; numpy loaded: {numpy}). "
        f"A chance from it takes {each * 1e6:.2f} µs, with a hint {hinted * 1e6:.2f} µs (at most 5)."
    ]


def _backtest() -> list[str]:
    if not _RECORDED.is_file():
        return [f"Backtest not measured: {_RECORDED.name} is not here."]
    command = [sys.executable, "-m", "hopbudget", "backtest", str(_RECORDED), "--run-by", "tau2.run", "--json"]
    start = time.perf_counter()
    subprocess.run(command, capture_output=True, check=True)
    took = time.perf_counter() - start
    return [f"`hopbudget backtest` of {_RECORDED.name}, reading it included: {took:.1f} s (at most 60)."]
