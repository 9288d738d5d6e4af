"""Every row in every API, read as that API's documents say: the same truth comes out of each."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from hopbudget.endpoint.apis import APIS
from hopbudget.endpoint.breaks import BREAKS
from hopbudget.endpoint.faults import ARGUMENTS, ROWS, TOKENS, WIDE_TOKENS
from hopbudget.endpoint.knobs import ONLY_FOR
from hopbudget.endpoint.request import Ask
from hopbudget.endpoint.wire import writes

WIRES = {api.name: api.wire(Ask("sim-small", ()), f"{api.id_prefix}sim-0-1", 0) for api in APIS}
PLAIN, WIDE = "".join(TOKENS), "".join(WIDE_TOKENS)
FIVES = "".join(text * 5 for text in TOKENS)
ENDS = {"chat": "[DONE]", "completions": "[DONE]", "responses": "response.completed", "messages": "message_stop"}


@dataclass
class Read:
    """What a client makes of a stream; times in milliseconds."""

    text: str = ""
    thought: str = ""
    arguments: str = ""
    tool: str | None = None
    usage: int | None = None
    finish: str | None = None
    error: str | None = None
    end: str | None = None
    ended: float | None = None
    tokens_at: list[float] = field(default_factory=list)
    answer_at: list[float] = field(default_factory=list)


def events(api: str, row: str) -> Iterator[tuple[float, str, Any]]:
    """The events of a stream by the rules of server-sent events: time, name and data."""
    buffer, held = b"", []
    for write in writes(WIRES[api], (ROWS | BREAKS)[row]()):
        held.append(write.after_s * 1000)
        buffer = (buffer + write.data).replace(b"\r\n", b"\n")
        while b"\n\n" in buffer:
            block, _, buffer = buffer.partition(b"\n\n")
            lines = [line.partition(b":") for line in block.split(b"\n") if not line.startswith(b":")]
            fields = {name.decode(): value.removeprefix(b" ").decode() for name, _, value in lines}
            if "data" in fields:
                data = fields["data"]
                yield round(held[-1], 3), fields.get("event", ""), data if data == "[DONE]" else json.loads(data)


def read_choices(api: str, row: str) -> Read:
    got = Read()
    for at, _, data in events(api, row):
        if data == "[DONE]":
            got.end, got.ended = data, at
        elif "error" in data:
            got.error = data["error"]["message"]
        elif not data["choices"]:
            got.usage = data["usage"]["completion_tokens"]
        else:
            choice = data["choices"][0]
            delta = choice.get("delta", {})
            text = delta.get("content") or choice.get("text") or ""
            thought = delta.get("reasoning_content") or ""
            got.finish = choice["finish_reason"] or got.finish
            got.text, got.thought = got.text + text, got.thought + thought
            for call in delta.get("tool_calls", []):
                got.tool = call["function"].get("name") or got.tool
                got.arguments += call["function"]["arguments"]
            if text or thought or "tool_calls" in delta:
                got.tokens_at.append(at)
            if text and ("</think>" in got.text or "<think>" not in got.text):
                got.answer_at.append(at)
    return got


def read_responses(api: str, row: str) -> Read:
    got = Read()
    for number, (at, name, data) in enumerate(events(api, row)):
        assert (data["type"], data["sequence_number"]) == (name, number)
        match name:
            case "response.output_text.delta" if data["delta"]:
                got.text += data["delta"]
                got.tokens_at.append(at)
                got.answer_at.append(at)
            case "response.reasoning_summary_text.delta":
                got.thought += data["delta"]
                got.tokens_at.append(at)
            case "response.output_item.added" if data["item"]["type"] == "function_call":
                got.tool = data["item"]["name"]
                got.tokens_at.append(at)
            case "response.function_call_arguments.delta":
                got.arguments += data["delta"]
                got.tokens_at.append(at)
            case "response.completed" | "response.failed":
                response = data["response"]
                got.end, got.ended, got.finish = name, at, response["status"]
                got.usage = response["usage"] and response["usage"]["output_tokens"]
                got.error = response["error"] and response["error"]["message"]
            case "error":
                got.error = data["message"]
    return got


def read_messages(api: str, row: str) -> Read:
    got = Read()
    for at, name, data in events(api, row):
        assert data["type"] == name
        match data:
            case {"type": "content_block_start", "content_block": {"type": "tool_use", "name": tool}}:
                got.tool = tool
            case {"type": "content_block_delta", "delta": {"type": "signature_delta"}} | {"delta": {"text": ""}}:
                pass
            case {"type": "content_block_delta", "delta": delta}:
                got.text += delta.get("text", "")
                got.thought += delta.get("thinking", "")
                got.arguments += delta.get("partial_json", "")
                got.tokens_at.append(at)
                if "text" in delta:
                    got.answer_at.append(at)
            case {"type": "message_delta"}:
                got.finish, got.usage = data["delta"]["stop_reason"], data["usage"].get("output_tokens")
            case {"type": "message_stop"}:
                got.end, got.ended = name, at
            case {"type": "error"}:
                got.error = data["error"]["message"]
    return got


READERS = {
    "chat": read_choices,
    "completions": read_choices,
    "responses": read_responses,
    "messages": read_messages,
}
FINISHES = {"chat": "stop", "completions": "stop", "responses": "completed", "messages": "end_turn"}
CASES = [(api, row) for api in WIRES for row in ROWS if api in ONLY_FOR.get(row, WIRES)]


@pytest.mark.parametrize(("api", "row"), CASES)
def test_what_a_row_says_counts_and_ends_with_is_the_same_in_every_api(api: str, row: str) -> None:
    got = READERS[api](api, row)
    text = {"A5": WIDE, "A8": FIVES, "A9": FIVES, "A12": TOKENS[-1], "A11": ""}.get(row, PLAIN)
    if row in {"A6", "A7"}:
        assert (got.text, got.finish, got.usage, got.end) == ("".join(TOKENS[:3]), None, None, None)
        assert got.error == ("the simulated GPU fell over" if row == "A6" else None)
        return
    assert got.thought + got.text.replace("<think>", "").replace("</think>", "") == text
    assert got.usage == {"A8": 50, "A9": None, "A12": 1}.get(row, 10)
    assert got.arguments == ("".join(ARGUMENTS) if row == "A11" else "")
    assert (got.end, got.ended) == (ENDS[api], {"A12": 220, "A13": 1500, "B": 800}.get(row, 400))
    if row != "A11":
        assert got.finish == FINISHES[api]


@pytest.mark.parametrize(("api", "row"), CASES)
def test_when_tokens_come_is_the_same_in_every_api(api: str, row: str) -> None:
    got = READERS[api](api, row)
    first = 600 if row == "B" else 200
    chunks = {"A6": 3, "A7": 3, "A12": 1}.get(row, 10)
    assert got.tokens_at == [first + 20 * index for index in range(chunks)]
    assert got.answer_at[:1] == {"A10": [320], "A11": []}.get(row, [first])


@pytest.mark.parametrize(
    ("api", "finish"), [("chat", "tool_calls"), ("responses", "completed"), ("messages", "tool_use")]
)
def test_a_call_names_its_tool_and_ends_for_it(api: str, finish: str) -> None:
    got = READERS[api](api, "A11")
    assert (got.tool, got.finish) == ("search", finish)


def test_a_failed_response_ends_with_an_event_that_says_so() -> None:
    got = read_responses("responses", "failed")
    assert (got.text, got.end, got.ended) == ("".join(TOKENS[:3]), "response.failed", 260)
    assert (got.finish, got.error, got.usage) == ("failed", "the simulated GPU fell over", None)


def test_output_tokens_at_the_start_of_a_message_are_not_its_count() -> None:
    start = next(data for _, name, data in events("messages", "A9") if name == "message_start")
    assert start["message"]["usage"]["output_tokens"] == 1
    delta = next(data for _, name, data in events("messages", "A9") if name == "message_delta")
    assert delta["usage"] == {}


def test_items_and_blocks_open_and_close_around_their_deltas() -> None:
    names = [name.removeprefix("response.") for _, name, _ in events("responses", "A10")]
    order = list(dict.fromkeys(names))
    assert order == [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "completed",
    ]
    blocks = [(data["index"], name) for _, name, data in events("messages", "A10") if "index" in data]
    assert list(dict.fromkeys(blocks)) == [
        (index, f"content_block_{part}") for index in (0, 1) for part in ("start", "delta", "stop")
    ]
