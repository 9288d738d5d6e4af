"""Durations and shares as people write and read them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget import units
from hopbudget.budgets.numbers import words
from hopbudget.errors import UserError


@pytest.mark.parametrize(
    ("text", "expected"),
    [("12s", 12.0), ("1500ms", 1.5), ("2min", 120.0), ("2m", 120.0), ("1h", 3600.0), ("7.5", 7.5), (" 3 S ", 3.0)],
)
def test_a_duration_is_read_in_its_unit(text: str, expected: float) -> None:
    assert units.parse_duration(text, "--deadline") == expected


@pytest.mark.parametrize("text", ["", "soon", "-3s", "0s", "12 parsecs", "nan", "inf", "1e3"])
def test_what_is_no_positive_duration_is_refused_by_name_and_value(text: str) -> None:
    with pytest.raises(UserError, match="--deadline") as refused:
        units.parse_duration(text, "--deadline")
    assert repr(text) in refused.value.message


def test_a_duration_that_nobody_can_mean_is_refused() -> None:
    assert units.parse_duration("3650d", "--deadline") == units.LONGEST_S
    with pytest.raises(UserError, match="--deadline '1000000000000s' is longer than ten years"):
        units.parse_duration("1000000000000s", "--deadline")


def test_a_percentile_is_read_as_people_write_it() -> None:
    assert units.parse_percentile("p90") == 90.0
    assert units.parse_percentile("P99.9") == 99.9
    assert units.parse_percentile("12s") is None


@pytest.mark.parametrize("text", ["p0", "p100", "p250"])
def test_a_percentile_outside_0_to_100_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="between 0 and 100"):
        units.parse_percentile(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0123, "12.3 ms"),
        (0.312, "312 ms"),
        (2.138, "2.14 s"),
        (31.2, "31.2 s"),
        (600.0, "10.0 min"),
        (8376.0, "2.33 h"),
        (864_000.0, "10.0 d"),
        (0.0, "0 s"),
        (None, "-"),
        (math.nan, "-"),
        (math.inf, "never"),
    ],
)
def test_a_duration_is_written_in_the_unit_a_person_would_use(value: float | None, text: str) -> None:
    assert units.seconds(value) == text


def test_a_signed_duration_shows_its_sign() -> None:
    assert units.seconds(1.6, signed=True) == "+1.60 s"
    assert units.seconds(-0.4, signed=True) == "-400 ms"


@given(st.floats(min_value=1e-3, max_value=1e6))
def test_writing_and_reading_a_duration_keeps_three_figures(value: float) -> None:
    text = units.seconds(value).replace(",", "").replace(" ", "")
    assert units.parse_duration(text, "x") == pytest.approx(value, rel=0.006)


def test_a_share_never_rounds_to_all_or_nothing() -> None:
    assert units.share(0.9999) == ">99.9%"
    assert units.share(0.0001) == "<0.1%"
    assert units.share(1.0) == "100.0%"
    assert units.share(0.0) == "0.0%"


@pytest.mark.parametrize(
    ("value", "beside", "text"),
    [
        (108 * 60.0, 2.1 * 3600, "1.80 h"),
        (0.9, 1.2, "0.90 s"),
        (130.0, 100.0, "130 s"),
        (1.5, 0.4, "1,500 ms"),
        (30.0, math.inf, "30.0 s"),
        (math.inf, 2.0, "never"),
    ],
)
def test_a_duration_takes_the_unit_of_the_one_beside_it(value: float, beside: float, text: str) -> None:
    assert units.seconds(value, beside=beside) == text


def test_the_sentences_of_budgets_and_the_screens_write_a_duration_alike() -> None:
    sizes = np.concatenate(
        [np.logspace(-3.5, 7, 4000), [0.0, 0.09951, 0.9994, 0.99951, 9.9949, 9.9951, 99.949, 119.99]]
    )
    for size in sizes.tolist():
        assert words.seconds(size) == units.seconds(size)
        assert words.seconds(-size) == units.seconds(-size)


def test_what_chance_alone_brings_is_never_rounded_up_to_one() -> None:
    said = ["fewer than 1", "fewer than 1", "about 1", "about 1", "about 2", "about 3"]
    assert [words.by_chance(n) for n in (4, 8, 20, 29, 31, 60)] == said
