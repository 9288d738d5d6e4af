"""`hb.watch` of streams that no client library of ours makes: bytes, lines, strings, objects of one's own."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

import hopbudget as hb


def chat_lines(script: Any) -> Iterator[str]:
    for _, chunk in script:
        yield f"data: {json.dumps(chunk)}"
        yield ""
    yield "data: [DONE]"
    yield ""


@pytest.fixture
def played(time: Any, script: Any) -> Any:
    """The script's chunks through a function that puts each on the wire, at their times."""

    def play(put: Any) -> Iterator[Any]:
        for ms, chunk in script:
            time.to(ms)
            yield from put(chunk)

    return play


def read(stream: Any, **how: Any) -> list[Any]:
    with hb.hop("answer"):
        return list(hb.watch(stream, **how))


def holds(found: dict[str, Any]) -> None:
    assert found["hopbudget.outcome"] == "ok"
    assert (found["hopbudget.ttft"], found["hopbudget.e2e"]) == (pytest.approx(0.2), pytest.approx(0.24))
    assert (found["hopbudget.output_tokens"], found["hopbudget.output_tokens.source"]) == (3, "usage")
    assert found["gen_ai.response.model"] == "m-1"


def test_bytes_of_an_event_stream(recorded: Any, played: Any) -> None:
    sent = list(played(lambda chunk: [f": ping\r\n\r\ndata:{json.dumps(chunk)}\r\n\r\n".encode()]))
    recorded.time.ms = 0
    again = iter(played(lambda chunk: [f": ping\r\n\r\ndata:{json.dumps(chunk)}\r\n\r\n".encode()]))
    assert read(again) == sent
    holds(recorded.attributes())


def test_bytes_cut_anywhere(recorded: Any, played: Any) -> None:
    def put(chunk: Any) -> Iterator[bytes]:
        data = f"data: {json.dumps(chunk)}\n\n".encode()
        yield from (data[at : at + 7] for at in range(0, len(data), 7))

    read(played(put))
    holds(recorded.attributes())


def test_lines_of_an_event_stream(recorded: Any, played: Any) -> None:
    read(played(lambda chunk: [f"data: {json.dumps(chunk)}", ""]))
    holds(recorded.attributes())


def test_chunks_in_one_piece_came_at_one_time(recorded: Any, time: Any, script: Any) -> None:
    def once() -> Iterator[bytes]:
        time.to(500)
        yield "\n".join(chat_lines(script)).encode()

    read(once())
    found = recorded.attributes()
    assert (found["hopbudget.chunks"], found["hopbudget.ttft"], found["hopbudget.e2e"]) == (3, 0.5, 0.5)


def test_bytes_that_stop_before_their_end_are_cut_off(recorded: Any, time: Any, chunk: Any) -> None:
    def cut() -> Iterator[bytes]:
        time.to(200)
        yield f"data: {json.dumps(chunk('a'))}\n\n".encode()

    read(cut())
    assert recorded.tree() == "chat m-1 0-200 failed cut_off"


def test_strings_are_text(recorded: Any, played: Any) -> None:
    read(played(lambda chunk: ["", "word "]))
    found = recorded.attributes()
    assert (found["hopbudget.chunks"], found["hopbudget.ttft"]) == (6, pytest.approx(0.05))


def test_text_that_looks_like_an_event_stream_is_text_if_said_so(recorded: Any) -> None:
    read(iter(["data: ", "{}"]), read="text")
    assert recorded.attributes()["hopbudget.chunks"] == 2


def test_a_function_says_what_is_generated(recorded: Any, time: Any) -> None:
    class Token:
        def __init__(self, word: str | None) -> None:
            self.word = word

    def own() -> Iterator[Token]:
        for ms, word in [(100, None), (200, "a"), (220, ""), (240, "b")]:
            time.to(ms)
            yield Token(word)

    read(own(), read=lambda token: token.word)
    found = recorded.attributes()
    assert recorded.tree() == "chat 0-240 ok"
    assert (found["hopbudget.ttft"], found["hopbudget.chunks"]) == (pytest.approx(0.2), 2)


def test_a_function_may_say_it_all(recorded: Any) -> None:
    usage = hb.tracing.Usage(input=3, output=9)
    readings = [
        hb.Reading(text="a", answer="a", generated=True, model="own"),
        hb.Reading(text="b", answer="b", generated=True),
        hb.Reading(finish="length", usage=usage),
    ]
    read(iter(readings), read=lambda reading: reading)
    found = recorded.attributes()
    assert recorded.tree() == "chat own 0-0 truncated"
    assert (found["hopbudget.output_tokens"], found["gen_ai.usage.input_tokens"]) == (9, 3)


def test_a_name_that_is_no_format_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="no format 'openai'"):
        hb.watch(iter([]), read="openai")


def test_a_function_that_fails_disturbs_nobody(time: Any, recorded: Any) -> None:
    from hopbudget.tracing import scope

    errors = scope.recorder_errors()

    def broken(chunk: Any) -> str:
        raise KeyError(chunk)

    assert read(iter([1, 2]), read=broken) == [1, 2]
    assert scope.recorder_errors() == errors + 2
    scope.setup.errors = errors
