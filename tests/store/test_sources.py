"""Spans that others recorded: what is found in each file, against a count by hand and one from the raw JSON."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hopbudget.store import documents
from hopbudget.store.accounts import Account

from .traces import traces_in

COUNTED = {
    # file: model calls, tools, trajectories
    "any-agent/AGNO_trace.json": (3, 2, 1),
    "any-agent/GOOGLE_trace.json": (3, 3, 1),
    "any-agent/LANGCHAIN_trace.json": (4, 2, 1),
    "any-agent/LLAMA_INDEX_trace.json": (5, 3, 1),
    "any-agent/OPENAI_trace.json": (3, 2, 1),
    "any-agent/SMOLAGENTS_trace.json": (3, 3, 1),
    "any-agent/TINYAGENT_trace.json": (4, 3, 1),
    "langfuse/agno-2025-06-11.trace.json": (2, 1, 1),
    "langfuse/autogen-2025-06-06.trace.json": (1, 0, 1),
    "langfuse/beeai-2025-08-01.trace.json": (3, 1, 1),
    "langfuse/claude-agent-2025-12-22.trace.json": (4, 2, 1),
    "langfuse/crewai-2025-07-11.trace.json": (1, 0, 1),
    "langfuse/csharp-agent-with-gemini-2026-03-09.trace.json": (3, 2, 1),
    "langfuse/google-adk-2025-08-28.trace.json": (2, 1, 1),
    "langfuse/google-gemini-2025-08-01.trace.json": (1, 0, 1),
    "langfuse/koog-2025-08-26.trace.json": (2, 2, 1),
    "langfuse/langgraph-js-2025-10-30.trace.json": (2, 0, 1),
    "langfuse/langgraph-python-2025-08-22.trace.json": (2, 0, 1),
    "langfuse/llamaindex-2025-06-05.trace.json": (1, 0, 1),
    "langfuse/microsoft-agent-2025-12-17.trace.json": (2, 1, 1),
    "langfuse/openai-agents-2025-09-30.trace.json": (2, 1, 1),
    "langfuse/pydantic-ai-2025-06-06.trace.json": (1, 0, 1),
    "langfuse/pydantic-ai-tools-2025-06-06.trace.json": (1, 0, 1),
    "langfuse/pydantic-ai-tools-2025-12-04.trace.json": (4, 3, 1),
    "langfuse/pydantic-ai-with-gemini-2025-12-24.trace.json": (1, 0, 1),
    "langfuse/vercel-aisdk-2025-11-17.trace.json": (1, 1, 1),
    "langfuse/vertex-ai-2025-08-01.trace.json": (1, 0, 1),
    "strands-evals/adk_live_spans.json": (2, 1, 1),
    "strands-evals/autogen_live_spans.json": (0, 1, 1),
    "strands-evals/claude_live_spans.json": (0, 6, 1),
    "strands-evals/openai_agents_genai_live_spans.json": (8, 5, 1),
    "strands-evals/openai_agents_openinference_live_spans.json": (5, 4, 1),
    "strands-evals/openinference_live_spans.json": (2, 1, 1),
    "strands-evals/pydantic_ai_live_spans.json": (2, 1, 1),
    "strands-evals/smolagents_live_spans.json": (2, 2, 1),
}


GAPS = {
    # file: what is missing, of how many calls; of the others' calls, all tokens and models are there
    "langfuse/beeai-2025-08-01.trace.json": {"no output tokens": 3},
    "strands-evals/openinference_live_spans.json": {"no output tokens": 2, "no input tokens": 2, "no model": 2},
}


def account_of(path: Path) -> Account:
    account = Account()
    account.add(traces_in(documents.pieces(path)))
    return account


@pytest.mark.parametrize("name", COUNTED)
def test_hops_tools_and_roots_are_those_counted_by_hand(name: str, shared: Path) -> None:
    traces = account_of(shared / "data" / "spans" / name).of_trace.values()
    found = zip(*((held.hops, held.tools, held.trajectories) for held in traces), strict=True)
    assert tuple(map(sum, found)) == COUNTED[name]


def test_every_file_is_in_the_table(shared: Path) -> None:
    folder = shared / "data" / "spans"
    assert {str(path.relative_to(folder)) for path in folder.rglob("*.json")} == COUNTED.keys()


@pytest.mark.parametrize("name", COUNTED)
def test_none_of_them_tells_a_first_token_and_it_is_said_what_that_costs(name: str, shared: Path) -> None:
    account = account_of(shared / "data" / "spans" / name)
    assert not any(source.first_tokens for source in account.sources.values())
    what = [one.what for one in account.missing()]
    assert what[0] == ("no first-token times" if COUNTED[name][0] else "no model span")


# --- the same counts from the raw JSON, by nothing of ours ---------------------------------------------------------


def raw_spans(path: Path) -> list[dict[str, Any]]:
    """Id, parent, name, attributes and Langfuse's type of each span."""
    whole = json.loads(path.read_text())
    found = []
    for raw in whole if isinstance(whole, list) else whole.get("spans") or whole["observations"]:
        metadata = raw.get("metadata") or {}
        metadata = json.loads(metadata) if isinstance(metadata, str) else metadata
        attributes = raw.get("attributes") or metadata.get("attributes") or {}
        parent = raw.get("parent_span_id") or raw.get("parentObservationId") or (raw.get("parent") or {}).get("span_id")
        found.append(
            {
                "id": raw.get("span_id") or raw.get("id") or raw["context"]["span_id"],
                "parent": parent,
                "a": json.loads(attributes) if isinstance(attributes, str) else attributes,
                "type": raw.get("type", ""),
                "name": raw["name"],
            }
        )
    return found


