"""What the store knows of an agent that another instrumentation traced, beside what the endpoint says it sent.

Each agent has two hops that call a tool, and an answer that streams.
"""

import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).resolve().parents[3]

RESPONSES = "agent_openai_responses"
CHAT = "agent_openai"


class Source(NamedTuple):
    """What is expected of a source."""

    name: str
    agent: str
    first: str | None = None
    """What tells the first chunk of its streams."""
    tokens: tuple[bool, bool, bool] = (True, True, True)
    """Which hops have their tokens: chat completions state usage of a stream only if they are asked to."""
    streams: bool = True
    """It says that a call streamed."""
    tools: tuple[str, ...] = ()
    """The works, in order."""
    counts_itself: bool = False
    """It makes up a number of tokens where none is stated, and no better than that can be known."""
    calls: str | None = None
    """The sources of each hop, where they are several."""


EVENT = "event First Token Stream Event"
ATTRIBUTE = "gen_ai.response.time_to_first_chunk"
UNASKED = (True, True, False)
TOOLS = ("weather", "trains")
ALL = "OpenLLMetry + OpenTelemetry GenAI + OpenInference"
SOURCES = (
    Source("openinference", CHAT, EVENT, UNASKED),
    Source("openinference", RESPONSES, EVENT),
    Source("json_exporter", RESPONSES, EVENT),
    Source("phoenix", RESPONSES, EVENT),
    Source("openllmetry", CHAT, "event gen_ai.content.completion.chunk", UNASKED),
    Source("openllmetry", RESPONSES),
    Source("genai", CHAT, ATTRIBUTE, UNASKED),
    Source("genai", RESPONSES, ATTRIBUTE),
    Source("stacked", CHAT, "event gen_ai.content.completion.chunk", UNASKED, calls=ALL),
    Source("stacked", RESPONSES, ATTRIBUTE, calls=ALL),
    Source("stacked_pair", RESPONSES, EVENT, calls="OpenLLMetry + OpenInference"),
    Source("logfire", CHAT, None, UNASKED),
    Source("logfire", RESPONSES),
    Source("langfuse", CHAT, "langfuse.observation.completion_start_time", UNASKED),
    Source("langfuse", RESPONSES, "langfuse.observation.completion_start_time"),
    Source("pydantic_ai", "agent_pydantic_ai", "gen_ai.client.operation.time_to_first_chunk", tools=TOOLS),
    Source(
        *("langgraph", "agent_langgraph", None, (False, False, False)),
        streams=False,
        tools=("tools", "weather", "tools", "trains"),
    ),
    Source("openai_agents", "agent_openai_agents", streams=False, tools=TOOLS),
    Source("openai_agents_genai", "agent_openai_agents", ATTRIBUTE, tools=TOOLS),
    Source("smolagents", "agent_smolagents", streams=False, tools=("weather", "weather")),
    Source("litellm", "agent_litellm", counts_itself=True),
    Source("adk", "agent_adk", streams=False, tools=TOOLS),
    Source("anthropic_client", "agent_anthropic", ATTRIBUTE),
    Source("any_agent", "agent_any_agent", streams=False, tools=TOOLS),
    Source(
        *("langsmith", "agent_langgraph", None, (False, False, False)),
        streams=False,
        tools=("tools", "weather", "tools", "trains"),
    ),
    Source("openai_v2", CHAT, None, UNASKED, streams=False),
    Source("strands", "agent_strands", "gen_ai.server.time_to_first_token", tools=TOOLS),
    Source("vercel_ai", "agent_vercel_ai", "gen_ai.client.operation.time_to_first_chunk", tools=TOOLS),
    Source("vercel_ai_6", "agent_vercel_ai", "ai.response.msToFirstChunk", tools=TOOLS),
    Source("claude_code", "claude_code", "ttft_ms", tools=("Glob", "Grep")),
)


@pytest.fixture(scope="module", params=SOURCES, ids=lambda source: f"{source.name}-{source.agent}")
def source(request: pytest.FixtureRequest) -> Source:
    found: Source = request.param
    return found


@pytest.fixture(scope="module")
def ran(source: Source, traced: Callable[..., Any], endpoint: Any) -> Any:
    name = source.name if source.agent == RESPONSES else f"{source.name}_{source.agent.removeprefix('agent_')}"
    done = traced(source.name, source.agent, endpoint, record=name)
    assert done.status == 0, done.output[-3000:]
    return done


def test_a_run_is_one_trajectory_and_a_call_one_hop(ran: Any, source: Source) -> None:
    (trajectory,) = ran.seen.trajectories
    assert (trajectory["hop_count"], trajectory["outcome"], trajectory["complete"]) == (3, "ok", True)
    assert [hop["outcome"] for hop in ran.seen.hops] == ["ok"] * len(ran.sent)
    if source.calls:
        assert {hop["source"] for hop in ran.seen.hops} == {source.calls}


def test_hops_streamed_as_the_endpoint_did(ran: Any, source: Source) -> None:
    assert [hop["streamed"] for hop in ran.seen.hops] == [sent["streamed"] and source.streams for sent in ran.sent]


def test_a_first_chunk_is_called_so(ran: Any, source: Source) -> None:
    streamed = [sent["streamed"] and source.first is not None for sent in ran.sent]
    assert [hop["ttft_s"] is not None for hop in ran.seen.hops] == streamed
    assert {hop["ttft_source"] for hop in ran.seen.hops} - {None} == ({"first_chunk"} if source.first else set())
    assert {hop["ttft_from"] for hop in ran.seen.hops} - {None} == ({source.first} if source.first else set())


