"""Recorded trajectories that we did not make: counts, and numbers held against a computation straight from the JSON."""

import gzip
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopbudget.store import queries
from hopbudget.store.duck import Store
from hopbudget.store.queries import Where

FILES = {
    "tau2-retail-gpt41": (7_884, 14_973, 9_718),
    "tau2-retail-gemini": (2_948, 10_280, 8_172),
    "coding-turns": (1_100, 13_882, 12_758),
    "coding-streams": (138, 2_011, None),
}


@pytest.fixture(scope="module", params=FILES)
def recorded(request: pytest.FixtureRequest, shared: Path) -> tuple[str, Path]:
    return request.param, shared / "data" / f"{request.param}.otlp.jsonl.gz"


@pytest.fixture(scope="module")
def loaded(recorded: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("recorded") / "traces.duckdb")
    store.import_paths([recorded[1]])
    return store


def spans_of(path: Path) -> Iterator[list[dict[str, Any]]]:
    """The spans of each line with plain attributes, read by nothing of ours."""
    with gzip.open(path) as lines:
        for line in lines:
            found = []
            for resource in json.loads(line)["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    for span in scope["spans"]:
                        plain = {pair["key"]: next(iter(pair["value"].values())) for pair in span["attributes"]}
                        times = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
                        found.append(
                            {
                                "times": times,
                                "op": plain["gen_ai.operation.name"],
                                "ttft": plain.get("gen_ai.response.time_to_first_chunk"),
                                "n": int(plain.get("gen_ai.usage.output_tokens", 0)),
                                "bad": span.get("status", {}).get("code") == 2,
                            }
                        )
            yield found


def covered(intervals: list[tuple[int, int]], start: int, end: int) -> int:
    """Nanoseconds within [start, end] that some interval covers, by sweeping over all borders."""
    borders = sorted({start, end, *(min(max(at, start), end) for pair in intervals for at in pair)})
    total = 0
    for left, right in itertools.pairwise(borders):
        if any(a <= left and b >= right for a, b in intervals):
            total += right - left
    return total


def test_counts_are_those_of_the_recording(recorded: tuple[str, Path], loaded: Store) -> None:
    trajectories, hops, works = FILES[recorded[0]]
    with loaded.reading() as con:
        found = [
            con.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0] for table in ("trajectories", "hops", "works")
        ]
    assert found[:2] == [trajectories, hops]
    assert works is None or found[2] == works


def test_importing_it_again_adds_nothing(recorded: tuple[str, Path], loaded: Store) -> None:
    again = loaded.import_paths([recorded[1]])
    assert (again.spans, again.trajectories, again.hops, again.works) == (0, 0, 0, 0)
    assert again.duplicates > 0


def test_quantiles_and_work_share_equal_an_independent_computation(recorded: tuple[str, Path], loaded: Store) -> None:
    durations, hop_times, ttfts, tpots = [], [], [], []
    work = total = 0
    for spans in spans_of(recorded[1]):
        (root,) = [span for span in spans if span["op"] == "invoke_agent"]
        hops = [span for span in spans if span["op"] == "chat"]
        start, end = root["times"]
        total += end - start
        work += end - start - covered([span["times"] for span in hops], start, end)
        if not root["bad"]:
            durations.append((end - start) / 1e9)
        for span in hops:
            if not span["bad"]:
                seconds = (span["times"][1] - span["times"][0]) / 1e9
                hop_times.append(seconds)
                if span["ttft"] is not None and span["ttft"] <= seconds + 1e-6:
                    ttfts.append(span["ttft"])
                    if span["n"] > 1:
                        tpots.append((seconds - span["ttft"]) / (span["n"] - 1))
    with loaded.reading() as con:
        numbers = queries.report(con, Where())
    assert numbers["work_share"] == pytest.approx(work / total, rel=1e-6)
    for key, values in (("trajectory_s", durations), ("hop_s", hop_times), ("ttft_s", ttfts), ("tpot_s", tpots)):
        assert numbers[key]["n"] == len(values)
        for name, level in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)):
            if values:
                assert numbers[key][name] == pytest.approx(np.quantile(values, level), rel=1e-6, abs=1e-9)


def test_the_profile_holds_the_same_as_the_tables(loaded: Store) -> None:
    with loaded.reading() as con:
        profile = queries.profile(con, Where())
        ((work_s,),) = con.execute("SELECT sum(work_s) FROM trajectories").fetchall()
        ((hops,),) = con.execute("SELECT count(*) FROM hops").fetchall()
    assert profile.trajectories.work_s.sum() == pytest.approx(work_s)
    assert len(profile.hops.trajectory) == hops
    assert (np.diff(profile.hops.trajectory) >= 0).all()
