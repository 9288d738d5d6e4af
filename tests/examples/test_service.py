"""A service that knows nothing of hopbudget: each request is one agent run, and one trajectory."""

import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
REQUESTS = 4
START_S = 60.0
UVICORN = ("uvicorn", "--app-dir", "examples", "--port", "0", "--no-access-log", "service:app")
WAYS = {
    "server spans": ((), ("opentelemetry-instrument", *UVICORN)),
    "a named function": (("--trajectory", "service:answer"), UVICORN),
    "a named function below server spans": (("--trajectory", "service:answer"), ("opentelemetry-instrument", *UVICORN)),
}
"""Options of `hopbudget trace`, and the command, by what makes a trajectory."""
CLOCKS_S = 0.002
"""Two processes read their clocks a moment apart."""
NOTED_S = 0.03
"""A server notes the time of a write after it; a busy machine may let others go first."""


@pytest.fixture(scope="module", params=WAYS)
def served(
    request: pytest.FixtureRequest,
    environment: Callable[[str], Path],
    variables: Callable[..., dict[str, str]],
    endpoint: Any,
    look: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Any, list[float]]:
    """What the store has of four requests at once, and when their callers had the first of their answers."""
    commands = environment("service")
    store = tmp_path_factory.mktemp("service") / "traces.duckdb"
    before = len(endpoint.sent())
    options, program = WAYS[request.param]
    command = [commands / "hopbudget", "trace", "--store", store, *options, "--", *program]
    with serving(command, variables(commands, endpoint)) as address, ThreadPoolExecutor(REQUESTS) as pool:
        heard_at(f"{address}/openapi.json")  # holds no model call
        heard = list(pool.map(heard_at, [f"{address}/trip?question={number}" for number in range(REQUESTS)]))
    return look(store, endpoint.sent()[before:]), heard


@pytest.fixture(scope="module")
def ran(served: tuple[Any, list[float]]) -> Any:
    return served[0]


@contextmanager
def serving(command: Sequence[Any], variables: dict[str, str]) -> Iterator[str]:
    """The service, on the port that it says it has, until the block ends."""
    child = subprocess.Popen(command, cwd=ROOT, env=variables, stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    too_late = threading.Timer(START_S, child.kill)
    too_late.start()
    said: list[str] = []
    try:
        for line in child.stderr:
            said.append(line)
            if found := re.search(r"running on (http://[\d.:]+)", line):
                break
        else:
            pytest.fail(f"the service did not start: {''.join(said)}")
        too_late.cancel()
        yield found[1]
    finally:
        too_late.cancel()
        child.terminate()
        sys.stderr.write(child.communicate(timeout=30)[1])


def heard_at(url: str) -> float:
    """When the first of the answer came, by the clock on the wall; the answer is read to its end."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        assert answer.read(1)
        first_at = time.time()
        answer.read()
    return first_at


def test_a_request_is_one_trajectory_of_three_hops(ran: Any) -> None:
    agents = [row for row in ran.trajectories if row["hop_count"]]
    assert [(row["hop_count"], row["outcome"], row["complete"]) for row in agents] == [(3, "ok", True)] * REQUESTS
    assert len({row["trace_id"] for row in agents}) == REQUESTS


def test_what_holds_no_model_call_is_not_mixed_in(ran: Any) -> None:
    assert {hop["root_span_id"] for hop in ran.hops} == {
        row["root_span_id"] for row in ran.trajectories if row["hop_count"]
    }


def test_tools_are_work_and_the_stream_is_final(ran: Any) -> None:
    for row in ran.trajectories:
        hops = [hop for hop in ran.hops if hop["root_span_id"] == row["root_span_id"]]
        if hops:
            assert row["work_s"] >= 0.14
            assert [hop["final"] for hop in hops] == [False, False, True]
            assert row["answer_start_s"] == pytest.approx(hops[-1]["start_s"] + hops[-1]["ttfa_s"], abs=1e-6)


def test_each_first_token_came_after_it_was_sent_and_before_a_caller_had_it(served: tuple[Any, list[float]]) -> None:
    ran, heard = served
    sent = {record["traceparent"].split("-")[2]: record for record in ran.sent}
    streamed = [hop for hop in ran.hops if hop["streamed"]]
    assert len(streamed) == REQUESTS
    seen = {hop["span_id"]: hop["started_at"].replace(tzinfo=UTC).timestamp() + hop["ttft_s"] for hop in streamed}
    for span_id, seen_at in seen.items():
        assert seen_at >= sent[span_id]["arrived_at"] + sent[span_id]["first_token_s"] - NOTED_S
    # Nothing says whose answer was whose. If each was seen before it was heard, so was the first before the first.
    for seen_at, first_at in zip(sorted(seen.values()), sorted(heard), strict=True):
        assert seen_at <= first_at + CLOCKS_S
