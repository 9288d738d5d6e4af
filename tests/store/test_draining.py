"""The spool drains whole, exactly once, whoever runs beside it or dies in the middle."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from hopbudget.errors import UserError
from hopbudget.store import queries, spool
from hopbudget.store.duck import Store
from hopbudget.store.spool import Spool, spool_folder

fork = multiprocessing.get_context("spawn")


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
    code = "import duckdb, sys; con = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    import subprocess

    with subprocess.Popen(
        [sys.executable, "-c", code, str(store.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout and holder.stdout.readline() == b"open\n"
        impatient = Store(store.path, patience_s=0.05)
        with pytest.raises(UserError, match=f"PID {holder.pid}"), impatient.reading():
            pass
        holder.communicate()


# --- several processes ---------------------------------------------------------------------------------------


def write_spool(folder: Path, word: str, lines: list[bytes], acknowledged: Any) -> None:
    """A process of an agent: append, and only then acknowledge."""
    out = Spool(folder)
    for line in lines:
        out.append([line], 4)
        acknowledged.send(word)


def report_in_a_loop(store: Path, stop: Any, result: Any) -> None:
    """A process of a person who looks again and again."""
    longest_s, rounds = 0.0, 0
    try:
        mine = Store(store)
        while not stop.is_set() or rounds == 0:
            mine.drain()
            if store.exists():
                with mine.reading() as con:
                    queries.report(con, queries.Where())
            rounds += 1
        result.send(("ok", rounds, longest_s))
    except BaseException as error:
        result.send((repr(error), rounds, longest_s))


def test_four_writers_and_two_readers_lose_nothing_double_nothing_and_see_no_lock(
    make: Any, tmp_path: Path, rows: Any
) -> None:
    path = tmp_path / "traces.duckdb"
    stop = fork.Event()
    writers, readers, pipes, results = [], [], [], []
    for word in "abcd":
        lines = [make.line(make.run(f"{word}{number}")) for number in range(60)]
        receive, send = fork.Pipe(duplex=False)
        pipes.append(receive)
        writers.append(fork.Process(target=write_spool, args=(spool_folder(path), word, lines, send)))
    for _ in range(2):
        receive, send = fork.Pipe(duplex=False)
        results.append(receive)
        readers.append(fork.Process(target=report_in_a_loop, args=(path, stop, send)))
    for process in [*readers, *writers]:
        process.start()
    for process in writers:
        process.join()
    stop.set()
    assert [receive.recv()[0] for receive in results] == ["ok", "ok"]
    for process in readers:
        process.join()
    store = Store(path)
    store.drain()
    (row,) = rows.of(store, "SELECT count(*) AS n, count(DISTINCT trace_id || span_id) AS ids FROM spans")
    assert row == {"n": 4 * 60 * 4, "ids": 4 * 60 * 4}
    assert rows.of(store, "SELECT count(*) AS n FROM trajectories WHERE complete") == [{"n": 240}]
    assert Spool(spool_folder(path)).pending() == (0, 0)


def test_a_writer_killed_loses_only_what_it_had_not_flushed(make: Any, store: Store, rows: Any) -> None:
    assert store.path
    lines = [make.line(make.run(f"t{number}")) for number in range(500)]
    receive, send = fork.Pipe(duplex=False)
    process = fork.Process(target=write_spool, args=(spool_folder(store.path), "w", lines, send))
    process.start()
    flushed = 0
    while flushed < 20:
        receive.recv()
        flushed += 1
    assert process.pid
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    while receive.poll():
        receive.recv()
        flushed += 1
    store.drain()
    (row,) = rows.of(store, "SELECT count(*) AS n FROM trajectories WHERE complete")
    assert flushed <= row["n"] <= flushed + 1  # the last one may have been stored and not yet acknowledged


def die_at(store: Path, where: str) -> None:
    """A drainer that is killed at a known place."""
    mine = Store(store)

    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    from hopbudget.store import duck

    if where == "before the commit":
        duck._book = die  # type: ignore[assignment]
    elif where == "after the commit":
        duck._remove_files = die  # type: ignore[assignment]
    else:
        remove: Callable[[list[Any]], None] = duck._remove_files

        def remove_one_and_die(parts: list[Any]) -> None:
            remove(parts[:1])
            die()

        duck._remove_files = remove_one_and_die
    mine.drain()


@pytest.mark.parametrize("where", ["before the commit", "after the commit", "between two files"])
def test_a_drainer_killed_in_the_middle_neither_loses_nor_doubles(
    make: Any, store: Store, rows: Any, where: str
) -> None:
    assert store.path
    fill(make, store, "t1", "t2", "t3")
    writer(store).note_dropped(7, "queue_full")
    process = fork.Process(target=die_at, args=(store.path, where))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    store.drain()
    assert rows.of(store, "SELECT count(*) AS n FROM spans") == [{"n": 12}]
    assert rows.of(store, "SELECT sum(spans)::INTEGER AS n FROM drops") == [{"n": 7}]
    assert writer(store).pending() == (0, 0)


def test_a_store_left_with_a_log_by_a_killed_writer_can_be_read(make: Any, store: Store, rows: Any) -> None:
    assert store.path
    fill(make, store, "t1")
    process = fork.Process(target=die_at, args=(store.path, "after the commit"))
    process.start()
    process.join()
    assert rows.of(store, "SELECT count(*) AS n FROM trajectories") == [{"n": 1}]


def test_a_read_only_view_of_the_file_is_enough_for_a_foreign_tool(make: Any, store: Store) -> None:
    assert store.path
    fill(make, store, "t1")
    store.drain()
    with duckdb.connect(store.path, read_only=True) as con:
        assert con.execute("SELECT hop FROM hops ORDER BY visit").fetchall() == [("chat",), ("chat",)]
