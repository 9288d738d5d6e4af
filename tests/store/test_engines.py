"""The inference server's spans: its durations go to the hop that asked for it, and its clock goes nowhere."""

from typing import Any

from hopbudget.store.facts import Facts

TIMES = {
    "gen_ai.latency.e2e": 3.0,
    "gen_ai.latency.time_to_first_token": 0.5,
    "gen_ai.latency.time_in_queue": 0.3,
    "gen_ai.latency.time_in_model_prefill": 0.2,
    "gen_ai.latency.time_in_model_decode": 2.5,
}


def found(facts: Facts) -> list[tuple[float | None, ...]]:
    return [
        (row.server_ttft_s, row.server_queue_s, row.server_prefill_s, row.server_decode_s, row.server_e2e_s)
        for row in facts.hops
    ]


def engine(make: Any, parent: str, start: float = 100, word: str = "eng", **more: Any) -> dict[str, Any]:
    return dict(make.span("llm_request", start, start + 3, parent=parent, span=word, kind=2, attributes=TIMES | more))


def test_a_servers_span_below_a_hop_splits_its_wait_whatever_its_clock_says(make: Any) -> None:
    facts = make.facts(
        make.agent("bot", 0, 9),
        make.chat("c", 0, 4, parent="bot", attributes={"gen_ai.response.time_to_first_chunk": 0.8}),
        make.span("POST", 0, 1, parent="c", kind=3),
        engine(make, "POST"),
    )
    assert found(facts) == [(0.5, 0.3, 0.2, 2.5, 3.0)]
    assert [(row.duration_s, row.ttft_s, row.flags) for row in facts.hops] == [(4, 0.8, None)]
    assert (len(facts.trajectories), facts.works) == (1, [])
    assert facts.trajectories[0].duration_s == 9


def test_prefill_is_what_the_queue_leaves_of_the_first_token_where_it_isnt_said(make: Any) -> None:
    span = engine(make, "c")
    span["attributes"] = [pair for pair in span["attributes"] if not pair["key"].endswith("prefill")]
    facts = make.facts(make.chat("c", 0, 4), span)
    assert facts.hops[0].server_prefill_s is not None
    assert abs(facts.hops[0].server_prefill_s - 0.2) < 1e-9


def test_of_several_requests_the_one_that_answered_counts(make: Any) -> None:
    first = engine(make, "c", 100, "e1") | {}
    second = engine(make, "c", 110, "e2", **{"gen_ai.latency.time_in_queue": 0.1})
    assert found(make.facts(make.chat("c", 0, 8), first, second))[0][1] == 0.1


def test_a_servers_span_beside_a_hop_is_known_by_the_response_that_it_names(make: Any) -> None:
    facts = make.facts(
        make.agent("bot", 0, 9),
        make.chat("a", 0, 4, parent="bot", attributes={"gen_ai.response.id": "chatcmpl-1111"}),
        make.chat("b", 4, 9, parent="bot", attributes={"gen_ai.response.id": "chatcmpl-2222"}),
        engine(make, "bot", **{"gen_ai.request.id": "chatcmpl-2222-0"}),
    )
    assert [times[4] for times in found(facts)] == [None, 3.0]


def test_a_server_that_took_longer_than_its_client_waited_is_flagged(make: Any) -> None:
    facts = make.facts(make.chat("c", 0, 2), engine(make, "c"))
    assert facts.hops[0].flags == "server_longer"


def test_servers_spans_alone_are_no_trajectory(make: Any) -> None:
    assert make.facts(make.span("POST", 0, 9, kind=2), engine(make, "POST")) == Facts([], [], [])
