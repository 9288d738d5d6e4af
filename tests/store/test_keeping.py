"""Pruning, compacting and exporting: what goes, what stays, and who may go on meanwhile."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from hopbudget.errors import UserError
from hopbudget.store import keeping
from hopbudget.store import objectives as stored
from hopbudget.store.duck import Store
from hopbudget.store.instances import Instance
from hopbudget.store.narrow import Where

PROCESSES = Path(__file__).with_name("processes.py")
T0 = 1_700_000_000.0
DAY_S = 86_400.0
TABLES = keeping.TABLES


def counts(store: Store, rows: Any) -> dict[str, int]:
    return {table: rows.of(store, f"SELECT count(*) AS n FROM {table}")[0]["n"] for table in TABLES}


@pytest.fixture
def ten_days(make: Any, store: Store, tmp_path: Path) -> Store:
    """A run a day for ten days: t0 the oldest."""
    runs = [make.run(f"t{day}", at=day * DAY_S) for day in range(10)]
    store.import_paths([make.file(tmp_path / "a.jsonl", *runs)])
    return store


def names(store: Store, make: Any, rows: Any) -> list[str]:
    found = rows.of(store, "SELECT trace_id FROM trajectories ORDER BY started_at")
    known = {make.trace_id(f"t{day}"): f"t{day}" for day in range(10)}
    return [known[row["trace_id"]] for row in found]


def test_what_began_before_goes_from_every_table(ten_days: Store, make: Any, rows: Any) -> None:
    with ten_days.reading() as con:
        found = keeping.doomed(con, T0 + 4 * DAY_S, [])
    assert found.counts == {"spans": 16, "trajectories": 4, "hops": 8, "works": 4}
    assert keeping.remove(ten_days, found.trace_ids) == found.counts
    assert counts(ten_days, rows) == {"spans": 24, "trajectories": 6, "hops": 12, "works": 6}
    assert names(ten_days, make, rows) == ["t4", "t5", "t6", "t7", "t8", "t9"]


def test_looking_removes_nothing(ten_days: Store, rows: Any) -> None:
    before = counts(ten_days, rows)
    with ten_days.reading() as con:
        keeping.doomed(con, T0 + 100 * DAY_S, [])
    assert counts(ten_days, rows) == before


def test_what_is_inside_a_window_stays_and_is_counted(ten_days: Store, make: Any, rows: Any) -> None:
    with ten_days.reading() as con:
        window = (stored.scope(Where(), {"name": "bot"}), T0 + 2.5 * DAY_S)
        other = (stored.scope(Where(), {"name": "other", "region": "eu"}), 0.0)
        found = keeping.doomed(con, T0 + 5 * DAY_S, [window, other])
    keeping.remove(ten_days, found.trace_ids)
    assert found.kept == 2
    assert names(ten_days, make, rows)[0] == "t3"


def test_a_trace_stays_whole_while_one_of_its_trajectories_does(
    make: Any, store: Store, rows: Any, tmp_path: Path
) -> None:
    old, new = make.agent("a", 0, 1, trace="both"), make.agent("b", DAY_S, DAY_S + 1, trace="both")
    store.import_paths([make.file(tmp_path / "a.jsonl", [old, new])])
    with store.reading() as con:
        found = keeping.doomed(con, T0 + 0.5 * DAY_S, [])
    assert (found.trace_ids, found.kept) == ([], 1)


def test_many_are_removed_some_at_a_time_and_others_get_their_turn(
    ten_days: Store, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "BATCH", 3)
    turns: list[float] = []
    with ten_days.reading() as con:
        found = keeping.doomed(con, T0 + 8 * DAY_S, [])

    def pause(seconds: float) -> None:
        turns.append(seconds)
        with Store(ten_days.path).writing():  # nobody holds it
            pass

    keeping.remove(ten_days, found.trace_ids, pause)
    assert len(turns) == 2
    assert counts(ten_days, rows)["trajectories"] == 2


def test_late_spans_of_a_removed_trace_come_as_any_others(
    ten_days: Store, make: Any, rows: Any, tmp_path: Path
) -> None:
    with ten_days.reading() as con:
        keeping_out = keeping.doomed(con, T0 + DAY_S, [])
    keeping.remove(ten_days, keeping_out.trace_ids)
    ten_days.import_paths([make.file(tmp_path / "late.jsonl", make.run("t0"))])
    assert names(ten_days, make, rows)[0] == "t0"


def test_compacting_keeps_every_row_and_gives_the_room_back(
    ten_days: Store, make: Any, rows: Any, tmp_path: Path
) -> None:
    many = [make.run(f"x{number}", at=number * 100.0) for number in range(1_000)]
    ten_days.import_paths([make.file(tmp_path / "many.jsonl", *many)])
    with ten_days.reading() as con:
        found = keeping.doomed(con, T0 + 0.9 * DAY_S, [])
    keeping.remove(ten_days, found.trace_ids)
    kept = [rows.of(ten_days, f"SELECT * FROM {table} ORDER BY ALL") for table in TABLES]
    order = rows.of(ten_days, "SELECT span_id FROM spans ORDER BY rowid")
    before, after = keeping.compact(ten_days, pause=lambda _: None)
    assert after < before
    assert [rows.of(ten_days, f"SELECT * FROM {table} ORDER BY ALL") for table in TABLES] == kept
    assert rows.of(ten_days, "SELECT span_id FROM spans ORDER BY rowid") == order
    assert rows.of(ten_days, "SELECT count(*) AS n FROM gaps") == [{"n": 0}]
    assert sorted(path.name for path in tmp_path.glob("traces*")) == ["traces.duckdb"]
    ten_days.import_paths([make.file(tmp_path / "more.jsonl", make.run("later"))])
    assert counts(ten_days, rows)["trajectories"] == len(kept[1]) + 1


def open_files() -> dict[str, str]:
    """What this process has open, by number."""
    found = {}
    for link in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(FileNotFoundError):  # the listing's own
            found[link.name] = str(link.readlink())
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc, to open a file that lost its name")
def test_who_opened_the_old_file_is_refused_it_until_the_new_one_has_its_name(ten_days: Store) -> None:
    said: list[str] = []

    def pause(_: float) -> None:
        (old,) = [number for number, target in open_files().items() if target == f"{ten_days.path} (deleted)"]
        old_file = f"os.open('/proc/{os.getpid()}/fd/{old}', os.O_RDWR)"
        code = f"import fcntl, os; fcntl.lockf({old_file}, fcntl.LOCK_EX | fcntl.LOCK_NB)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        said.append(done.stderr)

    keeping.compact(ten_days, pause)
    assert "BlockingIOError" in said[0]


def test_a_second_compaction_is_refused_while_one_is_under_way(ten_days: Store) -> None:
    def pause(_: float) -> None:
        with pytest.raises(UserError, match="Another compaction is under way"):
            keeping.compact(Store(ten_days.path))

    keeping.compact(ten_days, pause)
    keeping.compact(ten_days, lambda _: None)


def test_a_compaction_that_fails_leaves_the_store_and_nothing_beside_it(
    ten_days: Store, rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = counts(ten_days, rows)

    def full(_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(keeping.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        keeping.compact(ten_days)
    monkeypatch.undo()
    assert counts(ten_days, rows) == before
    assert sorted(path.name for path in tmp_path.glob("traces*")) == ["traces.duckdb"]


def test_what_a_killed_compaction_left_is_removed(ten_days: Store, tmp_path: Path) -> None:
    (tmp_path / "traces.duckdb.4711.compact").write_bytes(b"half")
    keeping.compact(ten_days, pause=lambda _: None)
    assert list(tmp_path.glob("*.compact*")) == []


def test_a_disk_without_room_is_told_before(ten_days: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 10})
    monkeypatch.setattr(keeping.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(UserError, match="too little room"):
        keeping.compact(ten_days)


def test_nothing_is_lost_when_agents_write_and_others_drain_and_read_while_it_compacts(
    make: Any, store: Store, rows: Any, tmp_path: Path
) -> None:
    runs = 30
    lines = tmp_path / "lines.jsonl"
    lines.write_bytes(b"".join(make.line(make.run(f"w{number}")) + b"\n" for number in range(runs)))
    assert store.path is not None
    assert store.spool is not None
    store.import_paths([make.file(tmp_path / "first.jsonl", make.run("first"))])
    until = tmp_path / "done"

    def start(*words: str | Path) -> "subprocess.Popen[str]":
        command = [sys.executable, str(PROCESSES), *map(str, words)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    agent = start("write", store.spool, lines)
    reader = start("report", store.path, until)
    compactions = 0
    while agent.poll() is None or compactions < 3:
        keeping.compact(store)
        compactions += 1
    until.touch()
    for process in (agent, reader):
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    store.drain()
    assert counts(store, rows)["spans"] == (runs + 1) * 4
    assert rows.of(store, "SELECT count(DISTINCT span_id || trace_id) AS n FROM spans") == [{"n": (runs + 1) * 4}]


@pytest.mark.parametrize("fails", [False, True], ids=["opened", "failed"])
def test_who_opened_the_file_that_was_replaced_meanwhile_looks_again(
    make: Any, store: Store, rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    store.import_paths([make.file(tmp_path / "a.jsonl", make.run("a"))])
    assert store.path is not None
    compacted = Store(tmp_path / "compacted.duckdb")
    compacted.import_paths([make.file(tmp_path / "b.jsonl", make.run("b"), make.run("c"))])
    assert compacted.path is not None
    real, fresh = Instance.open, [compacted.path]

    def opened(instance: Instance, path: Path) -> duckdb.DuckDBPyConnection:
        con = real(instance, path)
        if fresh:
            fresh.pop().replace(path)
            if fails:
                instance.close(con, path)
                raise duckdb.SerializationException("Failed to deserialize: field id mismatch")
        return con

    monkeypatch.setattr(Instance, "open", opened)
    with store.reading() as con:
        assert con.execute("SELECT count(*) FROM trajectories").fetchall() == [(2,)]


def test_each_day_becomes_a_file_a_table_that_holds_the_days_rows(ten_days: Store, tmp_path: Path) -> None:
    files = dict(keeping.export(ten_days, tmp_path / "out"))
    assert len(files) == 30
    assert sum(files.values()) == 10 + 20 + 10
    day = tmp_path / "out" / "hops" / "day=2023-11-14" / "hops.parquet"
    assert files[day] == 2
    found = duckdb.sql(f"SELECT count(*), count(DISTINCT day) FROM '{tmp_path}/out/hops/*/*.parquet'").fetchall()
    assert found == [(20, 10)]
    assert list((tmp_path / "out").rglob("*.tmp")) == []


def test_a_hop_past_midnight_is_on_its_trajectorys_day(make: Any, store: Store, tmp_path: Path) -> None:
    midnight = 86_400 - T0 % 86_400
    run = make.run("late", at=midnight - 4)
    store.import_paths([make.file(tmp_path / "a.jsonl", run)])
    files = dict(keeping.export(store, tmp_path / "out", ["hops"]))
    assert list(files.values()) == [2]


def test_exporting_again_after_a_prune_keeps_the_days_that_went(ten_days: Store, tmp_path: Path) -> None:
    out = tmp_path / "it's here"
    list(keeping.export(ten_days, out, ["trajectories"]))
    with ten_days.reading() as con:
        found = keeping.doomed(con, T0 + 5 * DAY_S, [])
    keeping.remove(ten_days, found.trace_ids)
    assert len(list(keeping.export(ten_days, out, ["trajectories"]))) == 5
    assert len(list(out.rglob("*.parquet"))) == 10


def test_a_disk_that_is_full_during_an_export_is_said_and_what_was_written_stays(
    ten_days: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, left = keeping._export_day, [4]

    def export_day(con: duckdb.DuckDBPyConnection, *given: Any) -> int:
        left[0] -= 1
        if not left[0]:
            raise duckdb.IOException('Could not write: {"message":"No space left on device","errno":"28"}')
        return real(con, *given)

    monkeypatch.setattr(keeping, "_export_day", export_day)
    with pytest.raises(UserError, match=r"hops.parquet can't be written: No space left on device\. The files before"):
        list(keeping.export(ten_days, tmp_path / "out", ["hops"]))
    assert len(list((tmp_path / "out").rglob("*.parquet"))) == 3
