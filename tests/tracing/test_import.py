"""What importing the decorators loads, and what they do where nobody records."""

import subprocess
import sys
from typing import Any

import pytest

HEAVY = {
    "asyncio",
    "numpy",
    "scipy",
    "duckdb",
    "streamlit",
    "opentelemetry.sdk",
    "msgspec",
    "dataclasses",
    "importlib.metadata",
}


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("module", ["hopbudget", "hopbudget.tracing"])
def test_importing_loads_nothing_heavy_that_the_api_has_not_loaded(module: str) -> None:
    loaded = set(
        run(
            f"import sys, opentelemetry.trace; before = set(sys.modules); import {module}; "
            "print(*sorted(set(sys.modules) - before))"
        ).split()
    )
    assert module in loaded
    assert not loaded & HEAVY
    foreign = {name for name in loaded if name.partition(".")[0] not in {"hopbudget", *sys.stdlib_module_names}}
    assert not {name for name in foreign if not name.startswith("opentelemetry")}


def test_what_holds_limits_is_loaded_when_there_is_one() -> None:
    code = """
import sys
import hopbudget as hb
from opentelemetry.sdk.trace import TracerProvider
from hopbudget.tracing import scope
scope.configure(provider=TracerProvider())

def held():
    return sorted(name.rpartition(".")[2] for name in sys.modules if name.startswith("hopbudget.tracing.limits_w"))

@hb.trajectory("agent")
def agent():
    with hb.hop("plan"):
        return [*hb.watch(iter("ab"))]

agent()
before = held()
hb.trajectory("agent", deadline_s=3.0)
print(before, held(), scope.recorder_errors())
"""
    assert run(code) == "[] ['limits_waits'] 0"


def test_the_public_names_are_these() -> None:
    import hopbudget
    import hopbudget.tracing

    capture = ["Reading", "environment", "hop", "instrument", "pause", "trajectory", "uninstrument", "watch", "work"]
    asking = ["base_rate", "chance", "hint", "max_tokens", "on_pressure", "options", "remaining_prompt", "remaining_s"]
    holding = ["deadline_status", "disable", "enable", "steps_left", "all_of", "first_of", "carry", "Cap", "failover"]
    telling = ["propagate_to", "propagating", "recovering", "BrokenStreamError"]
    raised = ["DeadlineExceeded", "FirstTokenTimeout", "StallTimeout", "CompletionTimeout"]
    of_tracing = [*capture, *asking, *holding, *telling, *raised, "HopRefused", "TrajectoryAborted"]
    assert hopbudget.__all__ == sorted([*of_tracing, "flush", "init", "processor"])
    assert hopbudget.tracing.__all__ == sorted([*of_tracing, "Usage"])
    for module in (hopbudget, hopbudget.tracing):
        assert all(getattr(module, name) for name in module.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        hopbudget.nothing  # noqa: B018


def test_without_a_provider_nothing_is_recorded_and_all_works() -> None:
    code = """
import asyncio, sys
import hopbudget as hb
from hopbudget.tracing import scope

@hb.trajectory("t")
async def agent():
    with hb.hop("h"):
        stream = iter("ab")
        assert hb.watch(stream) is stream
    return [work(), list(numbers()), [x async for x in letters()]]

@hb.work("w")
def work(): return 1

@hb.hop("n")
def numbers():
    got = yield 1
    assert got is None
    yield 2

@hb.hop("l")
async def letters():
    yield "a"

assert asyncio.run(agent()) == [1, [1, 2], ["a"]]
assert scope.recorder_errors() == 0 and not scope.open_blocks
assert "opentelemetry.sdk" not in sys.modules
"""
    run(code)


def test_a_disabled_sdk_records_nothing(monkeypatch: Any) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    code = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
import hopbudget as hb
from hopbudget.tracing import scope
with hb.trajectory("t"):
    with hb.hop("h"):
        assert not trace.get_current_span().get_span_context().is_valid
assert scope.tracer() is None and scope.recorder_errors() == 0
"""
    run(code)
