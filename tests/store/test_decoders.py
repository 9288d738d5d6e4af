"""Large files are decoded by a process of its own: the same rows, nothing left behind, errors in one sentence."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hopbudget.errors import Exit, UserError
from hopbudget.store import importing, workers
from hopbudget.store.duck import Store


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> list["subprocess.Popen[bytes]"]:
    """Every file counts as large; the list holds the processes that were started."""
    started: list[subprocess.Popen[bytes]] = []
    start = workers._start

    def start_and_note() -> "subprocess.Popen[bytes]":
        started.append(start())
        return started[-1]

    monkeypatch.setattr(importing, "decoder_pays", lambda files: True)
    monkeypatch.setattr(workers, "_start", start_and_note)
    return started


def many(make: Any, path: Path, traces: int = 3_000) -> Path:
    """Several batches, with lines between them that are not JSON."""
    path.write_bytes(b"".join(make.line(make.run(f"t{number}")) + b"\noops\n" for number in range(traces)))
    return path


def test_rows_counts_and_rejections_are_those_of_one_process(
    make: Any, rows: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = many(make, tmp_path / "a.jsonl")
    alone, apart = Store(tmp_path / "alone.duckdb"), Store(tmp_path / "apart.duckdb")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importing, "decoder_pays", lambda files: False)
        expected = alone.import_paths([path])
    started = request.getfixturevalue("apart")
    found = apart.import_paths([path])
    assert len(started) == 1
    assert found.as_json() == expected.as_json()
    for table in ("spans", "trajectories", "hops", "works"):
        sql = f"SELECT * FROM {table} ORDER BY ALL"
        assert rows.of(apart, sql) == rows.of(alone, sql)


def test_importing_again_adds_nothing(make: Any, store: Store, apart: Any, tmp_path: Path) -> None:
    path = many(make, tmp_path / "a.jsonl", traces=50)
    first, again = store.import_paths([path]), store.import_paths([path])
    assert (first.spans, again.spans, again.duplicates) == (200, 0, 200)


def test_a_document_is_decoded_once(make: Any, store: Store, apart: Any, tmp_path: Path) -> None:
    import json

    path = tmp_path / "pretty.json"
    path.write_text(json.dumps([make.request(make.run("t1"))], indent=2))
    result = store.import_paths([path])
    assert (result.spans, result.duplicates) == (4, 0)


def test_no_process_is_left_behind(make: Any, store: Store, apart: Any, tmp_path: Path) -> None:
    store.import_paths([many(make, tmp_path / "a.jsonl", traces=50)])
    assert [process.returncode is not None for process in apart] == [True]


def test_a_decoder_that_is_killed_is_one_sentence_and_leaves_nothing_behind(
    make: Any, store: Store, apart: Any, tmp_path: Path
) -> None:
    path = many(make, tmp_path / "a.jsonl")
    store.batch_spans = 500

    def kill(*_: object) -> None:
        apart[0].kill()

    with pytest.raises(UserError, match="killed by signal 9") as caught:
        store.import_paths([path], kill)
    assert caught.value.exit_code == Exit.ENVIRONMENT
    assert [process.returncode is not None for process in apart] == [True]


def test_an_interrupt_leaves_no_process_behind(make: Any, store: Store, apart: Any, tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.import_paths([many(make, tmp_path / "a.jsonl", traces=50)], interrupt)
    assert [process.returncode is not None for process in apart] == [True]


def test_where_no_process_can_be_started_this_one_decodes(
    make: Any, store: Store, apart: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    assert store.import_paths([many(make, tmp_path / "a.jsonl", traces=50)]).spans == 200


def test_a_decoder_whose_parent_has_gone_ends(make: Any, tmp_path: Path) -> None:
    path = many(make, tmp_path / "a.jsonl", traces=50)
    process = workers._start()
    assert process.stdin and process.stdout
    workers.write_job(process.stdin, [path])
    process.stdin.close()
    with process.stdout:
        process.stdout.read()
    assert process.wait(timeout=60) == 1
