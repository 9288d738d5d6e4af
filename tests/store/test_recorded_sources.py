"""Agents of three hops, as other instrumentations exported them to `hopbudget serve`, beside what the endpoint sent.

`recorded/trip_*.jsonl` are made by `HOPBUDGET_RECORD=1 HOPBUDGET_EXAMPLES=1 pytest -n 0 tests/examples/sources`, which
checks the same while it runs; `*.sent.json` is the endpoint's own account of its answers.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hopbudget.store import documents, facts
from hopbudget.store.facts import Facts

from .traces import traces_in

RECORDED = Path(__file__).parent / "recorded"
CLOCK_S = 0.005
EVENT = "event First Token Stream Event"
CHUNK = "event gen_ai.content.completion.chunk"
ATTRIBUTE = "gen_ai.response.time_to_first_chunk"
MOMENT = "langfuse.observation.completion_start_time"
TOOLS = ("weather", "trains")
ALL = "OpenLLMetry + OpenTelemetry GenAI + OpenInference"


class Expected(NamedTuple):
    """What is read of a recording."""

    source: str
    first: str | None = None
    """What tells the first chunk of a stream."""
    without_tokens: tuple[int, ...] = ()
    """Hops of which the source doesn't know the tokens."""
    streams: bool = True
    """It says that a call streamed."""
    works: tuple[str, ...] = ()
    counts_itself: bool = False
    """It makes up a number of tokens where none is stated, and no better than that can be known."""


TRIPS = {
    "openinference": Expected("OpenInference", EVENT),
    "openinference_openai": Expected("OpenInference", EVENT, (2,)),
    "json_exporter": Expected("OpenInference", EVENT),
    "phoenix": Expected("OpenInference", EVENT),
    "openllmetry": Expected("OpenLLMetry"),
    "openllmetry_openai": Expected("OpenLLMetry", CHUNK, (2,)),
    "genai": Expected("OpenTelemetry GenAI", ATTRIBUTE),
    "genai_openai": Expected("OpenTelemetry GenAI", ATTRIBUTE, (2,)),
    "stacked": Expected(ALL, ATTRIBUTE),
    "stacked_openai": Expected(ALL, CHUNK, (2,)),
    "stacked_pair": Expected("OpenLLMetry + OpenInference", EVENT),
    "logfire": Expected("Logfire"),
    "logfire_openai": Expected("Logfire", None, (2,)),
    "langfuse": Expected("Langfuse", MOMENT),
    "langfuse_openai": Expected("Langfuse", MOMENT, (2,)),
    "pydantic_ai_pydantic_ai": Expected("pydantic-ai", "gen_ai.client.operation.time_to_first_chunk", works=TOOLS),
    "langgraph_langgraph": Expected(
        "OpenInference", None, (0, 1, 2), streams=False, works=("tools", "weather", "tools", "trains")
    ),
    "openai_agents_openai_agents": Expected("OpenAI Agents (OpenInference)", streams=False, works=TOOLS),
    "openai_agents_genai_openai_agents": Expected("OpenTelemetry GenAI", ATTRIBUTE, works=TOOLS),
    "smolagents_smolagents": Expected("smolagents (OpenInference)", streams=False, works=("weather", "weather")),
    "litellm_litellm": Expected("LiteLLM", counts_itself=True),
    "adk_adk": Expected("Google ADK", streams=False, works=TOOLS),
    "anthropic_client_anthropic": Expected("Anthropic client", ATTRIBUTE),
    "any_agent_any_agent": Expected("any-agent", works=TOOLS),
    "langsmith_langgraph": Expected(
        "LangSmith", None, (0, 1, 2), streams=False, works=("tools", "weather", "tools", "trains")
    ),
    "openai_v2_openai": Expected("OpenTelemetry GenAI, older names", None, (2,), streams=False),
    "strands_strands": Expected("Strands", "gen_ai.server.time_to_first_token", works=TOOLS),
    "vercel_ai_vercel_ai": Expected("Vercel AI", "gen_ai.client.operation.time_to_first_chunk", works=TOOLS),
    "vercel_ai_6_vercel_ai": Expected("Vercel AI, legacy", "ai.response.msToFirstChunk", works=TOOLS),
    "claude_code_claude_code": Expected("Claude Code", "ttft_ms", works=("Glob", "Grep")),
}


class Trip(NamedTuple):
    """A recording's rows, what they should be, and what was sent."""

    found: Facts
    expected: Expected
    sent: list[dict[str, Any]]


@pytest.fixture(scope="module", params=TRIPS)
def trip(request: pytest.FixtureRequest) -> Trip:
    found = facts.of_traces(traces_in(documents.pieces(RECORDED / f"trip_{request.param}.jsonl")))
    sent = json.loads((RECORDED / f"trip_{request.param}.sent.json").read_text())
    return Trip(found, TRIPS[request.param], sent)


def test_every_recording_has_its_row() -> None:
    assert {path.stem.removeprefix("trip_") for path in RECORDED.glob("trip_*.jsonl")} == set(TRIPS)


def test_a_run_is_one_trajectory_and_each_answer_one_hop_of_its_outcome(trip: Trip) -> None:
    (trajectory,) = trip.found.trajectories
    assert (trajectory.hop_count, trajectory.outcome, trajectory.complete) == (len(trip.sent), "ok", True)
    assert [sent["status"] for sent in trip.sent] == [200, 200, 200]
    assert [(hop.outcome, hop.source) for hop in trip.found.hops] == [("ok", trip.expected.source)] * 3


def test_tokens_are_those_that_were_sent(trip: Trip) -> None:
    known = [None if n in trip.expected.without_tokens else sent["tokens"] for n, sent in enumerate(trip.sent)]
    found = [hop.output_tokens for hop in trip.found.hops]
    if trip.expected.counts_itself:
        assert all((made_up or 0) > sent["tokens"] for made_up, sent in zip(found, trip.sent, strict=True))
    else:
        assert found == known


def test_a_stream_is_one_where_the_source_says_so(trip: Trip) -> None:
    streamed = [sent["streamed"] and trip.expected.streams for sent in trip.sent]
    assert [hop.streamed for hop in trip.found.hops] == streamed
    assert [hop.final for hop in trip.found.hops] == [False, False, streamed[-1]]


def test_a_first_chunk_is_called_so_and_lies_within_its_hop(trip: Trip) -> None:
    first = trip.expected.first
    for hop, sent in zip(trip.found.hops, trip.sent, strict=True):
        if first is None or not sent["streamed"]:
            assert (hop.ttft_s, hop.ttft_source, hop.ttft_from) == (None, None, None)
        else:
            assert (hop.ttft_source, hop.ttft_from) == ("first_chunk", first)
            assert 0 < (hop.ttft_s or 0) < hop.duration_s


def test_a_hop_lasts_as_long_as_its_answer_at_least(trip: Trip) -> None:
    for hop, sent in zip(trip.found.hops, trip.sent, strict=True):
        assert hop.duration_s >= sent["done_s"] - CLOCK_S


def test_tools_are_works(trip: Trip) -> None:
    assert tuple(work.work for work in trip.found.works) == trip.expected.works


@pytest.mark.parametrize("path", sorted(RECORDED.glob("trip_*.jsonl")), ids=lambda path: path.stem)
def test_a_recording_holds_nothing_that_was_asked_called_or_answered(path: Path) -> None:
    text = path.read_text()
    for words in ("You plan", "Tomorrow", "tomorrow", "Graz", "Give every step", "departures", "/tmp", "site-packages"):
        assert words not in text
