"""Large files are decoded by a process of its own: the same rows, nothing left behind, errors in one sentence."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hopbudget.errors import Exit, UserError
from hopbudget.store import documents, importing, workers
from hopbudget.store.batch import Counts, Ready
from hopbudget.store.duck import Store
from hopbudget.store.intake import Left
from hopbudget.store.workers import balanced

from .test_protobuf import as_protobuf


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
    """Several batches, with lines or messages between them that are no requests."""
    lines = [make.line(make.run(f"t{number}")) for number in range(traces)]
    if path.suffix == ".jsonl":
        path.write_bytes(b"".join(line + b"\noops\n" for line in lines))
    else:
        bodies = [body for line in lines for body in (as_protobuf(line), b"oops")]
        path.write_bytes(b"".join(len(body).to_bytes(4, "big") + body for body in bodies))
    return path


@pytest.mark.parametrize("name", ["a.jsonl", "a.binpb"])
def test_rows_counts_and_rejections_are_those_of_one_process(
    make: Any, rows: Any, tmp_path: Path, request: pytest.FixtureRequest, name: str
) -> None:
    path = many(make, tmp_path / name)
    alone, apart = Store(tmp_path / "alone.duckdb"), Store(tmp_path / "apart.duckdb")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importing, "decoder_pays", lambda files: False)
        expected = alone.import_paths([path])
    started = request.getfixturevalue("apart")
    found = apart.import_paths([path])
    assert len(started) == 1
    assert found.as_json() == expected.as_json()
    for table in ("spans", "trajectories", "hops", "works"):
        sql = f"SELECT * FROM {table} ORDER BY rowid"
        assert rows.of(apart, sql) == rows.of(alone, sql)


def test_the_parent_decodes_as_many_of_the_first_parts_as_it_asks_for(make: Any, tmp_path: Path) -> None:
    process = workers._start()
    assert process.stdin and process.stdout
    workers.write_job(process.stdin, [many(make, tmp_path / "a.jsonl")])
    assert workers._read(process.stdout) == b"up"
    process.stdin.write(b"1000000 2\n")
    process.stdin.close()
    with process.stdout:
        *left, made = (workers.read_message(process.stdout) for _ in range(3))
    process.wait(timeout=60)
    assert all(isinstance(one, Left) for one in left)
    assert isinstance(made, workers.Decoded)
    here = [piece for one in left if isinstance(one, Left) for piece in documents.decoded(one.part)]
    assert sum(len(piece.decoded.spans) for piece in here) + made.ready[0].given == 4 * 3_000
    assert here[0].line == 1


def test_whoever_waits_gets_more_to_decode() -> None:
    assert balanced(3, 300, 1_000, waits=False) == 4
    assert balanced(3, 300, 1_000, waits=True) == 2
    assert balanced(0, 0, 1_000, waits=True) == 0
    assert balanced(3, 500, 1_000, waits=False) == 2


def test_both_shares_together_are_no_more_than_a_transaction_may_hold(
    make: Any, store: Store, apart: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    put = store.put

    def note(*ready: Ready) -> Counts:
        sizes.append(sum(one.given for one in ready))
        return put(*ready)

    monkeypatch.setattr(store, "put", note)
    monkeypatch.setattr(store, "_adapt", lambda *_: None)
    monkeypatch.setattr(workers, "balanced", lambda *_, **__: 2)
    store.batch_spans = 3_000
    store.import_paths([many(make, tmp_path / "a.jsonl", traces=4_000)])
    assert len(sizes) > 4
    assert max(sizes[1:]) <= 3_000  # how many spans a part holds is not known before the first


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
