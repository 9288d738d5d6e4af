"""From spans to rows: what is a trajectory, a hop, a piece of work, and what is said of each."""

from typing import Any

import pytest

from hopbudget.store.facts import Facts
from hopbudget.store.rows import HopRow, TrajectoryRow
from hopbudget.tracing.gaps import GapRecorder


def one(facts: Facts) -> TrajectoryRow:
    (row,) = facts.trajectories
    return row


def hop(facts: Facts) -> HopRow:
    (row,) = facts.hops
    return row


def ours(**more: Any) -> dict[str, Any]:
    return {"hopbudget.hop": "answer", "hopbudget.outcome": "ok"} | {
        f"hopbudget.{key}": value for key, value in more.items()
    }


# --- which span is the trajectory ----------------------------------------------------------------------------


def test_the_topmost_agent_is_the_trajectory_and_agents_below_belong_to_it(make: Any) -> None:
    facts = make.facts(
        make.agent("lead", 0, 10), make.agent("sub", 1, 5, parent="lead"), make.chat("c", 1, 4, parent="sub")
    )
    assert one(facts).root_span_id == make.span_id("lead")
    assert hop(facts).root_span_id == make.span_id("lead")


def test_spans_above_the_agent_are_not_part_of_it(make: Any) -> None:
    facts = make.facts(
        make.span("POST", 0, 20, kind=2),
        make.agent("bot", 5, 10, parent="POST"),
        make.chat("c", 5, 9, parent="bot"),
    )
    assert one(facts).duration_s == 5


def test_two_agents_side_by_side_are_two_trajectories(make: Any) -> None:
    facts = make.facts(
        make.span("POST", 0, 20, kind=2),
        make.agent("first", 0, 4, parent="POST"),
        make.agent("second", 5, 9, parent="POST"),
        make.chat("c1", 0, 4, parent="first"),
        make.chat("c2", 5, 9, parent="second"),
    )
    assert [row.root_span_id for row in facts.trajectories] == [make.span_id("first"), make.span_id("second")]
    assert [row.root_span_id for row in facts.hops] == [make.span_id("first"), make.span_id("second")]


def test_without_an_agent_it_is_the_server_span_of_the_request(make: Any) -> None:
    facts = make.facts(
        make.span("batch", 0, 30),
        make.span("POST", 1, 20, kind=2, parent="batch"),
        make.chat("c", 5, 9, parent="POST"),
    )
    assert one(facts).root_span_id == make.span_id("POST")


def test_without_a_server_span_it_is_the_parentless_span(make: Any) -> None:
    facts = make.facts(make.span("script", 0, 30), make.chat("c", 5, 9, parent="script"))
    assert one(facts).root_span_id == make.span_id("script")
    assert one(facts).workload == "svc"


def test_a_hop_alone_is_its_own_trajectory(make: Any) -> None:
    facts = make.facts(make.chat("c", 5, 9))
    assert (one(facts).hop_count, one(facts).work_s, hop(facts).hop) == (1, 0.0, "chat")


def test_a_hop_of_ours_alone_is_a_workload_of_its_name_where_its_service_has_none(make: Any) -> None:
    facts = make.facts(make.chat("c", 5, 9, attributes=ours()), resource={"service.name": "unknown_service"})
    assert one(facts).workload == "answer"


def test_a_trace_about_something_else_holds_no_trajectory(make: Any) -> None:
    facts = make.facts(make.span("GET /", 0, 1, kind=2), make.span("SELECT", 0, 1, parent="GET /"))
    assert facts == Facts([], [], [])


def test_where_the_root_was_lost_the_extent_of_what_came_stands_under_the_lost_parents_id(make: Any) -> None:
    facts = make.facts(make.chat("c1", 2, 4, parent="lost"), make.tool("find", 4, 7, parent="lost"))
    row = one(facts)
    assert (row.root_span_id, row.complete) == (make.span_id("lost"), False)
    assert row.started_at == make.t0 + 2_000_000_000
    assert row.duration_s == 5


