"""Unchanged agents, each in an environment of its own, under `hopbudget trace`.

The environments are made once in `build/examples`, which takes minutes and a network; so nothing here runs unless
HOPBUDGET_EXAMPLES is set. HOPBUDGET_ENGINE is the address of a running engine with a model called `tiny` and 16,384
tokens of context.
"""

import json
import os
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any, Final

import pytest

from hopbudget.store import queries
from hopbudget.store.duck import Store

ROOT: Final = Path(__file__).resolve().parents[2]
BUILD: Final = ROOT / "build" / "examples"
HERE: Final = Path(__file__).resolve().parent
RUN_S: Final = 300
BUILD_S: Final = 900
REQUESTS: Final = 3
"""What each agent asks: for two tools, and for its answer."""

PACKAGES: Final = {
    "openai": ("openai",),
    "openai_responses": ("openai",),
    "anthropic": ("anthropic",),
    "langgraph": ("langgraph", "langchain", "langchain-openai"),
    "pydantic_ai": ("pydantic-ai-slim[openai]",),
    "openai_agents": ("openai-agents",),
    "litellm": ("litellm",),
    "smolagents": ("smolagents[openai]",),
    "service": ("fastapi", "uvicorn", "openai", "opentelemetry-distro", "opentelemetry-instrumentation-fastapi"),
}
"""What each example needs beside hopbudget."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is here unless it was asked for."""
    if os.environ.get("HOPBUDGET_EXAMPLES"):
        return
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="runs in environments of its own; set HOPBUDGET_EXAMPLES=1"))


@dataclass(frozen=True)
class Place:
    """Where an agent asks, and for which model."""

    address: str
    model: str
    runs: int = 1
    """How often an agent may run here until its model did what an agent's model does; a random one may need more."""

    def sent(self) -> list[dict[str, Any]]:
        """What was answered there so far."""
        with urllib.request.urlopen(f"{self.address}/hopbudget/sent") as answer:
            found: list[dict[str, Any]] = json.load(answer)["sent"]
        return found


@dataclass(frozen=True)
class Seen:
    """What the store has of a run, hops and works in order of time, and what was sent to it meanwhile."""

    trajectories: list[dict[str, Any]]
    hops: list[dict[str, Any]]
    works: list[dict[str, Any]]
    sent: list[dict[str, Any]]
    output: str


@pytest.fixture(scope="session")
def environment() -> Callable[[str], Path]:
    """Makes the environment of an example unless it is made, and gives the folder of its commands."""
    return _environment


def _environment(name: str) -> Path:
    packages = PACKAGES[name]
    folder = BUILD / {"openai_responses": "openai"}.get(name, name)
    made = folder / "made"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = "\n".join([sys.version, *packages, json.dumps(project, sort_keys=True)])
    if not (made.is_file() and made.read_text() == wanted):
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-e", f"{ROOT}[local]", *packages], check=True, timeout=BUILD_S)
        made.write_text(wanted)
    return folder / "bin"


@pytest.fixture(scope="session")
def variables() -> Callable[[Path, Place], dict[str, str]]:
    """The environment variables of an example: a path of its own, and where it asks."""
    return _variables


def _variables(commands: Path, place: Place) -> dict[str, str]:
    return {
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(BUILD),
        "LANG": "C.UTF-8",
        "AGENT_MODEL": place.model,
        "OPENAI_BASE_URL": f"{place.address}/v1",
        "OPENAI_API_KEY": "any",
        "ANTHROPIC_BASE_URL": place.address,
        "ANTHROPIC_API_KEY": "any",
        # No agent here phones home.
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "OTEL_TRACES_EXPORTER": "none",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
    }


