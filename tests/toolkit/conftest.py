"""A store of the small recording, and the command line in this process."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hopbudget import cli
from hopbudget.store.duck import Store


class Said(NamedTuple):
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its standard output as JSON."""
        return json.loads(self.out)


Run = Callable[..., Said]


@pytest.fixture
def hopbudget(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run one command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOPBUDGET_STORE", raising=False)

    def run(*arguments: str | Path) -> Said:
        capsys.readouterr()
        code = cli.run([str(argument) for argument in arguments])
        return Said(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory, recorded_runs: Path) -> Path:
    """A store that holds the small recording."""
    path = tmp_path_factory.mktemp("store") / "traces.duckdb"
    Store(path).import_paths([str(recorded_runs)])
    return path
