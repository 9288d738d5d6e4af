"""Spans that real instrumentations made of calls to our endpoint (`recorded/record.py`): what is read from them.

The script's answers have ten tokens, the first of them 0.2 s after the request, after a chunk that names a role.
"""

from pathlib import Path

import pytest

from hopbudget.store import documents, facts
from hopbudget.store.accounts import Account
from hopbudget.store.facts import Facts
from hopbudget.store.rows import HopRow
from hopbudget.store.spans import Span

from .traces import traces_in

RECORDED = Path(__file__).parent / "recorded"


def traces(name: str) -> list[list[Span]]:
    return traces_in(documents.pieces(next(RECORDED.glob(f"{name}.json*"))))


def rows(name: str) -> Facts:
    return facts.of_traces(traces(name))


SCRIPTED = {
    "genai": "gen_ai.response.time_to_first_chunk",
    "openinference": "event First Token Stream Event",
    "openllmetry": "event gen_ai.content.completion.chunk",
    "stacked": "event gen_ai.content.completion.chunk",
}


def streamed_plain_refused(name: str) -> list[HopRow]:
    found = rows(name)
    first = found.trajectories[0].trace_id
    return [hop for hop in found.hops if hop.trace_id == first]


@pytest.mark.parametrize("name", SCRIPTED)
def test_three_calls_are_three_hops_with_tokens_and_outcome_as_sent(name: str) -> None:
    hops = streamed_plain_refused(name)
    assert [hop.outcome for hop in hops] == ["ok", "ok", "failed"]
    assert [hop.streamed for hop in hops] == [True, False, False]
    assert [hop.model for hop in hops] == ["sim-small"] * 3
    assert [(hop.input_tokens, hop.output_tokens) for hop in hops[:2]] == [(5, 10), (5, 10)]
    assert "InternalServerError" in (hops[2].error_type or "")


@pytest.mark.parametrize("name", SCRIPTED)
def test_the_first_chunk_is_no_first_token_and_is_called_so(name: str) -> None:
    stream, *others = streamed_plain_refused(name)
    assert stream.ttft_s is not None
    assert 0.05 < stream.ttft_s < 0.2
    assert (stream.ttft_source, stream.ttft_from) == ("first_chunk", SCRIPTED[name])
    assert stream.tpot_source == "derived"
    assert [hop.ttft_s for hop in others] == [None, None]


def test_three_instrumentations_of_one_call_are_one_hop_timed_by_the_outermost() -> None:
    spans = [span for trace in traces("stacked") for span in trace]
    hops = rows("stacked").hops
    assert len(spans) == 10
    assert [hop.source for hop in hops] == ["OpenLLMetry + OpenTelemetry GenAI + OpenInference"] * 3
    outermost = {span.span_id: span for span in spans if span.name == "openai.chat"}
    for hop in hops:
        span = outermost[hop.span_id]
        assert hop.duration_s == (span.end_ns - span.start_ns) / 1e9
    assert hops[0].reasoning_tokens == 0  # OpenInference alone says it of a stream


def test_chunk_events_of_which_the_first_were_dropped_give_no_first_token() -> None:
    long = rows("openllmetry").hops[-1]
    assert (long.output_tokens, long.streamed, long.ttft_s, long.tpot_s) == (300, True, None, None)
    assert long.flags == "events_dropped"


def test_a_logfire_stream_lasts_to_its_end_and_not_to_its_headers() -> None:
    found = rows("logfire")
    stream, plain = found.hops
    headers = next(span for trace in traces("logfire") for span in trace if span.span_id == stream.span_id)
    assert (headers.end_ns - headers.start_ns) / 1e9 < 0.1
    assert 0.35 < stream.duration_s < 0.6
    assert (stream.streamed, stream.output_tokens, stream.ttft_s) == (True, 10, None)
    assert plain.streamed is False
    assert found.works == []


def test_pydantic_ai_has_its_agent_as_trajectory_its_tool_as_work_and_its_answer_as_final_stream() -> None:
    found = rows("pydantic_ai")
    (trajectory,) = found.trajectories
    assert (trajectory.workload, trajectory.session is not None) == ("day_trips", True)
    assert [work.work for work in found.works] == ["weather"]
    assert [(hop.hop, hop.visit, hop.output_tokens, hop.final) for hop in found.hops] == [
        ("chat", 1, 7, False),
        ("chat", 2, 74, True),
    ]
    assert {hop.ttft_from for hop in found.hops} == {"gen_ai.client.operation.time_to_first_chunk"}


