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
