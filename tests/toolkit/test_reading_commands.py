"""`report`, `allocate` and `explain`: their numbers, their exit codes, and what they say to mistakes."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hopbudget.store.duck import Store

Run = Callable[..., Any]


def test_report_reads_a_store_and_files_alike(hopbudget: Run, filled: Path, recorded_runs: Path) -> None:
    from_store = hopbudget("report", filled, "--json").json
    from_files = hopbudget("report", recorded_runs, "--json").json
    assert from_store == from_files
    assert from_store["trajectories"] == 60


def test_report_draws_hops_first_tokens_and_the_split_of_time_within_80_columns(hopbudget: Run, filled: Path) -> None:
    said = hopbudget("report", filled)
    for words in ("Where the time went", "Hops: duration", "TTFT p50", "plan", "search", "answer"):
        assert words in said.out
    assert max(map(len, said.out.splitlines())) <= 80


def test_report_of_several_workloads_says_of_which(hopbudget: Run, recorded_runs: Path) -> None:
    lines = recorded_runs.read_text().splitlines(keepends=True)
    other = [line.replace('"stringValue": "research"', '"stringValue": "two-answers"') for line in lines[:7]]
    Path("runs.jsonl").write_text("".join([*other, *lines[7:]]))
    said = hopbudget("report", "runs.jsonl")
    assert "of 2 workloads together (--workload NAME for one): research 53, two-answers 7" in " ".join(said.out.split())
    assert "of 2 workloads together" in hopbudget("report", "runs.jsonl", "--by", "run").out
    assert hopbudget("report", "runs.jsonl", "--json").json["workloads"] == {"research": 53, "two-answers": 7}
    chosen = hopbudget("report", "runs.jsonl", "--workload", "two-answers")
    assert "together" not in chosen.out


def test_report_names_the_work_that_the_time_went_to(hopbudget: Run, recorded_runs: Path) -> None:
    Path("runs.jsonl").write_text(recorded_runs.read_text().replace('"fetch"', '"rank"', 5))
    store = Store(None)
    store.import_paths(["runs.jsonl"])
    with store.reading() as con:
        asked = "SELECT work, count(*), median(duration_s), sum(duration_s) FROM works GROUP BY 1 ORDER BY 4 DESC"
        expected = con.execute(asked).fetchall()
    found = hopbudget("report", "runs.jsonl", "--json").json["works"]
    assert [row["work"] for row in found] == ["fetch", "rank"]
    for row, (work, n, p50, in_all_s) in zip(found, expected, strict=True):
        assert (row["work"], row["n"], row["outcomes"]) == (work, n, {"ok": n})
        assert (row["duration_s"]["p50"], row["seconds"]) == (pytest.approx(p50), pytest.approx(in_all_s))
    said = hopbudget("report", "runs.jsonl").out
    assert "Work: duration, of that which came out well" in said
    assert max(map(len, said.splitlines())) <= 80


def test_report_by_an_attribute_gives_one_row_a_value(hopbudget: Run, filled: Path) -> None:
    groups = hopbudget("report", filled, "--by", "run", "--json").json["by"]
    assert {key: group["trajectories"] for key, group in groups.items()} == {"v0": 20, "v1": 20, "v2": 20}


def test_report_where_an_attribute_has_a_value(hopbudget: Run, filled: Path) -> None:
    assert hopbudget("report", filled, "--where", "run=v1", "--json").json["trajectories"] == 20


def test_the_plan_file_is_what_json_prints(hopbudget: Run, filled: Path) -> None:
    said = hopbudget("allocate", filled, "--deadline", "p90", "--out", "plan.toml", "--json")
    written = tomllib.loads(Path("plan.toml").read_text())
    assert without_nulls(said.json) == written


def test_a_plan_adds_up_to_its_deadline(hopbudget: Run, filled: Path) -> None:
    plan = hopbudget("allocate", filled, "--deadline", "12s", "--json").json
    stream_s = plan["stream"]["budget_s"] if plan["stream"] else 0.0
    total_s = sum(slot["budget_s"] for slot in plan["slots"]) + plan["work_s"] + stream_s
    assert total_s == pytest.approx(plan["deadline_s"], abs=1e-5)
    assert total_s <= plan["deadline_s"] + 1e-9


def test_the_recorded_p90_is_met_by_nine_in_ten(hopbudget: Run, filled: Path) -> None:
    said = hopbudget("allocate", filled, "--deadline", "p90", "--json")
    assert said.code == 0
    assert said.json["feasibility"]["verdict"] == "feasible"
    assert said.json["feasibility"]["p_deadline"] == pytest.approx(0.9, abs=0.02)


def test_a_deadline_nobody_met_is_infeasible_and_exit_1(hopbudget: Run, filled: Path) -> None:
    said = hopbudget("allocate", filled, "--deadline", "50ms")
    assert said.code == 1
    assert "infeasible" in said.out
    assert "smallest deadline" in said.out


def test_too_few_trajectories_are_exit_3_with_what_is_needed(hopbudget: Run, recorded_runs: Path) -> None:
    Path("few.jsonl").write_text("\n".join(recorded_runs.read_text().splitlines()[:8]))
    said = hopbudget("allocate", "few.jsonl", "--deadline", "p90", "--json")
    assert said.code == 3
    assert said.json["feasibility"]["verdict"] == "undecided"
    assert said.json["feasibility"]["needs"]


@pytest.mark.parametrize("deadline", ["soon", "-3s", "0s", "p0", "p100"])
def test_a_deadline_that_is_none_is_a_usage_error(hopbudget: Run, filled: Path, deadline: str) -> None:
    said = hopbudget("allocate", filled, f"--deadline={deadline}")
    assert said.code == 2
    assert deadline in said.err


def test_explain_names_causes_whose_seconds_add_up(hopbudget: Run, filled: Path) -> None:
    rows = hopbudget("explain", filled, "--slowest", "5", "--json").json["trajectories"]
    assert len(rows) == 5
    for row in rows:
        assert sum(part["seconds"] for part in row["parts"]) == pytest.approx(row["excess_s"], abs=1e-6)
        assert row["duration_s"] - row["reference_s"] == pytest.approx(row["excess_s"], abs=1e-9)


def test_explain_over_a_limit_shows_those_that_took_longer(hopbudget: Run, filled: Path) -> None:
    everyone = hopbudget("explain", filled, "--slowest", "60", "--json").json["trajectories"]
    limit = (everyone[6]["duration_s"] + everyone[7]["duration_s"]) / 2
    over = hopbudget("explain", filled, "--over", f"{limit}s", "--json").json["trajectories"]
    assert [row["trace_id"] for row in over] == [row["trace_id"] for row in everyone[:7]]


def test_explain_draws_one_trajectory_by_the_beginning_of_its_id(hopbudget: Run, filled: Path) -> None:
    said = hopbudget("explain", filled, f"{42:032x}")
    assert said.code == 0
    for words in ("plan", "search", "fetch", "answer", "first token", "the typical"):
        assert words in said.out


@pytest.mark.parametrize("command", [["report"], ["allocate", "--deadline", "p90"], ["explain"]])
def test_a_store_that_is_not_there_is_a_sentence(hopbudget: Run, command: list[str]) -> None:
    said = hopbudget(*command, "nowhere.duckdb")
    assert said.code == 2
    assert "nowhere.duckdb" in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("command", [["report"], ["allocate", "--deadline", "p90"], ["explain"]])
def test_a_mistyped_workload_names_the_nearest(hopbudget: Run, filled: Path, command: list[str]) -> None:
    said = hopbudget(*command, filled, "--workload", "reserch")
    assert said.code == 2
    assert "reserch" in said.err
    assert "research" in said.err


def test_where_without_an_equals_sign_is_a_usage_error(hopbudget: Run, filled: Path) -> None:
    said = hopbudget("report", filled, "--where", "run")
    assert said.code == 2
    assert "KEY=VALUE" in said.err


def test_a_plan_is_for_one_workload(hopbudget: Run, recorded_runs: Path) -> None:
    other = recorded_runs.read_text().replace("research", "support").replace('"traceId": "0', '"traceId": "f')
    Path("both.jsonl").write_text(recorded_runs.read_text() + other)
    said = hopbudget("allocate", "both.jsonl", "--deadline", "p90")
    assert said.code == 2
    assert "research (60)" in said.err
    assert "support (60)" in said.err


def test_json_never_holds_nan_or_infinity(hopbudget: Run, filled: Path) -> None:
    for command in (["report"], ["allocate", "--deadline", "p90"], ["explain"]):
        json.loads(hopbudget(*command, filled, "--json").out, parse_constant=pytest.fail)


def test_names_with_brackets_and_control_characters_are_printed_as_names(hopbudget: Run, recorded_runs: Path) -> None:
    named = recorded_runs.read_text().replace('"stringValue": "plan"', '"stringValue": "plan [/b] [v1]\\u001b"')
    Path("named.jsonl").write_text(named)
    for command in (["report"], ["allocate", "--deadline", "p90"], ["explain", f"{42:032x}"]):
        said = hopbudget(command[0], "named.jsonl", *command[1:])
        assert said.code == 0, said.err
        assert "plan [/b]" in said.out
        assert "\x1b" not in said.out


def test_a_trajectory_without_a_root_does_not_stand_in_the_way_of_the_others(
    hopbudget: Run, recorded_runs: Path
) -> None:
    lines = recorded_runs.read_text().splitlines()
    lost = json.loads(lines[-1])
    del lost["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    Path("lost.jsonl").write_text("\n".join([*lines[:-1], json.dumps(lost)]))
    numbers = hopbudget("report", "lost.jsonl", "--json").json
    assert (numbers["incomplete"], sum(numbers["trajectory_outcomes"].values())) == (1, 59)
    assert hopbudget("allocate", "lost.jsonl", "--deadline", "p90").code == 0
    assert hopbudget("explain", "lost.jsonl", "--slowest", "3").code == 0


def test_a_deadline_on_the_answer_needs_an_answer_that_was_observed(hopbudget: Run, recorded_runs: Path) -> None:
    unseen = recorded_runs.read_text().replace("hopbudget.ttf", "other.ttf").replace("gen_ai.request.stream", "other")
    Path("unseen.jsonl").write_text(unseen.replace('"status": {}', '"status": {"code": 2}', 3))
    said = hopbudget("allocate", "unseen.jsonl", "--deadline", "60s", "--binds", "answer")
    assert said.code == 3
    assert "observed start of its final answer" in said.err


def test_one_trajectory_has_nothing_to_be_compared_with(hopbudget: Run, recorded_runs: Path) -> None:
    Path("one.jsonl").write_text(recorded_runs.read_text().splitlines()[0])
    assert hopbudget("explain", "one.jsonl").code == 3
    drawn = hopbudget("explain", "one.jsonl", f"{1:032x}")
    assert drawn.code == 0
    assert "no other to compare it with" in drawn.out


def test_a_trace_id_that_is_none_is_a_sentence_about_it(hopbudget: Run, filled: Path) -> None:
    said = hopbudget("explain", filled, "zzzz")
    assert said.code == 2
    assert "no trajectory 'zzzz'" in said.err


def test_a_percentile_written_as_a_share_is_refused(hopbudget: Run, filled: Path) -> None:
    said = hopbudget("allocate", filled, "--deadline", "5s", "--percentile", "0.9")
    assert said.code == 2
    assert "write 90" in said.err


def test_the_store_may_be_named_by_option_too(hopbudget: Run, filled: Path) -> None:
    assert hopbudget("report", "--store", filled, "--json").json["trajectories"] == 60


def without_nulls(value: Any) -> Any:
    """TOML has no null: what is unknown is left out there."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def waiting(number: int, outcome: str, waited_s: float) -> str:
    """A trajectory whose one stream ended so after so long, without a token."""
    at = 1_700_000_000_000_000_000 + number * 100_000_000_000
    times = {"startTimeUnixNano": str(at), "endTimeUnixNano": str(at + round(waited_s * 1e9))}
    root = {"traceId": f"{number:032x}", "spanId": f"{1:016x}", "name": "bot", **times}
    told = {"gen_ai.operation.name": {"stringValue": "chat"}, "gen_ai.request.stream": {"boolValue": True}}
    told["hopbudget.outcome"] = {"stringValue": outcome}
    chat = {**root, "spanId": f"{2:016x}", "parentSpanId": f"{1:016x}", "name": "chat m"}
    chat["attributes"] = [{"key": key, "value": value} for key, value in told.items()]  # type: ignore[assignment]
    scope = {"scope": {"name": "hopbudget.tracing"}, "spans": [root, chat]}
    return json.dumps({"resourceSpans": [{"scopeSpans": [scope]}]})