def test_an_agent_beside_hops_of_a_lost_root_belongs_to_the_lost_root(make: Any) -> None:
    facts = make.facts(
        make.chat("c1", 0, 2, parent="lost"),
        make.agent("sub", 2, 5, parent="lost"),
        make.chat("c2", 2, 5, parent="sub"),
    )
    assert (one(facts).complete, one(facts).hop_count) == (False, 2)


def test_an_agent_whose_caller_is_not_stored_is_complete(make: Any) -> None:
    facts = make.facts(make.agent("bot", 0, 5, parent="caller"), make.chat("c", 0, 5, parent="bot"))
    assert one(facts).complete


def test_a_hop_whose_own_parent_was_lost_goes_to_the_trajectory_around_it(make: Any) -> None:
    facts = make.facts(make.agent("bot", 0, 9), make.chat("c", 2, 5, parent="lost"))
    assert one(facts).hop_count == 1
    assert one(facts).work_s == 6


def test_spans_that_are_one_anothers_parents_are_no_danger(make: Any) -> None:
    facts = make.facts(make.chat("a", 0, 1, parent="b"), make.chat("b", 0, 1, parent="a"))
    assert len(facts.trajectories) == 1


# --- names ---------------------------------------------------------------------------------------------------


def test_a_foreign_hop_is_named_by_the_nearest_stage_below_the_trajectory(make: Any) -> None:
    facts = make.facts(
        make.agent("lead", 0, 10),
        make.agent("writer", 1, 9, parent="lead"),
        make.span("POST", 2, 5, parent="writer"),
        make.chat("deep", 2, 5, parent="POST"),
        make.chat("flat", 9, 10, parent="lead"),
    )
    assert [row.hop for row in facts.hops] == ["writer", "chat"]


def test_a_hop_whose_calls_are_those_of_hops_inside_it_is_a_stage_and_none_itself(make: Any) -> None:
    facts = make.facts(
        make.agent("lead", 0, 10),
        make.chat("outer", 1, 8, parent="lead", attributes=ours(hop="plan", holds_hops=True)),
        make.chat("inner", 2, 7, parent="outer", attributes=ours(hop="llm")),
        make.chat("foreign", 7, 8, parent="outer"),
    )
    assert [(row.hop, row.duration_s) for row in facts.hops] == [("llm", 5), ("plan", 1)]
    assert (one(facts).hop_count, one(facts).model_s, facts.works) == (2, 6, [])


def test_our_own_name_goes_before_all(make: Any) -> None:
    facts = make.facts(
        make.agent("lead", 0, 10),
        make.agent("writer", 1, 9, parent="lead"),
        make.chat("c", 2, 5, parent="writer", attributes=ours()),
    )
    assert hop(facts).hop == "answer"


def test_visits_count_hops_of_one_name_in_order_of_start(make: Any) -> None:
    facts = make.facts(
        make.agent("bot", 0, 10),
        make.chat("late", 5, 6, parent="bot"),
        make.chat("early", 0, 1, parent="bot"),
        make.chat("named", 2, 3, parent="bot", attributes=ours()),
    )
    assert [(row.span_id, row.hop, row.visit) for row in facts.hops] == [
        (make.span_id("early"), "chat", 1),
        (make.span_id("named"), "answer", 1),
        (make.span_id("late"), "chat", 2),
    ]


@pytest.mark.parametrize("operation", ["chat", "generate_content", "text_completion"])
def test_model_operations_are_hops(make: Any, operation: str) -> None:
    facts = make.facts(
        make.agent("bot", 0, 2), make.chat("c", 0, 1, parent="bot", attributes={"gen_ai.operation.name": operation})
    )
    assert hop(facts).hop == operation


