"""What every part's tests share: the recorded data beside the project, and a small recording of our own."""

import json
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
if "CI" not in os.environ:  # there, hypothesis has a profile of its own: repeatable, and without clocks as well
    settings.load_profile("local")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell does to what it starts with `&`, and all below it
    signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED = Path(__file__).resolve().parent.parent.parent / "shared"
START_NS = 1_767_225_600_000_000_000


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of recorded data beside the project; tests that read it skip where it is absent."""
    if not (SHARED / "data").is_dir():
        pytest.skip("the recorded data (../shared/data) is not here")
    return SHARED


@pytest.fixture(scope="session")
def recorded_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty runs of a small research agent as OTLP/JSON lines: plan, one to four searches, a streamed answer."""
    path = tmp_path_factory.mktemp("recorded") / "runs.jsonl"
    chance = random.Random(7)
    path.write_text("".join(json.dumps(request) + "\n" for request in runs(chance, 60)))
    return path


def runs(chance: random.Random, n: int) -> Iterator[dict[str, Any]]:
    """Export requests, one a run."""
    for index in range(n):
        spans = run_spans(chance, f"{index + 1:032x}", START_NS + index * 60_000_000_000, session=f"s{index % 6}")
        resource = {
            "attributes": [attribute("service.name", "research"), attribute("service.version", f"v{index % 3}")]
        }
        yield {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "tests"}, "spans": spans}]}]}


def run_spans(chance: random.Random, trace_id: str, start_ns: int, session: str) -> list[dict[str, Any]]:
    """One run: the trajectory's span first, then its hops and works in order."""
    at, spans = start_ns, []
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "small"}

    def add(name: str, seconds: float, **attributes: Any) -> None:
        nonlocal at
        end = at + int(seconds * 1e9)
        spans.append(span(trace_id, f"{len(spans) + 2:016x}", name, at, end, attributes, parent="1".zfill(16)))
        at = end

    add("chat small", chance.lognormvariate(-0.5, 0.3), **chat, **tokens(400, 40), **{"hopbudget.hop": "plan"})
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        add("chat small", chance.lognormvariate(-1, 0.4), **chat, **tokens(700, 30), **{"hopbudget.hop": "search"})
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "fetch"}
        add("execute_tool fetch", chance.lognormvariate(-1.5, 0.6), **tool)
    n = chance.randint(80, 240)
    first, pace = chance.lognormvariate(-1.2, 0.3), chance.lognormvariate(-4.3, 0.1)
    stream = {
        "hopbudget.hop": "answer",
        "hopbudget.final": True,
        "gen_ai.request.stream": True,
        "hopbudget.ttft": first,
    }
    timed = {"hopbudget.ttfa": first, "hopbudget.tpot": pace, "hopbudget.e2e": first + (n - 1) * pace}
    counted = {"hopbudget.output_tokens": n, "hopbudget.output_tokens.source": "usage", "hopbudget.outcome": "ok"}
    add("chat small", first + (n - 1) * pace, **chat, **tokens(1500, n), **stream, **timed, **counted)
    root = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "research", "gen_ai.conversation.id": session}
    return [span(trace_id, "1".zfill(16), "invoke_agent research", start_ns, at, root), *spans]


def tokens(prompt: int, output: int) -> dict[str, int]:
    """Usage as a provider states it."""
    return {"gen_ai.usage.input_tokens": prompt, "gen_ai.usage.output_tokens": output}


def span(
    trace_id: str, span_id: str, name: str, start_ns: int, end_ns: int, attributes: dict[str, Any], parent: str = ""
) -> dict[str, Any]:
    """One span in OTLP's JSON form."""
    return {
        "traceId": trace_id,
        "spanId": span_id,
        "parentSpanId": parent,
        "name": name,
        "kind": 3,
        "startTimeUnixNano": str(start_ns),
        "endTimeUnixNano": str(end_ns),
        "attributes": [attribute(key, value) for key, value in attributes.items()],
        "status": {},
    }


def attribute(key: str, value: Any) -> dict[str, Any]:
    """One attribute in OTLP's JSON form."""
    match value:
        case bool():
            return {"key": key, "value": {"boolValue": value}}
        case int():
            return {"key": key, "value": {"intValue": str(value)}}
        case float():
            return {"key": key, "value": {"doubleValue": value}}
        case _:
            return {"key": key, "value": {"stringValue": str(value)}}
