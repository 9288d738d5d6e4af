"""Every faulty stream through the real client over a real socket: what was recorded agrees with what was sent.

Exact times are proved with a scripted clock elsewhere; here only counts, outcomes, sources and the order of times.
"""

import json
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import openai
import pytest

import hopbudget as hb
from hopbudget.endpoint import running
from hopbudget.tracing import scope
from hopbudget.tracing.clock import Clock
from hopbudget.tracing.gaps import decode

OK: dict[str, Any] = {"outcome": "ok", "n": 10, "source": "usage", "gaps": 9, "answered": True, "paced": True}
ROWS: dict[str, dict[str, Any]] = {
    "A1": OK,
    "A2": OK,
    "A3": OK,
    "A4": OK,
    "A5": OK,
    "A6": {**OK, "outcome": "failed", "n": 3, "source": "chunks", "gaps": 2, "error": "APIError"},
    "A7": {**OK, "outcome": "failed", "n": 3, "source": "chunks", "gaps": 2, "error": "cut_off"},
    "A8": {**OK, "n": 50},
    "A9": {**OK, "source": "chunks"},
    "A10": OK,
    "A11": {**OK, "answered": False},
    "A12": {**OK, "n": 1, "gaps": 0, "paced": False},
    "A13": OK,
}
rows = pytest.mark.parametrize("row", ROWS)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with running() as base:
        yield base