def test_openai_agents_through_the_official_instrumentations() -> None:
    found = rows("openai_agents_genai")
    (trajectory,) = found.trajectories
    assert trajectory.hop_count == 2
    assert [work.work for work in found.works] == ["weather"]
    assert [hop.hop for hop in found.hops] == ["day trips"] * 2
    assert {hop.ttft_from for hop in found.hops} == {"gen_ai.response.time_to_first_chunk"}


def test_openai_agents_through_its_client_alone_has_hops_and_no_tools() -> None:
    found = rows("openai_agents")
    assert len(found.hops) == 2
    assert found.works == []


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.jsonl")), ids=lambda path: path.stem)
def test_a_recording_holds_no_text_that_was_sent_or_answered(path: Path) -> None:
    text = path.read_text()
    for words in ("Hello", "Where to go", "sunny", "hopbudget-ttft", "/work", "/tmp"):
        assert words not in text


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.jsonl")), ids=lambda path: path.stem)
def test_the_account_counts_what_the_rows_hold(path: Path) -> None:
    account = Account()
    account.add(traces(path.stem))
    found = rows(path.stem)
    assert account.hops == len(found.hops)
    assert sum(source.trajectories for source in account.sources.values()) == len(found.trajectories)
    timed = sum(source.first_tokens.total() for source in account.sources.values())
    assert timed == sum(hop.ttft_s is not None for hop in found.hops)


def test_strands_writes_milliseconds_and_its_loop_names_no_hop() -> None:
    found = rows("strands")
    assert [(hop.hop, hop.ttft_s, hop.output_tokens) for hop in found.hops] == [("chat", 0.638, 7), ("chat", 0.118, 35)]
    assert [work.work for work in found.works] == ["weather"]


def test_langfuse_tells_when_the_completion_began() -> None:
    found = rows("langfuse")
    stream, plain = found.hops
    assert (stream.ttft_from, stream.streamed) == ("langfuse.observation.completion_start_time", True)
    assert 0.05 < (stream.ttft_s or 0) < 0.2
    assert plain.ttft_s is None
    assert [(hop.input_tokens, hop.output_tokens) for hop in found.hops] == [(5, 10), (5, 10)]
    assert len(found.trajectories) == 1


def test_a_span_on_which_litellm_wrote_is_still_the_callers_own() -> None:
    found = rows("litellm")
    script = found.trajectories[-1]
    assert script.hop_count == 1
    assert script.work_s > 5
    assert [round(hop.duration_s, 2) for hop in found.hops] == [4.24, 0.45]


def test_a_graph_is_one_trajectory_and_its_agent_nodes_name_the_hops() -> None:
    found = rows("langgraph")
    (trajectory,) = found.trajectories
    assert (trajectory.workload, trajectory.session, trajectory.hop_count) == ("day-trips", "s1", 2)
    assert [(hop.hop, hop.visit, hop.output_tokens, hop.ttft_s) for hop in found.hops] == [
        ("agent", 1, 7, None),
        ("agent", 2, 58, None),
    ]
    assert "weather" in [work.work for work in found.works]


def test_vercels_outer_span_is_the_agent_and_its_times_are_milliseconds() -> None:
    found = rows("vercel_ai")
    assert [(row.workload, row.session, row.hop_count) for row in found.trajectories] == [
        ("plan-a-trip", "s1", 2),
        ("plan-a-trip", None, 1),
    ]
    streams = [hop for hop in found.hops if hop.streamed]
    assert [hop.ttft_from for hop in streams] == ["ai.response.msToFirstChunk"] * 2
    assert [round(hop.ttft_s or 0, 3) for hop in streams] == [0.127, 0.054]
    assert [hop.flags for hop in streams] == ["holds_tools", None]  # the tool ran before its stream was closed
    assert [work.work for work in found.works] == ["weather"]


def test_what_phoenix_returns_of_its_spans_has_all_that_was_sent_to_it() -> None:
    found = rows("phoenix_rest")
    (trajectory,) = found.trajectories
    assert (trajectory.workload, trajectory.hop_count, trajectory.outcome) == ("day trip", 3, "ok")
    assert [(hop.source, hop.streamed, hop.output_tokens) for hop in found.hops] == [
        ("OpenInference", True, 5),
        ("OpenInference", True, 5),
        ("OpenInference", True, 55),
    ]
    assert {hop.ttft_from for hop in found.hops} == {"event First Token Stream Event"}
    assert found.hops[2].ttft_s == pytest.approx(0.053132)
    assert found.hops[2].final
