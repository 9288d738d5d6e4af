"""The section on other libraries in docs/benchmarks.md says what the probe measured, of ours as of others."""

import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The folder is no part of the package."""
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module


def peer(name: str, first: dict[str, float], chunk_s: float) -> dict[str, Any]:
    cost = {"chunk_s": chunk_s, "chunk_low_s": chunk_s / 2, "chunk_high_s": 2 * chunk_s, "call_s": 1e-4, "rounds": 15}
    return {
        "name": name,
        "title": name,
        "package": name,
        "versions": {name: "1.0", "openai": "3.0"},
        "first_token": {"true_s": 0.6, "reported": first, "metrics": {}},
        "ways_out": {},
        "contract": {},
        "cost": {"traces": cost},
    }


def section(page: Any, ours_s: float) -> str:
    ours = peer("hopbudget", {"hopbudget.ttft": 0.6, "metric time_to_first_chunk": 0.1}, ours_s)
    official = peer(page.OFFICIAL, {"gen_ai.response.time_to_first_chunk": 0.1}, 5e-6)
    about = {"date": "2026-11-29", "python": "3.11", "cores": 2, "machine": "x"}
    text: str = page.section({**about, "peers": [ours, official]})
    return text


def test_a_first_chunk_is_not_held_against_whoever_calls_it_so(bench: Any) -> None:
    page = bench("bench.peers.page")
    lines = [line.split(" | ")[:5] for line in section(page, 4e-7).splitlines() if line.startswith("| ")]
    assert ["| hopbudget", "1.0", "3.0", "0.60", "0.10"] in lines
    assert [f"| {page.OFFICIAL}", "1.0", "3.0", page.NOT_REPORTED, "0.10"] in lines


def test_a_missed_limit_is_said_to_be_missed(bench: Any) -> None:
    page = bench("bench.peers.page")
    assert "(at most 0.1): 0.120 (our quartiles: 0.060 to 0.240) with spans only. **Missed:** spans only." in section(
        page, 6e-7
    )
    assert "(at most 0.1): 0.080 (our quartiles: 0.040 to 0.160) with spans only.\n" in section(page, 4e-7)


def test_a_span_that_a_busy_machine_may_have_made_late_gets_another_try(bench: Any) -> None:
    ways_out = bench("bench.peers.probe.ways_out")
    late = [{"records": [{"late_s": seconds}]} for seconds in (0.01, 0.06, 0.3)]
    assert [ways_out.is_a_little_late(case) for case in late] == [False, True, False]
    assert ways_out.sooner(late[1], late[0]) is ways_out.sooner(late[0], late[1]) is late[0]
