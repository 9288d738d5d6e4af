"""Tables of hops in Parquet files, with columns named by somebody else."""

from pathlib import Path

import duckdb
import pytest

from hopbudget.errors import UserError
from hopbudget.store.duck import Store
from hopbudget.store.parquet import Column, read_columns

ROWS = """
    SELECT 'run' || (i // 3) AS request, 'step' || (i % 3) AS step, 600 AS whole_ms,
           make_timestamp(1700000000000000 + 1000000 * (i // 3) + 150000 * (i % 3)) AS ts, 100.0 + i AS latency,
           20 AS first, 'm' AS llm, 11 AS n, CASE WHEN i = 8 THEN 'failed' ELSE 'ok' END AS state,
           's' || (i // 6) AS talk
    FROM range(9) t(i)
"""
PAIRS = (
    *("trace=request", "hop=step", "start=ts", "duration=latency:ms", "ttft=first:ms", "model=llm"),
    *("output_tokens=n", "outcome=state", "session=talk"),
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "hops.parquet"
    duckdb.connect().execute(f"COPY ({ROWS}) TO '{path}' (FORMAT parquet)")
    return path


def test_rows_become_hops_of_trajectories_that_last_as_long_as_they(table: Path, store: Store) -> None:
    result = store.import_paths([table], columns=read_columns(None, PAIRS))
    assert (result.trajectories, result.hops, result.rejected) == (3, 9, [])
    with store.reading() as con:
        hops = con.execute(
            "SELECT hop, visit, round(duration_s, 3), ttft_s, model, output_tokens, outcome, session, source, streamed "
            "FROM hops ORDER BY started_at"
        ).fetchall()
        times = con.execute("SELECT round(duration_s, 3), complete FROM trajectories ORDER BY started_at").fetchall()
    assert hops[0] == ("step0", 1, 0.1, 0.02, "m", 11, "ok", "s0", "Parquet", True)
    assert hops[8][:3] == ("step2", 1, 0.108)
    assert [row[6] for row in hops] == ["ok"] * 8 + ["failed"]
    assert times == [(0.402, True), (0.405, True), (0.408, True)]


def test_columns_that_say_how_long_a_trajectory_took_go_before_the_extent(table: Path, store: Store) -> None:
    store.import_paths([table], columns=read_columns(None, (*PAIRS, "trajectory_duration=whole_ms:ms")))
    with store.reading() as con:
        assert con.execute("SELECT DISTINCT round(duration_s, 3) FROM trajectories").fetchall() == [(0.6,)]


def test_importing_it_again_adds_nothing(table: Path, store: Store) -> None:
    columns = read_columns(None, PAIRS)
    store.import_paths([table], columns=columns)
    again = store.import_paths([table], columns=columns)
    assert (again.spans, again.duplicates) == (0, 12)


def test_our_own_names_need_no_map(table: Path, store: Store, tmp_path: Path) -> None:
    store.import_paths([table], columns=read_columns(None, PAIRS))
    path = tmp_path / "ours.parquet"
    with store.reading() as con:
        con.execute(f"COPY hops TO '{path}' (FORMAT parquet)")
    other = Store(tmp_path / "other.duckdb")
    assert other.import_paths([path]).hops == 9
    with other.reading() as con:
        assert con.execute("SELECT min(hop), max(model), count(ttft_s) FROM hops").fetchall() == [("step0", "m", 9)]


def test_the_map_may_be_a_file_and_pairs_go_before_it(tmp_path: Path) -> None:
    file = tmp_path / "map.toml"
    file.write_text('[columns]\nhop = "step"\nduration = "latency:ms"\n')
    assert read_columns(str(file), ("hop=node",)) == {"hop": Column("node"), "duration": Column("latency", "ms")}


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ((), "which column is the trace"),
        (("trace=request",), "which column is the start"),
        (("trace=request", "start=ts"), "how long did a hop take"),
        (("trace=nothing",), "has no column 'nothing' for trace. It has: request, step"),
    ],
)
def test_a_column_that_is_missing_is_a_sentence_with_what_there_is(
    table: Path, store: Store, pairs: tuple[str, ...], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        store.import_paths([table], columns=read_columns(None, pairs))


@pytest.mark.parametrize("pair", ["hop", "nonsense=x", "duration=x:weeks", "hop="])
def test_a_map_that_means_nothing_is_refused(pair: str) -> None:
    with pytest.raises(UserError):
        read_columns(None, (pair,))


def test_a_file_that_is_no_parquet_is_rejected(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"hello")
    result = store.import_paths([path])
    assert "can't be read as Parquet" in result.rejected[0].reason
