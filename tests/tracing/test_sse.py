"""Server-sent events, however they are cut."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.tracing.sse import EventParser, looks_like_events

EVENTS = [{"a": "漢字 🙂"}, {"b": [1, 2]}, {"c": "line\nend"}]


def wire(newline: str = "\n", space: str = " ") -> bytes:
    parts = [f":ping{newline}{newline}"]
    for event in EVENTS:
        parts.append(f"event:{space}x{newline}id: 1{newline}data:{space}{json.dumps(event, ensure_ascii=False)}")
        parts.append(f"{newline}{newline}: ping{newline}{newline}")
    parts.append(f"data:{space}[DONE]{newline}{newline}")
    return "".join(parts).encode()


def parsed(pieces: Any) -> tuple[list[Any], bool]:
    parser = EventParser()
    found = [event for piece in pieces for event in parser.feed(piece)]
    return found + parser.end(), parser.done


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("space", ["", " "])
@pytest.mark.parametrize("size", [1, 2, 7, 1_000])
def test_line_ends_spaces_comments_and_cuts_make_no_difference(newline: str, space: str, size: int) -> None:
    data = wire(newline, space)
    assert parsed(data[at : at + size] for at in range(0, len(data), size)) == (EVENTS, True)


@given(cuts=st.lists(st.integers(0, 400), max_size=12), newline=st.sampled_from(["\n", "\r\n", "\r"]))
def test_any_cuts(cuts: list[int], newline: str) -> None:
    data = wire(newline)
    places = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
    assert parsed(data[a:b] for a, b in pairwise(places)) == (EVENTS, True)


def test_lines_that_were_split_already() -> None:
    lines = wire().decode().split("\n")
    assert parsed(lines) == (EVENTS, True)
    assert parsed(line + "\n" for line in lines) == (EVENTS, True)


def test_lines_as_bytes_that_were_split_already_keep_their_ends() -> None:
    assert parsed(wire().splitlines(keepends=True)) == (EVENTS, True)


def test_data_over_several_lines_is_one_event() -> None:
    assert parsed([b'data: {"a":\ndata: 1}\n\n']) == ([{"a": 1}], False)


def test_an_event_without_its_blank_line_counts_at_the_end() -> None:
    assert parsed([b'data: {"a": 1}\n']) == ([{"a": 1}], False)
    assert parsed([b'data: {"a": 1}']) == ([{"a": 1}], False)


def test_what_is_no_json_is_no_event() -> None:
    assert parsed([b"data: hello\n\n", b"nonsense\n\n", b'data: {"a": 1}\n\n']) == ([{"a": 1}], False)


def test_a_line_without_end_is_let_go_and_the_next_event_is_read() -> None:
    parser = EventParser()
    for _ in range(6):
        parser.feed(b"x" * 1_000_000)
    assert len(parser._rest) < 5_000_000
    assert parser.feed(b'\n\ndata: {"a": 1}\n\n') == [{"a": 1}]


@pytest.mark.parametrize("piece", [b"", b"anything", "data: {", "event: x", ": ping", "data:{"])
def test_bytes_and_lines_of_events_are_recognised(piece: Any) -> None:
    assert looks_like_events(piece)


@pytest.mark.parametrize("piece", ["", "The answer", {"data": 1}, None])
def test_other_chunks_are_not(piece: Any) -> None:
    assert not looks_like_events(piece)