def is_another_record(span: dict[str, Any]) -> bool:
    """BeeAI writes a span for a call's start, and others for what becomes of it."""
    return re.search(r"\.(success|finish)-\d+$", span["name"]) is not None


def is_model(span: dict[str, Any]) -> bool:
    a = span["a"]
    return not is_another_record(span) and (
        a.get("gen_ai.operation.name") in {"chat", "generate_content", "call_llm"}
        or a.get("openinference.span.kind") == "LLM"
        or (span["type"] == "GENERATION" and a.get("ai.operationId") != "ai.generateText")
        or (span["name"] == "call_llm" and "gcp.vertex.agent.llm_request" in a)
    )


def is_tool(span: dict[str, Any]) -> bool:
    a = span["a"]
    return not is_another_record(span) and (
        a.get("gen_ai.operation.name") == "execute_tool"
        or a.get("openinference.span.kind") == "TOOL"
        or span["type"] == "TOOL"
        or ("gen_ai.tool.name" in a and not is_model(span))
    )


@pytest.mark.parametrize("name", [name for name, (hops, _, _) in COUNTED.items() if hops])
def test_what_else_is_missing_is_what_was_found_so_by_hand(name: str, shared: Path) -> None:
    missing = {one.what: one.n for one in account_of(shared / "data" / "spans" / name).missing()}
    assert {what: n for what, n in missing.items() if what in {"no output tokens", "no input tokens", "no model"}} == (
        GAPS.get(name, {})
    )
    assert ("no tool spans" in missing) is (COUNTED[name][1] == 0)


def test_calls_whose_end_is_not_told_are_marked(shared: Path) -> None:
    account = account_of(shared / "data" / "spans" / "langfuse" / "beeai-2025-08-01.trace.json")
    assert {name: dict(source.flags) for name, source in account.sources.items()} == {
        "BeeAI (OpenInference)": {"no_end": 3}
    }


@pytest.mark.parametrize("name", COUNTED)
def test_a_count_from_the_raw_json_gives_the_same(name: str, shared: Path) -> None:
    spans = {span["id"]: span for span in raw_spans(shared / "data" / "spans" / name)}

    def within_a_model_span(span: dict[str, Any]) -> bool:
        above = spans.get(span["parent"])
        return above is not None and (is_model(above) or within_a_model_span(above))

    models = sum(is_model(span) and not within_a_model_span(span) for span in spans.values())
    assert (models, sum(map(is_tool, spans.values()))) == COUNTED[name][:2]
