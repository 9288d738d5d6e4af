"""The table of goals in docs/backtest.md, as `tools/goals.py` wrote it."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "backtest.md"


def test_the_page_says_what_was_measured_and_misses_nothing() -> None:
    table = PAGE.read_text(encoding="utf-8").split("<!-- goals -->")[1].split("<!-- /goals -->")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and "---" not in line][1:]
    told = re.search(r"(\d+) of (\d+) rows met", table)
    assert told is not None
    assert int(told[2]) == len(rows)
    assert int(told[1]) == sum(row.endswith("| met |") for row in rows)
    assert "**missed**" not in table
