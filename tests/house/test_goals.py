"""The table of goals in docs/backtest.md, as `tools/goals.py` wrote it."""

import re
import runpy
from pathlib import Path
from types import SimpleNamespace

from hopbudget.budgets.backtests.bounds import NAMES, Bound

PAGE = Path(__file__).resolve().parents[2] / "docs" / "backtest.md"


def test_the_page_says_what_was_measured_and_misses_nothing() -> None:
    table = PAGE.read_text(encoding="utf-8").split("<!-- goals -->")[1].split("<!-- /goals -->")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and "---" not in line][1:]
    told = re.search(r"(\d+) of (\d+) rows met", table)
    assert told is not None
    assert int(told[2]) == len(rows)
    assert int(told[1]) == sum(row.endswith("| met |") for row in rows)
    assert "**missed**" not in table


def test_bounds_across_runs_are_told_with_what_held_of_them() -> None:
    goals = runpy.run_path(str(PAGE.parents[1] / "tools" / "goals.py"))
    bounds = [Bound(name, 0.9, 0.8, 0.95, 1.2, 100, 9, 10, 0) for name in NAMES]
    rows = list(goals["bound_rows"]({"A": SimpleNamespace(bounds=bounds)}))
    assert [row.met for row in rows] == [True, True, True, True, True]
    assert rows[1].what == "bound across runs (largest run): holds in 9 of 10"
