"""What an inference server told of a call reaches `explain` and `report`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hopbudget.store.servers import split

Run = Callable[..., Any]
ROW = {
    "hop": "answer", "visit": 1, "ttft_s": 0.8, "duration_s": 4.0, "server_ttft_s": 0.5, "server_queue_s": 0.3,
    "server_prefill_s": 0.2, "server_decode_s": 3.0, "server_e2e_s": 3.5,
}  # fmt: skip


def parts(**changes: Any) -> dict[str, float | None]:
    found = split(ROW | changes)
    assert found is not None
    return {name: None if found[name] is None else round(found[name], 6) for name in found if name.endswith("_s")}


def test_the_parts_add_up_to_the_wait_and_to_the_rest() -> None:
    found = parts()
    assert found == {
        "ttft_s": 0.8,
        "queue_s": 0.3,
        "prefill_s": 0.2,
        "outside_s": 0.3,
        "decode_s": 3.0,
        "delivery_s": 0.2,
    }


@pytest.mark.parametrize(
    ("changes", "unknown"),
    [
        ({"ttft_s": None}, {"ttft_s", "outside_s", "delivery_s"}),
        ({"server_ttft_s": 1.2}, {"outside_s"}),
        ({"server_decode_s": 3.9}, {"delivery_s"}),
        (
            {"server_ttft_s": None, "server_queue_s": None, "server_prefill_s": None},
            {"queue_s", "prefill_s", "outside_s"},
        ),
    ],
)
def test_what_is_not_known_or_contradicts_is_missing(changes: dict[str, Any], unknown: set[str]) -> None:
    assert {name for name, value in parts(**changes).items() if value is None} == unknown


def test_a_hop_whose_server_told_nothing_has_no_split() -> None:
    assert split(ROW | {name: None for name in ROW if name.startswith("server_")}) is None


def span(
    name: str, number: int, start: float, end: float, attributes: dict[str, Any], parent: int = 0
) -> dict[str, Any]:
    t0 = 1_700_000_000_000_000_000
    return {"trace_id": "a" * 32, "span_id": f"{number:016x}", "parent_span_id": f"{parent:016x}" if parent else None,
            "name": name, "start_time": t0 + round(start * 1e9), "end_time": t0 + round(end * 1e9),
            "attributes": attributes}  # fmt: skip


def test_explain_and_report_show_it(hopbudget: Run) -> None:
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.response.time_to_first_chunk": 0.8}
    engine = {"gen_ai.latency.e2e": 3.5, "gen_ai.latency.time_to_first_token": 0.5, "gen_ai.latency.time_in_queue": 0.3,
              "gen_ai.latency.time_in_model_prefill": 0.2, "gen_ai.latency.time_in_model_decode": 3.0}  # fmt: skip
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "bot"}
    spans = [span("invoke_agent bot", 1, 0, 5, agent), span("chat m", 2, 0, 4, chat, 1),
             span("llm_request", 3, 900, 903.5, engine, 2)]  # fmt: skip
    Path("spans.json").write_text(json.dumps(spans))
    hopbudget("import", "spans.json")
    (found,) = hopbudget("explain", "a" * 32, "--json").json["servers"]
    assert (found["queue_s"], found["prefill_s"]) == (0.3, 0.2)
    assert found["outside_s"] == pytest.approx(0.3)
    said = hopbudget("explain", "a" * 32)
    assert "Inside the server" in said.out
    assert "queue 37.5%" in hopbudget("report").out


def queued(number: int, queue_s: float) -> list[dict[str, Any]]:
    """A trajectory of one call that stood so long in its server's queue."""
    trace = f"{number:032x}"
    ttft_s = queue_s + 0.2 + 0.05
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.response.time_to_first_chunk": ttft_s}
    engine = {"gen_ai.latency.e2e": queue_s + 1.2, "gen_ai.latency.time_to_first_token": queue_s + 0.2,
              "gen_ai.latency.time_in_queue": queue_s, "gen_ai.latency.time_in_model_prefill": 0.2,
              "gen_ai.latency.time_in_model_decode": 1.0}  # fmt: skip
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "bot"}
    spans = [span("invoke_agent bot", 1, 0, ttft_s + 1.1, agent), span("chat m", 2, 0, ttft_s + 1.0, chat, 1),
             span("llm_request", 3, 900, 901.2 + queue_s, engine, 2)]  # fmt: skip
    return [{**each, "trace_id": trace} for each in spans]


def test_queues_are_a_cause_over_many_with_share_interval_and_n(hopbudget: Run) -> None:
    spans = [part for n in range(120) for part in queued(n + 1, 0.1 if n < 96 else 2.0 + n % 5)]
    Path("spans.json").write_text(json.dumps(spans))
    hopbudget("import", "spans.json")
    (told,) = hopbudget("report", "--breaches", "--deadline", "2s", "--json").json["workloads"]
    first = told["causes"][0]
    assert (first["kind"], first["n"], first["main_in"]) == ("queue", 24, 24)
    assert first["share"] == pytest.approx(1.0, abs=1e-3)
    assert first["low"] <= 1.0 <= first["high"]
    assert told["servers_told"] == {"hops": 24, "of": 24, "trajectories": 24}
    screen = hopbudget("report", "--breaches", "--deadline", "2s").out
    assert "server's queue" in screen
    assert "as the inference servers told of all 24 hops" in " ".join(screen.split())
    assert "server's queue" in hopbudget("explain", "--slowest", "5").out


def test_queues_of_a_part_of_the_hops_say_of_how_many(hopbudget: Run) -> None:
    spans = [part for n in range(120) for part in queued(n + 1, 0.1 if n < 96 else 2.0 + n % 5)]
    silent = [each for each in spans if each["name"] != "llm_request" or int(each["trace_id"], 16) <= 108]
    Path("spans.json").write_text(json.dumps(silent))
    hopbudget("import", "spans.json")
    screen = " ".join(hopbudget("report", "--breaches", "--deadline", "2s").out.split())
    assert "told of 12 of the 24 hops of late ones, in 12 of 24 trajectories" in screen
    assert "first token" in screen


def test_the_p95_of_a_part_is_interpolated_as_every_quantile_of_a_report(hopbudget: Run) -> None:
    spans = [part for n in range(21) for part in queued(n + 1, 0.1 * n)]
    Path("spans.json").write_text(json.dumps(spans))
    parts = hopbudget("report", "spans.json", "--json").json["servers"]["parts"]
    assert parts["queue_s"]["n"] == 21
    assert parts["queue_s"]["p95"] == pytest.approx(0.1 * 19)
    ten = [part for part in spans if int(part["trace_id"], 16) <= 10]
    Path("spans.json").write_text(json.dumps(ten))
    parts = hopbudget("report", "spans.json", "--json").json["servers"]["parts"]
    assert parts["queue_s"]["p95"] == pytest.approx(0.1 * 8.55)