@pytest.fixture(scope="session")
def run_agent(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Seen]:
    """Runs `hopbudget trace -- python examples/agent_NAME.py`, once for each agent and place unless told `again`."""
    known: dict[tuple[str, Place], Seen] = {}

    def run_once(name: str, place: Place) -> Seen:
        store = tmp_path_factory.mktemp(name) / "traces.duckdb"
        before = len(place.sent())
        commands = _environment(name)
        done = subprocess.run(
            [commands / "hopbudget", "trace", "--store", store, "--", "python", f"examples/agent_{name}.py"],
            cwd=ROOT,
            env=_variables(commands, place),
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return seen(store, place.sent()[before:], done.stdout)

    def run(name: str, place: Place, *, again: bool = False) -> Seen:
        if again or (name, place) not in known:
            known[name, place] = _played(place.runs, lambda: run_once(name, place))
        return known[name, place]

    return run


def _played(runs: int, run: Callable[[], Seen]) -> Seen:
    """The first of these runs in which the model called each tool and then answered, by what was sent; or the last.

    A model of random weights now and then ends no call that it must make, or answers with nothing at all. What was
    recorded of such a run has to be right as well.
    """
    for _ in range(runs):
        ran = run()
        assert len(ran.hops) == len(ran.sent)
        for hop, sent in pairs(ran):
            assert (hop["ttft_s"] is None) == (sent["first_token_s"] is None)
        if len(ran.sent) == REQUESTS and all(sent["first_token_s"] is not None for _, sent in pairs(ran)):
            break
    return ran


@pytest.fixture(scope="session")
def look() -> Callable[[Path, Sequence[dict[str, Any]]], Seen]:
    """Reads a store, beside what was sent."""
    return seen


def seen(store_path: Path, sent: Sequence[dict[str, Any]], output: str = "") -> Seen:
    store = Store(store_path)
    store.drain()
    with store.reading() as con:
        found = queries.trajectory_rows(con, queries.Where())
        whole = [queries.trajectory(con, row["trace_id"]) for row in found]
    hops = [hop for each in whole for hop in each["hops"]]
    works = [work for each in whole for work in each["works"]]
    return Seen([each["trajectory"] for each in whole], hops, works, list(sent), output)


@pytest.fixture(scope="session")
def within() -> Callable[..., Seen]:
    """Runs until first tokens were seen when they were sent, and fails with the differences if they never are.

    A process's first hop is left out: with its first event, too, a client first loads parts of itself.
    """
    return _within


def _within(tries: int, run: Callable[[bool], Seen], seen_s: tuple[float, float], way_s: float) -> Seen:
    said: list[Any] = []
    for number in range(tries):
        ran = run(number > 0)
        assert len(ran.sent) == REQUESTS
        late = [_seen_after_s(hop, sent) for hop, sent in pairs(ran) if hop["visit"] > 1]
        hop, sent = pairs(ran)[-1]
        way = hop["ttft_s"] - sent["first_token_s"]
        if all(seen_s[0] <= each <= seen_s[1] for each in late) and seen_s[0] <= way <= way_s:
            print(f"first tokens seen {[f'{1000 * each:.1f}' for each in late]} ms after; final {1000 * way:.1f} ms")  # noqa: T201
            return ran
        said.append((late, way))
    pytest.fail(f"first tokens were seen so late, in seconds, and the final stream's in all: {said}")


def pairs(ran: Seen) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The streamed hops with what was sent for them, by the span that reached the server."""
    sent = {record["traceparent"].split("-")[2]: record for record in ran.sent if record["traceparent"]}
    return [(hop, sent[hop["span_id"]]) for hop in ran.hops if hop["streamed"]]


def _seen_after_s(hop: dict[str, Any], sent: dict[str, Any]) -> float:
    """From the server's first token to the client's, by the clock on the wall that both have."""
    issued_at = hop["started_at"].replace(tzinfo=UTC).timestamp()
    seen_after_s: float = issued_at + hop["ttft_s"] - (sent["arrived_at"] + sent["first_token_s"])
    return seen_after_s


@pytest.fixture(scope="session")
def endpoint() -> Iterator[Place]:
    """The simulated endpoint, in a process of its own."""
    with _child("-m", "hopbudget.endpoint") as address:
        yield Place(address, "sim-small")


@pytest.fixture(scope="session")
def row_b() -> Iterator[Place]:
    """The same, but every final answer is row B: role at 0.10 s, an empty delta at 0.20 s, words from 0.60 s on."""
    with _child(str(HERE / "row_endpoint.py"), "B") as address:
        yield Place(address, "sim-small")


@pytest.fixture(scope="session")
def refusing() -> Iterator[Place]:
    """The same, but it refuses to give a final answer, also when it is asked again."""
    with _child(str(HERE / "row_endpoint.py"), "503") as address:
        yield Place(address, "sim-small")


@pytest.fixture(scope="session")
def engine() -> Iterator[Place]:
    """A real engine, whose model of random weights is made to call tools."""
    address = os.environ.get("HOPBUDGET_ENGINE")
    if not address:
        pytest.skip("no engine; set HOPBUDGET_ENGINE to the address of one that serves a model called tiny")
    with _child(str(HERE / "engine_driver.py"), address) as driver:
        yield Place(driver, "tiny", runs=4)


@contextmanager
def _child(*arguments: str) -> Iterator[str]:
    """A server of ours; it says where it listens, and ends with its standard input."""
    child = subprocess.Popen(
        [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        yield child.stdout.readline().removeprefix("listening on ").strip()
    finally:
        child.stdin.close()
        child.stdout.close()
        child.wait(timeout=10)
