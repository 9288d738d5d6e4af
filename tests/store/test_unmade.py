"""A failed import leaves no store where none was, and never takes one away that somebody may want."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from hopbudget.store.duck import Store
from hopbudget.store.unmade import unmade_on_failure


def fail_into(path: Path) -> None:
    with unmade_on_failure(path), Store(path).writing():
        raise RuntimeError


@pytest.mark.parametrize("room", [1_024, 20_480])
def test_an_import_without_room_leaves_no_store(tmp_path: Path, recorded_runs: Path, room: int) -> None:
    command = [sys.executable, "-m", "hopbudget", "import", str(recorded_runs), "--store", "new.duckdb"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
    )
    assert done.returncode == 4, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_was_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "old.duckdb"
    Store(path).write([])
    with pytest.raises(RuntimeError):
        fail_into(path)
    assert path.exists()


def test_what_was_stored_before_the_failure_stays(tmp_path: Path, recorded_runs: Path) -> None:
    path = tmp_path / "new.duckdb"
    with pytest.raises(RuntimeError), unmade_on_failure(path):
        Store(path).import_paths([recorded_runs])
        raise RuntimeError
    assert path.exists()


def test_a_store_that_another_process_holds_stays(tmp_path: Path) -> None:
    path = tmp_path / "new.duckdb"
    code = f"import duckdb, sys; con = duckdb.connect({str(path)!r}); print('held', flush=True); sys.stdin.read()"
    with pytest.raises(RuntimeError), unmade_on_failure(path):
        other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert other.stdout is not None
        other.stdout.readline()
        raise RuntimeError
    assert path.exists()
    other.communicate()


def test_a_store_without_a_span_goes(tmp_path: Path) -> None:
    path = tmp_path / "new.duckdb"
    with pytest.raises(RuntimeError), unmade_on_failure(path):
        Store(path).write([])
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
