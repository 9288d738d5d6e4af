"""Agents that know nothing of hopbudget: two hops that call a tool each, and a streamed answer."""

from collections.abc import Callable
from typing import Any

import pytest

AGENTS = ("openai", "openai_responses", "anthropic", "langgraph", "pydantic_ai", "openai_agents", "litellm")
TOOLS_S = (0.08, 0.06)
"""How long `weather` and `trains` sleep."""
SEEN_S = (-0.002, 0.03)
"""How long after the server wrote a token its client may see it; two processes read their clocks a moment apart."""
WAY_S = 0.05
"""The most that a request and its first token are on their way, on a connection that stands. The first request of a
process takes longer, up to seconds: the client loads parts of itself and connects."""
TRIES = 6
"""A machine busy with other things delays now this side, now that; one run without that says what is measured."""
FRAMEWORK_S = 0.3
"""More than any framework here takes beside tools between two hops."""


@pytest.fixture(scope="module", params=AGENTS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def ran(name: str, run_agent: Callable[..., Any], endpoint: Any) -> Any:
    return run_agent(name, endpoint)


def test_the_whole_run_is_one_trajectory_of_three_hops(ran: Any, name: str) -> None:
    (trajectory,) = ran.trajectories
    assert (trajectory["workload"], trajectory["hop_count"]) == (f"agent_{name}", 3)
    assert trajectory["complete"]
    assert (trajectory["outcome"], [hop["outcome"] for hop in ran.hops]) == ("ok", ["ok"] * 3)


def test_each_hop_is_one_request_and_its_span_reached_the_server(ran: Any) -> None:
    assert [sent["traceparent"].split("-")[1:3] for sent in ran.sent] == [
        [hop["trace_id"], hop["span_id"]] for hop in ran.hops
    ]


def test_the_time_of_tools_is_work(ran: Any) -> None:
    (trajectory,) = ran.trajectories
    ends = [hop["start_s"] + hop["duration_s"] for hop in ran.hops]
    between = [ran.hops[number + 1]["start_s"] - ends[number] for number in range(2)]
    for tool_s, gap_s in zip(TOOLS_S, between, strict=True):
        assert tool_s <= gap_s < tool_s + FRAMEWORK_S
    assert trajectory["work_s"] == pytest.approx(trajectory["duration_s"] - sum(h["duration_s"] for h in ran.hops))


def test_the_last_hop_is_the_final_stream(ran: Any) -> None:
    assert [hop["final"] for hop in ran.hops] == [False, False, True]
    assert (ran.hops[-1]["streamed"], ran.hops[-1]["final_source"]) == (True, "inferred")


def test_first_tokens_came_when_the_endpoint_sent_them(
    name: str, run_agent: Callable[..., Any], endpoint: Any, within: Callable[..., Any]
) -> None:
    ran = within(TRIES, lambda again: run_agent(name, endpoint, again=again), SEEN_S, WAY_S)
    assert [hop["streamed"] for hop in ran.hops] == [sent["streamed"] for sent in ran.sent]
    assert [hop["ttft_s"] is None for hop in ran.hops] == [sent["first_token_s"] is None for sent in ran.sent]
    assert {hop["ttft_source"] for hop in ran.hops} <= {None, "first_token"}


def test_tokens_are_those_that_were_sent(ran: Any) -> None:
    assert [hop["output_tokens"] for hop in ran.hops] == [sent["tokens"] for sent in ran.sent]


def test_neither_a_role_nor_an_empty_chunk_is_a_first_token(
    name: str, run_agent: Callable[..., Any], row_b: Any, within: Callable[..., Any]
) -> None:
    # Chunks of a role at 0.10 s and of nothing at 0.20 s are what it must not be.
    ran = within(TRIES, lambda again: run_agent(name, row_b, again=again), SEEN_S, WAY_S)
    assert (len(ran.hops), ran.sent[-1]["row"]) == (3, "B")
    assert ran.sent[-1]["first_token_s"] >= 0.59
    assert ran.hops[-1]["ttfa_s"] == ran.hops[-1]["ttft_s"]


def test_a_real_engine_gives_the_same_picture(
    name: str, run_agent: Callable[..., Any], engine: Any, within: Callable[..., Any]
) -> None:
    ran = within(TRIES, lambda again: run_agent(name, engine, again=again), SEEN_S, WAY_S)
    (trajectory,) = ran.trajectories
    assert (trajectory["outcome"], [hop["model"] for hop in ran.hops]) == ("ok", ["tiny"] * 3)
    assert [hop["final"] for hop in ran.hops] == [False, False, True]
    assert trajectory["work_s"] > sum(TOOLS_S)


def test_an_answer_that_does_not_stream_is_no_final_stream(run_agent: Callable[..., Any], endpoint: Any) -> None:
    ran = run_agent("smolagents", endpoint)
    assert [(row["hop_count"], row["outcome"]) for row in ran.trajectories] == [(3, "ok")]
    assert [hop["streamed"] for hop in ran.hops] == [True, True, False]
    assert not any(hop["final"] for hop in ran.hops)
    assert [hop["output_tokens"] for hop in ran.hops] == [sent["tokens"] for sent in ran.sent]
