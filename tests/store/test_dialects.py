"""What each source's spans are taken for: by scope first, with its own names and units."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hopbudget.store import otlp
from hopbudget.store.dialects import DIALECTS
from hopbudget.store.facts import Facts, of_traces
from hopbudget.store.rows import HopRow


def facts(make: Any, *spans: tuple[str, dict[str, Any]]) -> Facts:
    """Rows of spans given with their scope."""
    request = {
        "resourceSpans": [
            {"resource": {}, "scopeSpans": [{"scope": {"name": scope}, "spans": [span]} for scope, span in spans]}
        ]
    }
    decoded = otlp.decode(json.dumps(request).encode())
    assert decoded.rejected == []
    return of_traces([decoded.spans])


def hop(
    make: Any, scope: str, attributes: dict[str, Any], name: str = "call", seconds: float = 4, **more: Any
) -> HopRow:
    span = make.span(name, 0, seconds, attributes=attributes, **more)
    (row,) = facts(make, (scope, span)).hops
    return row


def event(make: Any, name: str, at: float) -> dict[str, Any]:
    return {"name": name, "timeUnixNano": str(make.t0 + round(at * 1e9)), "attributes": []}


CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
INSTANT = '"2023-11-14T22:13:20.500Z"'  # half a second after the start of our spans

TIMES = [
    # source, scope, attributes of the model span, the time to its first chunk
    (
        "OpenTelemetry GenAI",
        "opentelemetry.instrumentation.genai.openai",
        CHAT | {"gen_ai.response.time_to_first_chunk": 0.5},
    ),
    ("pydantic-ai", "pydantic-ai", CHAT | {"gen_ai.client.operation.time_to_first_chunk": 0.5}),
    ("Vercel AI", "gen_ai", CHAT | {"gen_ai.client.operation.time_to_first_chunk": 0.5}),
    ("Strands", "strands.telemetry.tracer", CHAT | {"gen_ai.server.time_to_first_token": 500}),
    ("Vercel AI, legacy", "ai", {"ai.operationId": "ai.streamText.doStream", "ai.response.msToFirstChunk": 500.0}),
    ("Vercel AI, legacy", "ai", {"ai.operationId": "ai.streamObject.doStream", "ai.stream.msToFirstChunk": 500.0}),
    ("Claude Code", "com.anthropic.claude_code.tracing", {"span.type": "llm_request", "ttft_ms": 500}),
    (
        "OpenTelemetry GenAI",
        "opentelemetry.util.genai.handler",
        CHAT | {"gen_ai.response.time_to_first_token": 500_000_000},
    ),
    ("loongsuite", "loongsuite.instrumentation.openai", CHAT | {"gen_ai.response.time_to_first_token": 500_000}),
    ("LiteLLM", "litellm", CHAT | {"gen_ai.response.time_to_first_chunk": 0.5}),
    (
        "Langfuse",
        "langfuse-sdk",
        {"langfuse.observation.type": "generation", "langfuse.observation.completion_start_time": INSTANT},
    ),
    ("GenAI conventions", "", CHAT | {"gen_ai.server.time_to_first_token": 0.5}),
    ("GenAI conventions", "", CHAT | {"gen_ai.server.time_to_first_token": 500}),
]


@pytest.mark.parametrize(
    ("source", "scope", "attributes"), TIMES, ids=lambda value: value if type(value) is str else ""
)
def test_the_first_chunk_of_each_source_is_read_in_its_own_unit(
    make: Any, source: str, scope: str, attributes: dict[str, Any]
) -> None:
    row = hop(make, scope, attributes)
    assert (row.source, row.ttft_s, row.ttft_source, row.streamed) == (source, pytest.approx(0.5), "first_chunk", True)


@pytest.mark.parametrize(
    ("scope", "attributes", "name"),
    [
        ("openinference.instrumentation.openai", {"openinference.span.kind": "LLM"}, "First Token Stream Event"),
        ("opentelemetry.instrumentation.openai.v1", CHAT, "gen_ai.content.completion.chunk"),
        ("opentelemetry.instrumentation.anthropic", {"llm.request.type": "chat"}, "llm.content.completion.chunk"),
        ("ai", {"ai.operationId": "ai.streamText.doStream"}, "ai.stream.firstChunk"),
        ("anything", CHAT, "gen_ai.content.chunk"),
    ],
)
def test_the_first_event_of_its_name_is_the_first_chunk(
    make: Any, scope: str, attributes: dict[str, Any], name: str
) -> None:
    row = hop(make, scope, attributes, events=[event(make, "other", 0.1), event(make, name, 0.5), event(make, name, 1)])
    assert (row.ttft_s, row.ttft_from) == (pytest.approx(0.5), f"event {name}")


@pytest.mark.parametrize(
    ("attributes", "flaw"),
    [
        ({"gen_ai.response.time_to_first_chunk": 4.5}, "ttft_outside_span"),
        ({"gen_ai.response.time_to_first_chunk": -0.1}, "ttft_negative"),
        ({"gen_ai.response.time_to_first_chunk": "soon"}, "ttft_unreadable"),
        ({"langfuse.observation.completion_start_time": '"2023-11-14T22:13:10Z"'}, "ttft_negative"),
        ({"langfuse.observation.completion_start_time": '"2023-11-14T22:13:40Z"'}, "ttft_outside_span"),
        ({"langfuse.observation.completion_start_time": "yesterday"}, "ttft_unreadable"),
    ],
)
def test_a_first_chunk_that_cannot_be_right_is_null_with_its_reason(make: Any, attributes: Any, flaw: str) -> None:
    row = hop(make, "", CHAT | attributes)
    assert (row.ttft_s, row.tpot_s, row.flags, row.streamed) == (None, None, flaw, True)


def test_a_place_that_can_be_believed_goes_before_one_that_cannot(make: Any) -> None:
    both = {"gen_ai.response.time_to_first_chunk": 9.0, "gen_ai.client.operation.time_to_first_chunk": 0.5}
    row = hop(make, "", CHAT | both)
    assert (row.ttft_s, row.flags) == (0.5, None)


def test_a_short_time_in_nanoseconds_is_not_taken_for_a_longer_one_in_another_unit(make: Any) -> None:
    found = hop(make, "opentelemetry.util.genai.handler", CHAT | {"gen_ai.response.time_to_first_token": 2_000_000})
    assert found.ttft_s == 0.002


def test_first_chunk_events_after_dropped_ones_are_not_believed(make: Any) -> None:
    row = hop(make, "opentelemetry.instrumentation.openai.v1", CHAT, droppedEventsCount=172,
              events=[event(make, "gen_ai.content.completion.chunk", 2)])  # fmt: skip
    assert (row.ttft_s, row.flags) == (None, "events_dropped")


def test_a_wait_told_by_an_inner_span_counts_from_the_outer_one(make: Any) -> None:
    outer = make.span("outer", 0, 4, attributes=CHAT)
    inner = make.span("inner", 1, 4, parent="outer", attributes=CHAT | {"gen_ai.response.time_to_first_chunk": 0.5})
    (row,) = facts(make, ("a", outer), ("b", inner)).hops
    assert row.ttft_s == pytest.approx(1.5)


def test_claude_codes_input_tokens_are_summed_with_what_it_counts_apart(make: Any) -> None:
    counts = {
        "input_tokens": 5,
        "cache_read_tokens": 100,
        "cache_creation_tokens": 20,
        "output_tokens": 7,
        "model": "c",
    }
    row = hop(make, "com.anthropic.claude_code.tracing", {"span.type": "llm_request"} | counts)
    assert (row.input_tokens, row.cached_tokens, row.output_tokens, row.model) == (125, 100, 7, "c")


def test_claude_codes_waiting_for_a_person_is_a_pause(make: Any) -> None:
    scope = "com.anthropic.claude_code.tracing"
    found = facts(
        make,
        (scope, make.span("claude_code.interaction", 0, 10, attributes={"span.type": "interaction"}, span="root")),
        (scope, make.span("claude_code.llm_request", 0, 2, parent="root", span="llm")),
        (scope, make.span("claude_code.tool", 2, 9, parent="root", span="tool", attributes={"tool_name": "Bash"})),
        (scope, make.span("claude_code.tool.blocked_on_user", 2, 8, parent="tool", span="wait")),
    )
    (row,) = found.trajectories
    assert (row.paused_s, row.duration_s, len(found.hops)) == (6, 4, 1)
    assert [work.work for work in found.works] == ["Bash"]


@pytest.mark.parametrize(
    "name", ["anthropic.messages.count_tokens", "anthropic.messages.batches.create", "anthropic.sessions.create"]
)
def test_of_what_anthropics_client_asks_only_messages_are_calls(make: Any, name: str) -> None:
    scope = "com.anthropic.sdk.python"
    asked = {"gen_ai.provider.name": "anthropic", "gen_ai.request.model": "m"}
    found = facts(
        make,
        (scope, make.span(name, 0, 1, kind=3, attributes=asked, parent="bot", span="other")),
        (scope, make.span("anthropic.messages.create", 1, 5, kind=3, attributes=CHAT | asked, parent="bot", span="c")),
        ("tests", make.agent("bot", 0, 9)),
    )
    assert [(row.span_id, row.source) for row in found.hops] == [(make.span_id("c"), "Anthropic client")]
    assert [row.work for row in found.works] == [name]


def test_anthropics_client_names_the_reason_of_its_end_in_its_own_way(make: Any) -> None:
    attributes = CHAT | {"anthropic.message.stop_reason": "max_tokens"}
    assert hop(make, "com.anthropic.sdk.python", attributes).outcome == "truncated"


def test_a_call_of_another_instrumentation_that_capture_adopted_is_still_its_own(make: Any) -> None:
    adopted = {"hopbudget.hop": "chat", "hopbudget.adopted": True}
    row = hop(make, "anything", CHAT | adopted | {"gen_ai.response.time_to_first_chunk": 0.5})
    assert (row.source, row.ttft_source) == ("GenAI conventions", "first_chunk")


def test_langfuses_usage_is_a_json_text(make: Any) -> None:
    usage = '{"input": 5, "output": 7, "input_cached_tokens": 3, "output_reasoning_tokens": 2}'
    row = hop(make, "langfuse-sdk", {"langfuse.observation.type": "generation", "langfuse.observation.model.name": "m",
                                     "langfuse.observation.usage_details": usage})  # fmt: skip
    assert (row.input_tokens, row.output_tokens, row.cached_tokens, row.reasoning_tokens, row.model) == (
        5,
        7,
        3,
        2,
        "m",
    )


def test_langfuses_level_error_is_a_failure(make: Any) -> None:
    attributes = {"langfuse.observation.type": "generation", "langfuse.observation.level": "ERROR"}
    assert hop(make, "langfuse-sdk", attributes).outcome == "failed"


def test_openinference_says_the_model_of_a_failed_call_in_its_parameters_alone(make: Any) -> None:
    parameters = '{"model": "gpt-4.1", "stream": true, "instructions": "secret"}'
    attributes = {"openinference.span.kind": "LLM", "llm.invocation_parameters": parameters}
    row = hop(make, "openinference.instrumentation.openai", attributes, status=2)
    assert (row.model, row.outcome) == ("gpt-4.1", "failed")


def test_litellms_request_and_its_raw_twin_are_one_hop(make: Any) -> None:
    outer = make.span(
        "litellm_request", 0, 4, attributes={"gen_ai.request.model": "m", "llm.is_streaming": "True"}, span="a"
    )
    inner = make.span("raw_gen_ai_request", 1, 4, parent="a", span="b", attributes={"gen_ai.usage.output_tokens": 7})
    (row,) = facts(make, ("litellm", outer), ("litellm", inner)).hops
    assert (row.model, row.output_tokens, row.streamed, row.duration_s) == ("m", 7, True, 4)


def test_google_adks_wrapper_and_its_call_are_one_hop_within_the_invocation(make: Any) -> None:
    adk = "gcp.vertex.agent"
    found = facts(
        make,
        (adk, make.span("invocation", 0, 9, span="inv")),
        (adk, make.agent("math", 0, 9, parent="inv")),
        (adk, make.span("call_llm", 0, 5, parent="math", span="wrap", attributes={"gen_ai.request.model": "g"})),
        (adk, make.span("generate_content g", 1, 5, parent="wrap", span="gen",
                        attributes={"gen_ai.operation.name": "generate_content"})),
        (adk, make.span("execute_tool (merged tools)", 5, 6, parent="math", span="merged")),
    )  # fmt: skip
    assert [(row.hop, row.duration_s) for row in found.hops] == [("math", 5)]
    assert [row.root_span_id for row in found.trajectories] == [make.span_id("inv")]


def test_tokens_of_an_agents_span_are_totals_and_are_in_no_hop(make: Any) -> None:
    totals = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 50}
    found = make.facts(
        make.agent("bot", 0, 9, attributes=totals),
        make.chat("a", 0, 3, parent="bot", attributes={"gen_ai.usage.output_tokens": 20}),
        make.chat("b", 3, 9, parent="bot", attributes={"gen_ai.usage.output_tokens": 30}),
    )
    assert [row.output_tokens for row in found.hops] == [20, 30]


def test_a_model_span_that_holds_a_tool_is_flagged(make: Any) -> None:
    found = make.facts(make.agent("bot", 0, 9), make.chat("c", 0, 8, parent="bot"), make.tool("find", 1, 5, parent="c"))
    assert [row.flags for row in found.hops] == ["holds_tools"]


def test_a_model_span_during_which_a_tool_ran_beside_it_is_flagged(make: Any) -> None:
    found = make.facts(
        make.agent("bot", 0, 9),
        make.chat("a", 0, 2, parent="bot"),
        make.tool("before", 2, 3, parent="bot"),
        make.chat("b", 3, 8, parent="bot"),
        make.tool("during", 4, 6, parent="bot"),
    )
    assert [row.flags for row in found.hops] == [None, "holds_tools"]


def test_a_model_span_around_several_calls_and_tools_is_the_loop_and_no_hop(make: Any) -> None:
    found = make.facts(
        make.chat("loop", 0, 9),
        make.chat("a", 0, 2, parent="loop"),
        make.tool("find", 2, 3, parent="loop"),
        make.chat("b", 3, 9, parent="loop"),
    )
    assert [row.span_id for row in found.hops] == [make.span_id("a"), make.span_id("b")]
    assert found.trajectories[0].work_s == 1


def test_zero_length_and_overlapping_model_spans_survive(make: Any) -> None:
    found = make.facts(
        make.agent("bot", 0, 9),
        make.chat("none", 1, 1, parent="bot"),
        make.chat("a", 2, 6, parent="bot"),
        make.chat("b", 3, 7, parent="bot"),
    )
    assert [row.duration_s for row in found.hops] == [0, 4, 4]
    assert found.trajectories[0].work_s == 4


def test_nodes_of_a_graph_that_call_themselves_agents_belong_to_the_graph(make: Any) -> None:
    scope = "openinference.instrumentation.langchain"

    def node(word: str, kind: str, start: float, end: float, parent: str | None) -> tuple[str, dict[str, Any]]:
        return scope, make.span(word, start, end, parent=parent, attributes={"openinference.span.kind": kind})

    spans = [
        node("LangGraph", "CHAIN", 0, 9, "POST"),
        node("planner", "AGENT", 0, 4, "angGraph"),
        node("writer", "AGENT", 4, 9, "angGraph"),
        node("RunnableSequence", "CHAIN", 4, 9, "writer"),
        node("llm1", "LLM", 0, 4, "planner"),
        node("llm2", "LLM", 4, 9, "Sequence"),
    ]
    found = facts(make, ("asgi", make.span("POST", 0, 9, kind=2)), *spans)
    assert [row.root_span_id for row in found.trajectories] == [make.span_id("angGraph")]
    assert [row.hop for row in found.hops] == ["planner", "writer"]


def test_steps_that_only_count_give_no_hop_its_name(make: Any) -> None:
    scope = "openinference.instrumentation.smolagents"
    kind = "openinference.span.kind"
    found = facts(
        make,
        (scope, make.span("CodeAgent.run", 0, 9, span="run", attributes={kind: "AGENT"})),
        (scope, make.span("Step 1", 0, 4, span="s1", parent="run", attributes={kind: "CHAIN"})),
        (scope, make.span("model", 0, 3, span="m1", parent="s1", attributes={kind: "LLM"})),
        (scope, make.span("Step 2", 4, 9, span="s2", parent="run", attributes={kind: "CHAIN"})),
        (scope, make.span("model", 4, 8, span="m2", parent="s2", attributes={kind: "LLM"})),
    )
    assert [(row.hop, row.visit) for row in found.hops] == [("chat", 1), ("chat", 2)]


def test_ids_in_names_are_left_out_of_them(make: Any) -> None:
    name = {"gen_ai.agent.name": "run.6f8d2449-33ed-4c7c-82e7-5410e34ee4e6"}
    found = make.facts(make.agent("run", 0, 9, attributes=name))
    assert [row.workload for row in found.trajectories] == ["run"]


# --- the table and its page ----------------------------------------------------------------------------------------


def test_the_page_lists_every_source_and_says_which_are_unverified() -> None:
    page = (Path(__file__).parents[2] / "docs" / "sources.md").read_text()
    listed = {
        name.strip(): verified.strip()
        for name, verified in re.findall(r"^\| ([^|]+) \|(?:[^|]*\|){3} ([^|]+) \|$", page, flags=re.MULTILINE)
    }
    for dialect in DIALECTS:
        assert dialect.name in listed, f"{dialect.name} is missing in docs/sources.md"
        assert (listed[dialect.name] == "unverified") is (dialect.verified is None)


def test_a_row_that_calls_itself_verified_names_a_recording_that_is_here(shared: Path) -> None:
    here = Path(__file__).parent
    for dialect in DIALECTS:
        for name in re.findall(r"[\w-]+/[\w.-]+\.jsonl?", dialect.verified or ""):
            places = (here / name, shared / "data" / "spans" / name)
            assert any(place.is_file() for place in places), name


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_a_scope_is_told_by_its_own_row(make: Any, dialect: Any) -> None:
    for known in dialect.scopes:
        scope = known.replace("*", "x") if known.endswith("*") else known
        spans = [(scope, make.chat("c", 0, 1))]
        rows = facts(make, *spans).hops
        assert [row.source for row in rows] == [dialect.name]
