"""Columns made of Python lists are, to DuckDB, what the lists were; also after a way through a pipe."""

import functools
import gc
import weakref
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopbudget.store import columns
from hopbudget.store.arrow import Stream
from hopbudget.store.columns import Column, Table

Text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


unhurried = settings(deadline=None)


@functools.cache
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def read(table: Table) -> list[Any]:
    """The values of the first column, as DuckDB sees them."""
    con = connection()
    stream = Stream(table)
    con.register("given", stream)
    try:
        return [row[0] for row in con.execute("SELECT * FROM given").fetchall()]
    finally:
        con.unregister("given")


def sent(table: Table) -> Table:
    """The table as it comes out of a pipe."""
    description, buffers = columns.pack(table)
    return columns.unpack(description, memoryview(bytearray(b"".join(buffers))))


def assert_same(column: Column, values: list[Any]) -> None:
    table = {"a": column, "rest": columns.whole_numbers(range(len(values)))}
    assert read(table) == values
    assert read(sent(table)) == values


@unhurried
@given(st.lists(st.none() | Text, min_size=1))
def test_texts_and_words_are_the_same(values: list[str | None]) -> None:
    assert_same(columns.texts(values), values)
    assert_same(columns.words(values), values)


@unhurried
@given(st.lists(st.none() | st.integers(-(1 << 63), (1 << 63) - 1), min_size=1))
def test_whole_numbers_are_the_same(values: list[int | None]) -> None:
    assert_same(columns.whole_numbers(values), values)


@unhurried
@given(st.lists(st.none() | st.floats(allow_nan=False), min_size=1))
def test_numbers_are_the_same(values: list[float | None]) -> None:
    assert_same(columns.numbers(values), values)


@unhurried
@given(st.lists(st.none() | st.booleans(), min_size=1))
def test_truths_are_the_same(values: list[bool | None]) -> None:
    assert_same(columns.truths(values), values)


@unhurried
@given(st.lists(st.none() | st.lists(st.integers(-(1 << 31), (1 << 31) - 1), max_size=5), min_size=1))
def test_lists_of_numbers_are_the_same(values: list[list[int] | None]) -> None:
    assert_same(columns.lists_of_numbers(values), values)


@unhurried
@given(st.lists(st.dictionaries(Text, Text, max_size=4), min_size=1))
def test_maps_are_the_same(values: list[dict[str, str]]) -> None:
    assert_same(columns.maps(values), values)


def test_more_rows_than_duckdb_takes_at_once() -> None:
    values = [None if number % 7 == 0 else f"text {number % 500} of no short length" for number in range(10_000)]
    assert_same(columns.texts(values), values)
    assert_same(columns.words(values), values)


def test_a_lone_surrogate_becomes_a_question_mark() -> None:
    assert read({"a": columns.texts(["a\ud800"])}) == ["a?"]


def test_a_table_may_be_registered_again_and_is_let_go_without_the_collector() -> None:
    stream = Stream({"a": columns.texts(["x"])})
    with duckdb.connect() as con:
        for _ in range(3):
            con.register("given", stream)
            assert con.execute("SELECT a FROM given").fetchall() == [("x",)]
            con.unregister("given")
    gone = weakref.ref(stream)
    gc.disable()
    try:
        del stream
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("make", [columns.texts, columns.words, columns.whole_numbers, columns.numbers, columns.truths])
def test_a_column_of_nothing_is_null_in_every_row(make: Any) -> None:
    assert_same(make([None, None, None]), [None, None, None])
