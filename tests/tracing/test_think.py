import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.tracing.think import AnswerFinder


def answer_piece(pieces: list[str]) -> int | None:
    """The number of the piece that the answer begins in."""
    finder = AnswerFinder()
    for number, piece in enumerate(pieces):
        if finder.waiting or "<" in piece:
            finder.feed(piece, number)
    finder.end()
    return finder.answer_ns


@pytest.mark.parametrize(
    ("pieces", "begins"),
    [
        (["Hello"], 0),
        (["", " \n", "Hello"], 2),
        (["<think>", "so", "</think>", "\n\n", "Hello"], 4),
        (["<think>so</think>Hello"], 0),
        (["<th", "ink>so</thi", "nk>", "Hello"], 3),
        (["<", "t", "h", "i", "n", "k", ">", "x", "<", "/think", ">", "H"], 11),
        ([" <think>a</think> <think>b</think>", "Hello"], 1),
        (["<think>a < b </thin", "g></think>H"], 1),
        (["<b>Hello</b>"], 0),
        (["<", "b>"], 0),
        (["<thi", "s is it"], 0),
        (["\n<", "think>x</think>", "<", "b>"], 2),
    ],
)
def test_the_answer_begins_at_its_first_visible_character(pieces: list[str], begins: int) -> None:
    assert answer_piece(pieces) == begins


@pytest.mark.parametrize("pieces", [[], [" "], ["<think>", "so"], ["<think>so</think>", " \n"], ["<think>so</thi"]])
def test_white_space_and_thinking_are_no_answer(pieces: list[str]) -> None:
    assert answer_piece(pieces) is None


def test_a_text_that_ends_on_what_looked_like_a_tag_was_an_answer() -> None:
    assert answer_piece(["  ", "<", "th"]) == 1


@pytest.mark.parametrize(
    ("pieces", "begins"),
    [
        (["so", " it", "</think>", "Hello"], 3),
        (["so it</think>", "\n\n", "Hello"], 2),
        (["so it</think>Hello"], 0),
        (["so", "</", "think", ">", "\n", "Hello"], 5),
        (["a < b", "</think>", "c </think> d"], 2),
        (["</think>", "Hello"], 1),
    ],
)
def test_a_closing_tag_alone_takes_back_what_came_before_it(pieces: list[str], begins: int) -> None:
    assert answer_piece(pieces) == begins


@pytest.mark.parametrize("pieces", [["so it</think>"], ["so", "</think>", " "]])
def test_nothing_after_a_closing_tag_alone_is_no_answer(pieces: list[str]) -> None:
    assert answer_piece(pieces) is None


@pytest.mark.parametrize(
    "pieces", [["Models write ", "<think>a</think>", " first"], ["<think>x</think>", "Hello", "</think>"]]
)
def test_a_closing_tag_whose_opening_came_takes_nothing_back(pieces: list[str]) -> None:
    assert answer_piece(pieces) == (0 if pieces[0].startswith("M") else 1)


def test_it_tells_whether_there_was_thinking() -> None:
    finder = AnswerFinder()
    finder.feed("<think>x", 0)
    assert finder.thought
    plain = AnswerFinder()
    plain.feed("x", 0)
    assert not plain.thought


@given(st.lists(st.sampled_from(["<think>", "</think>", "a", " ", "<", "b>"]), max_size=8), st.data())
def test_how_a_text_is_cut_into_pieces_does_not_matter(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    character = answer_piece(list(text))
    piece = answer_piece(pieces)
    if character is None:
        assert piece is None
    else:
        assert piece is not None
        assert sum(map(len, pieces[:piece])) <= character < sum(map(len, pieces[: piece + 1]))
