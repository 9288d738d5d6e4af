"""The demo as a person runs it: in a process of its own, on real sockets, and what it leaves behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hopbudget.store import queries
from hopbudget.store.duck import Store

DEMO = [sys.executable, "-m", "hopbudget", "demo"]
EXAMPLE = Path(__file__).parents[2] / "examples" / "research_agent.py"
HOPS = {"understand", "plan", "search-queries", "read", "extract", "verify", "outline", "answer"}


def environment(temporary: Path) -> dict[str, str]:
    temporary.mkdir(exist_ok=True)
    # A proxy that is not there: the demo stays on this machine.
    return os.environ | {"TMPDIR": str(temporary), "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": ""}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One run of the demo into a store."""
    folder = tmp_path_factory.mktemp("demo")
    store = folder / "traces.duckdb"
    command = [*DEMO, "--trajectories", "6", "--store", str(store)]
    done = subprocess.run(
        command, cwd=folder, env=environment(folder / "tmp"), capture_output=True, text=True, timeout=120, check=False
    )
    return {"done": done, "store": store, "folder": folder}


def test_it_ends_well_and_says_all_it_promised(played: dict[str, Any]) -> None:
    done = played["done"]
    assert (done.returncode, done.stderr) == (0, "")
    titles = [
        "hopbudget demo",
        "Two answers, the same three seconds",
        "An agent of eight hops, traced",
        "What was recorded",
        "Its p90 as a deadline, allotted",
        "What to type next",
    ]
    places = [done.stdout.find(title) for title in titles]
    assert -1 not in places
    assert places == sorted(places)
    assert "simulation" in done.stdout


def test_a_pipe_gets_plain_text(played: dict[str, Any]) -> None:
    out = played["done"].stdout
    assert "\x1b" not in out
    assert "\r" not in out


def test_the_store_holds_every_hop_and_tool_of_the_agent(played: dict[str, Any]) -> None:
    store = Store(played["store"])
    with store.reading() as con:
        numbers = queries.report(con, queries.Where(workload="research-agent"))
        rows = queries.trajectory_rows(con, queries.Where(workload="research-agent"), limit=1)
        one = queries.trajectory(con, rows[0]["trace_id"])
    assert numbers["trajectories"] == 6
    assert {row["hop"] for row in numbers["by_hop"]} == HOPS
    assert [hop["hop"] for hop in one["hops"] if hop["final"]] == ["answer"]
    assert {work["work"] for work in one["works"]} == {"search", "fetch", "rank"}
    assert set(numbers["outcomes"]) == {"ok"}


def test_the_two_answers_are_told_apart_by_what_was_recorded(played: dict[str, Any]) -> None:
    store = Store(played["store"])
    with store.reading() as con:
        rows = queries.trajectory_rows(con, queries.Where(workload="two-answers"))
        hops = [hop for row in rows for hop in queries.trajectory(con, row["trace_id"])["hops"]]
    at_once, late = sorted(hops, key=lambda hop: hop["hop"])
    assert (at_once["hop"], late["hop"]) == ("starts-at-once", "starts-late")
    assert (at_once["output_tokens"], late["output_tokens"]) == (54, 54)
    assert at_once["ttft_s"] < late["ttft_s"]
    assert at_once["tpot_s"] > late["tpot_s"]


def test_nothing_is_left_in_the_folder_for_temporary_files(played: dict[str, Any]) -> None:
    assert list((played["folder"] / "tmp").iterdir()) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_in_the_middle_leaves_nothing_behind(number: signal.Signals, code: int, tmp_path: Path) -> None:
    with subprocess.Popen(
        DEMO, cwd=tmp_path, env=environment(tmp_path / "tmp"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "Two answers" in line:
                break
        assert list((tmp_path / "tmp").iterdir())
        demo.send_signal(number)
        try:
            # The endpoint holds these pipes open too for as long as it lives.
            _, complaint = demo.communicate(timeout=60)
        finally:
            demo.kill()
    assert (demo.returncode, complaint.strip()) == (code, "")
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_switched_off_opentelemetry_is_one_clear_sentence(tmp_path: Path) -> None:
    switched_off = environment(tmp_path / "tmp") | {"OTEL_SDK_DISABLED": "true"}
    done = subprocess.run(
        DEMO, cwd=tmp_path, env=switched_off, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 4
    assert "OTEL_SDK_DISABLED" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_example_streams_its_answer_and_records_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "night trains"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert len(done.stdout.split()) > 20
    store = Store(tmp_path / "traces.duckdb")
    store.drain()
    with store.reading() as con:
        assert queries.workloads(con) == [("research-agent", 1)]
