"""Limits in the metrics."""

from typing import Any

import pytest

import hopbudget as hb

metrics = pytest.importorskip("opentelemetry.sdk.metrics")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Any:
    from opentelemetry.metrics import _internal
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    provider = metrics.MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(_internal, "_METER_PROVIDER", provider)

    def points(name: str) -> list[dict[str, Any]]:
        data = reader.get_metrics_data()
        found = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics if m.name == name]
        return [dict(point.attributes) for metric in found for point in metric.data.data_points]

    return points


def test_limits_that_fired_and_those_that_would_have_are_counted_apart(time: Any, recorded: Any, read: Any) -> None:
    with pytest.raises(hb.CompletionTimeout), hb.trajectory("agent", deadline_s=1.0, enforce="deadline"):
        time.to(2000)
        with hb.hop("held"):
            pass
    with hb.hop("seen", completion_s=1.0):
        time.to(9000)
    hops = {point["hopbudget.hop"]: point for point in read("hopbudget.hops")}
    assert {name: (point["hopbudget.limit_hit"], point["hopbudget.outcome"]) for name, point in hops.items()} == {
        "held": ("completion", "timed_out"),
        "seen": ("completion", "ok"),
    }


def test_interventions_are_counted_by_decision(time: Any, recorded: Any, read: Any) -> None:
    agent, long = hb.trajectory("agent", deadline_s=1.0, enforce="deadline"), hb.hop("long", refuse=5.0)
    with pytest.raises(hb.HopRefused), agent, long:
        pass
    (point,) = read("hopbudget.interventions")
    assert (point["hopbudget.decision"], point["hopbudget.workload"]) == ("refused", "agent")
