"""Model spans beside one another that are one call, as OpenLLMetry makes them of streamed responses."""

from typing import Any

import pytest
from msgspec.structs import replace

from hopbudget.store.facts import of_traces

OPENLLMETRY = "opentelemetry.instrumentation.openai.v1"
GENAI = "opentelemetry.instrumentation.genai.openai"
KNOWN = {"gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 5}


def hops(make: Any, *calls: tuple[str, float, float, dict[str, Any]]) -> list[Any]:
    """The rows of an agent's calls: scope, start, end, attributes."""
    spans = make.spans(
        make.agent("agent", 0.0, 10.0),
        *(
            make.chat(f"call{number}", start, end, parent="agent", attributes=attributes)
            for number, (_, start, end, attributes) in enumerate(calls)
        ),
    )
    scopes = ["tests", *(scope for scope, *_ in calls)]
    return list(of_traces([[replace(span, scope=scope) for span, scope in zip(spans, scopes, strict=True)]]).hops)


@pytest.fixture
def of(make: Any) -> Any:
    return lambda *calls: hops(make, *calls)


def test_two_sources_of_one_response_are_one_hop_as_long_as_the_longer(of: Any) -> None:
    answered = {"gen_ai.response.id": "resp_12345678"}
    (hop,) = of((OPENLLMETRY, 1.0, 3.0, answered), (GENAI, 1.1, 3.001, answered | KNOWN))
    assert (hop.start_s, hop.duration_s, hop.output_tokens) == (1.0, 2.0, 5)
    assert hop.source == "OpenLLMetry + OpenTelemetry GenAI"


def test_different_responses_are_different_calls_whatever_their_times(of: Any) -> None:
    first, second = ({"gen_ai.response.id": f"resp_{word * 8}"} | KNOWN for word in "ab")
    assert len(of((OPENLLMETRY, 1.0, 3.0, first), (GENAI, 1.1, 2.9, second))) == 2


def test_without_a_common_id_time_and_tokens_tell(of: Any) -> None:
    assert len(of((OPENLLMETRY, 1.0, 3.0, KNOWN), (GENAI, 1.1, 2.9, KNOWN))) == 1
    assert len(of((OPENLLMETRY, 1.0, 3.0, KNOWN), (GENAI, 1.1, 2.9, KNOWN | {"gen_ai.usage.input_tokens": 8}))) == 2
    assert len(of((OPENLLMETRY, 1.0, 3.0, {}), (GENAI, 1.1, 2.9, {}))) == 2


def test_calls_that_only_overlap_are_two(of: Any) -> None:
    assert len(of((OPENLLMETRY, 1.0, 3.0, KNOWN), (GENAI, 2.0, 4.0, KNOWN))) == 2


LEFT = {"hopbudget.outcome": "closed_by_consumer", "hopbudget.ttft": 0.5, "gen_ai.request.stream": True}
OURS = "hopbudget.tracing"


def test_of_an_abandoned_response_the_other_source_says_nothing_and_is_the_same_call(of: Any) -> None:
    (hop,) = of((OPENLLMETRY, 1.0, 3.0, {}), (OURS, 1.01, 1.6, LEFT))
    assert (hop.start_s, hop.duration_s, hop.outcome) == (1.01, 0.59, "closed_by_consumer")


def test_two_abandoned_at_once_are_two_hops(of: Any) -> None:
    theirs, ours = (OPENLLMETRY, 1.0, 3.0, {}), (OURS, 1.01, 1.6, LEFT)
    assert [hop.source for hop in of(theirs, theirs, ours, ours)] == ["OpenLLMetry + hopbudget"] * 2


def test_a_call_that_began_long_before_an_abandoned_one_is_another(of: Any) -> None:
    assert len(of((OPENLLMETRY, 1.0, 3.0, {}), (OURS, 1.5, 2.0, LEFT))) == 2
    assert len(of((OPENLLMETRY, 1.0, 3.0, {}), (OURS, 1.01, 3.0, LEFT | {"hopbudget.outcome": "ok"}))) == 2


def test_parallel_calls_of_one_source_stay_apart(of: Any) -> None:
    assert len(of((GENAI, 1.0, 3.0, KNOWN), (GENAI, 1.1, 2.9, KNOWN))) == 2


def test_two_parallel_calls_seen_by_two_sources_are_two_hops(of: Any) -> None:
    first, second = ({"gen_ai.response.id": f"resp_{word * 8}"} for word in "ab")
    found = of(
        *((OPENLLMETRY, 1.0, 3.0, first), (OPENLLMETRY, 1.1, 4.0, second)),
        *((GENAI, 1.01, 2.9, first), (GENAI, 1.2, 3.9, second)),
    )
    assert [hop.source for hop in found] == ["OpenLLMetry + OpenTelemetry GenAI"] * 2