@pytest.mark.parametrize("operation", ["embeddings", "retrieval", "execute_tool"])
def test_other_operations_are_work(make: Any, operation: str) -> None:
    span = make.span("look up", 0, 1, parent="bot", attributes={"gen_ai.operation.name": operation})
    facts = make.facts(make.agent("bot", 0, 2), span)
    assert [row.work for row in facts.works] == ["look up"]


def test_work_is_what_is_no_hop_and_holds_none_named_by_its_tool(make: Any) -> None:
    facts = make.facts(
        make.agent("bot", 0, 10),
        make.span("stage", 0, 5, parent="bot"),
        make.chat("c", 0, 5, parent="stage"),
        make.tool("search", 5, 8, parent="bot"),
        make.span("GET", 6, 7, parent="search"),
    )
    assert [(row.work, row.start_s, row.duration_s) for row in facts.works] == [("search", 5, 3), ("GET", 6, 1)]


def test_plumbing_inside_a_hop_is_no_work(make: Any) -> None:
    facts = make.facts(
        make.agent("bot", 0, 10), make.chat("c", 0, 5, parent="bot"), make.span("POST", 0, 4, parent="c", kind=3)
    )
    assert facts.works == []


def test_stacked_instrumentations_of_one_call_are_one_hop_with_all_attributes(make: Any) -> None:
    facts = make.facts(
        make.agent("bot", 0, 10),
        make.chat("outer", 0, 5, parent="bot", attributes={"gen_ai.usage.input_tokens": 7}),
        make.chat(
            "inner",
            1,
            4,
            parent="outer",
            attributes={"gen_ai.usage.input_tokens": 8, "gen_ai.usage.output_tokens": 9},
        ),
    )
    row = hop(facts)
    assert (row.span_id, row.duration_s, row.input_tokens, row.output_tokens) == (make.span_id("outer"), 5, 7, 9)


def test_a_hop_under_a_tool_of_a_hop_is_a_hop_of_its_own(make: Any) -> None:
    facts = make.facts(
        make.agent("bot", 0, 10),
        make.chat("outer", 0, 8, parent="bot"),
        make.tool("ask", 1, 6, parent="outer"),
        make.chat("inner", 2, 5, parent="ask"),
    )
    assert len(facts.hops) == 2
    assert one(facts).work_s == 2


# --- times ---------------------------------------------------------------------------------------------------


def test_work_is_the_time_that_no_hop_covers_and_overlapping_hops_count_once(make: Any) -> None:
    facts = make.facts(
        make.agent("bot", 0, 10),
        make.chat("a", 1, 4, parent="bot"),
        make.chat("b", 2, 6, parent="bot"),
        make.chat("past", 9, 12, parent="bot"),
    )
    assert (one(facts).work_s, one(facts).model_s) == (4, 6)


def test_a_pause_is_in_nobodys_time(make: Any) -> None:
    facts = make.facts(
        make.agent("bot", 0, 10),
        make.chat("a", 0, 2, parent="bot"),
        make.span("pause approval", 2, 7, parent="bot", attributes={"hopbudget.pause": "approval"}),
        make.chat("b", 7, 9, parent="bot", attributes=ours(final=True, ttfa=0.5) | {"gen_ai.request.stream": True}),
    )
    row = one(facts)
    assert (row.duration_s, row.paused_s, row.work_s, row.model_s) == (5, 5, 1, 4)
    assert row.answer_start_s == 2.5
    assert facts.works == []
    assert len(facts.hops) == 2


def test_our_stream_read_to_its_end_lasts_through_its_last_token(make: Any) -> None:
    stream = {"gen_ai.request.stream": True}
    read = make.facts(make.chat("c", 0, 5, attributes=ours(e2e=4.0) | stream))
    left = make.facts(make.chat("c", 0, 5, attributes=ours(e2e=4.0, outcome="closed_by_consumer") | stream))
    assert (hop(read).duration_s, hop(read).e2e_s) == (4.0, 4.0)
    assert (hop(left).duration_s, hop(left).e2e_s) == (5.0, 4.0)


