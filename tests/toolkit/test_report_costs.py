"""`report` says what trajectories cost where prices are configured, and of how many that is known."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
PRICES = "[prices.m]\ninput = 2.0\ncached = 0.5\noutput = 8.0\n"
T0 = 1_700_000_000_000_000_000


def calls(trace: int, *hops: dict[str, Any], outcome: str | None = None, **of_root: str) -> str:
    """A trajectory of these calls as a line of OTLP/JSON; a hop is its attributes, ours where it says a stream."""

    def span(number: int, name: str, attributes: dict[str, Any], parent: int | None) -> dict[str, Any]:
        kinds = {bool: "boolValue", int: "intValue", float: "doubleValue", str: "stringValue"}
        listed = [{"key": key, "value": {kinds[type(value)]: value}} for key, value in attributes.items()]
        at = T0 + trace * 60_000_000_000 + number * 1_000_000_000
        return {"traceId": f"{trace:032x}", "spanId": f"{trace * 100 + number:016x}", "name": name,
                "startTimeUnixNano": str(at), "endTimeUnixNano": str(at + 900_000_000), "attributes": listed,
                **({"parentSpanId": f"{trace * 100 + parent:016x}"} if parent is not None else {})}  # fmt: skip

    root = {"hopbudget.workload": "bot", **of_root} | ({"hopbudget.outcome": outcome} if outcome else {})
    spans = [span(0, "bot", root, None)]
    spans += [span(n, "chat m", {"gen_ai.operation.name": "chat", **hop}, 0) for n, hop in enumerate(hops, start=1)]
    spans[0]["endTimeUnixNano"] = spans[-1]["endTimeUnixNano"]
    scope = {"scope": {"name": "hopbudget.tracing"}, "spans": spans}
    return json.dumps({"resourceSpans": [{"scopeSpans": [scope]}]})


def used(name: str, inputs: int, outputs: int, cached: int = 0, model: str = "m", **more: Any) -> dict[str, Any]:
    tokens = {"gen_ai.usage.input_tokens": inputs, "gen_ai.usage.output_tokens": outputs}
    tokens |= {"hopbudget.output_tokens": outputs, "hopbudget.output_tokens.source": "usage"}
    tokens |= {"gen_ai.usage.cache_read.input_tokens": cached} if cached else {}
    return {"hopbudget.hop": name, "gen_ai.request.model": model, **tokens, **more}


def cost(hopbudget: Run, *lines: str, prices: str | None = PRICES) -> Any:
    Path("runs.jsonl").write_text("\n".join(lines))
    if prices is not None:
        Path("hopbudget.toml").write_text(prices)
    return hopbudget("report", "runs.jsonl", "--json").json["cost"]


def test_a_trajectory_costs_what_its_calls_do(hopbudget: Run) -> None:
    found = cost(hopbudget, calls(1, used("plan", 1_000_000, 0 + 1), used("write", 400_000, 500_000, cached=100_000)))
    write = 0.3 * 2 + 0.1 * 0.5 + 0.5 * 8
    assert found["trajectory"]["p50"] == pytest.approx(2 + 8e-6 + write)
    assert found["total"] == pytest.approx(2 + 8e-6 + write)
    assert [hop["hop"] for hop in found["by_hop"]] == ["write", "plan"]
    assert found["by_hop"][0]["share"] == pytest.approx(write / found["total"])
    assert (found["hops"], found["priced"]) == (2, 2)


def test_without_prices_there_is_no_cost(hopbudget: Run) -> None:
    assert cost(hopbudget, calls(1, used("plan", 10, 10)), prices=None) is None
    assert "Cost" not in hopbudget("report", "runs.jsonl").out


def test_what_is_not_known_is_counted_and_is_no_zero(hopbudget: Run) -> None:
    found = cost(
        hopbudget,
        calls(1, used("plan", 1_000_000, 1)),
        calls(2, used("plan", 1_000_000, 1), used("plan", 10, 10, model="other")),
        calls(3, {"hopbudget.hop": "plan", "gen_ai.request.model": "m"}),
    )
    assert found["trajectory"]["n"] == 1
    assert found["total"] == pytest.approx(2 * (2 + 8e-6))
    assert (found["hops"], found["priced"], found["without_tokens"]) == (4, 2, 1)
    assert found["without_price"] == {"other": 1}
    screen = hopbudget("report", "runs.jsonl").out
    assert "in all at least 4.00" in screen
    assert "2 of 4 hops have tokens and a price" in screen
    assert "no price: other (1); no tokens: 1 hop" in screen


def test_a_failed_trajectory_is_charged_and_in_no_quantile(hopbudget: Run) -> None:
    failed = calls(2, used("plan", 3_000_000, 1), outcome="failed")
    found = cost(hopbudget, calls(1, used("plan", 1_000_000, 1)), failed)
    assert found["trajectory"]["n"] == 1
    assert found["total"] == pytest.approx(8, abs=0.001)


def test_hidden_reasoning_is_charged_though_it_never_streamed(hopbudget: Run) -> None:
    hidden = used("plan", 0, 1_000_000) | {
        "gen_ai.request.stream": True,
        "hopbudget.ttft": 0.1,
        "hopbudget.output_tokens": 250_000,
        "gen_ai.usage.reasoning.output_tokens": 750_000,
    }
    assert cost(hopbudget, calls(1, hidden))["total"] == pytest.approx(8.0)


def test_chunks_are_no_tokens_to_charge_for(hopbudget: Run) -> None:
    counted = {"hopbudget.hop": "plan", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 10}
    counted |= {"hopbudget.output_tokens": 40, "hopbudget.output_tokens.source": "chunks"}
    found = cost(hopbudget, calls(1, counted))
    assert (found["priced"], found["without_tokens"], found["trajectory"]["n"]) == (0, 1, 0)


def test_a_group_has_the_cost_of_its_own_trajectories(hopbudget: Run) -> None:
    Path("runs.jsonl").write_text(
        "\n".join(calls(n, used("plan", n * 1_000_000, 1), team=team) for n, team in ((1, "a"), (3, "b"), (5, "b")))
    )
    Path("hopbudget.toml").write_text(PRICES)
    by = hopbudget("report", "runs.jsonl", "--by", "team", "--json").json["by"]
    assert {name: round(group["cost"]["trajectory"]["p50"], 3) for name, group in by.items()} == {"b": 8.0, "a": 2.0}
    said = hopbudget("report", "runs.jsonl", "--by", "team").out
    rows = {line.split()[0]: line.split()[-2] for line in said.splitlines() if line.startswith(("a  ", "b  "))}
    assert rows == {"a": "2.00", "b": "8.00"}
    assert "of 3 of 3 trajectories that came out well" in said
    Path("hopbudget.toml").unlink()
    assert "cost" not in hopbudget("report", "runs.jsonl", "--by", "team").out
