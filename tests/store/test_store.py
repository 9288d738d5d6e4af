"""The store keeps each span once, whatever comes twice, late, in pieces or in several files."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from hopbudget.errors import Exit, UserError
from hopbudget.store.batch import Part, make_ready
from hopbudget.store.duck import Store
from hopbudget.store.importing import find_files
from hopbudget.store.open import check_fillable, open_source
from hopbudget.store.spool import Spool, spool_folder


def counts(store: Store, rows: Any) -> list[int]:
    tables = ("spans", "trajectories", "hops", "works")
    return [rows.of(store, f"SELECT count(*) AS n FROM {table}")[0]["n"] for table in tables]


def test_an_import_says_what_it_added(make: Any, store: Store, tmp_path: Path) -> None:
    result = store.import_paths([make.file(tmp_path / "a.jsonl", make.run("t1"), make.run("t2"))])
    assert result.as_json() == {
        "files": 1,
        "spans": 8,
        "duplicates": 0,
        "trajectories": 2,
        "hops": 4,
        "works": 2,
        "dropped_content": 0,
        "rejected": [],
        "rejected_count": 0,
    }


def test_importing_again_under_another_name_adds_nothing(make: Any, store: Store, rows: Any, tmp_path: Path) -> None:
    store.import_paths([make.file(tmp_path / "a.jsonl", make.run("t1"))])
    again = store.import_paths([make.file(tmp_path / "b.jsonl", make.run("t1"))])
    assert (again.spans, again.duplicates, again.trajectories, again.hops, again.works) == (0, 4, 0, 0, 0)
    assert counts(store, rows) == [4, 1, 2, 1]


def test_a_span_twice_in_one_file_is_stored_once(make: Any, store: Store, rows: Any, tmp_path: Path) -> None:
    result = store.import_paths([make.file(tmp_path / "a.jsonl", make.run("t1"), make.run("t1"))])
    assert (result.spans, result.duplicates) == (4, 4)
    assert counts(store, rows) == [4, 1, 2, 1]


def test_a_trace_that_comes_in_pieces_is_as_one_that_came_whole(
    make: Any, store: Store, rows: Any, tmp_path: Path
) -> None:
    root, *below = make.run("t1")
    for number, span in enumerate([*below, root]):
        store.import_paths([make.file(tmp_path / f"{number}.jsonl", [span])])
    whole = Store(tmp_path / "whole.duckdb")
    whole.import_paths([make.file(tmp_path / "all.jsonl", make.run("t1"))])
    for table in ("trajectories", "hops", "works"):
        sql = f"SELECT * FROM {table} ORDER BY ALL"
        assert rows.of(store, sql) == rows.of(whole, sql)


def test_until_its_root_comes_a_trajectory_is_incomplete(make: Any, store: Store, rows: Any, tmp_path: Path) -> None:
    root, *below = make.run("t1")
    first = store.import_paths([make.file(tmp_path / "a.jsonl", below)])
    (row,) = rows.of(store, "SELECT complete, root_span_id FROM trajectories")
    assert row == {"complete": False, "root_span_id": make.span_id("bot")}
    second = store.import_paths([make.file(tmp_path / "b.jsonl", [root])])
    (row,) = rows.of(store, "SELECT complete, root_span_id FROM trajectories")
    assert row == {"complete": True, "root_span_id": make.span_id("bot")}
    assert (first.trajectories, second.trajectories, second.hops) == (1, 0, 0)


def test_a_trace_over_several_transactions_is_put_together(make: Any, rows: Any, tmp_path: Path) -> None:
    store = Store(tmp_path / "small.duckdb")
    store.batch_spans = 1
    spans = [make.agent("bot", 0, 2000), *(make.chat(f"c{n}", n, n + 1, parent="bot") for n in range(20))]
    result = store.import_paths([make.file(tmp_path / "a.jsonl", *([span] for span in spans))])
    assert (result.spans, result.trajectories, result.hops) == (21, 1, 20)
    assert rows.of(store, "SELECT hop_count FROM trajectories") == [{"hop_count": 20}]


def test_one_batch_after_another_may_hold_the_same_traces_and_spans(make: Any, store: Store, rows: Any) -> None:
    root, first, *others = make.spans(*make.run("t1"))
    later = make.spans(*make.run("t2"))
    given = [[first, *later], [root, first], [*others, root]]
    added = [store.put(make_ready([Part(spans)])) for spans in given]
    assert [(counts.spans, counts.duplicates, counts.trajectories) for counts in added] == [
        (5, 0, 2),
        (1, 1, 0),
        (2, 1, 0),
    ]
    assert counts(store, rows) == [8, 2, 4, 2]
    assert rows.of(store, "SELECT DISTINCT complete, hop_count FROM trajectories") == [
        {"complete": True, "hop_count": 2}
    ]


def test_times_are_utc_and_the_attributes_a_map(make: Any, store: Store, rows: Any, tmp_path: Path) -> None:
    store.import_paths([make.file(tmp_path / "a.jsonl", make.run("t1"))])
    (row,) = rows.of(store, "SELECT started_at::VARCHAR AS at, attributes['service.name'] AS service FROM trajectories")
    assert row == {"at": "2023-11-14 22:13:20", "service": "svc"}


def test_the_gaps_view_has_a_row_a_gap_and_marks_the_one_left_open(
    make: Any, store: Store, rows: Any, tmp_path: Path
) -> None:
    from hopbudget.tracing.gaps import GapRecorder

    gaps = GapRecorder()
    gaps.add(20_000)
    gaps.add(30_000)
    gaps.leave_open(2_000_000)
    own = {"hopbudget.hop": "answer", "hopbudget.itl": gaps.encode(), "gen_ai.request.stream": True}
    store.import_paths([make.file(tmp_path / "a.jsonl", [make.chat("c", 0, 5, attributes=own)])])
    found = rows.of(store, "SELECT hop, gap, gap_s, censored FROM gaps ORDER BY gap")
    assert [tuple(row.values()) for row in found] == [
        ("answer", 1, 0.02, False),
        ("answer", 2, 0.03, False),
        ("answer", 3, 2.0, True),
    ]


def test_text_that_no_database_expects_comes_back_as_it_was(make: Any, store: Store, rows: Any, tmp_path: Path) -> None:
    odd = "a\x00b '\"; DROP TABLE spans; \x1f\n 日本語 🚀"
    store.import_paths([make.file(tmp_path / "a.jsonl", [make.agent("bot", 0, 1, attributes={"odd": odd})])])
    assert rows.of(store, "SELECT attributes['odd'] AS odd FROM trajectories") == [{"odd": odd}]


def test_a_lone_surrogate_costs_its_line_at_most(make: Any, store: Store, tmp_path: Path) -> None:
    path = make.file(tmp_path / "a.jsonl", make.run("t1"))
    path.write_bytes(path.read_bytes().replace(b"svc", b"\\ud800") + make.line(make.run("t2")) + b"\n")
    assert store.import_paths([path]).trajectories >= 1


def test_the_store_in_memory_is_the_same_without_a_file(make: Any, rows: Any, tmp_path: Path) -> None:
    store = Store(None)
    store.import_paths([make.file(tmp_path / "a.jsonl", make.run("t1"))])
    assert counts(store, rows) == [4, 1, 2, 1]
    assert list(tmp_path.glob("*.duckdb*")) == []


# --- files ---------------------------------------------------------------------------------------------------


def test_folders_and_globs_name_their_files_each_once(make: Any, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("a.jsonl", "b.json", "deep/c.ndjson.gz", "notes.txt"):
        (tmp_path / name).write_text("{}")
    found = find_files([tmp_path, str(tmp_path / "*.json*"), tmp_path / "a.jsonl"])
    assert [path.name for path in found] == ["a.jsonl", "b.json", "c.ndjson.gz"]


@pytest.mark.parametrize(
    ("given", "words", "code"),
    [
        ("missing.jsonl", "There is no file missing.jsonl", Exit.USAGE),
        ("*.jsonl", "No file matches *.jsonl", Exit.NO),
        (".", "No OTLP/JSON file", Exit.NO),
    ],
)
def test_paths_that_name_nothing_are_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, words: str, code: Exit
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as caught:
        find_files([given])
    assert words in caught.value.message
    assert caught.value.exit_code == code


def test_zipped_files_are_told_by_their_first_bytes(make: Any, store: Store, tmp_path: Path) -> None:
    path = tmp_path / "named-wrongly.jsonl"
    path.write_bytes(gzip.compress(make.line(make.run("t1"))))
    assert store.import_paths([path]).trajectories == 1


def test_a_line_that_is_not_json_is_rejected_with_file_and_line_and_the_rest_is_imported(
    make: Any, store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join([make.line(make.run("t1")), b"oops", b"", make.line(make.run("t2"))]))
    result = store.import_paths([path])
    assert result.trajectories == 2
    (rejection,) = result.rejected
    assert rejection.where == f"{path}:2"
    assert rejection.reason.startswith("not JSON")


def test_a_zipped_file_cut_off_keeps_what_came_before(make: Any, store: Store, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    text = b"".join(make.line(make.run(f"t{number}")) + b"\n" for number in range(3000))
    whole = gzip.compress(text)
    path.write_bytes(whole[: len(whole) // 2])
    result = store.import_paths([path])
    assert 0 < result.trajectories < 3000
    assert "cut off" in result.rejected[-1].reason


def test_of_a_small_zipped_file_cut_in_half_the_first_half_is_kept(make: Any, store: Store, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    whole = gzip.compress(b"".join(make.line(make.run(f"t{number}")) + b"\n" for number in range(60)), 1)
    path.write_bytes(whole[: len(whole) // 2])
    assert 15 < store.import_paths([path]).trajectories < 60


def test_zipped_files_one_after_another_in_one_file_are_all_read(make: Any, store: Store, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    parts = [gzip.compress(make.line(make.run(word)) + b"\n") for word in ("t1", "t2")]
    path.write_bytes(b"\0".join(parts) + b"\0\0")
    result = store.import_paths([path])
    assert (result.trajectories, result.rejected) == (2, [])


def test_a_store_of_the_first_version_is_brought_up_to_date(make: Any, store: Store, rows: Any, tmp_path: Path) -> None:
    from hopbudget.store import schema

    with duckdb.connect(store.path) as con, pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "VERSION", 1)
        schema.migrate(con, 0)
    store.import_paths([make.file(tmp_path / "a.jsonl", make.run("t1"))])
    assert rows.of(store, "SELECT max(number) AS n FROM migrations") == [{"n": schema.VERSION}]
    assert counts(store, rows) == [4, 1, 2, 1]


def test_rejections_past_a_thousand_are_counted_but_not_kept(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"oops\n" * 1500)
    result = store.import_paths([path])
    assert (result.rejected_count, len(result.rejected)) == (1500, 1000)


def test_progress_ends_at_the_whole_size(make: Any, store: Store, tmp_path: Path) -> None:
    path = make.file(tmp_path / "a.jsonl", make.run("t1"))
    seen: list[tuple[str, int, int]] = []
    store.import_paths([path], lambda name, done, total: seen.append((name, done, total)))
    size = path.stat().st_size
    assert seen[-1] == ("a.jsonl", size, size)


# --- the file as it is found ---------------------------------------------------------------------------------


def test_a_store_from_a_newer_version_is_refused(make: Any, store: Store, tmp_path: Path) -> None:
    store.import_paths([make.file(tmp_path / "a.jsonl", make.run("t1"))])
    with store.writing() as con:
        con.execute("INSERT INTO migrations VALUES (99, now()::TIMESTAMP)")
    for opening in (store.reading, store.writing):
        with pytest.raises(UserError, match="newer hopbudget") as caught, opening():
            pass
        assert caught.value.exit_code == Exit.ENVIRONMENT


def test_a_file_that_is_no_duckdb_file_is_refused(make: Any, store: Store, tmp_path: Path) -> None:
    assert store.path
    store.path.write_text("hello, I am a text and long enough to be one " * 200)
    with pytest.raises(UserError, match="not a DuckDB file"):
        store.import_paths([make.file(tmp_path / "a.jsonl", make.run("t1"))])


@pytest.mark.parametrize("table", ["mine", "migrations"])
def test_somebody_elses_duckdb_file_is_refused_and_left_alone(
    table: str, make: Any, store: Store, tmp_path: Path
) -> None:
    assert store.path
    with duckdb.connect(store.path) as con:
        con.execute(f"CREATE TABLE {table} (a INTEGER)")
    with pytest.raises(UserError, match="not a hopbudget store"):
        store.import_paths([make.file(tmp_path / "a.jsonl", make.run("t1"))])
    with duckdb.connect(store.path) as con:
        assert con.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [(table,)]


def test_a_store_that_lost_a_table_is_called_damaged(make: Any, store: Store, tmp_path: Path) -> None:
    store.import_paths([make.file(tmp_path / "a.jsonl", make.run("t1"))])
    assert store.path
    with duckdb.connect(store.path) as con:
        con.execute("DROP VIEW gaps; DROP TABLE hops")
    with (
        pytest.raises(UserError, match=r"damaged, or another program changed its tables: .*hops"),
        store.reading() as con,
    ):
        con.execute("SELECT count(*) FROM hops")


def test_an_import_that_fails_on_its_way_says_how_much_is_in(
    make: Any, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [make.file(tmp_path / f"{word}.jsonl", make.run(word)) for word in ("t1", "t2")]
    store.batch_spans = 2
    real, puts = store.put, []

    def put(*given: Any) -> Any:
        puts.append(given)
        if len(puts) == 2:
            raise UserError("No room.", Exit.ENVIRONMENT)
        return real(*given)

    monkeypatch.setattr(store, "put", put)
    with pytest.raises(
        UserError, match=r"^No room\. Before that 1 trajectory went in; import again to add the rest\.$"
    ):
        store.import_paths(files)


def test_what_waits_beside_a_store_that_can_not_be_written_is_told_and_the_store_is_read(
    make: Any, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store.import_paths([make.file(tmp_path / "a.jsonl", make.run("t1"))])
    assert store.path
    Spool(spool_folder(store.path)).append([make.line(make.run("t2"))], 4)
    monkeypatch.setattr("hopbudget.store.open.os.access", lambda path, how: False)
    with open_source([], store.path).reading() as con:
        assert con.execute("SELECT count(*) FROM trajectories").fetchall() == [(1,)]
    said = f"{store.path} can't be written, so 1 file waits in its spool; shown is what it holds\n"
    assert capsys.readouterr().err == said


def test_what_can_not_be_recorded_into_is_told_beforehand(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere does not exist"):
        check_fillable(tmp_path / "nowhere" / "traces.duckdb")
    (tmp_path / "other.duckdb").write_text("no database")
    with pytest.raises(UserError, match="not a DuckDB file"):
        check_fillable(tmp_path / "other.duckdb")
    check_fillable(tmp_path / "new.duckdb")


def test_a_folder_that_is_not_there_is_named(make: Any, tmp_path: Path) -> None:
    store = Store(tmp_path / "nowhere" / "traces.duckdb")
    with pytest.raises(UserError, match="nowhere does not exist"):
        store.import_paths([make.file(tmp_path / "a.jsonl", make.run("t1"))])


def test_reading_where_nothing_was_stored_says_so(store: Store) -> None:
    with pytest.raises(UserError, match="There is no store"), store.reading():
        pass


def test_a_failed_write_leaves_the_store_as_it_was(make: Any, store: Store, rows: Any, tmp_path: Path) -> None:
    store.import_paths([make.file(tmp_path / "a.jsonl", make.run("t1"))])
    with pytest.raises(duckdb.Error), store.writing() as con:
        con.execute("DELETE FROM spans")
        con.execute("SELECT no_such_column FROM spans")
    assert counts(store, rows) == [4, 1, 2, 1]


_WITH_A_LIMIT = """
import resource, sys
from hopbudget.cli import run
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
sys.exit(run(sys.argv[2:]))
"""


def test_a_file_that_can_not_grow_is_one_sentence_and_loses_nothing(
    make: Any, store: Store, rows: Any, tmp_path: Path
) -> None:
    store.import_paths([make.file(tmp_path / "a.jsonl", make.run("t1"))])
    assert store.path
    more = make.file(tmp_path / "b.jsonl", *(make.run(f"more{number}") for number in range(400)))
    command = ["import", str(more), "--store", str(store.path)]
    size = str(store.path.stat().st_size)
    done = subprocess.run(
        [sys.executable, "-c", _WITH_A_LIMIT, size, *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == Exit.ENVIRONMENT
    assert "can't be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert counts(store, rows) == [4, 1, 2, 1]


def test_the_columns_of_a_row_and_of_its_table_are_the_same(store: Store) -> None:
    from hopbudget.store.tables import TABLES

    with store.writing():
        pass
    with store.reading() as con:
        for table, row in TABLES.items():
            found = con.execute(f"SELECT column_name FROM duckdb_columns() WHERE table_name = '{table}'").fetchall()
            assert tuple(name for (name,) in found) == row.__struct_fields__


def test_a_document_and_its_lines_give_the_same_rows(make: Any, store: Store, rows: Any, tmp_path: Path) -> None:
    path = tmp_path / "pretty.json"
    path.write_text(json.dumps([make.request(make.run("t1")), make.request(make.run("t2"))], indent=2))
    store.import_paths([path])
    lines = Store(tmp_path / "lines.duckdb")
    lines.import_paths([make.file(tmp_path / "a.jsonl", make.run("t1"), make.run("t2"))])
    for table in ("spans", "trajectories", "hops", "works"):
        sql = f"SELECT * FROM {table} ORDER BY ALL"
        assert rows.of(store, sql) == rows.of(lines, sql)