def test_what_capture_measured_is_taken_as_it_is(make: Any) -> None:
    gaps = GapRecorder()
    for us in (20_000, 30_000):
        gaps.add(us)
    attributes = ours(
        ttft=0.2, ttfa=0.3, attempt_ttft=0.1, tpot=0.02, e2e=4.0, output_tokens=50, chunks=10, attempts=2, backoff=0.5,
        budget=6.0, remaining=-1.0, client_lag=0.01, limit_hit="stall", itl=gaps.encode(), final=True,
    )  # fmt: skip
    row = hop(make.facts(make.chat("c", 0, 5, attributes=attributes | {"hopbudget.output_tokens.source": "tokenizer"})))
    assert (row.ttft_s, row.ttft_source, row.ttfa_s, row.attempt_ttft_s) == (0.2, "first_token", 0.3, 0.1)
    assert (row.tpot_s, row.tpot_source, row.output_tokens, row.output_tokens_source) == (
        0.02,
        "measured",
        50,
        "tokenizer",
    )
    assert (row.chunks, row.attempts, row.backoff_s, row.limit_hit) == (10, 2, 0.5, "stall")
    assert (row.budget_s, row.remaining_s, row.client_lag_s) == (6.0, -1.0, 0.01)
    assert (row.itl_us, row.itl_exact, row.itl_censored) == ([20_000, 30_000], 2, False)
    assert (row.final, row.final_source) == (True, "declared")


def test_a_foreign_stream_has_its_first_chunk_and_a_derived_pace(make: Any) -> None:
    attributes = {"gen_ai.response.time_to_first_chunk": 1.0, "gen_ai.usage.output_tokens": 9}
    row = hop(make.facts(make.chat("c", 0, 5, attributes=attributes)))
    assert (row.streamed, row.ttft_s, row.ttft_source) == (True, 1.0, "first_chunk")
    assert (row.tpot_s, row.tpot_source) == (0.5, "derived")


@pytest.mark.parametrize(
    "more",
    [
        {"gen_ai.usage.output_tokens": 1},
        {},
        {"gen_ai.usage.output_tokens": 9, "gen_ai.usage.reasoning.output_tokens": 5},
    ],
)
def test_no_pace_where_it_cannot_be_known(make: Any, more: Any) -> None:
    attributes = {"gen_ai.response.time_to_first_chunk": 1.0} | more
    assert hop(make.facts(make.chat("c", 0, 5, attributes=attributes))).tpot_s is None


def test_a_first_token_after_the_end_is_not_believed(make: Any) -> None:
    row = hop(make.facts(make.chat("c", 0, 5, attributes={"gen_ai.response.time_to_first_chunk": 6.0})))
    assert (row.ttft_s, row.ttft_source) == (None, None)


def test_a_hop_that_did_not_stream_has_no_first_token(make: Any) -> None:
    row = hop(make.facts(make.chat("c", 0, 5, attributes={"gen_ai.usage.output_tokens": 9})))
    assert (row.streamed, row.ttft_s, row.tpot_s, row.output_tokens_source) == (False, None, None, "usage")


def test_previous_names_of_the_conventions_are_read(make: Any) -> None:
    attributes = {
        "gen_ai.system": "openai",
        "gen_ai.usage.prompt_tokens": 3,
        "gen_ai.usage.completion_tokens": "4",
        "gen_ai.usage.cache_read_input_tokens": 1,
        "gen_ai.is_streaming": True,
    }
    row = hop(make.facts(make.chat("c", 0, 5, attributes=attributes)))
    assert (row.input_tokens, row.output_tokens, row.cached_tokens, row.streamed) == (3, 4, 1, True)


def test_a_call_that_lost_its_operation_to_an_attribute_limit_is_still_a_hop(make: Any) -> None:
    span = make.span("chat m", 0, 1, kind=3, attributes={"gen_ai.system": "openai", "gen_ai.request.model": "m"})
    assert hop(make.facts(span)).model == "m"


