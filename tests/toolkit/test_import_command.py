"""`hopbudget import`: what it says, and its exit code."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def test_the_json_counts_what_this_call_added(hopbudget: Run, recorded_runs: Path) -> None:
    added = hopbudget("import", recorded_runs, "--json").json
    assert added["files"] == 1
    assert added["trajectories"] == 60
    assert added["spans"] == added["trajectories"] + added["hops"] + added["works"]
    assert added["duplicates"] == 0
    assert added["rejected"] == []


def test_importing_again_adds_nothing_and_is_no_failure(hopbudget: Run, recorded_runs: Path) -> None:
    first = hopbudget("import", recorded_runs, "--json").json
    again = hopbudget("import", recorded_runs, "--json")
    assert again.code == 0
    assert again.json["duplicates"] == first["spans"]
    assert (again.json["spans"], again.json["trajectories"], again.json["hops"]) == (0, 0, 0)


def test_it_ends_with_what_to_type_next(hopbudget: Run, recorded_runs: Path) -> None:
    said = hopbudget("import", recorded_runs)
    assert said.code == 0
    assert "Next: hopbudget report traces.duckdb" in said.out


def test_a_line_that_is_no_json_is_named_and_the_rest_is_imported(hopbudget: Run, recorded_runs: Path) -> None:
    lines = recorded_runs.read_text().splitlines()
    Path("torn.jsonl").write_text("\n".join([*lines[:3], "{not json", *lines[3:6]]))
    said = hopbudget("import", "torn.jsonl", "--json")
    assert said.code == 0
    assert said.json["trajectories"] == 6
    assert [reject["where"] for reject in said.json["rejected"]] == ["torn.jsonl:4"]


def test_a_truncated_gzip_file_keeps_what_could_be_read(hopbudget: Run, recorded_runs: Path) -> None:
    whole = gzip.compress(recorded_runs.read_bytes())
    Path("cut.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    said = hopbudget("import", "cut.jsonl.gz", "--json")
    assert said.code == 0
    assert 0 < said.json["trajectories"] < 60
    assert "cut.jsonl.gz" in said.json["rejected"][-1]["where"]


def test_nothing_imported_at_all_is_exit_1(hopbudget: Run) -> None:
    Path("empty.jsonl").write_text("no spans here\n")
    said = hopbudget("import", "empty.jsonl")
    assert said.code == 1
    assert "Nothing was imported" in said.out
    assert "empty.jsonl:1" in said.out


def test_a_file_that_is_not_there_is_a_sentence(hopbudget: Run) -> None:
    said = hopbudget("import", "nowhere.jsonl")
    assert said.code in {1, 2}
    assert "nowhere.jsonl" in said.out + said.err
    assert "Traceback" not in said.err


# --- --explain -----------------------------------------------------------------------------------------------------


def test_explain_counts_by_source_and_says_what_is_missing(hopbudget: Run, recorded_runs: Path) -> None:
    added = hopbudget("import", recorded_runs, "--explain", "--json").json
    explained = added["explain"]
    (ours,) = [source for source in explained["sources"] if source["source"] == "hopbudget"]
    assert (ours["hops"], ours["verified"]) == (added["hops"], True)
    assert ours["first_token_times"] == {"hopbudget.ttft": 60}
    assert sum(source["trajectories"] for source in explained["sources"]) == 60
    missing = {one["what"]: (one["n"], one["of"]) for one in explained["missing"]}
    assert missing["first-token times missing"] == (added["hops"] - 60, added["hops"])
    assert explained["files"] == [
        {"file": str(recorded_runs), "spans": added["spans"], "hops": added["hops"], "tools": added["works"],
         "trajectories": 60, "shared_traces": 0}
    ]  # fmt: skip


def test_explain_speaks_of_what_is_stored_already(hopbudget: Run, recorded_runs: Path) -> None:
    first = hopbudget("import", recorded_runs, "--explain", "--json").json
    again = hopbudget("import", recorded_runs, "--explain", "--json").json
    assert again["spans"] == 0
    assert again["explain"] == first["explain"]


def test_explain_is_a_screen_for_a_person(hopbudget: Run, recorded_runs: Path) -> None:
    said = hopbudget("import", recorded_runs, "--explain")
    assert said.code == 0
    assert "60 of" in said.out
    assert "hopbudget.ttft" in said.out
    assert max(map(len, said.out.splitlines())) <= 80


def test_a_file_without_a_model_span_says_so(hopbudget: Run) -> None:
    span = {"trace_id": "1" * 32, "span_id": "2" * 16, "name": "invoke_agent a", "start_time": 1_700_000_000_000,
            "end_time": 1_700_000_001_000, "attributes": {"gen_ai.operation.name": "invoke_agent"}}  # fmt: skip
    Path("agents.json").write_text(json.dumps([span]))
    plain = hopbudget("import", "agents.json", "--store", "a.duckdb")
    assert "No model span" in plain.out
    said = hopbudget("import", "agents.json", "--explain", "--store", "b.duckdb")
    assert "no model span" in said.out
    found = hopbudget("import", "agents.json", "--explain", "--json", "--store", "c.duckdb").json["explain"]
    assert found["missing"][0]["what"] == "no model span"


AGENT = {"gen_ai.operation.name": "invoke_agent"}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}


def plain_span(trace: int, span: int, attributes: dict[str, Any], parent: int | None = None) -> dict[str, Any]:
    return {
        "trace_id": f"{trace:032x}",
        "span_id": f"{span:016x}",
        "parent_span_id": f"{parent:016x}" if parent else None,
        "name": str(attributes["gen_ai.operation.name"]),
        "start_time": 1_700_000_000_000 + span,
        "end_time": 1_700_000_009_000 - span,
        "attributes": attributes,
    }


@pytest.fixture
def in_two_files() -> tuple[str, str]:
    """A trace whole in the first file, and one of which the first has the call and the second the agent."""
    whole = [plain_span(1, 1, AGENT), plain_span(1, 2, CHAT, parent=1)]
    Path("first.json").write_text(json.dumps([*whole, plain_span(2, 2, CHAT, parent=1)]))
    Path("second.json").write_text(json.dumps([plain_span(2, 1, AGENT)]))
    return "first.json", "second.json"


def test_a_trace_that_files_share_is_counted_once_and_in_neither(hopbudget: Run, in_two_files: tuple[str, str]) -> None:
    explained = hopbudget("import", *in_two_files, "--explain", "--json").json["explain"]
    assert [(file["spans"], file["hops"], file["shared_traces"]) for file in explained["files"]] == [
        (2, 1, 1),
        (0, 0, 1),
    ]
    assert explained["in_several_files"] == {"spans": 2, "hops": 1, "tools": 0, "trajectories": 1}
    assert explained["hops"] == 2


def test_the_rows_of_files_add_up_to_those_of_sources(hopbudget: Run, in_two_files: tuple[str, str]) -> None:
    said = hopbudget("import", *in_two_files, "--explain").out
    rows = {line[:16].strip(): line[16:].split() for line in said[said.index("By file") :].splitlines()}
    assert rows["first.json"] == ["2", "1", "0", "1", "and", "1", "trace", "shared"]
    assert rows["second.json"] == ["0", "0", "0", "0", "and", "1", "trace", "shared"]
    assert rows["in several files"] == ["2", "1", "0", "1"]


def test_one_is_singular(hopbudget: Run) -> None:
    call = CHAT | {"gen_ai.response.time_to_first_chunk": 0.5}
    Path("one.json").write_text(json.dumps([plain_span(1, 1, AGENT), plain_span(1, 2, call, parent=1)]))
    said = hopbudget("import", "one.json", "--explain").out
    assert "1 of 1 hop of GenAI conventions: gen_ai.response.time_to_first_chunk" in said
    assert "1 of them is to the first chunk" in said


def test_one_call_a_run_is_no_lack_of_names(hopbudget: Run) -> None:
    """Two calls of one name share a budget; a lone one has nothing to share it with."""
    lone = [plain_span(1, 1, AGENT), plain_span(1, 2, CHAT, parent=1)]
    for file, spans in (("lone.json", lone), ("two.json", [*lone, plain_span(1, 3, CHAT, parent=1)])):
        Path(file).write_text(json.dumps(spans))
        found = hopbudget("import", file, "--explain", "--json", "--store", f"{file}.duckdb").json["explain"]
        assert ("one name for all hops" in {one["what"] for one in found["missing"]}) == (file == "two.json")


@pytest.mark.parametrize(
    ("beside", "costs"),
    [
        ([], "work is one sum: slow tools have no name"),
        (
            [plain_span(1, 3, {"gen_ai.operation.name": "lookup"}, parent=1)],
            "work goes by the names of other spans, tools not told from the rest",
        ),
    ],
)
def test_what_it_costs_that_no_tool_is_told(hopbudget: Run, beside: list[dict[str, Any]], costs: str) -> None:
    spans = [plain_span(1, 1, AGENT), plain_span(1, 2, CHAT, parent=1), *beside]
    Path("agent.json").write_text(json.dumps(spans))
    missing = hopbudget("import", "agent.json", "--explain", "--json").json["explain"]["missing"]
    assert {one["what"]: one["costs"] for one in missing}["no tool spans"] == costs


def test_columns_of_a_table_may_be_named(hopbudget: Run) -> None:
    import duckdb

    rows = "SELECT 'r' AS request, 'plan' AS step, make_timestamp(1700000000000000) AS ts, 250 AS took"
    duckdb.connect().execute(f"COPY ({rows}) TO 'hops.parquet' (FORMAT parquet)")
    pairs = ("trace=request", "hop=step", "start=ts", "duration=took:ms")
    said = hopbudget("import", "hops.parquet", *(part for pair in pairs for part in ("--map", pair)), "--json")
    assert (said.code, said.json["hops"]) == (0, 1)
    missing = hopbudget("import", "hops.parquet")
    assert missing.code == 2
    assert "--map trace=COLUMN" in missing.err


def test_report_warns_of_a_sample(hopbudget: Run) -> None:
    attributes = {"gen_ai.operation.name": "invoke_agent", "sampling.probability": 0.1}
    spans = [{"trace_id": f"{number:032x}", "span_id": "2" * 16, "name": "invoke_agent a", "attributes": attributes,
              "start_time": 1_700_000_000_000, "end_time": 1_700_000_001_000} for number in range(1, 4)]  # fmt: skip
    Path("sample.json").write_text(json.dumps(spans))
    hopbudget("import", "sample.json")
    said = hopbudget("report")
    assert "of a sample" in said.out
    assert "about 30" in said.out
    assert hopbudget("report", "--json").json["sampling"]["stands_for"] == 30
