"""A service that knows nothing of hopbudget: each request is one agent run, and one trajectory."""

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
REQUESTS = 4
START_S = 60.0
UVICORN = ("uvicorn", "--app-dir", "examples", "--log-level", "warning", "service:app")
WAYS = {
    "server spans": ((), ("opentelemetry-instrument", *UVICORN)),
    "a named function": (("--trajectory", "service:answer"), UVICORN),
    "a named function below server spans": (("--trajectory", "service:answer"), ("opentelemetry-instrument", *UVICORN)),
}
"""Options of `hopbudget trace`, and the command, by what makes a trajectory."""


@pytest.fixture(scope="module", params=WAYS)
def ran(
    request: pytest.FixtureRequest,
    environment: Callable[[str], Path],
    variables: Callable[..., dict[str, str]],
    endpoint: Any,
    look: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Any:
    """What the store has of four requests at once."""
    commands = environment("service")
    store = tmp_path_factory.mktemp("service") / "traces.duckdb"
    before = len(endpoint.sent())
    options, program = WAYS[request.param]
    command = [commands / "hopbudget", "trace", "--store", store, *options, "--", *program]
    with serving(command, variables(commands, endpoint)) as address, ThreadPoolExecutor(REQUESTS) as pool:
        answers = list(pool.map(fetch, [f"{address}/trip?question={number}" for number in range(REQUESTS)]))
    assert all(answers)
    return look(store, endpoint.sent()[before:])


@contextmanager
def serving(command: Sequence[Any], variables: dict[str, str]) -> Iterator[str]:
    """The service on a free port until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    child = subprocess.Popen([*command, "--port", str(port)], cwd=ROOT, env=variables)
    address = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + START_S
        while not up(address):
            assert child.poll() is None, f"the service ended with {child.returncode}"
            assert time.monotonic() < until, "the service did not start"
            time.sleep(0.1)
        yield address
    finally:
        os.kill(child.pid, signal.SIGTERM)
        child.wait(timeout=30)


def up(address: str) -> bool:
    try:
        fetch(f"{address}/openapi.json")
    except urllib.error.URLError:
        return False
    return True


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        said: str = answer.read().decode()
    return said


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


def test_each_first_token_came_when_the_endpoint_sent_it(ran: Any) -> None:
    sent = {record["traceparent"].split("-")[2]: record for record in ran.sent}
    streamed = [hop for hop in ran.hops if hop["streamed"]]
    assert len(streamed) == REQUESTS
    # Four at once share one loop with their tools' threads, and one of them is not kept from being late.
    late = sorted(hop["ttft_s"] - sent[hop["span_id"]]["first_token_s"] for hop in streamed)
    assert late[0] >= -0.002
    assert late[REQUESTS // 2 - 1] <= 0.05
