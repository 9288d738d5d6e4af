"""Real clients against the simulated endpoint on loopback: the fault rows, all APIs."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import hopbudget as hb
from hopbudget.tracing import scope

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")
serving = pytest.importorskip("hopbudget.endpoint.serving")

# outcome, N and its source
OK = ("ok", 10, "usage")
CUT = ("failed", 3, "chunks")
TRUTH: dict[str, tuple[str, int | None, str | None]] = {
    **dict.fromkeys(["A1", "A2", "A3", "A4", "A5", "A13", "B"], OK),
    "A6": CUT,
    "A7": CUT,
    "cut": CUT,
    "A8": ("ok", 50, "usage"),
    "A9": ("ok", 10, "chunks"),
    "A10": OK,
    "A11": OK,
    "A12": ("ok", 1, "usage"),
}
"""The right answer of each row."""

OTHERWISE = {
    # What is shown of the reasoning may be a summary; how many tokens of it streamed is not known.
    ("messages", "A10"): ("ok", None, None),
    ("responses", "A10"): ("ok", None, None),
    ("completions", "A11"): None,
}
CELLS = [
    (api, row, OTHERWISE.get((api, row), truth))
    for api in ("chat", "completions", "responses", "messages")
    for row, truth in TRUTH.items()
    if OTHERWISE.get((api, row), truth) is not None
]
AT_ONCE = 8
"""More, and the streams wait for the loop rather than for the endpoint."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving.running_apart(seed=3) as url:
        yield url


@pytest.fixture(scope="module")
def seen(address: str) -> Iterator[dict[tuple[str, str], dict[str, Any]]]:
    """The hop of every cell."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    scope.configure(provider=provider)
    hb.instrument()
    try:
        asyncio.run(ask_all(address))
    finally:
        hb.uninstrument()
        scope.configure()
    yield {
        tuple(str(span.attributes["hopbudget.hop"]).split()): {  # type: ignore[misc, index]
            **span.attributes,  # type: ignore[dict-item]
            "length": ((span.end_time or 0) - (span.start_time or 0)) / 1e9,
        }
        for span in exporter.get_finished_spans()
    }


async def ask_all(address: str) -> None:
    messages: Any = [{"role": "user", "content": "hi"}]
    tool = {"name": "look", "description": "d", "parameters": {"type": "object", "properties": {}}}
    async with (
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0) as of_openai,
        anthropic.AsyncAnthropic(base_url=address, api_key="k", max_retries=0) as of_anthropic,
    ):
        chat = of_openai.chat.completions.create
        openings: dict[str, Any] = {
            "chat": lambda **more: chat(messages=messages, stream_options={"include_usage": True}, **more),
            "completions": lambda **more: of_openai.completions.create(
                prompt="hi", stream_options={"include_usage": True}, **more
            ),
            "responses": lambda **more: of_openai.responses.create(input="hi", **more),
            "messages": lambda **more: of_anthropic.messages.create(messages=messages, max_tokens=200, **more),
        }
        tools: dict[str, Any] = {
            "chat": [{"type": "function", "function": tool}],
            "responses": [{"type": "function", **tool}],
            "messages": [{"name": "look", "input_schema": tool["parameters"]}],
        }

        few = asyncio.Semaphore(AT_ONCE)

        async def ask(api: str, row: str) -> None:
            more: dict[str, Any] = {"tools": tools[api]} if row == "A11" else {}
            async with few, hb.hop(f"{api} {row}"):
                try:
                    stream = await openings[api](
                        model="sim-small", stream=True, extra_headers={"x-hopbudget-row": row}, **more
                    )
                    async for _ in stream:
                        pass
                except (openai.APIError, anthropic.APIError, OSError):
                    pass
                except Exception as error:
                    if "httpx" not in type(error).__module__:
                        raise

        await asyncio.gather(*(ask(api, row) for api, row, _ in CELLS))


@pytest.mark.parametrize(("api", "row", "truth"), CELLS, ids=[f"{api}, {row}" for api, row, _ in CELLS])
def test_outcome_and_tokens_are_right_in_every_row(seen: Any, api: str, row: str, truth: Any) -> None:
    found = seen[api, row]
    keys = ("hopbudget.outcome", "hopbudget.output_tokens", "hopbudget.output_tokens.source")
    assert tuple(found.get(key) for key in keys) == truth


@pytest.mark.parametrize("api", ["chat", "completions", "responses", "messages"])
def test_first_tokens_answers_and_ends_stand_in_order(seen: Any, api: str) -> None:
    plain, late, thinking, one = (seen[api, row] for row in ("A1", "B", "A10", "A12"))
    assert late["hopbudget.ttft"] > plain["hopbudget.ttft"]
    assert plain["hopbudget.ttfa"] == plain["hopbudget.ttft"]
    assert thinking["hopbudget.ttfa"] > thinking["hopbudget.ttft"]
    assert "hopbudget.tpot" not in one
    # How much later the end mark comes is up to how busy this machine is.
    assert seen[api, "A13"]["hopbudget.e2e"] < seen[api, "A13"]["length"]


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
def test_a_tool_call_has_a_first_token_and_no_answer(seen: Any, api: str) -> None:
    assert "hopbudget.ttft" in seen[api, "A11"]
    assert "hopbudget.ttfa" not in seen[api, "A11"]
