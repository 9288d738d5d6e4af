"""What an answer says and counts."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.endpoint.compose import script_for, script_of_row
from hopbudget.endpoint.knobs import Knobs
from hopbudget.endpoint.read_choices import read_chat
from hopbudget.endpoint.script import Script
from hopbudget.endpoint.text import example_of

SEARCH = {
    "type": "function",
    "function": {
        "name": "search",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}, "deep": {"type": "boolean"}},
            "required": ["query", "limit"],
        },
    },
}
READ = {"type": "function", "function": {"name": "read"}}


def script(knobs: Knobs | None = None, *, index: int = 1, cached_tokens: int = 0, **body: Any) -> Script:
    body = {"model": "sim-small", "messages": [{"role": "user", "content": "hello"}], "stream": True, **body}
    chat = read_chat(json.dumps(body).encode())
    return script_for(chat, knobs or Knobs(), seed=0, index=index, concurrency=1, cached_tokens=cached_tokens)


def kinds(answer: Script) -> list[str]:
    return [step.kind for step in answer.steps]


@given(st.integers(1, 300), st.integers(1, 8), st.integers(0, 40))
def test_usage_counts_the_tokens_that_the_steps_carry(tokens: int, per_chunk: int, thought: int) -> None:
    answer = script(Knobs(tokens=tokens, per_chunk=per_chunk, reasoning_tokens=thought))
    assert answer.usage.completion == sum(step.tokens for step in answer.steps) == tokens + thought
    assert answer.usage.reasoning == thought == sum(s.tokens for s in answer.steps if s.kind == "reasoning")
    assert max(step.tokens for step in answer.steps) <= per_chunk


def test_scripted_times_are_exact() -> None:
    answer = script(Knobs(ttft_s=0.3, tpot_s=0.01, tokens=4))
    tokens = [step.after_s for step in answer.steps if step.tokens]
    assert tokens == pytest.approx([0.30, 0.31, 0.32, 0.33])


def test_five_tokens_a_chunk_keep_the_pace_of_tokens() -> None:
    answer = script(Knobs(ttft_s=0.3, tpot_s=0.01, tokens=10, per_chunk=5))
    assert [step.after_s for step in answer.steps if step.tokens] == pytest.approx([0.30, 0.35])


def test_an_answer_at_max_tokens_ends_for_length() -> None:
    answer = script(Knobs(tokens=50), max_tokens=20)
    assert (answer.usage.completion, answer.finish) == (20, "length")
    answer = script(Knobs(tokens=20), max_completion_tokens=20)
    assert (answer.usage.completion, answer.finish) == (20, "stop")


def test_usage_is_streamed_only_when_asked_for() -> None:
    assert "usage" not in kinds(script())
    assert "usage" in kinds(script(stream_options={"include_usage": True}))


def test_cached_tokens_never_exceed_the_prompt() -> None:
    assert script(Knobs(prompt_tokens=100), cached_tokens=40).usage.cached == 40
    assert script(Knobs(prompt_tokens=100), cached_tokens=400).usage.cached == 100


def test_a_cached_prompt_gets_its_first_token_sooner() -> None:
    fresh = script(Knobs(prompt_tokens=20_000))
    cached = script(Knobs(prompt_tokens=20_000, cached_tokens=20_000))
    assert cached.steps[1].after_s < fresh.steps[1].after_s


def test_a_seed_in_the_request_fixes_its_answer_whatever_its_number() -> None:
    assert script(seed=5, index=1) == script(seed=5, index=99)
    assert script(index=1) != script(index=99)


def test_the_reasoner_thinks_before_it_answers() -> None:
    order = [step.kind for step in script(model="sim-reasoner").steps if step.tokens]
    assert order == sorted(order)  # "reasoning" before "text"
    assert set(order) == {"reasoning", "text"}


def test_hidden_reasoning_takes_its_time_and_is_counted_but_not_sent() -> None:
    knobs = Knobs(ttft_s=0.1, tpot_s=0.02, tokens=4, reasoning_tokens=6)
    told, kept = script(knobs), script(replace(knobs, reasoning="hidden"))
    assert kept.usage == told.usage
    assert [step.after_s for step in kept.steps if step.tokens] == [s.after_s for s in told.steps if s.kind == "text"]
    assert [(step.after_s, step.tokens) for step in kept.steps if step.kind == "hidden"] == [(0.1, 0)]


def test_a_row_hides_its_reasoning_too() -> None:
    row = script_of_row("A10", Knobs(reasoning="hidden"))
    assert next(step.after_s for step in row.steps if step.tokens) == 0.32
    assert (row.usage.completion, row.usage.reasoning) == (10, 6)


def test_an_answer_to_a_schema_is_an_instance_of_it() -> None:
    shape = {
        "type": "json_schema",
        "json_schema": {"schema": {"properties": {"year": {"type": "integer"}}, "required": ["year"]}},
    }
    answer = script(Knobs(tokens=1), response_format=shape)
    assert json.loads(answer.text_of("text")) == {"year": 1}
    assert answer.usage.completion == sum(step.tokens for step in answer.steps) > 1


def test_a_model_with_tools_calls_each_once_and_then_answers() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "hello"}]
    called = []
    for _ in range(3):
        answer = script(tools=[SEARCH, READ], messages=messages)
        name = next((step.tool for step in answer.steps if step.tool), None)
        called.append((name, answer.finish))
        call = {"id": "1", "type": "function", "function": {"name": name, "arguments": "{}"}}
        messages += [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "content": "found"}]
    assert called == [("search", "tool_calls"), ("read", "tool_calls"), (None, "stop")]


@pytest.mark.parametrize(
    ("choice", "name"),
    [("none", None), ("auto", "search"), ({"type": "function", "function": {"name": "read"}}, "read")],
)
def test_tool_choice_is_honoured(choice: Any, name: str | None) -> None:
    answer = script(tools=[SEARCH, READ], tool_choice=choice)
    assert next((step.tool for step in answer.steps if step.tool), None) == name


def test_arguments_of_a_call_fit_its_schema() -> None:
    answer = script(tools=[SEARCH])
    arguments = "".join(step.text for step in answer.steps if step.kind == "tool")
    assert json.loads(arguments) == {"query": "simulated", "limit": 1}


@pytest.mark.parametrize(
    ("schema", "example"),
    [
        ({"enum": ["a", "b"]}, "a"),
        ({"type": "integer", "default": 5}, 5),
        ({"const": "x"}, "x"),
        ({"type": ["string", "null"]}, "simulated"),
        ({"type": "array"}, []),
        ({"type": "null"}, None),
        ({"properties": {"deep": {"type": "object"}}, "required": ["deep"]}, {"deep": {}}),
        (None, "simulated"),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, None),
        ({"type": "array", "minItems": 2, "items": {"type": "integer"}}, [1, 1]),
        ({"$ref": "#/$defs/Page", "$defs": {"Page": {"enum": ["one"]}}}, "one"),
        (
            {"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"a": {"$ref": "#/$defs/A"}}, "required": ["a"]}}},
            {"a": "simulated"},
        ),
    ],
)
def test_an_example_fits_its_schema(schema: dict[str, Any] | None, example: Any) -> None:
    assert example_of(schema) == example
