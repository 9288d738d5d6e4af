from hypothesis import given
from hypothesis import strategies as st

from hopbudget.tracing.gaps import (
    DECODE_LIMIT,
    EXACT_LIMIT,
    INT32_MAX,
    GapRecorder,
    Gaps,
    bin_of,
    decode,
    representative,
)

gaps_us = st.integers(min_value=0, max_value=INT32_MAX)


def recorded(us: list[int], open_us: int | None = None) -> GapRecorder:
    recorder = GapRecorder()
    for gap in us:
        recorder.add(gap)
    if open_us is not None:
        recorder.leave_open(open_us)
    return recorder


@given(st.lists(gaps_us, max_size=50), st.none() | gaps_us)
def test_what_is_encoded_is_decoded(us: list[int], open_us: int | None) -> None:
    found = decode(recorded(us, open_us).encode())
    expected = us if open_us is None else [*us, open_us]
    assert found == Gaps(expected, len(us), open_us is not None)


@given(gaps_us)
def test_a_bin_stands_for_its_gaps_within_one_per_cent(us: int) -> None:
    assert abs(representative(bin_of(us)) - us) <= 0.01 * us + 0.5


@given(st.lists(gaps_us, min_size=1, max_size=30))
def test_gaps_past_the_exact_ones_stay_in_the_population(later: list[int]) -> None:
    found = decode(recorded([20_000] * EXACT_LIMIT + later, 7).encode())
    assert found is not None
    assert found.exact == EXACT_LIMIT
    assert found.us[-1] == 7
    assert found.censored
    for got, true in zip(found.us[EXACT_LIMIT:-1], sorted(later), strict=True):
        assert abs(got - true) <= 0.01 * true + 0.5


def test_memory_does_not_grow_with_the_stream() -> None:
    short, long = recorded([20_000, 21_000] * EXACT_LIMIT), recorded([20_000, 21_000] * 50_000)
    assert len(long.encode()) - len(short.encode()) < 20
    assert len(long) == 100_000


def test_a_gap_longer_than_half_an_hour_is_kept_as_long_as_it_can_be() -> None:
    assert decode(recorded([7, INT32_MAX + 5, 8]).encode()) == Gaps([7, INT32_MAX, 8], 3, False)


@given(st.lists(gaps_us, min_size=1, max_size=20), st.data())
def test_a_text_cut_short_is_not_decoded(us: list[int], data: st.DataObject) -> None:
    text = recorded(us, 3).encode()
    assert decode(text[: data.draw(st.integers(0, len(text) - 1))]) is None


@given(st.text())
def test_any_other_text_is_not_decoded_and_does_not_raise(text: str) -> None:
    assert decode(text) is None
    assert decode(f"g1:{text}") is None


def test_a_text_that_claims_too_many_gaps_is_not_expanded() -> None:
    recorder = recorded([1] * EXACT_LIMIT)
    recorder._later = {5: DECODE_LIMIT}
    assert decode(recorder.encode()) is None


def test_no_gaps_are_no_gaps() -> None:
    assert len(GapRecorder()) == 0
    assert decode(GapRecorder().encode()) == Gaps([], 0, False)
