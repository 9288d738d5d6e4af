"""Spans written down by the receiver are the spans that it took."""

from hypothesis import given
from hypothesis import strategies as st

from hopbudget.store import otlp
from hopbudget.store.rewriting import lines
from hopbudget.store.spans import Event, Span

NAMES = st.sampled_from(["a", "b.c", "hopbudget.hop", "gen_ai.request.model", "ö"])
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
PLAIN = TEXT | INT64 | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = PLAIN | st.lists(PLAIN, max_size=3) | st.dictionaries(NAMES, PLAIN, max_size=2)
ATTRIBUTES = st.dictionaries(NAMES, VALUES, max_size=4)
MOMENTS = st.integers(1, (1 << 62))
EVENTS = st.lists(st.builds(Event, st.sampled_from(["e", "f"]), MOMENTS, ATTRIBUTES), min_size=1)


@st.composite
def spans(draw: st.DrawFn) -> Span:
    start = draw(MOMENTS)
    return Span(
        trace_id=f"{draw(st.integers(1, (1 << 128) - 1)):032x}",
        span_id=f"{draw(st.integers(1, (1 << 64) - 1)):016x}",
        parent_id=draw(st.none() | st.integers(1, (1 << 64) - 1).map("{:016x}".format)),
        name=draw(TEXT),
        kind=draw(st.integers(0, 5)),
        start_ns=start,
        end_ns=draw(st.integers(start, 1 << 62)),
        status=draw(st.integers(0, 2)),
        status_text=draw(st.sampled_from([None, "TimeoutError", "abandoned stream"])),
        scope=draw(st.sampled_from(["", "one", "two"])),
        resource=draw(st.sampled_from([{}, {"service.name": "s"}, {"service.name": "t"}])),
        attributes=draw(ATTRIBUTES),
        events=draw(
            st.none() | st.lists(st.builds(Event, st.sampled_from(["e", "f"]), MOMENTS, ATTRIBUTES), min_size=1)
        ),
        dropped_events=draw(st.integers(0, 1000)),
    )


@given(st.lists(spans(), max_size=5))
def test_reading_the_lines_gives_the_spans_again(given_spans: list[Span]) -> None:
    read = [otlp.decode(line) for line in lines(given_spans)]
    assert [span for one in read for span in one.spans] == given_spans
    assert not any(one.rejected for one in read)
