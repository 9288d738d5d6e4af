"""The spool: complete files only, a size cap, every lost span counted."""

import json
from pathlib import Path

import pytest

from hopbudget.store import spool
from hopbudget.store.spool import Pending, Spool, spool_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "traces.duckdb.spool"


def notes(folder: Path) -> dict[str, int]:
    sums: dict[str, int] = {}
    for file in spool.files(folder):
        if file.note:
            spans, reason = spool.read_note(file.path)
            sums[reason] = sums.get(reason, 0) + spans
    return sums


def test_the_folder_stands_beside_the_store() -> None:
    assert spool_folder(Path("data/traces.duckdb")) == Path("data/traces.duckdb.spool")


def test_an_append_makes_one_file_of_the_lines(folder: Path) -> None:
    Spool(folder).append([b'{"a":1}', b'{"b":2}'], 5)
    (file,) = spool.files(folder)
    assert file.path.read_bytes() == b'{"a":1}\n{"b":2}\n'
    assert file.spans == 5


def test_nothing_temporary_is_left_behind(folder: Path) -> None:
    Spool(folder).append([b"{}"], 1)
    assert [path.suffix for path in folder.iterdir()] == [".jsonl"]


def test_files_come_back_in_the_order_they_were_written(folder: Path) -> None:
    first, second = Spool(folder), Spool(folder)
    for number in range(10):
        (first if number % 2 else second).append([str(number).encode()], 1)
    assert [file.path.read_text() for file in spool.files(folder)] == [f"{number}\n" for number in range(10)]


def test_pending_counts_files_and_spans_but_no_notes(folder: Path) -> None:
    writer = Spool(folder)
    writer.append([b"{}"], 3)
    writer.append([b"{}"], 4)
    writer.note_dropped(9, "queue_full")
    assert writer.pending() == Pending(files=2, spans=7)


def test_a_spool_that_was_never_written_is_empty(folder: Path) -> None:
    assert Spool(folder).pending() == Pending(0, 0)


def test_no_lines_make_no_file(folder: Path) -> None:
    Spool(folder).append([], 0)
    assert spool.files(folder) == []


def test_foreign_files_in_the_folder_are_left_alone(folder: Path) -> None:
    folder.mkdir()
    (folder / "mine.jsonl").write_text("{}")
    assert spool.files(folder) == []


def test_past_the_cap_the_oldest_files_go_and_their_spans_are_counted(folder: Path) -> None:
    writer = Spool(folder, max_bytes=1000)
    for number in range(20):
        writer.append([f"{number:099d}".encode()], 2)
    kept = [file for file in spool.files(folder) if not file.note]
    assert sum(file.path.stat().st_size for file in kept) <= 1000
    assert int(kept[-1].path.read_text()) == 19
    assert sum(file.spans for file in kept) + notes(folder)["spool_full"] == 40


def test_the_cap_holds_for_two_writers_of_one_folder(folder: Path) -> None:
    writers = [Spool(folder, max_bytes=1000), Spool(folder, max_bytes=1000)]
    for number in range(40):
        writers[number % 2].append([b"x" * 99], 1)
    kept = [file for file in spool.files(folder) if not file.note]
    assert sum(file.path.stat().st_size for file in kept) <= 1000
    assert len(kept) + notes(folder)["spool_full"] == 40


def test_one_batch_over_the_cap_is_dropped_and_counted(folder: Path) -> None:
    writer = Spool(folder, max_bytes=10)
    writer.append([b"x" * 50], 3)
    assert writer.pending() == Pending(0, 0)
    assert notes(folder) == {"spool_full": 3}


def test_a_note_says_how_many_and_why(folder: Path) -> None:
    Spool(folder).note_dropped(7, "queue_full")
    (file,) = spool.files(folder)
    assert file.note
    assert json.loads(file.path.read_text()) == {"spans": 7, "reason": "queue_full"}


def test_a_note_of_nothing_is_not_written(folder: Path) -> None:
    Spool(folder).note_dropped(0, "queue_full")
    assert spool.files(folder) == []


def test_a_torn_note_still_counts_by_its_name(folder: Path) -> None:
    Spool(folder).note_dropped(7, "queue_full")
    (file,) = spool.files(folder)
    file.path.write_text('{"spans"')
    assert spool.read_note(file.path) == (7, "unknown")


def test_an_undrained_spool_does_not_fill_with_notes(folder: Path) -> None:
    noter = Spool(folder)
    for _ in range(300):
        noter.note_dropped(1, "queue_full")
    Spool(folder).append([b"{}"], 1)
    assert notes(folder) == {"queue_full": 300}
    assert len(spool.files(folder)) == 2


def test_temporary_files_of_dead_writers_go_and_those_of_living_ones_stay(folder: Path) -> None:
    folder.mkdir()
    temporary = folder / ".00000000000000000001-1-1-1.jsonl.tmp"
    temporary.write_text("{")
    written_at = temporary.stat().st_mtime
    spool.remove_stale(folder, now_s=written_at + 10)
    assert temporary.exists()
    spool.remove_stale(folder, now_s=written_at + 7200)
    assert not temporary.exists()


def test_a_failed_write_raises_and_leaves_nothing(folder: Path) -> None:
    folder.write_text("a file where the folder should be")
    with pytest.raises(OSError):
        Spool(folder).append([b"{}"], 1)
