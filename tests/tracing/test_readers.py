from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.tracing.readers import CHAT, TEXT, format_of, get, quick_chat_chunk, read_chat_chunk, read_reply


def test_a_content_delta_is_generated_answer(chunk: Any) -> None:
    reading = read_chat_chunk(chunk("Hi"))
    assert (reading.generated, reading.answer, reading.text, reading.model) == (True, "Hi", "Hi", "m-1")


@pytest.mark.parametrize(
    "delta",
    [
        {"role": "assistant"},
        {"role": "assistant", "content": ""},
        {"content": None},
        {},
        {"tool_calls": []},
        {"refusal": None},
    ],
)
def test_role_only_and_empty_chunks_carry_no_token(chunk: Any, delta: dict[str, Any]) -> None:
    assert not read_chat_chunk(chunk(**delta)).generated


def test_a_usage_only_chunk_carries_usage_and_no_token(chunk: Any) -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 50,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 20},
    }
    reading = read_chat_chunk(chunk(usage=usage))
    assert not reading.generated
    assert reading.usage is not None
    assert (reading.usage.input, reading.usage.output, reading.usage.cached, reading.usage.reasoning) == (
        100,
        50,
        64,
        20,
    )


@pytest.mark.parametrize(
    "usage", [{}, {"completion_tokens": None}, {"completion_tokens": -1}, {"completion_tokens": True}]
)
def test_what_usage_does_not_state_is_not_known(chunk: Any, usage: dict[str, Any]) -> None:
    reading = read_chat_chunk(chunk(usage=usage))
    assert reading.usage is not None
    assert reading.usage.output is None
    assert reading.usage.cached is None


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_reasoning_is_generated_but_no_answer(chunk: Any, key: str) -> None:
    reading = read_chat_chunk(chunk(**{key: "hm"}))
    assert (reading.generated, reading.reasoning, reading.answer, reading.text) == (True, True, "", "hm")


@pytest.mark.parametrize(
    ("delta", "text"),
    [
        ({"tool_calls": [{"index": 0, "id": "1", "function": {"name": "get", "arguments": ""}}]}, "get"),
        ({"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]}, '{"a"'),
        ({"function_call": {"name": "get", "arguments": "{}"}}, "get{}"),
        ({"refusal": "I can't"}, "I can't"),
    ],
)
def test_tool_calls_and_refusals_are_generated_but_no_answer(chunk: Any, delta: dict[str, Any], text: str) -> None:
    reading = read_chat_chunk(chunk(**delta))
    assert (reading.generated, reading.answer, reading.text) == (True, "", text)


def test_the_finish_reason_is_read(chunk: Any) -> None:
    assert read_chat_chunk(chunk(finish="length")).finish == "length"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "server_error", "code": "x"}, "server_error"),
        ({"code": "oom"}, "oom"),
        ({"message": "?"}, "error"),
        ("?", "error"),
    ],
)
def test_an_error_inside_the_stream_is_read(error: Any, kind: str) -> None:
    assert format_of({"error": error}) is CHAT
    assert read_chat_chunk({"error": error}).error == kind


deltas = st.fixed_dictionaries(
    {},
    optional={
        "role": st.just("assistant"),
        "content": st.none() | st.sampled_from(["", " ", "Hi", "<think>"]),
        "reasoning_content": st.none() | st.sampled_from(["", "hm"]),
        "refusal": st.none() | st.just("no"),
        "function_call": st.none() | st.just({"name": "f", "arguments": ""}),
        "tool_calls": st.none() | st.just([]) | st.just([{"index": 0, "function": {"name": "f", "arguments": "{}"}}]),
    },
)
chunks = st.fixed_dictionaries(
    {
        "id": st.just("1"),
        "model": st.just("m"),
        "choices": st.lists(
            st.fixed_dictionaries(
                {"index": st.just(0), "delta": deltas, "finish_reason": st.none() | st.sampled_from(["stop", "length"])}
            ),
            max_size=2,
        ),
    },
    optional={"usage": st.none() | st.just({"completion_tokens": 3})},
)


@given(data=chunks)
def test_the_short_cut_says_the_same_as_the_whole_reading(as_openai: Any, data: dict[str, Any]) -> None:
    chunk = as_openai(data)
    text = quick_chat_chunk(chunk)
    reading = read_chat_chunk(chunk)
    if text is not None:
        assert reading.generated
        assert (reading.answer, reading.text) == (text, text)
        assert (reading.finish, reading.usage, reading.error, reading.reasoning) == (None, None, None, False)


@given(data=chunks)
def test_objects_and_dicts_read_alike(as_openai: Any, data: dict[str, Any]) -> None:
    one, other = read_chat_chunk(as_openai(data)), read_chat_chunk(data)
    for key in ("answer", "text", "generated", "reasoning", "finish", "model", "error"):
        assert getattr(one, key) == getattr(other, key)


def test_the_short_cut_takes_the_common_chunk(chunk: Any, as_openai: Any) -> None:
    assert quick_chat_chunk(as_openai(chunk("Hi"))) == "Hi"
    assert quick_chat_chunk(as_openai(chunk("Hi", reasoning_content=None))) == "Hi"


def test_a_format_is_told_by_one_chunk(chunk: Any) -> None:
    assert format_of("text") is TEXT
    assert format_of(chunk("x")) is CHAT
    assert format_of(SimpleNamespace(choices=[])) is CHAT
    assert format_of({"status": "searching"}) is None
    assert format_of(7) is None


def test_plain_text_is_generated_unless_empty() -> None:
    assert TEXT.read("hi").generated
    assert not TEXT.read("").generated
    assert not TEXT.read(None).generated


def test_values_are_read_from_slots_and_properties_too() -> None:
    class Slotted:
        __slots__ = ("model",)

        def __init__(self) -> None:
            self.model = "m"

        @property
        def usage(self) -> str:
            return "u"

    assert (get(Slotted(), "model"), get(Slotted(), "usage"), get(Slotted(), "none")) == ("m", "u", None)


def test_a_whole_reply_is_read() -> None:
    reading = read_reply(
        {
            "model": "m",
            "choices": [{"message": {"content": "x"}, "finish_reason": "length"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 9},
        }
    )
    assert reading is not None
    assert reading.usage is not None
    assert (reading.model, reading.finish, reading.usage.output) == ("m", "length", 9)


@pytest.mark.parametrize(
    "thing", [None, "text", 3, {}, {"choices": []}, {"choices": [{"delta": {}}]}, {"choices": 3}, object()]
)
def test_what_is_no_reply_is_not_read_as_one(thing: object) -> None:
    assert read_reply(thing) is None


def test_content_in_parts_is_thought_and_answer(chunk: Any) -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    reading = read_chat_chunk(chunk(content=[thought, {"type": "text", "text": "Hi"}]))
    assert (reading.reasoning, reading.text, reading.answer) == (True, "hmHi", "Hi")


@pytest.mark.parametrize("content", [[], [{}], [None], ["a"], [{"type": "thinking", "thinking": None}], {"a": 1}, 3])
def test_content_in_parts_without_text_carries_no_token(chunk: Any, content: object) -> None:
    assert not read_chat_chunk(chunk(content=content)).generated
