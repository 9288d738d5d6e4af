"""What chunks and replies of completions, responses, messages and Gemini carry."""

from types import SimpleNamespace
from typing import Any

import pytest

from hopbudget.tracing.readers import (
    COMPLETIONS,
    FORMATS,
    GEMINI,
    MESSAGES,
    RESPONSES,
    Reading,
    chosen,
    format_of,
    read_reply,
)
from hopbudget.tracing.stream import StreamClock


def response(kind: str, **data: Any) -> Any:
    return RESPONSES.read({"type": kind, "sequence_number": 1, **data})


def message(kind: str, **data: Any) -> Any:
    return MESSAGES.read({"type": kind, **data})


def delta(kind: str, **data: Any) -> Any:
    return message("content_block_delta", index=0, delta={"type": kind, **data})


def fed(*chunks: Any) -> StreamClock:
    clock = StreamClock()
    for number, chunk in enumerate(chunks):
        clock.pulled(chunk, number * 1_000_000, number * 1_000_000)
    clock.finished()
    return clock


@pytest.mark.parametrize(
    ("chunk", "name"),
    [
        ({"choices": [{"text": "a"}]}, "openai.completions"),
        ({"choices": [{"delta": {"content": "a"}}]}, "openai.chat"),
        ({"choices": []}, "openai.chat"),
        ({"error": {"message": "no"}}, "openai.chat"),
        ({"type": "response.created"}, "openai.responses"),
        ({"type": "error", "code": "x", "sequence_number": 3}, "openai.responses"),
        ({"type": "error", "error": {"type": "overloaded_error"}}, "anthropic.messages"),
        ({"type": "message_start"}, "anthropic.messages"),
        ({"type": "ping"}, "anthropic.messages"),
        ({"candidates": []}, "gemini"),
        (SimpleNamespace(candidates=None, usage_metadata={}), "gemini"),
        ("words", "text"),
    ],
)
def test_each_format_is_told_by_a_chunk(chunk: Any, name: str) -> None:
    found = format_of(chunk)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("thing", [{"type": "text", "text": "a"}, {"type": "content.delta"}, {}, 3, None, b"", ""])
def test_what_is_none_of_them_is_not_guessed(thing: Any) -> None:
    assert format_of(thing) is None


def test_a_completions_text_is_answer() -> None:
    reading = COMPLETIONS.read({"choices": [{"text": "a"}, {"text": "b"}], "model": "m"})
    assert (reading.generated, reading.text, reading.answer, reading.model) == (True, "ab", "ab", "m")


@pytest.mark.parametrize(
    ("kind", "answer", "reasoning", "summary"),
    [
        ("response.output_text.delta", "x", False, False),
        ("response.refusal.delta", "", False, False),
        ("response.function_call_arguments.delta", "", False, False),
        ("response.custom_tool_call_input.delta", "", False, False),
        ("response.reasoning_text.delta", "", True, False),
        ("response.reasoning_summary_text.delta", "", False, True),
    ],
)
def test_every_delta_of_a_response_carries_tokens(kind: str, answer: str, reasoning: bool, summary: bool) -> None:
    reading = response(kind, delta="x")
    assert (reading.generated, reading.text, reading.answer) == (True, "x", answer)
    assert (reading.reasoning, reading.summary) == (reasoning, summary)


@pytest.mark.parametrize("kind", ["function_call", "custom_tool_call", "mcp_call"])
def test_the_name_of_a_tool_that_a_response_calls_is_its_calls_first_token(kind: str) -> None:
    reading = response("response.output_item.added", item={"type": kind, "name": "search", "status": "in_progress"})
    assert (reading.generated, reading.text, reading.answer) == (True, "search", "")


@pytest.mark.parametrize(
    "item",
    [
        {"type": "message", "role": "assistant", "name": "boss", "content": []},
        {"type": "reasoning", "summary": []},
        {"type": "web_search_call", "status": "in_progress"},
        {"type": "function_call", "name": "", "arguments": ""},
        None,
    ],
)
def test_another_item_of_a_response_begins_without_a_token(item: Any) -> None:
    assert not response("response.output_item.added", item=item).generated