@pytest.fixture(scope="module")
def client(endpoint: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{endpoint}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def real_time(recorded: Any) -> Any:
    scope.setup.clock = Clock()
    return recorded


def request(row: str) -> dict[str, Any]:
    return {
        "model": "sim-small",
        "messages": [{"role": "user", "content": "Ten tokens, please."}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "extra_headers": {"x-hopbudget-row": row},
    }


def check(recorded: Any, row: str, chunks: list[Any], endpoint: str) -> None:
    expected = ROWS[row]
    span = recorded.only()
    found = dict(span.attributes)
    gaps = decode(found["hopbudget.itl"]) if "hopbudget.itl" in found else None
    assert {
        "outcome": found["hopbudget.outcome"],
        "n": found["hopbudget.output_tokens"],
        "source": found["hopbudget.output_tokens.source"],
        "gaps": len(gaps.us) if gaps else 0,
        "answered": "hopbudget.ttfa" in found,
        "paced": "hopbudget.tpot" in found,
        **({"error": found["error.type"]} if "error.type" in found else {}),
    } == expected
    assert found["gen_ai.request.stream"] is True
    assert found["gen_ai.response.model"] == chunks[0].model
    check_times(row, found, (span.end_time - span.start_time) / 1e9)
    check_against_the_endpoint(found, chunks[0].id, endpoint)


def check_times(row: str, found: dict[str, Any], span_s: float) -> None:
    """The order of the times, and what follows from their definitions."""
    ttft_s, ttfa_s, e2e_s = (found.get(f"hopbudget.{name}") for name in ("ttft", "ttfa", "e2e"))
    assert ttft_s > 0
    if ttfa_s is not None:
        assert ttfa_s > ttft_s if row == "A10" else ttfa_s == ttft_s
    if found["hopbudget.outcome"] != "ok":
        assert e2e_s is None
        return
    if found["hopbudget.output_tokens"] == 1:
        assert e2e_s == ttft_s
    else:
        tpot_s = found["hopbudget.tpot"]
        assert e2e_s == pytest.approx(ttft_s + (found["hopbudget.output_tokens"] - 1) * tpot_s)
    assert e2e_s < span_s
    if row == "A13":
        assert span_s - e2e_s > 0.5  # the end mark came 1.1 s later


def check_against_the_endpoint(found: dict[str, Any], answer_id: str, endpoint: str) -> None:
    with urlopen(f"{endpoint}/hopbudget/sent/{answer_id}") as answer:
        sent = json.load(answer)
    assert found["hopbudget.chunks"] == len(sent["chunk_s"])
    assert ("hopbudget.ttfa" in found) == (sent["first_answer_s"] is not None)
    # The client saw a token no earlier than it was sent, and issued the request before that arrived.
    assert found["hopbudget.ttft"] > sent["first_token_s"] - 0.005
    if found["hopbudget.output_tokens.source"] == "usage":
        assert found["hopbudget.output_tokens"] == sent["tokens"]


@rows
def test_a_generator_that_passes_the_stream_on(real_time: Any, endpoint: str, client: openai.OpenAI, row: str) -> None:
    @hb.hop("answer", final=True)
    def answer() -> Iterator[Any]:
        with client.chat.completions.create(**request(row)) as stream:
            yield from stream

    chunks: list[Any] = []
    read(answer(), chunks, fails=row == "A6")
    check(real_time, row, chunks, endpoint)


@rows
async def test_an_async_generator_that_passes_the_stream_on(real_time: Any, endpoint: str, row: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{endpoint}/v1", api_key="none", max_retries=0) as client:

        @hb.hop("answer", final=True)
        async def answer() -> Any:
            async with await client.chat.completions.create(**request(row)) as stream:
                async for chunk in stream:
                    yield chunk

        chunks: list[Any] = []
        await read_async(answer(), chunks, fails=row == "A6")
    check(real_time, row, chunks, endpoint)


@rows
def test_a_function_that_returns_the_stream(real_time: Any, endpoint: str, client: openai.OpenAI, row: str) -> None:
    @hb.hop("answer", final=True)
    def answer() -> openai.Stream[Any]:
        return client.chat.completions.create(**request(row))

    chunks: list[Any] = []
    with answer() as stream:
        assert isinstance(stream, openai.Stream)
        assert stream.response.status_code == 200
        read(stream, chunks, fails=row == "A6")
    check(real_time, row, chunks, endpoint)


@rows
async def test_a_block_that_watches_the_async_stream(real_time: Any, endpoint: str, row: str) -> None:
    chunks: list[Any] = []
    async with (
        openai.AsyncOpenAI(base_url=f"{endpoint}/v1", api_key="none", max_retries=0) as client,
        hb.hop("answer", final=True),
        hb.watch(await client.chat.completions.create(**request(row))) as stream,
    ):
        assert isinstance(stream, openai.AsyncStream)
        await read_async(stream, chunks, fails=row == "A6")
    check(real_time, row, chunks, endpoint)


def read(stream: Any, chunks: list[Any], *, fails: bool) -> None:
    if not fails:
        chunks.extend(stream)
        return
    with pytest.raises(openai.APIError):
        for chunk in stream:
            chunks.append(chunk)


async def read_async(stream: Any, chunks: list[Any], *, fails: bool) -> None:
    if fails:
        with pytest.raises(openai.APIError):
            async for chunk in stream:
                chunks.append(chunk)
    else:
        async for chunk in stream:
            chunks.append(chunk)


def test_a_response_that_is_only_a_tool_call(real_time: Any, endpoint: str, client: openai.OpenAI) -> None:
    asked: Any = {"model": "sim-small", "input": "Call it.", "extra_headers": {"x-hopbudget-row": "A11"}}
    with hb.hop("answer"), hb.watch(client.responses.create(**asked, stream=True)) as stream:
        events = list(stream)
    found = real_time.attributes()
    outcome, n, ended = (found[f"hopbudget.{name}"] for name in ("outcome", "output_tokens", "e2e"))
    assert (outcome, n, "hopbudget.ttfa" in found) == ("ok", 10, False)
    assert len(decode(found["hopbudget.itl"]).us) == 9
    assert found["hopbudget.tpot"] == pytest.approx((ended - found["hopbudget.ttft"]) / 9)
    first: Any = events[0]
    check_against_the_endpoint(found, first.response.id, endpoint)


def test_the_users_tokenizer_counts_where_usage_is_not_stated(real_time: Any, client: openai.OpenAI) -> None:
    scope.setup.tokenizer = lambda text: 50 if text.startswith("Ten" * 5) else 0
    with hb.hop("answer"), hb.watch(client.chat.completions.create(**request("A9"))) as stream:
        assert len(list(stream)) == 12
    found = real_time.attributes()
    assert (found["hopbudget.output_tokens"], found["hopbudget.output_tokens.source"]) == (50, "tokenizer")


def test_the_first_token_is_not_the_role_nor_an_empty_chunk(
    real_time: Any, endpoint: str, client: openai.OpenAI
) -> None:
    with hb.hop("answer"), hb.watch(client.chat.completions.create(**request("B"))) as stream:
        chunks = list(stream)
    check_against_the_endpoint(real_time.attributes(), chunks[0].id, endpoint)


def test_a_call_that_is_not_streamed(real_time: Any, client: openai.OpenAI) -> None:
    @hb.hop("plan")
    def plan() -> Any:
        question: Any = [{"role": "user", "content": "Hello"}]
        return client.chat.completions.create(model="sim-small", messages=question, max_tokens=5)

    reply = plan()
    found = real_time.attributes()
    assert found["hopbudget.outcome"] in {"ok", "truncated"}
    assert found["hopbudget.output_tokens"] == reply.usage.completion_tokens
    assert found["gen_ai.usage.input_tokens"] == reply.usage.prompt_tokens
    assert "hopbudget.ttft" not in found


def test_a_refused_connection_is_the_providers_failure(real_time: Any) -> None:
    with openai.OpenAI(base_url="http://127.0.0.1:9/v1", api_key="none", max_retries=0) as nowhere:

        @hb.hop("plan")
        def plan() -> Any:
            return nowhere.chat.completions.create(model="m", messages=[])

        with pytest.raises(openai.APIConnectionError):
            plan()
    found = real_time.attributes()
    assert (found["hopbudget.outcome"], found["error.type"]) == ("failed", "APIConnectionError")