def test_the_model_that_answered_goes_before_the_one_asked_for(make: Any) -> None:
    assert hop(make.facts(make.chat("c", 0, 1, attributes={"gen_ai.response.model": "m-2026"}))).model == "m-2026"


# --- the final stream ----------------------------------------------------------------------------------------


def final(facts: Facts) -> list[tuple[str, str | None]]:
    return [(row.span_id, row.final_source) for row in facts.hops if row.final]


def stream(make: Any, word: str, start: float, end: float, **more: Any) -> dict[str, Any]:
    attributes = {"gen_ai.response.time_to_first_chunk": 1.0} | more.pop("attributes", {})
    return dict(make.chat(word, start, end, attributes=attributes, **more))


def test_the_last_hop_to_end_is_final_if_it_streamed(make: Any) -> None:
    facts = make.facts(
        make.agent("bot", 0, 9), make.chat("a", 0, 2, parent="bot"), stream(make, "b", 2, 9, parent="bot")
    )
    assert final(facts) == [(make.span_id("b"), "inferred")]


def test_it_is_not_final_if_it_did_not_stream(make: Any) -> None:
    assert final(make.facts(make.agent("bot", 0, 9), make.chat("a", 0, 2, parent="bot"))) == []


def test_it_is_not_final_if_something_starts_after_its_first_token(make: Any) -> None:
    facts = make.facts(
        make.agent("bot", 0, 9), stream(make, "b", 2, 9, parent="bot"), make.tool("save", 4, 5, parent="bot")
    )
    assert final(facts) == []


def test_the_servers_messages_to_its_client_are_no_work_and_leave_the_final_stream_final(make: Any) -> None:
    message = {"asgi.event.type": "http.response.body"}
    facts = make.facts(
        make.span("POST", 0, 9, kind=2),
        stream(make, "b", 2, 9, parent="POST"),
        make.span("POST http send", 4, 5, parent="POST", attributes=message),
    )
    assert (facts.works, final(facts)) == ([], [(make.span_id("b"), "inferred")])


def test_nothing_is_inferred_before_the_root_has_come(make: Any) -> None:
    assert final(make.facts(stream(make, "b", 2, 9, parent="lost"))) == []


def test_what_was_declared_stands_and_nothing_is_inferred_beside_it(make: Any) -> None:
    facts = make.facts(
        make.agent("bot", 0, 9),
        stream(make, "a", 0, 2, parent="bot", attributes=ours(final=True)),
        stream(make, "b", 2, 9, parent="bot"),
    )
    assert final(facts) == [(make.span_id("a"), "declared")]


def test_the_answers_start_is_not_known_where_no_first_answer_was_seen(make: Any) -> None:
    assert one(make.facts(make.agent("bot", 0, 9), stream(make, "b", 2, 9, parent="bot"))).answer_start_s is None


# --- outcomes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attributes", "status", "outcome"),
    [
        ({}, 0, "ok"),
        ({"gen_ai.response.finish_reasons": ["stop"]}, 0, "ok"),
        ({"gen_ai.response.finish_reasons": ["length"]}, 0, "truncated"),
        ({"gen_ai.response.finish_reasons": '["MAX_TOKENS"]'}, 0, "truncated"),
        ({}, 2, "failed"),
        ({"error.type": "500"}, 0, "failed"),
        ({"error.type": "openai.RateLimitError"}, 2, "failed"),
        ({"error.type": "asyncio.exceptions.CancelledError"}, 2, "cancelled"),
        ({"error.type": "openai.APITimeoutError"}, 2, "cancelled"),
        ({"error.type": "timeout"}, 2, "cancelled"),
        ({"error.type": "GeneratorExit"}, 2, "closed_by_consumer"),
        ({"hopbudget.outcome": "timed_out", "error.type": "TimeoutError"}, 2, "timed_out"),
        ({"hopbudget.outcome": "nonsense"}, 0, "ok"),
    ],
)
def test_how_a_hop_came_out(make: Any, attributes: Any, status: int, outcome: str) -> None:
    assert hop(make.facts(make.chat("c", 0, 1, attributes=attributes, status=status))).outcome == outcome