def test_streams_that_never_said_a_word_are_counted_with_what_is_known(hopbudget: Run) -> None:
    lines = [waiting(1, "timed_out", 30.0), waiting(2, "timed_out", 45.0), waiting(3, "cancelled", 60.0)]
    Path("runs.jsonl").write_text("\n".join([*lines, waiting(4, "failed", 90.0)]))
    numbers = hopbudget("report", "runs.jsonl", "--json").json
    assert numbers["still_waiting"] == {
        "n": 3, "outcomes": {"timed_out": 2, "cancelled": 1}, "least_s": 30.0, "most_s": 60.0,
    }  # fmt: skip
    said = " ".join(hopbudget("report", "runs.jsonl").out.split())
    assert "3 streams were cut off while still waiting for a first token, after 30.0 s to 60.0 s" in said
    assert "TTFT was at least that" in said


def test_every_p90_says_which_it_is(hopbudget: Run, filled: Path) -> None:
    def said(*words: str) -> str:
        return " ".join(hopbudget(*words).out.split())

    assert "Trajectory time, of those that came out well" in said("report", str(filled))
    assert "over ok and truncated" in said("report", str(filled), "--by", "run")
    assert "p90 attained" in said("report", str(filled), "--breaches")
    assert "p50, p90: attained" in said("allocate", str(filled), "--deadline", "p90")
    what_if = said("allocate", str(filled), "--deadline", "p90", "--what-if", "plan:scale=0.5")
    assert "p90: the smallest deadline that 90% meet" in what_if
