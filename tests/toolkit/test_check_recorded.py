"""`check` on recorded data that we did not make, counted again from the spans themselves by other means."""

import gzip
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Run = Callable[..., Any]
DAY_S = 86_400
DOCS = Path(__file__).resolve().parents[2] / "docs" / "objectives.md"

OBJECTIVES = {
    "tau2-retail-gpt41": """
[workloads.retail]
objectives = [
  { metric = "trajectory_duration", percentile = 95, limit = "10s" },
  { metric = "hop_duration", percentile = 99, limit = "10s", hop = "chat" },
  { metric = "error_share", limit = "1%" },
  { metric = "trajectory_duration", percentile = 90, limit = "10s", window = "1d" },
]
""",
    "coding-streams": """
[workloads.coder-session]
objectives = [
  { metric = "ttft", percentile = 95, limit = "5s" },
  { metric = "tpot", percentile = 95, limit = "25ms" },
  { metric = "tokens_per_s", percentile = 95, limit = 40 },
]
""",
}


@pytest.fixture(scope="module")
def spans(shared: Path) -> Callable[[str], list[dict[str, Any]]]:
    """A file's spans as flat dictionaries, read with nothing of ours."""

    def read(name: str) -> list[dict[str, Any]]:
        found = []
        with gzip.open(shared / "data" / f"{name}.otlp.jsonl.gz", "rt") as lines:
            for line in lines:
                for resource in json.loads(line)["resourceSpans"]:
                    for scope in resource["scopeSpans"]:
                        found += [flat(span) for span in scope["spans"]]
        return found

    return read


def flat(span: dict[str, Any]) -> dict[str, Any]:
    values = {item["key"]: next(iter(item["value"].values())) for item in span["attributes"]}
    start, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
    failed = span.get("status", {}).get("code") == 2
    return values | {"start_s": start / 1e9, "seconds": (end - start) / 1e9, "failed": failed, "trace": span["traceId"]}


@pytest.fixture(scope="module")
def known() -> dict[str, list[dict[str, Any]]]:
    """What was checked already: reading a file takes a second or two."""
    return {}


@pytest.fixture
def checked(hopbudget: Run, shared: Path, known: dict[str, Any]) -> Callable[[str], list[dict[str, Any]]]:
    def run(name: str) -> list[dict[str, Any]]:
        if name in known:
            return list(known[name])
        Path("hopbudget.toml").write_text(OBJECTIVES[name])
        rows = hopbudget("check", shared / "data" / f"{name}.otlp.jsonl.gz", "--json").json["objectives"]
        assert len(rows) == OBJECTIVES[name].count("metric")
        known[name] = rows
        return list(rows)

    return run


def attained(seconds: np.ndarray, failed: np.ndarray, p: float) -> float:
    ordered = np.sort(np.where(failed, np.inf, seconds))
    return float(ordered[math.ceil(len(ordered) * p - 1e-9) - 1])


def agree(row: dict[str, Any], seconds: np.ndarray, failed: np.ndarray, limit: float) -> None:
    within = (seconds <= limit) & ~failed
    assert (row["n"], row["failed"]) == (len(seconds), failed.sum())
    assert row["attainment"] == pytest.approx(within.mean())
    assert row["value"] == pytest.approx(attained(seconds, failed, row["target"]))
    assert row["state"] == ("met" if within.mean() >= row["target"] else "breach")
    assert row["budget_left"] == pytest.approx(1 - (1 - within.mean()) / (1 - row["target"]))
    assert row["low"] < row["attainment"] < row["high"]


def test_whole_trajectories_hops_and_errors_of_the_retail_agent(checked: Any, spans: Any) -> None:
    found = spans("tau2-retail-gpt41")
    roots = [span for span in found if span["gen_ai.operation.name"] == "invoke_agent"]
    hops = [span for span in found if span["gen_ai.operation.name"] == "chat"]
    assert (len(roots), len(hops)) == (7884, 14_973)
    whole, each, errors, last_day = checked("tau2-retail-gpt41")
    start, seconds, failed = (np.array([root[key] for root in roots]) for key in ("start_s", "seconds", "failed"))
    agree(whole, seconds, failed, 10.0)
    agree(each, *(np.array([hop[key] for hop in hops]) for key in ("seconds", "failed")), 10.0)
    assert errors["value"] == pytest.approx(failed.mean())
    recent = start > start.max() - DAY_S
    assert 0 < recent.sum() < len(roots)
    agree(last_day, seconds[recent], failed[recent], 10.0)


def test_burn_rates_of_the_retail_agent_are_shares_of_shorter_windows(checked: Any, spans: Any) -> None:
    roots = [span for span in spans("tau2-retail-gpt41") if span["gen_ai.operation.name"] == "invoke_agent"]
    start, seconds, failed = (np.array([root[key] for root in roots]) for key in ("start_s", "seconds", "failed"))
    missed = failed | (seconds > 10)
    for one in checked("tau2-retail-gpt41")[0]["burn"]:
        recent = start > start.max() - one["window_s"]
        assert one["n"] == recent.sum()
        assert one["rate"] == pytest.approx(missed[recent].mean() / 0.05)


def test_first_tokens_and_pace_of_the_coding_agent(checked: Any, spans: Any) -> None:
    hops = [span for span in spans("coding-streams") if "gen_ai.response.time_to_first_chunk" in span]
    ttft, seconds = (np.array([hop[key] for hop in hops]) for key in ("gen_ai.response.time_to_first_chunk", "seconds"))
    tokens = np.array([int(hop["gen_ai.usage.output_tokens"]) for hop in hops])
    several = tokens > 1
    tpot = ((seconds - ttft) / np.maximum(tokens - 1, 1))[several]
    nobody = np.zeros(len(hops), dtype=np.bool_)
    first, pace, speed = checked("coding-streams")
    agree(first, ttft, nobody, 5.0)
    agree(pace, tpot, nobody[several], 0.025)
    assert speed["attainment"] == pace["attainment"]
    assert speed["value"] == pytest.approx(1 / pace["value"])


def test_the_interval_is_wider_than_if_the_streams_of_one_session_were_unlike(checked: Any, spans: Any) -> None:
    hops = [span for span in spans("coding-streams") if "gen_ai.response.time_to_first_chunk" in span]
    row = checked("coding-streams")[0]
    kept = np.array([hop["gen_ai.response.time_to_first_chunk"] <= 5 for hop in hops])
    apart = 2 * 1.96 * math.sqrt(kept.mean() * (1 - kept.mean()) / len(kept))
    assert row["high"] - row["low"] > 1.5 * apart


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_page_shows_what_check_says(name: str, checked: Any) -> None:
    page = DOCS.read_text()
    for row in checked(name):
        value = f"{row['value']:.3f}" if row["value"] < 1 else f"{row['value']:.2f}"
        share = f"{row['attainment'] * 100:.2f} [{row['low'] * 100:.2f}, {row['high'] * 100:.2f}]"
        assert f"| {value} | {share} | {row['n']:,} | {row['failed']} | {row['state']} |" in page