def test_a_tool_call_that_is_done_repeats_what_came() -> None:
    item = {"type": "function_call", "name": "search", "arguments": "{}"}
    assert not response("response.output_item.done", item=item).generated


@pytest.mark.parametrize("kind", ["response.output_text.done", "response.content_part.added", "response.queued"])
def test_other_events_of_a_response_carry_none(kind: str) -> None:
    assert not response(kind, text="all of it").generated


@pytest.mark.parametrize(
    ("end", "finish", "truncated", "error"),
    [
        ({"status": "completed"}, "stop", False, None),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length", True, None),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter", False, None),
        ({"status": "failed", "error": {"code": "server_error"}}, None, False, "server_error"),
        ({"status": "cancelled"}, None, False, "cancelled"),
    ],
)
def test_the_end_of_a_response(end: Any, finish: str | None, truncated: bool, error: str | None) -> None:
    reading = response(f"response.{end['status']}", response={"model": "m", **end})
    assert (reading.finish, reading.truncated, reading.error) == (finish, truncated, error)
    assert reading.ended


def test_the_usage_of_a_response() -> None:
    usage = {
        "input_tokens": 9,
        "output_tokens": 50,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens_details": {"reasoning_tokens": 20},
    }
    found = response("response.completed", response={"status": "completed", "usage": usage}).usage
    assert (found.input, found.output, found.cached, found.reasoning) == (9, 50, 4, 20)


def test_an_error_event_of_a_response_is_an_error_in_band() -> None:
    assert response("error", code="rate_limit_exceeded", message="no").error == "rate_limit_exceeded"


def test_a_summary_of_hidden_reasoning_leaves_the_number_of_tokens_unknown() -> None:
    usage = {"output_tokens": 50, "output_tokens_details": {"reasoning_tokens": 20}}
    clock = fed(
        {"type": "response.reasoning_summary_text.delta", "delta": "short"},
        {"type": "response.output_text.delta", "delta": "a"},
        {"type": "response.completed", "response": {"status": "completed", "usage": usage}},
    )
    assert clock.tokens() == (None, None)
    assert clock.clean_end() == ("ok", None)


@pytest.mark.parametrize(
    ("kind", "data", "answer"),
    [
        ("text_delta", {"text": "x"}, "x"),
        ("thinking_delta", {"thinking": "x"}, ""),
        ("input_json_delta", {"partial_json": "x"}, ""),
    ],
)
def test_deltas_of_a_message_carry_tokens(kind: str, data: Any, answer: str) -> None:
    reading = delta(kind, **data)
    assert (reading.generated, reading.text, reading.answer) == (True, "x", answer)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "ping"},
        {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_start", "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": ""}},
        {"type": "content_block_delta", "delta": {"type": "signature_delta", "signature": "s"}},
        {"type": "content_block_delta", "delta": {"type": "citations_delta", "citation": {}}},
        {"type": "content_block_stop"},
        {"type": "message_start", "message": {"model": "m"}},
        {"type": "message_stop"},
    ],
)
def test_pings_signatures_and_frames_of_a_message_carry_none(event: Any) -> None:
    assert not MESSAGES.read(event).generated


def test_a_tools_name_is_generated() -> None:
    reading = message("content_block_start", content_block={"type": "tool_use", "name": "search", "input": {}})
    assert (reading.generated, reading.text, reading.answer) == (True, "search", "")


def test_input_of_a_message_is_what_was_fresh_read_and_written() -> None:
    usage = {"input_tokens": 3, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 500, "output_tokens": 1}
    found = message("message_start", message={"usage": usage}).usage
    assert (found.input, found.cached) == (543, 40)


def test_usage_of_a_message_is_cumulative_and_its_start_says_nothing_of_its_output() -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}}
    text = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}}
    ends = [{"type": "message_delta", "delta": {}, "usage": {"output_tokens": n}} for n in (4, 9)]
    assert fed(start, text, text).tokens() == (2, "chunks")
    whole = fed(start, text, text, *ends)
    assert whole.tokens() == (9, "usage")
    assert whole.usage is not None
    assert whole.usage.input == 3


