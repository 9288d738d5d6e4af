"""What the documents tell people to type is run, and what they link to is there."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SOURCES = sorted((ROOT / "docs" / "sources").glob("*.md"))
"""Pages about other people's packages: tests/examples/sources runs them, each in an environment of its own."""
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
ELSEWHERE = (
    "hopbudget trace",
    "opentelemetry-instrument",
    "export ",
    "git ",
    "cd ",
    "pip ",
    "hopbudget app",
    "hopbudget endpoint",
    "hopbudget serve",
    "curl ",
    "hopbudget demo",
    "python ",
)
"""Commands that start servers, fetch from a network or run for long: other tests hold them."""


def blocks(kind: str) -> list[tuple[str, str]]:
    return [
        (page.name, text) for page in PAGES for language, text in BLOCK.findall(page.read_text()) if language == kind
    ]


def commands() -> list[tuple[str, str]]:
    lines = [(page, line.partition("  #")[0].strip()) for page, text in blocks("sh") for line in text.splitlines()]
    return [(page, line) for page, line in lines if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, recorded_runs: Path) -> Path:
    """A folder as a reader would have it: recorded runs, a store made from them, objectives proposed from it."""
    made = tmp_path_factory.mktemp("reader")
    (made / "runs.jsonl").write_bytes(recorded_runs.read_bytes())
    hopbudget(["import", "runs.jsonl"], made)
    hopbudget(["check", "--propose", "--out", "hopbudget.toml"], made)
    return made


def hopbudget(arguments: list[str], where: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hopbudget", *arguments]
    return subprocess.run(
        command, cwd=where, capture_output=True, text=True, check=False, env=os.environ | {"COLUMNS": "80"}
    )


@pytest.mark.parametrize(("page", "line"), commands())
def test_a_command_in_the_docs_runs(page: str, line: str, folder: Path) -> None:
    if line.startswith("make "):
        assert re.search(rf"^{shlex.split(line)[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    elif not line.startswith(ELSEWHERE):
        program, *arguments = shlex.split(line)
        assert program == "hopbudget", f"{page} tells people to type {line!r}, which no test runs"
        done = hopbudget(arguments, folder)
        assert done.returncode in {0, 1, 3}, done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("page", "code"), blocks("python"))
def test_the_python_in_the_docs_runs(page: str, code: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", [*PAGES, *SOURCES], ids=lambda page: page.name)
def test_what_the_docs_link_to_is_there(page: Path) -> None:
    missing = [target for target in LINK.findall(page.read_text()) if not (page.parent / target).exists()]
    assert missing == []


def test_every_command_has_a_help_text_of_80_columns() -> None:
    listed = hopbudget(["--help"], ROOT).stdout
    names = re.findall(r"^  ([a-z]+) {2,}\S", listed.partition("Commands:")[2], re.MULTILINE)
    assert len(names) >= 7
    for name in names:
        text = hopbudget([name, "--help"], ROOT).stdout
        assert text.startswith("Usage:")
        assert max(map(len, text.splitlines())) <= 80
