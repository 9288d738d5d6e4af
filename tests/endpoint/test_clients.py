"""The real clients over real sockets: what each API's stream becomes in them, and how they meet the faults."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any
from urllib.request import urlopen

import anthropic
import httpx2
import openai
import pytest
from pydantic import BaseModel

from hopbudget.endpoint import running

HELLO: Any = [{"role": "user", "content": "hello"}]
PLAIN, WIDE = "Ten tokens, twenty milliseconds apart, and then stop.", "期限を守る🙂预算，🚀한도é。"
PARAMETERS = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
ROWS = ("A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "A10", "A11", "A12", "A13", "B")


class Source(BaseModel):
    title: str
    year: int


class Findings(BaseModel):
    summary: str
    best: Source


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running(seed=1) as base:
        yield base


@pytest.fixture
async def openais(address: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
async def anthropics(address: str) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(base_url=address, api_key="none", max_retries=0) as client:
        yield client


def sent(address: str, key: str) -> list[dict[str, Any]]:
    with urlopen(f"{address}/hopbudget/sent?key={key}") as answer:
        found: list[dict[str, Any]] = json.load(answer)["sent"]
        return found


def asked(row: str) -> dict[str, str]:
    return {"x-hopbudget-row": row}


async def each(read: Callable[[str], Coroutine[Any, Any, Any]], rows: tuple[str, ...]) -> dict[str, Any]:
    """Every row read at once."""
    return dict(zip(rows, await asyncio.gather(*map(read, rows)), strict=True))


async def test_every_row_as_a_response_stream(openais: openai.AsyncOpenAI) -> None:
    async def read(row: str) -> dict[str, Any]:
        got: dict[str, Any] = {"text": "", "thought": "", "arguments": "", "error": None, "status": None, "usage": None}
        stream = await openais.responses.create(model="sim-small", input="hello", stream=True, extra_headers=asked(row))
        async for event in stream:
            match event.type:
                case "response.output_text.delta":
                    got["text"] += event.delta
                case "response.reasoning_summary_text.delta":
                    got["thought"] += event.delta
                case "response.function_call_arguments.delta":
                    got["arguments"] += event.delta
                case "error":
                    got["error"] = event.message
                case "response.completed":
                    got["status"] = event.response.status
                    got["usage"] = event.response.usage and event.response.usage.output_tokens
                    assert event.response.output_text == got["text"]
        return got

    check_rows(await each(read, ROWS), "completed")


async def test_every_row_as_a_message_stream(anthropics: anthropic.AsyncAnthropic) -> None:
    async def read(row: str) -> dict[str, Any]:
        got: dict[str, Any] = {"text": "", "thought": "", "arguments": "", "error": None, "status": None, "usage": None}
        try:
            stream = await anthropics.messages.create(
                model="sim-small", max_tokens=100, messages=HELLO, stream=True, extra_headers=asked(row)
            )
            async for event in stream:
                if event.type == "content_block_delta":
                    got["text"] += getattr(event.delta, "text", "")
                    got["thought"] += getattr(event.delta, "thinking", "")
                    got["arguments"] += getattr(event.delta, "partial_json", "")
                if event.type == "message_delta":
                    got["status"], got["usage"] = event.delta.stop_reason, event.usage.output_tokens
        except anthropic.APIStatusError as error:
            got["error"] = error.body["error"]["message"] if isinstance(error.body, dict) else None
        return got

    got = await each(read, ROWS)
    assert got["A11"].pop("status") == "tool_use"
    check_rows({**got, "A11": {**got["A11"], "status": "end_turn"}}, "end_turn")


def check_rows(got: dict[str, Any], finished: str) -> None:
    whole = {"text": PLAIN, "thought": "", "error": None, "status": finished, "usage": 10}
    cut = {"text": "Ten tokens,", "status": None, "usage": None}
    expected: dict[str, dict[str, Any]] = {
        **dict.fromkeys(("A1", "A2", "A3", "A4", "A13", "B"), whole),
        "A5": {**whole, "text": WIDE},
        "A6": {**cut, "error": "the simulated GPU fell over"},
        "A7": {**cut, "error": None},
        "A8": {"status": finished, "usage": 50},
        "A9": {"status": finished, "usage": None},
        "A10": {**whole, "thought": "Ten tokens, twenty milliseconds apart", "text": ", and then stop."},
        "A11": {"text": "", "arguments": '{"query": "deadline budgets"}', "status": finished, "usage": 10},
        "A12": {**whole, "text": " stop.", "usage": 1},
    }
    for row, part in expected.items():
        assert {key: got[row][key] for key in part} == part, row


async def test_rows_as_legacy_completions(openais: openai.AsyncOpenAI) -> None:
    async def read(row: str) -> tuple[str, str | None]:
        stream = await openais.completions.create(
            model="sim-small", prompt="hello", stream=True, extra_headers=asked(row)
        )
        choices = [chunk.choices[0] async for chunk in stream if chunk.choices]
        return "".join(choice.text for choice in choices), choices[-1].finish_reason

    got = await each(read, ("A1", "A2", "A5", "A7", "A10"))
    thought = "<think>Ten tokens, twenty milliseconds apart</think>, and then stop."
    assert got == {
        "A1": (PLAIN, "stop"),
        "A2": (PLAIN, "stop"),
        "A5": (WIDE, "stop"),
        "A7": ("Ten tokens,", None),
        "A10": (thought, "stop"),
    }
    with pytest.raises(openai.APIError, match="fell over"):
        await read("A6")


def test_the_helpers_of_the_clients_put_streams_together(address: str) -> None:
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
        with client.responses.stream(model="sim-small", input="hello", extra_headers=asked("A10")) as responses:
            response = responses.get_final_response()
        with client.chat.completions.stream(model="sim-small", messages=HELLO, extra_headers=asked("A1")) as chunks:
            completion = chunks.get_final_completion()
    assert (response.output_text, response.usage and response.usage.output_tokens) == (", and then stop.", 10)
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert completion.choices[0].message.content == PLAIN
    with anthropic.Anthropic(base_url=address, api_key="none", max_retries=0) as client_of_messages:
        for row, types in (("A10", ["thinking", "text"]), ("A11", ["tool_use"])):
            with client_of_messages.messages.stream(
                model="sim-small", max_tokens=100, messages=HELLO, extra_headers=asked(row)
            ) as messages:
                message = messages.get_final_message()
            assert ([block.type for block in message.content], message.usage.output_tokens) == (types, 10)
    assert message.content[0].to_dict()["input"] == {"query": "deadline budgets"}


def test_answers_of_a_given_shape_are_parsed(address: str) -> None:
    expected = Findings(summary="simulated", best=Source(title="simulated", year=1))
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
        response = client.responses.parse(model="sim-small", input="hello", text_format=Findings)
        chat = client.chat.completions.parse(model="sim-small", messages=HELLO, response_format=Findings)
    assert response.output_parsed == chat.choices[0].message.parsed == expected
    with anthropic.Anthropic(base_url=address, api_key="none", max_retries=0) as client_of_messages:
        message = client_of_messages.messages.parse(
            model="sim-small", max_tokens=100, messages=HELLO, output_format=Findings
        )
    assert message.parsed_output == expected


def test_plain_replies_limits_and_models(address: str) -> None:
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
        response = client.responses.create(model="sim-small", input="hello", max_output_tokens=3)
        legacy = client.completions.create(model="sim-small", prompt="hello", max_tokens=3)
    assert (response.status, len(response.output_text.split())) == ("incomplete", 3)
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    assert (legacy.choices[0].finish_reason, len(legacy.choices[0].text.split())) == ("length", 3)
    with anthropic.Anthropic(base_url=address, api_key="none", max_retries=0) as client_of_messages:
        tool: Any = {"name": "search", "input_schema": PARAMETERS}
        message = client_of_messages.messages.create(model="sim-small", max_tokens=3, messages=HELLO)
        call = client_of_messages.messages.create(model="sim-small", max_tokens=99, messages=HELLO, tools=[tool])
        assert [model.id for model in client_of_messages.models.list()] == ["sim-small", "sim-large", "sim-reasoner"]
        with pytest.raises(anthropic.NotFoundError, match="does not exist"):
            client_of_messages.messages.create(model="claude-9", max_tokens=3, messages=HELLO)
    assert (message.stop_reason, message.usage.output_tokens) == ("max_tokens", 3)
    assert (call.stop_reason, call.content[0].to_dict()["input"]) == ("tool_use", {"query": "simulated"})


def test_the_clients_retry_refusals_and_resets(address: str) -> None:
    rows = {"x-hopbudget-row": "503x1, resetx1", "x-hopbudget-retry-after": "0.001"}
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=2) as client:
        client.responses.create(
            model="sim-small", input="hello", extra_headers={**rows, "x-hopbudget-key": "openai-retries"}
        )
    with anthropic.Anthropic(base_url=address, api_key="none", max_retries=2) as client_of_messages:
        client_of_messages.messages.create(
            model="sim-small",
            max_tokens=9,
            messages=HELLO,
            extra_headers={**rows, "x-hopbudget-key": "anthropic-retries"},
        )
    for key in ("openai-retries", "anthropic-retries"):
        attempts = sent(address, key)
        assert [attempt["status"] for attempt in attempts] == [503, None, 200]
        assert len({attempt["body_sha256"] for attempt in attempts}) == 1


def test_a_cut_reaches_the_clients_as_a_reset_after_three_tokens(address: str) -> None:
    heard = []
    with (
        openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client,
        client.chat.completions.create(
            model="sim-small", messages=HELLO, stream=True, extra_headers=asked("cut")
        ) as chunks,
        pytest.raises(openai.APIConnectionError) as raised,
    ):
        heard.extend(chunk.choices[0].delta.content for chunk in chunks)
    assert "reset" in str(raised.value.__cause__)
    with anthropic.Anthropic(base_url=address, api_key="none", max_retries=0) as client_of_messages:
        events = client_of_messages.messages.create(
            model="sim-small", max_tokens=100, messages=HELLO, stream=True, extra_headers=asked("cut")
        )
        with pytest.raises(httpx2.ReadError, match="reset"):
            for event in events:
                heard.append(event.type)
    assert heard.count("content_block_delta") == 3


@pytest.mark.parametrize("row", ["headers-never", "silence", "stall"])
def test_a_client_with_a_time_limit_leaves_and_the_server_notices(address: str, row: str) -> None:
    headers = {**asked(row), "x-hopbudget-key": f"left-{row}"}
    with (
        openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=1.0) as client,
        pytest.raises(openai.APITimeoutError),
    ):
        list(client.responses.create(model="sim-small", input="hello", stream=True, extra_headers=headers))
    assert any(sent(address, f"left-{row}")[0]["client_gone"] for _ in range(1000))


def test_pings_keep_a_dead_stream_alive_until_somebody_closes_it(address: str) -> None:
    headers = {**asked("stall-pings"), "x-hopbudget-key": "pinged"}
    with httpx2.stream(
        "POST", f"{address}/v1/chat/completions", json={"model": "sim-small", "messages": HELLO, "stream": True},
        headers=headers, timeout=0.5,
    ) as answer:  # fmt: skip
        heard = b""
        for part in answer.iter_raw():
            heard += part
            if heard.count(b": ping") == 3:
                break
    assert heard.count(b"data:") == 4
    assert any(sent(address, "pinged")[0]["client_gone"] for _ in range(1000))
