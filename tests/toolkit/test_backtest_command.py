"""`hopbudget backtest`: what it prints, and what it says to mistakes."""

from pathlib import Path
from typing import Any

import pytest

KEYS = {"rows", "chance", "steps", "abort", "expectation", "stream", "feasible", "details"}


@pytest.fixture(scope="module")
def answer(filled: Path) -> Any:
    """The object of `--json` on the small recording, once."""
    import contextlib
    import io
    import json

    from hopbudget import cli

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = cli.run(["backtest", str(filled), "--run-by", "session", "--deadline", "p80,4s", "--json"])
    assert code == 0
    return json.loads(out.getvalue())


def test_the_answer_has_the_documented_keys(answer: Any) -> None:
    assert set(answer) == KEYS
    row_keys = {"workload", "deadline", "deadline_s", "method", "success", "low", "high"}
    assert all(set(row) == row_keys for row in answer["rows"])
    assert set(answer["chance"]) == {"brier", "base", "brier_hint", "ece"}
    assert set(answer["steps"]) == {"right"}
    assert set(answer["abort"]) == {"saved", "false"}
    assert set(answer["expectation"]) == {"pinball_over_flat"}
    assert set(answer["stream"]) == {"joint"}
    assert all(set(one) == {"bound", "coverage", "price"} for one in answer["feasible"])


def test_every_method_has_a_row_for_every_deadline(answer: Any) -> None:
    methods = {"deadline_only", "auto", "equal", "equal_tuned", "mean", "resplit", "hindsight", "independent"}
    for label in ("p80", "4s"):
        found = {row["method"]: row for row in answer["rows"] if row["deadline"] == label}
        assert methods <= set(found)
        assert all(row["low"] <= row["success"] <= row["high"] for row in found.values())
    assert {row["deadline_s"] for row in answer["rows"] if row["deadline"] == "4s"} == {4.0}


def test_details_say_how_it_was_measured(answer: Any) -> None:
    details = answer["details"]
    assert (details["held_out"], details["clusters"], details["trajectories"]) == ("run", 6, 60)
    assert details["sentence"].startswith("Of 60 held-out trajectories in 6 runs")
    assert all({"value", "low", "high", "n", "clusters"} == set(one) for one in details["figures"].values())


def test_the_screen_fits_and_ends_in_a_sentence(hopbudget: Any, filled: Path) -> None:
    said = hopbudget("backtest", filled, "--deadline", "p90")
    assert said.code == 0
    assert all(len(line) <= 80 for line in said.out.splitlines())
    for words in ("deadline alone", "re-split by mean", "Reliability", "success by deadline", "held-out trajectories"):
        assert words in said.out
    assert "…" not in said.out


def test_files_are_read_without_a_store(hopbudget: Any, recorded_runs: Path) -> None:
    answer = hopbudget("backtest", recorded_runs, "--deadline", "p90", "--json").json
    assert answer["details"]["trajectories"] == 60


@pytest.mark.parametrize("deadline", ["", "p0", "soon", "p90,,-1s"])
def test_a_deadline_that_is_none_is_usage(hopbudget: Any, filled: Path, deadline: str) -> None:
    assert hopbudget("backtest", filled, f"--deadline={deadline}").code == 2


def test_too_little_can_not_say(hopbudget: Any, recorded_runs: Path) -> None:
    Path("few.jsonl").write_text("".join(recorded_runs.read_text().splitlines(keepends=True)[:9]))
    said = hopbudget("backtest", "few.jsonl")
    assert said.code == 3
    assert "too little to hold anything out" in said.err
