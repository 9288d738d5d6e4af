"""Our encoding says the same as the official one."""

import base64
import json
from collections.abc import Sequence
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from hopbudget.recording.encode import encode

ATTRIBUTES: dict[str, Any] = {
    "text": 'with "quotes", 期限 and 🙂\n',
    "empty": "",
    "yes": True,
    "no": False,
    "int": 7,
    "big": 2**62,
    "negative": -(2**62),
    "float": 0.1,
    "whole": 3.0,
    "nan": float("nan"),
    "infinite": float("inf"),
    "minus": float("-inf"),
    "texts": ["a", "b"],
    "ints": (1, 2),
    "floats": [0.5],
    "bools": [True, False],
    "none": [],
    "bytes": b"\x00\xff",
}


def with_hex_ids(value: Any) -> Any:
    """The dict that protobuf's own JSON makes, with ids in hex as OTLP has them."""
    if isinstance(value, dict):
        return {
            key: base64.b64decode(item).hex() if key in {"traceId", "spanId", "parentSpanId"} else with_hex_ids(item)
            for key, item in value.items()
        }
    return [with_hex_ids(item) for item in value] if isinstance(value, list) else value


def normal(value: Any) -> Any:
    """Without fields at their default, which JSON for protobuf may leave out or write; values stay as they are."""
    if isinstance(value, list):
        return [normal(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {key: normal(item) for key, item in value.items()}
    if any(key.endswith("Value") for key in found):
        return found
    return {key: item for key, item in found.items() if key == "value" or item not in (0, "0", "", [], {})}


def official(spans: Sequence[ReadableSpan]) -> Any:
    message = MessageToDict(encode_spans(spans), use_integers_for_enums=True)
    return [normal(with_hex_ids(entry)) for entry in message["resourceSpans"]]


def ours(spans: Sequence[ReadableSpan]) -> Any:
    lines, left_out = encode(spans)
    assert left_out == 0
    assert all(b"\n" not in line for line in lines)
    return [normal(entry) for line in lines for entry in json.loads(line)["resourceSpans"]]


class Workshop:
    """Makes ended spans."""

    def __init__(self, resource: Resource | None = None) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("scope", "1.2", schema_url="https://example.org/s", attributes={"a": 1})

    def ended(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())


def remote(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(
        trace_id, span_id, is_remote=True, trace_flags=TraceFlags(1), trace_state=TraceState([("k", "v")])
    )


def test_every_type_of_attribute_event_link_and_status() -> None:
    shop = Workshop(Resource({"service.name": "s", "n": 1}, schema_url="https://example.org/r"))
    above = remote(0x00AB << 96, 0x0C)
    with shop.tracer.start_as_current_span(
        "root",
        context=set_span_in_context(NonRecordingSpan(above)),
        kind=SpanKind.CLIENT,
        attributes=ATTRIBUTES,
        links=[Link(remote(1, 2), {"l": 1}), Link(SpanContext(3, 4, is_remote=False))],
    ) as span:
        span.add_event("event", ATTRIBUTES, timestamp=123)
        span.add_event("bare")
        with shop.tracer.start_as_current_span("child", kind=SpanKind.SERVER) as child:
            child.set_status(Status(StatusCode.OK))
        with shop.tracer.start_as_current_span("child", kind=SpanKind.PRODUCER) as child:
            child.set_status(Status(StatusCode.ERROR, "why"))
        with shop.tracer.start_as_current_span("", kind=SpanKind.CONSUMER):
            pass
    spans = shop.ended()
    assert len(spans) == 4
    assert ours(spans) == official(spans)


def test_spans_are_grouped_by_resource_and_scope() -> None:
    one, two = Workshop(Resource({"service.name": "one"})), Workshop(Resource({"service.name": "two"}))
    spans = []
    for shop in (one, two):
        for scope in ("a", "b"):
            shop.provider.get_tracer(scope).start_span("x").end()
        spans += shop.ended()
    mixed = spans[::2] + spans[1::2]
    lines, _ = encode(mixed)
    assert len(lines) == 2
    assert ours(mixed) == official(mixed)


def test_counts_of_what_the_sdk_dropped_are_told() -> None:
    shop = Workshop()
    span = shop.tracer.start_span("x", attributes={str(i): i for i in range(200)})
    for i in range(200):
        span.add_event(str(i))
    span.end()
    spans = shop.ended()
    (found,) = ours(spans)
    assert found["scopeSpans"][0]["spans"][0]["droppedAttributesCount"] == 72
    assert [found] == official(spans)


values = (
    st.text()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.lists(st.text(), max_size=3)
    | st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3)
)


@given(st.dictionaries(st.text(min_size=1), values, max_size=5))
def test_any_attributes(attributes: dict[str, Any]) -> None:
    shop = Workshop()
    shop.tracer.start_span("x", attributes=attributes).end()
    spans = shop.ended()
    assert ours(spans) == official(spans)


def test_text_that_utf8_cannot_hold_is_kept_as_far_as_it_can() -> None:
    shop = Workshop()
    shop.tracer.start_span("x", attributes={"k": "a\ud800b"}).end()
    (found,) = ours(shop.ended())
    assert found["scopeSpans"][0]["spans"][0]["attributes"][0]["value"] == {"stringValue": "a?b"}


def test_a_span_that_cannot_be_encoded_is_left_out_and_counted() -> None:
    shop = Workshop()
    shop.tracer.start_span("good").end()
    bad = ReadableSpan(name="bad")
    lines, left_out = encode([bad, *shop.ended()])
    assert left_out == 1
    assert len(json.loads(lines[0])["resourceSpans"][0]["scopeSpans"][0]["spans"]) == 1


@pytest.mark.parametrize("spans", [[], [ReadableSpan(name="bad")]])
def test_no_spans_are_no_lines(spans: list[ReadableSpan]) -> None:
    assert encode(spans) == ([], len(spans))
