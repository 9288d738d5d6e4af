"""A page with nothing to show says so, and what to type."""

from collections.abc import Callable
from pathlib import Path

import duckdb
from streamlit.testing.v1 import AppTest

from hopbudget.store.duck import Store

OpenPage = Callable[..., AppTest]


def test_without_a_store_the_page_names_three_ways_to_make_one(open_page: OpenPage, tmp_path: Path) -> None:
    store = tmp_path / "none.duckdb"

    opened = open_page(store)

    assert not opened.exception
    commands = [code.value for code in opened.code]
    assert f"hopbudget demo --store {store}" in commands
    assert f"hopbudget import runs.jsonl --store {store}" in commands
    assert any(f'hb.init("{store}")' in command for command in commands)
    assert not store.exists()


def test_an_empty_store_is_told_from_a_missing_one(open_page: OpenPage, tmp_path: Path) -> None:
    store = tmp_path / "empty.duckdb"
    with Store(store).writing():
        pass

    opened = open_page(store)

    assert not opened.exception
    assert any("holds no trajectory" in text.value for text in opened.markdown)


def test_a_store_of_a_newer_version_asks_for_an_upgrade(open_page: OpenPage, tmp_path: Path) -> None:
    store = tmp_path / "newer.duckdb"
    with Store(store).writing() as con:
        con.execute("INSERT INTO migrations VALUES (999, now())")

    opened = open_page(store)

    assert not opened.exception
    assert "newer hopbudget" in opened.error[0].value
    assert any("pip install --upgrade" in code.value for code in opened.code)


def test_a_file_that_is_no_store_is_named(open_page: OpenPage, tmp_path: Path) -> None:
    store = tmp_path / "notes.duckdb"
    store.write_text("not a database" * 500)

    opened = open_page(store)

    assert not opened.exception
    assert "notes.duckdb" in opened.error[0].value


def test_a_database_of_something_else_is_named(open_page: OpenPage, tmp_path: Path) -> None:
    store = tmp_path / "sales.duckdb"
    with duckdb.connect(str(store)) as con:
        con.execute("CREATE TABLE sales (amount INTEGER)")

    opened = open_page(store)

    assert not opened.exception
    assert "not a hopbudget store" in opened.error[0].value


def test_the_page_comes_to_life_with_the_first_trajectory(
    open_page: OpenPage, tmp_path: Path, recorded_runs: Path
) -> None:
    store = tmp_path / "traces.duckdb"
    opened = open_page(store)
    Store(store).import_paths([recorded_runs])

    opened.button(key="look-again").click().run()

    assert "60 trajectories" in opened.caption[0].value


def test_sample_data_is_one_click_away_and_can_be_left(open_page: OpenPage, tmp_path: Path) -> None:
    opened = open_page(tmp_path / "none.duckdb")

    opened.button(key="show-sample").click().run()
    assert not opened.exception
    assert "913 trajectories" in opened.caption[0].value
    assert "Sample data" in opened.info[0].value

    opened.button(key="leave-sample").click().run()
    assert not opened.exception
    assert opened.header[0].value == "Nothing recorded yet"
