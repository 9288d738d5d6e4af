"""Model calls that other instrumentations record become hops of our trajectories, where we don't see them ourselves."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer

import hopbudget as hb
from hopbudget.recording.encode import encode
from hopbudget.store import queries
from hopbudget.store.duck import Store
from hopbudget.store.spool import Spool, spool_folder
from hopbudget.tracing import scope

CALL = {"gen_ai.operation.name": "generate_content", "gen_ai.request.model": "gemini"}
FIRST_CHUNK = {"gen_ai.response.time_to_first_chunk": 0.25, "gen_ai.request.stream": True}


class Others:
    """Another instrumentation, on the TracerProvider that ours uses too."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(hb.processor())
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer: Tracer = self.provider.get_tracer("opentelemetry.instrumentation.google_genai")

    def call(self, **late: Any) -> Any:
        return self.tracer.start_as_current_span("generate_content gemini", kind=SpanKind.CLIENT, attributes=CALL)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> dict[str, Any]:
        (found,) = (span for span in self.spans if span.name == name)
        return dict(found.attributes or {})


@pytest.fixture
def others() -> Iterator[Others]:
    found = Others()
    errors = scope.recorder_errors()
    scope.configure(provider=found.provider)
    yield found
    scope.configure()
    assert scope.recorder_errors() == errors


def test_a_call_inside_a_trajectory_is_its_hop(others: Others) -> None:
    with hb.trajectory("agent", workload="chat", run="r7"), others.call() as span:
        span.set_attributes(FIRST_CHUNK)
    assert others.named("generate_content gemini") == {
        **CALL,
        **FIRST_CHUNK,
        "hopbudget.hop": "generate_content",
        "hopbudget.adopted": True,
        "hopbudget.workload": "chat",
        "hopbudget.run": "r7",
    }
    assert others.named("invoke_agent agent")["hopbudget.outcome"] == "ok"


def test_it_is_named_by_the_agent_around_it(others: Others) -> None:
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "planner"}
    planner = others.tracer.start_as_current_span("invoke_agent planner", attributes=agent)
    with hb.trajectory("agent"), planner, others.call():
        pass
    assert others.named("generate_content gemini")["hopbudget.hop"] == "planner"


def test_a_call_inside_our_own_hop_is_that_hop(others: Others) -> None:
    with hb.trajectory("agent"), hb.hop("answer"), others.call():
        pass
    assert others.named("generate_content gemini") == CALL


@pytest.mark.parametrize("attributes", [{}, {"gen_ai.operation.name": "embeddings"}, {"http.request.method": "POST"}])
def test_what_is_no_model_call_is_left_alone(others: Others, attributes: dict[str, Any]) -> None:
    with hb.trajectory("agent"), others.tracer.start_as_current_span("other", attributes=attributes):
        pass
    assert others.named("other") == attributes


def test_a_call_outside_of_our_trajectories_is_left_alone(others: Others) -> None:
    with others.call():
        pass
    assert others.named("generate_content gemini") == CALL


def test_of_stacked_instrumentations_the_outermost_call_is_the_hop(others: Others) -> None:
    inner = {**CALL, "gen_ai.provider.name": "inner"}
    with hb.trajectory("agent"), others.call(), others.tracer.start_as_current_span("inner", attributes=inner):
        pass
    assert others.named("inner") == inner
    assert "hopbudget.hop" in others.named("generate_content gemini")


@pytest.mark.parametrize(
    ("error", "outcome"), [("ServerError", "failed"), ("asyncio.exceptions.CancelledError", "cancelled")]
)
def test_a_failed_call_that_was_the_last_says_the_trajectorys_outcome(others: Others, error: str, outcome: str) -> None:
    with hb.trajectory("agent"), others.call() as span:
        span.set_attribute("error.type", error)
        span.set_status(Status(StatusCode.ERROR))
    assert others.named("invoke_agent agent")["hopbudget.outcome"] == outcome


def test_in_the_store_it_is_a_hop_whose_first_chunk_time_is_marked_as_such(others: Others, tmp_path: Any) -> None:
    with hb.trajectory("agent"):
        with hb.work("search"):
            pass
        with others.call() as span:
            span.set_attributes({**FIRST_CHUNK, "gen_ai.response.time_to_first_chunk": 0.0})
    path = tmp_path / "traces.duckdb"
    lines, left_out = encode(list(others.spans))
    Spool(spool_folder(path)).append(lines, len(others.spans) - left_out)
    store = Store(path)
    store.drain()
    with store.reading() as con:
        (row,) = queries.trajectory_rows(con, queries.Where())
        found = queries.trajectory(con, row["trace_id"])
    (hop,) = found["hops"]
    assert (hop["hop"], hop["model"], hop["ttft_source"]) == ("generate_content", "gemini", "first_chunk")
    assert len(found["works"]) == 1


def test_calls_that_never_end_are_forgotten(others: Others, monkeypatch: Any) -> None:
    monkeypatch.setattr("hopbudget.recording.adopting.OPEN_LIMIT", 10)
    processor = hb.processor()
    others.provider.add_span_processor(processor)
    with hb.trajectory("agent"):
        for _ in range(30):
            others.tracer.start_span("call", attributes=CALL)
    assert len(processor._open) <= 10


def test_a_hop_of_our_own_that_has_no_name_is_not_taken_in(others: Others) -> None:
    tracer = scope.tracer()
    assert tracer is not None
    with hb.trajectory("agent"):
        tracer.start_span("chat small", attributes={"gen_ai.operation.name": "chat"}).end()
    assert others.named("chat small") == {"gen_ai.operation.name": "chat"}
