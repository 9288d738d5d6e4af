"""`hopbudget backtest`: what it prints, and what it says to mistakes."""

import json
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


def recording(path: str, failed: list[bool]) -> Path:
    """Requests a minute apart of one to three seconds, each with one call; those fail that are said to."""

    def words(**values: str) -> list[dict[str, Any]]:
        return [{"key": key.replace("__", "."), "value": {"stringValue": value}} for key, value in values.items()]

    spans = []
    for index, bad in enumerate(failed):
        start, took = 1_764_000_000_000_000_000 + index * 60_000_000_000, 1_000_000_000 + (index * 7919 % 2000) * 10**6
        span = {"traceId": f"{index + 1:032x}", "startTimeUnixNano": str(start)}
        root = {"spanId": f"{2 * index + 1:016x}", "name": "z", "endTimeUnixNano": str(start + took)}
        status = {"status": {"code": 2}} if bad else {}
        agent = words(gen_ai__operation__name="invoke_agent", gen_ai__agent__name="z")
        call = words(gen_ai__operation__name="chat", gen_ai__request__model="m")
        hop = {"spanId": f"{2 * index + 2:016x}", "parentSpanId": root["spanId"], "name": "chat m"}
        spans.append({**span, **root, **status, "attributes": agent})
        spans.append({**span, **hop, "endTimeUnixNano": str(start + took * 8 // 10), "attributes": call})
    Path(path).write_text(json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": spans}]}]}))
    return Path(path)


@pytest.mark.parametrize("deadlines", ["p90", "p95,p90"])
def test_a_percentile_that_is_no_number_can_not_be_said(hopbudget: Any, deadlines: str) -> None:
    said = hopbudget("backtest", recording("f.json", [k % 4 == 0 for k in range(60)]), "--deadline", deadlines)
    assert said.code == 3
    assert "p90 of the recorded trajectories is no number: too many of them failed." in said.err


def test_one_deadline_that_is_a_number_is_measured_beside_one_that_is_not(hopbudget: Any) -> None:
    said = hopbudget("backtest", recording("f.json", [k % 4 == 0 for k in range(60)]), "--deadline", "p90,2.5s")
    assert said.code == 0
    assert "p90: no number, because too many trajectories failed" in " ".join(said.out.split())
    assert "nan" not in said.out


def test_folds_left_out_are_said_on_the_screen_and_in_the_details(hopbudget: Any) -> None:
    path = recording("f.json", [k % 10 == 9 for k in range(300)])
    answer = hopbudget("backtest", path, "--deadline", "p90", "--json").json
    (row,) = answer["details"]["no_deadline"]
    assert 0 < row["folds"] < 10
    assert row["trajectories"] == 30 * row["folds"]
    said = hopbudget("backtest", path, "--deadline", "p90")
    assert f"p90: {row['folds']} of 10 folds left out" in said.out
    assert "nan" not in said.out
    assert all(len(line) <= 80 for line in said.out.splitlines())


def test_too_little_can_not_say(hopbudget: Any, recorded_runs: Path) -> None:
    Path("few.jsonl").write_text("".join(recorded_runs.read_text().splitlines(keepends=True)[:9]))
    said = hopbudget("backtest", "few.jsonl")
    assert said.code == 3
    assert "too little to hold anything out" in said.err
