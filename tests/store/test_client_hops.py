"""Hops as an instrumented client leaves them: timed by us, named by nobody, perhaps seen by others too."""

from typing import Any


def test_a_hop_begins_when_its_request_is_issued_and_what_its_body_did_before_is_work(make: Any) -> None:
    own = {"hopbudget.hop": "plan", "hopbudget.outcome": "ok", "hopbudget.issued": 2.0}
    found = make.facts(make.agent("a", 0, 10), make.chat("c", 1, 9, parent="a", attributes=own))
    (hop,) = found.hops
    assert (hop.start_s, hop.duration_s) == (3.0, 6.0)
    assert found.trajectories[0].work_s == 4.0


def test_a_call_that_a_client_of_ours_timed_needs_no_name(make: Any) -> None:
    own = {"hopbudget.outcome": "ok", "hopbudget.ttft": 0.5, "hopbudget.e2e": 2.0, "gen_ai.request.stream": True}
    found = make.facts(make.agent("a", 0, 10), make.chat("c", 1, 9, parent="a", attributes=own))
    (hop,) = found.hops
    assert (hop.hop, hop.ttft_s, hop.ttft_source, hop.duration_s) == ("chat", 0.5, "first_token", 2.0)


def test_ours_says_how_a_call_came_out_that_another_instrumentation_saw_too(make: Any) -> None:
    own = {"hopbudget.outcome": "closed_by_consumer", "hopbudget.ttft": 0.5, "gen_ai.request.stream": True}
    spans = [
        make.agent("a", 0, 10),
        make.chat("theirs", 1, 9, parent="a", attributes={"gen_ai.response.time_to_first_chunk": 0.1}),
        make.chat("ours", 1.1, 8, parent="theirs", attributes=own),
    ]
    (hop,) = make.facts(*spans).hops
    assert (hop.outcome, hop.ttft_s, hop.start_s) == ("closed_by_consumer", 0.5, 1.1)


LEFT = {
    "hopbudget.outcome": "closed_by_consumer",
    "hopbudget.issued": 0.25,
    "hopbudget.ttft": 0.4,
    "gen_ai.request.stream": True,
}
"""A stream that its consumer left soon: so says the span of ours."""


def test_an_abandoned_stream_ends_where_ours_does_whenever_another_instrumentations_span_is_collected(
    make: Any,
) -> None:
    last = {"hopbudget.outcome": "ok", "hopbudget.ttft": 0.5, "hopbudget.ttfa": 0.5, "hopbudget.e2e": 1.0}
    found = make.facts(
        make.agent("a", 0, 9),
        make.chat("theirs", 1, 8.9, parent="a", status=1),
        make.chat("ours", 1.25, 2, parent="theirs", attributes=LEFT),
        make.chat("last", 7, 8, parent="a", attributes={**last, "gen_ai.request.stream": True}),
    )
    left, hop = found.hops
    assert (left.start_s, left.duration_s, left.outcome) == (1.5, 0.5, "closed_by_consumer")
    assert (hop.final, hop.final_source) == (True, "inferred")
    (trajectory,) = found.trajectories
    assert (trajectory.work_s, trajectory.answer_start_s) == (7.5, 7.5)


def test_a_trajectory_that_is_such_a_stream_alone_is_as_long(make: Any) -> None:
    ours = make.chat("ours", 1.25, 2, parent="theirs", attributes=LEFT)
    (trajectory,) = make.facts(make.chat("theirs", 1, 8.9, status=1), ours).trajectories
    assert (trajectory.duration_s, trajectory.outcome) == (0.75, "closed_by_consumer")


def test_of_several_calls_of_ours_within_another_instrumentations_the_last_says_the_end(make: Any) -> None:
    spans = [
        make.agent("a", 0, 10),
        make.chat("theirs", 1, 9, parent="a"),
        make.chat("first", 2, 3, parent="theirs", status=2, attributes={"hopbudget.outcome": "failed"}),
        make.chat("second", 4, 6, parent="theirs", attributes={"hopbudget.outcome": "ok"}),
    ]
    (hop,) = make.facts(*spans).hops
    assert (hop.start_s, hop.duration_s, hop.outcome) == (2.0, 4.0, "ok")
