"""`check --propose`: a configuration from what is recorded, that nobody's file is lost to."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.config.reading import read
from hopbudget.config.tables import Mistakes
from hopbudget.errors import Exit
from hopbudget.objectives import presets
from hopbudget.objectives.proposing import rounded_up

Run = Callable[..., Any]


def test_what_is_proposed_is_right_and_met_by_what_it_comes_from(hopbudget: Run, filled: Path) -> None:
    said = hopbudget("check", filled, "--propose", "--out", "hopbudget.toml")
    assert said.code == Exit.DONE
    rows = hopbudget("check", filled, "--json").json["objectives"]
    assert {row["metric"] for row in rows} >= {"trajectory_duration", "ttft", "tpot", "hop_duration", "error_share"}
    assert {row["state"] for row in rows if row["sample"] >= row["min_sample"]} == {"met"}


def test_it_says_that_it_was_observed_of_how_many_and_that_it_is_no_advice(hopbudget: Run, filled: Path) -> None:
    text = hopbudget("check", filled, "--propose").out
    assert "not how it should be" in text
    assert "# observed p95 " in text
    assert "n 60, 0 failed" in text
    assert "# small = { input = , cached = , output = }" in text


def test_as_json_it_is_one_object_of_the_values_and_the_commented_text(hopbudget: Run, filled: Path) -> None:
    text = hopbudget("check", filled, "--propose").out
    told = hopbudget("check", filled, "--propose", "--json").json
    assert told == {"written": None, "config": tomllib.loads(text), "toml": text}
    written = hopbudget("check", filled, "--propose", "--json", "--out", "hopbudget.toml").json
    assert written == told | {"written": "hopbudget.toml"}
    assert Path("hopbudget.toml").read_text() == text


def test_a_schema_that_is_written_is_one_json_object_too(hopbudget: Run) -> None:
    said = hopbudget("check", "--schema", "--json", "--out", "schema.json")
    assert said.json == json.loads(Path("schema.json").read_text())


def test_what_too_few_were_seen_of_is_commented_out(hopbudget: Run, recorded_runs: Path) -> None:
    Path("one.jsonl").write_text(recorded_runs.read_text().splitlines()[0])
    text = hopbudget("check", "one.jsonl", "--propose").out
    assert "objectives" not in tomllib.loads(text)["workloads"]["research"]
    assert "to say" in text
    assert "observed 0 of 1; the upper end of the 95% interval; so few say little, 29 are enough" in text


def test_names_that_need_quotes_get_them(hopbudget: Run, recorded_runs: Path) -> None:
    odd = 'a "b".c\\u00e9'
    text = recorded_runs.read_text().replace(
        '"stringValue": "research"', f'"stringValue": "{odd.replace(chr(34), chr(92) + chr(34))}"'
    )
    Path("odd.jsonl").write_text(text)
    hopbudget("check", "odd.jsonl", "--propose", "--out", "hopbudget.toml")
    assert list(tomllib.loads(Path("hopbudget.toml").read_text())["workloads"]) == ['a "b".cé']
    assert hopbudget("check", "odd.jsonl", "--json").json["objectives"]


def test_a_file_that_is_there_is_left_as_it_is_unless_forced(hopbudget: Run, filled: Path) -> None:
    mine = Path("hopbudget.toml")
    mine.write_text("# mine\n")
    said = hopbudget("check", filled, "--propose", "--out", mine)
    assert said.code == Exit.USAGE
    assert "left as it is" in said.err
    assert mine.read_text() == "# mine\n"
    assert hopbudget("check", filled, "--propose", "--out", mine, "--force").code == Exit.DONE
    assert "# mine" not in mine.read_text()


def test_every_preset_is_right_once_uncommented_and_says_where_it_is_from() -> None:
    blocks = [block for block in presets.PRESETS.split("\n\n") if "[workloads." in block]
    assert [block.partition(":")[0] for block in blocks] == ["# chat", "# voice", "# agent", "# batch"]
    for block in blocks:
        prose, _, settings = block.partition("# [workloads.")
        text = "\n".join(line.removeprefix("# ") for line in ("# [workloads." + settings).splitlines())
        found = Mistakes()
        read(tomllib.loads(text), found)
        assert found.found == []
        assert any(source in prose for source in ("MLPerf", "Twilio", "Nielsen"))
    assert "ttft" not in blocks[3]


def test_paces_follow_from_words_a_minute() -> None:
    assert presets.pace(presets.SILENT_WPM) == pytest.approx(238 / 60 / 0.75, abs=0.05)
    assert presets.pace(presets.ALOUD_WPM) == pytest.approx(183 / 60 / 0.75, abs=0.05)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1s"), (1.01, "1.1s"), (0.01234, "13ms"), (12.3, "13s"), (0.995, "1s"), (123.4, "130s"), (0.0009, "0.9ms")],
)
def test_limits_are_of_two_figures_and_never_below_what_was_observed(value: float, text: str) -> None:
    assert rounded_up(value) == text


@given(st.floats(1e-6, 1e6))
def test_rounding_up_is_up_and_within_a_tenth(value: float) -> None:
    found = Mistakes()
    objective = {"metric": "ttft", "percentile": 95, "limit": rounded_up(value)}
    document = read({"workloads": {"a": {"objectives": [objective]}}}, found)
    assert found.found == []
    (limit,) = (one["limit"] for one in document["workloads"]["a"]["objectives"])
    assert value * (1 - 1e-12) <= limit <= value * 1.1 + 1e-12