def test_streamed_thinking_may_be_a_summary_so_that_its_tokens_are_not_known() -> None:
    usage = {"output_tokens": 90, "output_tokens_details": {"thinking_tokens": 80}}
    think = {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "hm"}}
    text = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}
    assert fed(think, text, end, {"type": "message_stop"}).tokens() == (None, None)
    assert fed(text, text, end, {"type": "message_stop"}).tokens() == (10, "usage")


@pytest.mark.parametrize(
    ("reason", "truncated"),
    [("end_turn", False), ("tool_use", False), ("max_tokens", True), ("model_context_window_exceeded", True)],
)
def test_why_a_message_stopped(reason: str, truncated: bool) -> None:
    reading = message("message_delta", delta={"stop_reason": reason})
    assert (reading.finish, reading.truncated, reading.ended) == (reason, truncated, False)


def test_a_message_without_its_stop_event_is_cut_off() -> None:
    text = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    assert fed(text, end).clean_end() == ("failed", "cut_off")
    assert fed(text, end, {"type": "message_stop"}).clean_end() == ("ok", None)


def test_an_error_event_of_a_message_is_an_error_in_band() -> None:
    assert message("error", error={"type": "overloaded_error"}).error == "overloaded_error"


@pytest.mark.parametrize("camel", [True, False])
def test_a_gemini_chunk_in_either_spelling(camel: bool) -> None:
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 7, "thoughtsTokenCount": 2, "cachedContentTokenCount": 1}
    snake = {"prompt_token_count": 5, "candidates_token_count": 7, "thoughts_token_count": 2,
             "cached_content_token_count": 1}  # fmt: skip
    content = {"parts": [{"text": "hm", "thought": True}, {"text": "hi"}]}
    if camel:
        chunk: Any = {"candidates": [{"content": content, "finishReason": "MAX_TOKENS"}], "usageMetadata": usage}
    else:
        candidate = SimpleNamespace(content=content, finish_reason=SimpleNamespace(value="MAX_TOKENS"))
        chunk = SimpleNamespace(candidates=[candidate], usage_metadata=snake, model_version="g")
    reading = GEMINI.read(chunk)
    assert (reading.generated, reading.text, reading.answer, reading.summary) == (True, "hmhi", "hi", True)
    assert (reading.finish, reading.truncated) == ("max_tokens", True)
    found = reading.usage
    assert found is not None
    assert (found.input, found.output, found.cached, found.reasoning) == (5, 9, 1, 2)


REPLIES = [
    ({"choices": [{"text": "a", "finish_reason": "length"}], "usage": {"completion_tokens": 4}}, 4, True),
    ({"choices": [{"message": {}, "finish_reason": "stop"}], "usage": {"completion_tokens": 4}}, 4, False),
    ({"object": "response", "status": "completed", "usage": {"output_tokens": 4}}, 4, False),
    ({"type": "message", "role": "assistant", "stop_reason": "max_tokens", "usage": {"output_tokens": 4}}, 4, True),
    ({"candidates": [{}], "usageMetadata": {"candidatesTokenCount": 4}}, 4, False),
]


@pytest.mark.parametrize(("reply", "tokens", "truncated"), REPLIES)
def test_whole_replies(reply: Any, tokens: int, truncated: bool) -> None:
    reading = read_reply(reply)
    assert reading is not None
    assert reading.usage is not None
    assert (reading.usage.output, reading.truncated) == (tokens, truncated)


def test_a_response_that_goes_on_in_the_background_has_no_end_yet() -> None:
    reading = read_reply({"object": "response", "status": "queued"})
    assert reading is not None
    assert (reading.finish, reading.error, reading.ended) == (None, None, False)


def test_a_format_is_chosen_by_its_name_or_by_a_function() -> None:
    assert all(chosen(row.name) is row for row in FORMATS)
    with pytest.raises(ValueError, match=r"no format 'nothing'; there are text, openai\.responses"):
        chosen("nothing")
    mine = chosen(lambda chunk: chunk["t"])
    assert mine.read({"t": "a"}).answer == "a"
    assert not mine.read({"t": None}).generated
    whole = Reading(generated=True)
    assert chosen(lambda _: whole).read(1) is whole
