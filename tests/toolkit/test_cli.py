"""The door: help, usage errors, missing extras and ports in use, each with its exit code."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "{missing}":
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
from hopbudget import cli
sys.exit(cli.run({command}))
"""
"""The command line of an interpreter in which one distribution is not installed."""


INTERRUPTED = """
import signal
from hopbudget import cli, commands

def invoke(arguments):
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise RuntimeError("Query interrupted") from None

commands.invoke = invoke
cli.main()
"""
"""A command that is interrupted while DuckDB is at work, which makes this of it."""


def test_without_arguments_it_shows_where_to_start(hopbudget: Run) -> None:
    said = hopbudget()
    assert said.code == 0
    assert "hopbudget demo" in said.out


def test_an_unknown_command_is_a_usage_error_with_a_suggestion(hopbudget: Run) -> None:
    said = hopbudget("reprot")
    assert said.code == 2
    assert "report" in said.err


@pytest.mark.parametrize(
    ("missing", "command", "extra"),
    [
        ("click", ["report"], "local"),
        ("duckdb", ["report"], "local"),
        ("starlette", ["endpoint"], "demo"),
        ("openai", ["demo"], "demo"),
        ("streamlit", ["app"], "app"),
    ],
)
def test_a_missing_extra_names_the_line_to_install_it(
    tmp_path: Path, missing: str, command: list[str], extra: str
) -> None:
    code = WITHOUT.format(missing=missing, command=command)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert f"pip install 'hopbudget[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["app", "endpoint"])
def test_a_port_in_use_is_exit_4_and_says_what_to_do(hopbudget: Run, command: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = hopbudget(command, "--port", port)
    assert said.code == 4
    assert str(port) in said.err
    assert "--port" in said.err


@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize(("command", "code"), [(["report"], 0), (["allocate", "--deadline", "1ms"], 1)])
def test_a_reader_that_goes_away_changes_nothing(
    filled: Path, command: list[str], code: int, options: list[str]
) -> None:
    asked = [sys.executable, "-m", "hopbudget", *command, str(filled), *options]
    with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == code


def test_a_terminal_without_unicode_still_gets_its_report(filled: Path) -> None:
    report = [sys.executable, "-m", "hopbudget", "report", str(filled)]
    done = subprocess.run(
        report, env=os.environ | {"PYTHONIOENCODING": "ascii"}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Hops: duration" in done.stdout


def test_json_holds_every_name_in_any_encoding(recorded_runs: Path, tmp_path: Path) -> None:
    name = "w\u00e9ird-\u00f1\u2192n"
    (tmp_path / "runs.jsonl").write_text(recorded_runs.read_text().replace('"plan"', json.dumps(name)))
    report = [sys.executable, "-m", "hopbudget", "report", "runs.jsonl", "--json"]
    done = subprocess.run(
        report,
        cwd=tmp_path,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert name in {row["hop"] for row in json.loads(done.stdout)["by_hop"]}


def test_the_app_ends_its_server_when_it_is_told_to_end(filled: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "hopbudget", "app", "--store", str(filled), "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as app:
        assert app.stdout is not None
        for line in app.stdout:
            if str(port) in line:
                break
        app.terminate()
        assert app.wait(timeout=60) == 143
        # The server held this pipe too: its end says that the server is gone.
        app.stdout.read()


def test_an_interrupt_while_the_store_is_at_work_ends_it_as_an_interrupt_does() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here that is always full")
def test_a_full_disk_under_standard_output_is_a_sentence_and_no_verdict() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "hopbudget", "report", "--help"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    said = "hopbudget: standard output can't be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (4, said)
