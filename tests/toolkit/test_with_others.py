"""Beside what a program already has: its TracerProvider, sampling, threads, forks, a collector that is down."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HEAD = """
import concurrent.futures, contextvars, asyncio, os, sys, threading
import hopbudget as hb
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider, sampling

@hb.hop("plan")
def plan():
    pass

@hb.trajectory("agent")
def agent(run=plan):
    run()

"""


def run(code: str, tmp_path: Path, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", HEAD + code], cwd=tmp_path, env={**os.environ, **env}, timeout=60,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def spans(tmp_path: Path) -> list[dict[str, Any]]:
    found = []
    for file in sorted((tmp_path / "traces.duckdb.spool").glob("*.jsonl")):
        for line in file.read_text().splitlines():
            for resource in json.loads(line)["resourceSpans"]:
                found += [span for scope in resource["scopeSpans"] for span in scope["spans"]]
    return found


def trees(tmp_path: Path) -> dict[str, list[str]]:
    """Names of the children of each trajectory's span."""
    found = spans(tmp_path)
    roots = {span["spanId"]: [] for span in found if span["name"].startswith("invoke_agent")}
    for span in found:
        if span["spanId"] not in roots:
            roots.setdefault(span.get("parentSpanId", "none"), []).append(span["name"])
    return roots


def test_the_programs_own_provider_is_used_and_stays(tmp_path: Path) -> None:
    run("provider = TracerProvider(); trace.set_tracer_provider(provider); hb.init(); hb.init(); agent()\n"
        "assert trace.get_tracer_provider() is provider", tmp_path)  # fmt: skip
    assert len(spans(tmp_path)) == 2


def test_spans_of_others_reach_the_store_too(tmp_path: Path) -> None:
    run("hb.init()\nagent(lambda: trace.get_tracer('other').start_span('theirs').end())", tmp_path)
    assert {span["name"] for span in spans(tmp_path)} == {"theirs", "invoke_agent agent"}


def test_what_is_not_sampled_is_not_recorded(tmp_path: Path) -> None:
    run("trace.set_tracer_provider(TracerProvider(sampler=sampling.ALWAYS_OFF)); hb.init(); agent()", tmp_path)
    assert spans(tmp_path) == []


def test_a_disabled_sdk_records_nothing_and_nothing_fails(tmp_path: Path) -> None:
    run("hb.init(); agent(); assert hb.flush() == 0", tmp_path, OTEL_SDK_DISABLED="true")
    assert spans(tmp_path) == []


def test_to_thread_and_tasks_keep_the_trajectory(tmp_path: Path) -> None:
    run("""
async def main():
    with hb.trajectory("agent"):
        await asyncio.gather(asyncio.to_thread(plan), asyncio.to_thread(plan))
hb.init()
asyncio.run(main())
""", tmp_path)  # fmt: skip
    assert list(trees(tmp_path).values()) == [["chat", "chat"]]


def test_an_executor_keeps_the_trajectory_with_one_line(tmp_path: Path) -> None:
    run("""
hb.init()
with concurrent.futures.ThreadPoolExecutor() as pool, hb.trajectory("one"), hb.trajectory("two"):
    pool.submit(contextvars.copy_context().run, plan).result()
""", tmp_path)  # fmt: skip
    assert sorted(trees(tmp_path).values()) == [[], ["chat"]]


def test_a_thread_keeps_the_only_trajectory_without_one(tmp_path: Path) -> None:
    run("""
def threaded():
    thread = threading.Thread(target=plan); thread.start(); thread.join()
hb.init()
agent(threaded)
""", tmp_path)  # fmt: skip
    assert list(trees(tmp_path).values()) == [["chat"]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore")
def test_a_forked_child_may_init_again_and_keeps_the_trajectory(tmp_path: Path) -> None:
    run("""
hb.init()
with hb.trajectory("agent"):
    child = os.fork()
    if not child:
        hb.init()
        plan()
        hb.flush()
        os._exit(0)
    os.waitpid(child, 0)
    plan()
""", tmp_path)  # fmt: skip
    assert list(trees(tmp_path).values()) == [["chat", "chat"]]


def test_with_the_collector_down_the_store_gets_its_spans_and_the_program_ends(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    run("""
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import BatchSpanProcessor
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint="http://127.0.0.1:9/v1/traces", timeout=1)))
trace.set_tracer_provider(provider)
hb.init()
for _ in range(20):
    agent()
assert hb.flush() == 40
""", tmp_path)  # fmt: skip
    assert len(spans(tmp_path)) == 40


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore")
def test_a_forked_child_that_ends_as_programs_do_leaves_the_trajectory_to_its_parent(tmp_path: Path) -> None:
    run("""
hb.init()
with hb.trajectory("agent"):
    child = os.fork()
    if not child:
        plan()
        sys.exit()
    os.waitpid(child, 0)
    plan()
""", tmp_path)  # fmt: skip
    assert list(trees(tmp_path).values()) == [["chat", "chat"]]
    assert [span["name"] for span in spans(tmp_path)].count("invoke_agent agent") == 1


def test_what_is_open_at_the_end_is_ended_for_a_provider_of_the_program_s_own(tmp_path: Path) -> None:
    told = run("""
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
class Tell(SpanExporter):
    def export(self, spans): print(*(span.attributes["hopbudget.outcome"] for span in spans))
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(Tell()))
trace.set_tracer_provider(provider)
@hb.hop("answer")
def answer():
    return iter(["a", "b"])
stream = answer()
next(stream)
""", tmp_path)  # fmt: skip
    assert told.split() == ["closed_by_consumer"]