def test_an_exception_event_tells_the_error_where_no_attribute_does(make: Any) -> None:
    event = {
        "name": "exception",
        "timeUnixNano": "5",
        "attributes": make.pairs({"exception.type": "asyncio.exceptions.CancelledError"}),
    }
    row = hop(make.facts(make.chat("c", 0, 1, status=2, events=[event])))
    assert (row.outcome, row.error_type) == ("cancelled", "asyncio.exceptions.CancelledError")


@pytest.mark.parametrize(
    ("root", "outcome"),
    [
        ({}, "truncated"),
        ({"status": 1}, "ok"),
        ({"status": 2}, "failed"),
        ({"status": 2, "attributes": {"error.type": "CancelledError"}}, "cancelled"),
        ({"attributes": {"hopbudget.outcome": "timed_out"}}, "timed_out"),
    ],
)
def test_a_trajectorys_outcome_is_its_roots_else_its_last_hops(make: Any, root: Any, outcome: str) -> None:
    facts = make.facts(
        make.agent("bot", 0, 9, **root),
        make.chat("a", 0, 2, parent="bot"),
        make.chat("b", 2, 9, parent="bot", attributes={"gen_ai.response.finish_reasons": ["length"]}),
    )
    assert one(facts).outcome == outcome


# --- what is said of a trajectory ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attributes", "workload"),
    [({"hopbudget.workload": "voice"}, "voice"), ({}, "bot"), ({"gen_ai.agent.name": ""}, "svc")],
)
def test_the_workload_is_ours_else_the_agent_else_the_service(make: Any, attributes: Any, workload: str) -> None:
    assert one(make.facts(make.agent("bot", 0, 1, attributes=attributes))).workload == workload


def test_the_run_is_ours_else_the_service_version(make: Any) -> None:
    resource = {"service.name": "svc", "service.version": "1.2"}
    told = make.facts(make.agent("bot", 0, 1, attributes={"hopbudget.run": "r7"}), resource=resource)
    assert (one(told).run, one(make.facts(make.agent("bot", 0, 1), resource=resource)).run) == ("r7", "1.2")


def test_the_session_may_be_known_to_the_hops_alone(make: Any) -> None:
    facts = make.facts(
        make.agent("bot", 0, 2), make.chat("c", 0, 1, parent="bot", attributes={"gen_ai.conversation.id": "s1"})
    )
    assert (one(facts).session, hop(facts).session) == ("s1", "s1")


def test_root_and_resource_attributes_are_kept_as_texts(make: Any) -> None:
    facts = make.facts(
        make.agent("bot", 0, 1, attributes={"seed": 7, "cold": True, "share": 0.5, "tags": ["a", "b"]}),
        resource={"service.name": "svc", "seed": 1},
    )
    kept = {"seed": "7", "cold": "true", "share": "0.5", "tags": '["a","b"]', "service.name": "svc"}
    assert one(facts).attributes.items() >= kept.items()


def test_the_deadline_and_plan_in_force_are_kept(make: Any) -> None:
    attributes = {"hopbudget.deadline": 12.0, "hopbudget.plan": "p1", "hopbudget.intervened": True}
    row = one(make.facts(make.agent("bot", 0, 1, attributes=attributes)))
    assert (row.deadline_s, row.plan, row.intervened) == (12.0, "p1", True)


def test_the_clients_own_delays_are_kept(make: Any) -> None:
    told = ours(client_lag=0.02, consumer=1.5, coalesced=3, held=2)
    row = hop(make.facts(make.agent("bot", 0, 9), make.chat("c", 0, 5, parent="bot", attributes=told)))
    assert (row.client_lag_s, row.consumer_s, row.coalesced, row.held) == (0.02, 1.5, 3, 2)
