"""The spool drains whole, exactly once, whoever runs beside it or dies in the middle."""

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import duckdb
import pytest

from hopbudget.errors import UserError
from hopbudget.store import duck, queries, spool
from hopbudget.store.duck import Store
from hopbudget.store.spool import Spool, spool_folder

PROCESSES = Path(__file__).with_name("processes.py")
PATIENCE_S = 60
"""Longer than any machine needs; a process that takes longer hangs."""


def start(part: str, *args: str | Path) -> "subprocess.Popen[str]":
    command = [sys.executable, str(PROCESSES), part, *map(str, args)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(process: "subprocess.Popen[str]") -> str:
    """What it said, and nothing about errors."""
    with process:
        out, errors = process.communicate(timeout=PATIENCE_S)
    assert errors == ""
    return out


def writer(store: Store) -> Spool:
    assert store.path
    return Spool(spool_folder(store.path))


def fill(make: Any, store: Store, *traces: str) -> None:
    for trace in traces:
        writer(store).append([make.line(make.run(trace))], 4)


def test_what_waits_is_moved_into_the_tables(make: Any, store: Store, rows: Any) -> None:
    fill(make, store, "t1", "t2")
    counts = store.drain()
    assert (counts.files, counts.spans, counts.trajectories, counts.hops, counts.works) == (2, 8, 2, 4, 2)
    assert rows.of(store, "SELECT count(*) AS n FROM spans") == [{"n": 8}]
    assert writer(store).pending() == (0, 0)


def test_draining_nothing_makes_no_store(store: Store) -> None:
    assert store.path
    assert store.drain().spans == 0
    assert not store.path.exists()


def test_draining_again_adds_nothing(make: Any, store: Store) -> None:
    fill(make, store, "t1")
    store.drain()
    assert store.drain().spans == 0


def test_a_file_whose_spans_are_stored_and_that_could_not_be_removed_is_not_counted_twice(
    make: Any, store: Store, rows: Any
) -> None:
    # As after a crash between the commit and the removal.
    writer(store).note_dropped(7, "queue_full")
    fill(make, store, "t1")
    kept = {file.path: file.path.read_bytes() for file in spool.files(writer(store).folder)}
    store.drain()
    for path, content in kept.items():
        path.write_bytes(content)
    store.drain()
    with store.reading() as con:
        assert queries.drops(con) == {"queue_full": 7}
        assert con.execute("SELECT count(*) FROM spans").fetchall() == [(4,)]
    assert spool.files(writer(store).folder) == []


def test_names_of_removed_files_do_not_pile_up(make: Any, store: Store, rows: Any) -> None:
    for number in range(5):
        fill(make, store, f"t{number}")
        store.drain()
    assert rows.of(store, "SELECT count(*) AS n FROM drained") == [{"n": 1}]


def test_a_file_that_vanished_is_no_error(make: Any, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(make, store, "t1", "t2")
    seen = spool.files(writer(store).folder)
    monkeypatch.setattr(spool, "files", lambda folder: seen)
    seen[0].path.unlink()
    assert store.drain().spans == 4


def test_a_file_that_a_full_spool_gave_up_meanwhile_is_not_stored_as_well(make: Any, store: Store) -> None:
    from hopbudget.store.batch import Part

    fill(make, store, "t1")
    (file,) = spool.files(writer(store).folder)
    part = Part(make.spans(*make.run("t1")), done=file.path)
    file.path.unlink()  # after it was read, before the store was opened
    assert store.write([part]).spans == 0


def test_of_a_torn_file_the_rest_is_kept_and_the_lost_spans_are_counted(make: Any, store: Store) -> None:
    good, torn = make.line(make.run("t1")), make.line(make.run("t2"))[:-40]
    writer(store).append([good, torn], 8)
    assert store.drain().spans == 4
    with store.reading() as con:
        assert queries.drops(con) == {"unreadable": 4}


def test_notes_of_lost_spans_are_summed_by_reason(make: Any, store: Store) -> None:
    for spans, reason in ((3, "queue_full"), (4, "queue_full"), (1, "spool_full")):
        writer(store).note_dropped(spans, reason)
    store.drain()
    with store.reading() as con:
        assert queries.drops(con) == {"queue_full": 7, "spool_full": 1}


def test_a_file_larger_than_a_transaction_is_stored_whole(make: Any, store: Store, rows: Any) -> None:
    writer(store).append([make.line(make.run(f"t{number}")) for number in range(10)], 40)
    store.batch_spans = 8
    counts = store.drain()
    assert (counts.files, counts.spans, counts.trajectories) == (1, 40, 10)


def test_a_reader_in_another_thread_waits_for_the_writer(make: Any, store: Store) -> None:
    fill(make, store, "t1")
    store.drain()
    errors: list[BaseException] = []

    def read() -> None:
        try:
            for _ in range(20):
                with store.reading() as con:
                    con.execute("SELECT count(*) FROM spans").fetchall()
        except BaseException as error:
            errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(5):
        fill(make, store, f"more{number}")
        store.drain()
    reader.join()
    assert errors == []


def test_a_program_that_never_lets_go_is_named_in_the_end(make: Any, store: Store) -> None:
    fill(make, store, "t1")
    store.drain()
    assert store.path
    holder = start("hold", store.path)
    assert holder.stdout and holder.stdout.readline() == "open\n"
    impatient = Store(store.path, patience_s=0.05)
    with pytest.raises(UserError, match=f"PID {holder.pid}"), impatient.reading():
        pass
    end(holder)


def test_who_waits_long_for_another_program_is_told_for_which(
    make: Any, store: Store, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    fill(make, store, "t1")
    store.drain()
    assert store.path
    monkeypatch.setattr(duck, "_SILENT_S", 0.0)
    holder = start("hold", store.path)
    assert holder.stdout and holder.stdout.readline() == "open\n"
    with pytest.raises(UserError), Store(store.path, patience_s=0.05).reading():
        pass
    end(holder)
    said = f"hopbudget: {store.path} is held open by another program (PID {holder.pid}); waiting for it\n"
    assert capsys.readouterr().err == said


# --- several processes ---------------------------------------------------------------------------------------


def test_four_writers_and_two_readers_lose_nothing_double_nothing_and_see_no_lock(
    make: Any, tmp_path: Path, rows: Any
) -> None:
    path, until = tmp_path / "traces.duckdb", tmp_path / "until"
    readers = [start("report", path, until) for _ in range(2)]
    files = [
        make.file(tmp_path / f"{word}.jsonl", *(make.run(f"{word}{number}") for number in range(60))) for word in "abcd"
    ]
    writers = [start("write", spool_folder(path), file) for file in files]
    assert [end(process).count("flushed") for process in writers] == [60] * 4
    until.touch()
    for process in readers:
        assert end(process).startswith("rounds")
    store = Store(path)
    store.drain()
    (row,) = rows.of(store, "SELECT count(*) AS n, count(DISTINCT trace_id || span_id) AS ids FROM spans")
    assert row == {"n": 4 * 60 * 4, "ids": 4 * 60 * 4}
    assert rows.of(store, "SELECT count(*) AS n FROM trajectories WHERE complete") == [{"n": 240}]
    assert Spool(spool_folder(path)).pending() == (0, 0)


def test_a_fork_of_a_program_that_has_read_the_store_reads_it_and_ends(make: Any, store: Store) -> None:
    fill(make, store, "t1")
    store.drain()
    assert store.path
    assert end(start("fork", store.path)).splitlines() == ["trajectories 1", "trajectories 1", "ended 0"]


def test_a_writer_killed_loses_only_what_it_had_not_flushed(make: Any, store: Store, rows: Any, tmp_path: Path) -> None:
    assert store.path
    file = make.file(tmp_path / "lines.jsonl", *(make.run(f"t{number}") for number in range(2000)))
    with start("write", spool_folder(store.path), file) as process:
        assert process.stdout
        flushed = sum(process.stdout.readline() == "flushed\n" for _ in range(20))
        process.kill()
        flushed += process.stdout.read().count("flushed")
    assert flushed < 2000
    store.drain()
    (row,) = rows.of(store, "SELECT count(*) AS n FROM trajectories WHERE complete")
    assert flushed <= row["n"] <= flushed + 1  # the last one may have been stored and not yet acknowledged


@pytest.mark.parametrize("where", ["before the commit", "after the commit", "between two files"])
def test_a_drainer_killed_in_the_middle_neither_loses_nor_doubles(
    make: Any, store: Store, rows: Any, where: str
) -> None:
    assert store.path
    fill(make, store, "t1", "t2", "t3")
    writer(store).note_dropped(7, "queue_full")
    process = start("die", store.path, where)
    assert end(process) == ""
    assert process.returncode == -signal.SIGKILL
    store.drain()
    assert rows.of(store, "SELECT count(*) AS n FROM spans") == [{"n": 12}]
    assert rows.of(store, "SELECT sum(spans)::INTEGER AS n FROM drops") == [{"n": 7}]
    assert writer(store).pending() == (0, 0)


def test_a_store_left_with_a_log_by_a_killed_writer_can_be_read(make: Any, store: Store, rows: Any) -> None:
    assert store.path
    fill(make, store, "t1")
    end(start("die", store.path, "after the commit"))
    assert rows.of(store, "SELECT count(*) AS n FROM trajectories") == [{"n": 1}]


def test_a_read_only_view_of_the_file_is_enough_for_a_foreign_tool(make: Any, store: Store) -> None:
    assert store.path
    fill(make, store, "t1")
    store.drain()
    with duckdb.connect(store.path, read_only=True) as con:
        assert con.execute("SELECT hop FROM hops ORDER BY visit").fetchall() == [("chat",), ("chat",)]