def test_tokens_are_those_that_were_sent(ran: Any, source: Source) -> None:
    tokens = [sent["tokens"] if known else None for sent, known in zip(ran.sent, source.tokens, strict=True)]
    found = [hop["output_tokens"] for hop in ran.seen.hops]
    if source.counts_itself:
        assert all(made_up > sent["tokens"] for made_up, sent in zip(found, ran.sent, strict=True))
    else:
        assert found == tokens


def test_hops_last_as_long_as_the_endpoint_took_and_the_clients_part(ran: Any) -> None:
    for hop, sent in zip(ran.seen.hops, ran.sent, strict=True):
        assert hop["duration_s"] >= sent["done_s"] - 0.005


def test_tools_are_works(ran: Any, source: Source) -> None:
    assert tuple(work["work"] for work in ran.seen.works) == source.tools


def test_the_answer_is_the_final_stream(ran: Any, source: Source) -> None:
    last = ran.sent[-1]["streamed"] and source.streams
    assert [hop["final"] for hop in ran.seen.hops] == [False, False, last]


@pytest.mark.parametrize("name", ["openinference", "genai", "openllmetry"])
def test_the_first_chunk_may_come_half_a_second_before_the_first_token(
    name: str, traced: Callable[..., Any], row_b: Any
) -> None:
    done = traced(name, CHAT, row_b)
    assert done.sent[-1]["row"] == "B"
    # The chunk of a role is there at 0.10 s, the first token at 0.60 s.
    assert 0.09 < done.seen.hops[-1]["ttft_s"] < 0.6
    assert done.seen.hops[-1]["ttft_source"] == "first_chunk"


@pytest.mark.parametrize("name", ["openinference", "genai", "openllmetry", "stacked", "logfire", "langfuse"])
def test_a_call_that_was_refused_thrice_is_one_failed_hop(name: str, traced: Callable[..., Any], refusing: Any) -> None:
    done = traced(name, CHAT, refusing)
    assert done.status == 1
    assert [sent["status"] for sent in done.sent] == [200, 200, 503, 503, 503]
    (trajectory,) = done.seen.trajectories
    assert [hop["outcome"] for hop in done.seen.hops] == ["ok", "ok", "failed"]
    assert (trajectory["outcome"], trajectory["hop_count"]) == ("failed", 3)


@pytest.mark.parametrize("agent", [CHAT, RESPONSES])
def test_capture_of_ours_on_top_of_three_others_is_still_one_hop_a_call(
    agent: str, traced: Callable[..., Any], endpoint: Any
) -> None:
    done = traced("stacked", agent, endpoint, capture=True)
    assert done.status == 0, done.output[-3000:]
    assert {hop["source"] for hop in done.seen.hops} == {f"{ALL} + hopbudget"}
    assert [hop["output_tokens"] for hop in done.seen.hops] == [sent["tokens"] for sent in done.sent]
    streamed = [hop for hop in done.seen.hops if hop["streamed"]]
    assert {hop["ttft_source"] for hop in streamed} == {"first_token"}


class Page(NamedTuple):
    """The code of a page, and what comes of it."""

    source: str
    agent: str | None = None
    """What runs after it, where the page only sets up."""
    trajectories: int = 1
    hops: int = 3
    block: int = 0
    settings: Mapping[str, str] = MappingProxyType({})


LANGFUSE = MappingProxyType(
    {"LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_SECRET_KEY": "sk", "LANGFUSE_HOST": "http://127.0.0.1:9"}
)
PAGES = {
    "langfuse": Page("langfuse", CHAT, trajectories=3, settings=LANGFUSE),
    "langgraph": Page("langgraph", hops=2),
    "logfire": Page("logfire", CHAT, trajectories=3),
    "openai-agents": Page("openai_agents_genai", "agent_openai_agents"),
    "openllmetry": Page("openllmetry", CHAT, trajectories=3),
    "phoenix": Page("openinference", CHAT, trajectories=3),
    "pydantic-ai": Page("pydantic_ai", "agent_pydantic_ai"),
    "vercel-ai": Page("vercel_ai", hops=2),
    "own-spans, adk": Page("adk", "agent_adk"),
    "own-spans, any-agent": Page("any_agent", "agent_any_agent"),
    "own-spans, strands": Page("strands", "agent_strands"),
    "vercel-ai, before 7": Page("vercel_ai_6", hops=1, block=1),
}


@pytest.mark.parametrize("name", PAGES)
def test_the_code_of_a_page_does_what_the_page_says_as_it_stands(
    name: str,
    script: Callable[..., list[Any]],
    source_environment: Callable[[str], Path],
    variables: Callable[..., dict[str, str]],
    serve: Callable[[Path], Any],
    look: Callable[..., Any],
    endpoint: Any,
    tmp_path: Path,
) -> None:
    page = PAGES[name]
    text = (ROOT / "docs" / "sources" / f"{name.partition(',')[0]}.md").read_text()
    code = re.findall(r"^```(?:python|javascript)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[page.block]
    if page.agent:
        code += f"import runpy\nrunpy.run_module({page.agent!r}, run_name='__main__')\n"
    store = tmp_path / "traces.duckdb"
    with serve(store) as receiver:
        settings = variables(source_environment(page.source), endpoint) | page.settings
        settings |= {"PYTHONPATH": str(ROOT / "examples"), "OTEL_EXPORTER_OTLP_ENDPOINT": receiver}
        del settings["OPENAI_AGENTS_DISABLE_TRACING"], settings["OTEL_TRACES_EXPORTER"]
        done = subprocess.run(
            script(page.source, code.replace("http://127.0.0.1:4318", receiver), tmp_path),
            cwd=tmp_path,
            env=settings,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-2000:]
    seen = look(store, [])
    assert (len(seen.trajectories), len(seen.hops)) == (page.trajectories, page.hops)
    assert {hop["outcome"] for hop in seen.hops} == {"ok"}
