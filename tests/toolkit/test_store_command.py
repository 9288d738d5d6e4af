"""`hopbudget store`: figures first, and nothing out of a window."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hopbudget import keeping
from hopbudget.errors import Exit
from hopbudget.store.duck import Store

Run = Callable[..., Any]
START = 1_767_225_600.0  # the first of the sixty recorded runs, one a minute
DAY_S = 86_400.0


@pytest.fixture
def mine(hopbudget: Run, recorded_runs: Path) -> Path:
    """A store of the small recording that may be changed, in the folder of the test."""
    Store(Path("traces.duckdb")).import_paths([str(recorded_runs)])
    return Path("traces.duckdb")


def trajectories(store: Path) -> int:
    with Store(store).reading() as con:
        return int(con.execute("SELECT count(*) FROM trajectories").fetchall()[0][0])


def prune(older_than: str, *, now: float, **more: Any) -> int:
    options: Any = {"config_path": None, "yes": False, "as_json": False} | more
    return keeping.prune(None, older_than, now=lambda: now, **options)


def test_figures_come_first_and_removing_takes_a_yes(hopbudget: Run, mine: Path) -> None:
    said = hopbudget("store", "prune", "--older-than", "30d", "--json")
    assert said.json["would_remove"]["trajectories"] == 60
    assert said.json["removed"]["trajectories"] == 0
    assert "Add --yes" in hopbudget("store", "prune", "--older-than", "30d").out
    assert trajectories(mine) == 60
    assert hopbudget("store", "prune", "--older-than", "30d", "--yes", "--json").json["removed"]["trajectories"] == 60
    assert trajectories(mine) == 0


def test_only_what_is_older_goes(mine: Path) -> None:
    assert prune("30d", now=START + 30 * DAY_S + 30 * 60 - 1, yes=True) == Exit.DONE
    assert trajectories(mine) == 30


@pytest.mark.parametrize("older_than", ["29d", "1h"])
def test_less_than_the_usual_window_is_refused(hopbudget: Run, mine: Path, older_than: str) -> None:
    said = hopbudget("store", "prune", "--older-than", older_than, "--yes")
    assert said.code == Exit.USAGE
    assert "inside 30d" in said.err
    assert trajectories(mine) == 60


def test_less_than_the_longest_window_of_the_configuration_is_refused(hopbudget: Run, mine: Path) -> None:
    objective = '[[workloads.research.objectives]]\nmetric = "ttft"\npercentile = 95\nlimit = "1s"\nwindow = "90d"\n'
    Path("hopbudget.toml").write_text(objective)
    said = hopbudget("store", "prune", "--older-than", "60d", "--yes")
    assert said.code == Exit.USAGE
    assert "inside 90d, the longest window of hopbudget.toml" in said.err


def test_a_window_that_ended_long_ago_with_its_workload_stays(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objective = '[[workloads.research.objectives]]\nmetric = "ttft"\npercentile = 95\nlimit = "1s"\nwindow = "10min"\n'
    Path("hopbudget.toml").write_text(objective)
    prune("30d", now=START + 300 * DAY_S, yes=True)
    assert trajectories(mine) == 10
    assert "10 trajectories as old stay" in capsys.readouterr().out


@pytest.mark.parametrize("older_than", ["90", "90 parsecs", "soon"])
def test_an_age_that_is_none_is_told(hopbudget: Run, mine: Path, older_than: str) -> None:
    said = hopbudget("store", "prune", "--older-than", older_than)
    assert said.code == Exit.USAGE
    assert "--older-than:" in said.err


def test_compacting_says_what_it_freed(hopbudget: Run, mine: Path) -> None:
    said = hopbudget("store", "compact", "--json")
    assert said.json["bytes_after"] <= said.json["bytes_before"]
    assert trajectories(mine) == 60
    assert "MB became" in hopbudget("store", "compact").out


def test_exporting_says_how_much_and_where(hopbudget: Run, mine: Path) -> None:
    said = hopbudget("store", "export", "--out", "parquet")
    assert "of 1 day in 3 files" in said.out
    assert Path("parquet/hops/day=2026-01-01/hops.parquet").is_file()
    only = hopbudget("store", "export", "--out", "parquet", "--table", "hops", "--json").json
    assert [file["path"] for file in only["files"]] == ["parquet/hops/day=2026-01-01/hops.parquet"]


@pytest.mark.parametrize("words", [["compact"], ["prune", "--older-than", "90d"], ["export", "--out", "x"]])
def test_a_store_that_is_not_there_is_told_and_not_made(hopbudget: Run, words: list[str]) -> None:
    said = hopbudget("store", *words, "--store", "none.duckdb")
    assert said.code == Exit.USAGE
    assert "There is no store at none.duckdb" in said.err
    assert not Path("none.duckdb").exists()


def test_what_was_exported_is_read_like_the_store(hopbudget: Run, mine: Path) -> None:
    hopbudget("store", "export", "--out", "parquet")
    for command in (
        ["report"],
        ["explain", "--slowest", "3"],
        ["report", "--breaches"],
        ["allocate", "--deadline", "p90"],
    ):
        there, back = hopbudget(*command, str(mine), "--json"), hopbudget(*command, "parquet", "--json")
        assert (back.code, back.json) == (there.code, there.json)


def test_an_export_of_hops_alone_says_how_to_get_trajectories(hopbudget: Run, mine: Path) -> None:
    hopbudget("store", "export", "--out", "parquet", "--table", "hops")
    said = hopbudget("report", "parquet")
    assert said.code == Exit.USAGE
    assert "holds no trajectories" in said.err
    assert "hopbudget import parquet/hops/*/hops.parquet" in said.err
