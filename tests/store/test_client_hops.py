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
    assert (hop.outcome, hop.ttft_s, hop.start_s) == ("closed_by_consumer", 0.5, 1.0)
