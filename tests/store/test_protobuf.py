"""Spans in protobuf come out as the same spans in JSON do."""

import base64
import re

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from hopbudget.store import otlp, protobuf
from hopbudget.store.rewriting import lines

from .test_rewriting import spans


def as_protobuf(line: bytes) -> bytes:
    """The same request in protobuf: JSON's hex ids are what the official JSON reader takes for base64."""

    def to_base64(match: re.Match[bytes]) -> bytes:
        return match[1] + base64.b64encode(bytes.fromhex(match[2].decode()))

    text = re.sub(rb'("(?:traceId|spanId|parentSpanId)": ?")([0-9a-f]+)', to_base64, line)
    return json_format.Parse(text, ExportTraceServiceRequest()).SerializeToString()


@given(st.lists(spans(), min_size=1, max_size=4))
def test_both_encodings_give_the_same_records(given_spans: "list[object]") -> None:
    for line in lines(given_spans):  # type: ignore[arg-type]
        assert protobuf.decode(as_protobuf(line)) == otlp.decode(line)


@given(st.lists(spans(), min_size=1, max_size=4))
def test_requests_one_after_the_other_are_read_together(given_spans: "list[object]") -> None:
    bodies = [as_protobuf(line) for line in lines(given_spans)]  # type: ignore[arg-type]
    together = protobuf.decode_usual(b"".join(bodies))
    assert together is not None
    assert list(together.spans) == [span for body in bodies for span in protobuf.decode(body).spans]


def test_content_is_counted_each_time_and_never_remembered() -> None:
    request = ExportTraceServiceRequest()
    held = request.resource_spans.add().scope_spans.add().spans
    for number in (b"1", b"2"):
        span = held.add(trace_id=b"1" * 16, span_id=number * 8, start_time_unix_nano=10, end_time_unix_nano=20)
        span.attributes.add(key="gen_ai.prompt").value.string_value = "a secret"
        span.attributes.add(key="gen_ai.request.model").value.string_value = "m"
    found = protobuf.decode_usual(request.SerializeToString())
    assert found is not None
    assert [span.attributes for span in found.spans] == [{"gen_ai.request.model": "m"}] * 2
    assert found.dropped_content == 2
    assert "secret" not in repr([protobuf._pairs, protobuf._lists])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"trace_id": b""}, "no trace id"),
        ({"trace_id": bytes(16)}, "zeros"),
        ({"span_id": b"123"}, "bad span id"),
        ({"parent_span_id": b"123"}, "bad parent span id"),
        ({"start_time_unix_nano": 0}, "no start time"),
        ({"end_time_unix_nano": 5}, "before its start"),
        ({"end_time_unix_nano": (1 << 64) - 1}, "out of range"),
    ],
)
def test_a_bad_span_is_left_out_with_a_reason(change: dict[str, object], says: str) -> None:
    good = {"trace_id": b"1" * 16, "span_id": b"2" * 8, "start_time_unix_nano": 10, "end_time_unix_nano": 20}
    request = ExportTraceServiceRequest()
    held = request.resource_spans.add().scope_spans.add().spans
    held.add(**good)
    held.add(**{**good, **change})
    found = protobuf.decode(request.SerializeToString())
    assert len(found.spans) == 1
    assert len(found.rejected) == 1
    assert says in found.rejected[0]


@given(st.binary(max_size=200))
def test_other_bytes_are_spans_or_a_value_error(body: bytes) -> None:
    try:
        protobuf.decode(body)
    except ValueError:
        return
