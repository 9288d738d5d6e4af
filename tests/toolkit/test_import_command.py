"""`hopbudget import`: what it says, and its exit code."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
