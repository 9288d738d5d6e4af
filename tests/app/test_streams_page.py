"""The page of streams: TTFT, TPOT and ITL apart, who would have waited, one stream's tokens."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from hopbudget.demo import sample
from hopbudget.store.duck import Store

OpenPage = Callable[..., AppTest]
Drawn = Callable[[AppTest, str], dict[str, Any]]
Marks = Callable[[dict[str, Any], str], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def sampled_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sample data in which the last trajectory stalls."""
    folder = tmp_path_factory.mktemp("sample")
    usual = [sample.Run(number, at_s=1.767e9 + 60 * number) for number in range(40)]
    stalled = sample.Run(40, at_s=1.767e9 + 2400, trouble="stall")
    (folder / "runs.jsonl").write_bytes(b"".join(sample.lines([*usual, stalled])))
    store = folder / "traces.duckdb"
    Store(store).import_paths([folder / "runs.jsonl"])
    return store


def test_first_tokens_pace_and_gaps_stand_apart(open_page: OpenPage, sampled_store: Path, drawn: Drawn) -> None:
    opened = open_page(sampled_store, "streams")

    assert not opened.exception
    for chart in ("First token (TTFT)", "Pace (TPOT)", "Gaps (ITL)"):
        assert "answer p50" in drawn(opened, chart)["description"]


def test_they_can_be_told_by_model(open_page: OpenPage, sampled_store: Path, drawn: Drawn) -> None:
    opened = open_page(sampled_store, "streams", split="model")

    assert "sim-large p50" in drawn(opened, "First token")["description"]


def test_a_faster_reader_waits_in_more_streams(
    open_page: OpenPage, sampled_store: Path, drawn: Drawn, marks: Marks
) -> None:
    opened = open_page(sampled_store, "streams")

    shares = [row["share"] for row in marks(drawn(opened, "Underrun"), "line")]
    assert shares == sorted(shares)
    assert shares[0] < 0.1 < 0.5 < shares[-1]


def test_the_stream_with_the_longest_gap_comes_first_and_its_stall_is_marked(
    open_page: OpenPage, sampled_store: Path, drawn: Drawn, marks: Marks
) -> None:
    opened = open_page(sampled_store, "streams")

    (stall,) = marks(drawn(opened, "Tokens over time"), "rule")
    assert stall["end"] - stall["s"] > 5.0


def test_a_link_names_one_stream(open_page: OpenPage, sampled_store: Path, drawn: Drawn) -> None:
    first = open_page(sampled_store, "streams")
    address = str(first.query_params["stream"])

    second = open_page(sampled_store, "streams", stream=address)

    assert drawn(second, "Tokens over time")["description"] == drawn(first, "Tokens over time")["description"]


def test_a_link_to_a_stream_that_is_not_here_says_so(open_page: OpenPage, sampled_store: Path) -> None:
    opened = open_page(sampled_store, "streams", stream="feed.beef")

    assert not opened.exception
    assert "`feed.beef`" in opened.warning[0].value


def test_a_store_without_first_tokens_says_so(open_page: OpenPage, tmp_path: Path, write_runs: Any) -> None:
    opened = open_page(write_runs(tmp_path, {"aa": "ok", "bb": "ok"}), "streams")

    assert not opened.exception
    assert "No first-token times were recorded" in opened.info[0].value


def test_tokens_counted_in_chunks_are_told_as_chunks(open_page: OpenPage, sampled_store: Path, tmp_path: Path) -> None:
    usual = [sample.Run(number, at_s=1.767e9 + 60 * number) for number in range(6)]
    text = b"".join(sample.lines(usual))
    assert b'"usage"' in text
    (tmp_path / "runs.jsonl").write_bytes(text.replace(b'"usage"', b'"chunks"'))
    Store(tmp_path / "chunks.duckdb").import_paths([tmp_path / "runs.jsonl"])
    opened = open_page(tmp_path / "chunks.duckdb", "streams")

    assert not opened.exception
    assert opened.warning[0].value.startswith("Tokens were counted in chunks: ")
    figures = {figure.label: str(figure.value) for figure in opened.metric}
    assert figures["A chunk every"].endswith(" ms")
    assert figures["Tokens (N)"].endswith(" chunks")
    listed = opened.dataframe[0].value
    assert all(str(pace).endswith(" by chunk") for pace in listed["TPOT"])
    overview = open_page(tmp_path / "chunks.duckdb")
    assert any("of them by chunk, not by token" in text.value for text in overview.caption)
    assert not open_page(sampled_store, "streams").warning


def test_without_gaps_the_page_still_stands(open_page: OpenPage, recorded_store: Path) -> None:
    opened = open_page(recorded_store, "streams")

    assert not opened.exception
    assert any("No gaps were recorded" in text.value for text in opened.caption)


def test_streams_cut_off_before_a_token_are_said_where_no_first_token_was_recorded(
    open_page: OpenPage, tmp_path: Path
) -> None:
    at = 1_700_000_000_000_000_000
    root = {"traceId": f"{1:032x}", "spanId": f"{1:016x}", "name": "bot", "startTimeUnixNano": str(at),
            "endTimeUnixNano": str(at + 30_000_000_000)}  # fmt: skip
    told = {"gen_ai.operation.name": {"stringValue": "chat"}, "gen_ai.request.stream": {"boolValue": True},
            "hopbudget.outcome": {"stringValue": "timed_out"}}  # fmt: skip
    chat = {**root, "spanId": f"{2:016x}", "parentSpanId": f"{1:016x}", "name": "chat m",
            "attributes": [{"key": key, "value": value} for key, value in told.items()]}  # fmt: skip
    scope = {"scope": {"name": "hopbudget.tracing"}, "spans": [root, chat]}
    (tmp_path / "runs.jsonl").write_text(json.dumps({"resourceSpans": [{"scopeSpans": [scope]}]}))
    Store(tmp_path / "traces.duckdb").import_paths([tmp_path / "runs.jsonl"])
    opened = open_page(tmp_path / "traces.duckdb", "streams")

    assert "No first-token times were recorded" in opened.info[0].value
    assert opened.warning[0].value.startswith(
        "1 stream was cut off while still waiting for a first token, after 30.0 s"
    )
