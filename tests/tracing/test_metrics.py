"""Metrics of hops: in the histograms of the MeterProvider that is set, and nowhere if none is."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import hopbudget as hb
from hopbudget.tracing import metrics


class Metered:
    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider(metric_readers=[self.reader], shutdown_on_exit=False)

    def found(self) -> dict[str, list[Any]]:
        data = self.reader.get_metrics_data()
        if data is None:
            return {}
        (resource,) = data.resource_metrics
        (scope,) = resource.scope_metrics
        assert scope.scope.name == "hopbudget.tracing"
        return {metric.name: list(metric.data.data_points) for metric in scope.metrics}


@pytest.fixture
def metered(monkeypatch: Any) -> Iterator[Metered]:
    found = Metered()
    monkeypatch.setattr("opentelemetry.metrics._internal._METER_PROVIDER", found.provider)
    yield found
    found.provider.shutdown()


def only(points: list[Any]) -> Any:
    (point,) = points
    return point


def test_a_streamed_hop_is_in_the_genai_histograms_and_in_ours(
    recorded: Any, metered: Metered, open_stream: Any, script: Any
) -> None:
    with hb.trajectory("agent", run="r1"), hb.hop("answer", model="m"):
        list(hb.watch(open_stream(script)))
    found = metered.found()
    sums = {name: only(points).sum for name, points in found.items() if name != "hopbudget.hops"}
    assert sums == {
        "gen_ai.client.inference.duration": pytest.approx(0.242),
        "gen_ai.client.inference.time_to_first_chunk": pytest.approx(0.05),
        "gen_ai.client.inference.time_per_output_chunk": pytest.approx(0.04),
        "gen_ai.client.inference.operation.input_tokens": 7,
        "gen_ai.client.inference.operation.output_tokens": 3,
        "hopbudget.hop.duration": pytest.approx(0.242),
        "hopbudget.ttft": pytest.approx(0.2),
        "hopbudget.tpot": pytest.approx(0.02),
        "hopbudget.itl": pytest.approx(0.04),
    }
    assert dict(only(found["gen_ai.client.inference.duration"]).attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "m-1",
    }
    own = {
        "hopbudget.hop": "answer",
        "hopbudget.workload": "agent",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "m-1",
    }
    assert dict(only(found["hopbudget.ttft"]).attributes) == own
    counted = only(found["hopbudget.hops"])
    assert (counted.value, dict(counted.attributes)) == (1, {**own, "hopbudget.outcome": "ok"})


def test_buckets_are_the_recommended_ones(recorded: Any, metered: Metered) -> None:
    with hb.hop("plan"):
        pass
    assert only(metered.found()["gen_ai.client.inference.duration"]).explicit_bounds == metrics.DURATION_S


def test_a_failed_hop_says_its_error_and_has_no_first_token(recorded: Any, metered: Metered) -> None:
    with pytest.raises(KeyError), hb.hop("plan"):
        raise KeyError
    found = metered.found()
    assert set(found) == {"gen_ai.client.inference.duration", "hopbudget.hop.duration", "hopbudget.hops"}
    assert only(found["gen_ai.client.inference.duration"]).attributes["error.type"] == "KeyError"
    assert only(found["hopbudget.hops"]).attributes["hopbudget.outcome"] == "failed"


def test_of_a_long_stream_some_gaps_are_recorded(recorded: Any, metered: Metered) -> None:
    with hb.hop("answer"):
        list(hb.watch(iter(["a"] * 3_000)))
    assert metrics.GAPS_LIMIT / 2 < only(metered.found()["hopbudget.itl"]).count <= metrics.GAPS_LIMIT


def test_what_is_not_sampled_is_not_metered_either(metered: Metered) -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    from hopbudget.tracing import scope

    @hb.hop("answer")
    def answer() -> Iterator[str]:
        yield "a"

    scope.configure(provider=TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False))
    try:
        assert list(answer()) == ["a"]
    finally:
        scope.configure()
    assert metered.found() == {}


def test_without_a_meter_provider_nothing_is_made(recorded: Any) -> None:
    with hb.hop("plan"):
        pass
    assert metrics.instruments() is None


def test_a_meter_that_fails_is_counted_and_the_application_sees_nothing(
    recorded: Any, metered: Metered, monkeypatch: Any
) -> None:
    from hopbudget.tracing import scope

    def fail(*args: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr(metrics.Instruments, "record", fail)
    before = scope.recorder_errors()
    with hb.hop("plan"):
        pass
    assert scope.recorder_errors() == before + 1
    scope.setup.errors = before
    assert len(recorded.spans) == 1


def test_what_only_holds_hops_is_not_counted_beside_them(recorded: Any, metered: Metered) -> None:
    with hb.hop("plan"), hb.hop("llm"):
        hb.watch({"id": "r-1", "choices": [{"message": {"content": "x"}}]})
    (counted,) = metered.found()["hopbudget.hops"]
    assert (counted.value, counted.attributes["hopbudget.hop"]) == (1, "llm")
