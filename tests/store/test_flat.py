"""Spans as plain JSON objects, in the spellings of many exporters."""

import json
from pathlib import Path
from typing import Any

import pytest

from hopbudget.store import documents, forms, ids
from hopbudget.store.spans import Decoded
from hopbudget.store.values import instant

TRACE, SPAN, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"
START_NS = 1_700_000_000_250_000_000
END_NS = START_NS + 1_500_000_000

SPELLINGS: dict[str, dict[str, Any]] = {
    "Python's console exporter": {
        "name": "chat m",
        "context": {"trace_id": f"0x{TRACE}", "span_id": f"0x{SPAN}", "trace_state": "[]"},
        "kind": "SpanKind.CLIENT",
        "parent_id": f"0x{PARENT}",
        "start_time": "2023-11-14T22:13:20.250000Z",
        "end_time": "2023-11-14T22:13:21.750000Z",
        "status": {"status_code": "ERROR", "description": "TimeoutError: secret"},
        "attributes": {"gen_ai.operation.name": "chat"},
    },
    "JavaScript's console exporter": {
        "traceId": TRACE,
        "parentId": PARENT,
        "id": SPAN,
        "name": "chat m",
        "kind": 2,
        "timestamp": START_NS // 1000,
        "duration": 1_500_000.0,
        "status": {"code": 2, "message": "TimeoutError: secret"},
        "attributes": {"gen_ai.operation.name": "chat"},
    },
    "JavaScript's readable span": {
        "spanContext": {"traceId": TRACE, "spanId": SPAN},
        "parentSpanContext": {"spanId": PARENT},
        "name": "chat m",
        "kind": 2,
        "startTime": [1_700_000_000, 250_000_000],
        "endTime": [1_700_000_001, 750_000_000],
        "status": {"code": 2, "message": "TimeoutError"},
        "attributes": {"gen_ai.operation.name": "chat"},
    },
    "integer ids": {
        "context": {"trace_id": int(TRACE, 16), "span_id": int(SPAN, 16)},
        "parent": {"trace_id": int(TRACE, 16), "span_id": int(PARENT, 16)},
        "name": "chat m",
        "kind": "client",
        "start_time": START_NS,
        "end_time": END_NS,
        "status": {"status_code": "error", "description": "TimeoutError"},
        "attributes": {"gen_ai": {"operation": {"name": "chat"}}},
    },
    "Phoenix": {
        "context": {"trace_id": TRACE, "span_id": SPAN},
        "parent_id": PARENT,
        "name": "chat m",
        "span_kind": "SPAN_KIND_CLIENT",
        "start_time": "2023-11-14T22:13:20.250+00:00",
        "end_time": "2023-11-15T00:13:21.750+02:00",
        "status_code": "ERROR",
        "status_message": "TimeoutError",
        "attributes": {"gen_ai.operation.name": "chat"},
    },
    "milliseconds": {
        "trace_id": TRACE,
        "span_id": SPAN,
        "parent_span_id": PARENT,
        "name": "chat m",
        "kind": 3,
        "start_time": START_NS // 1_000_000,
        "duration_ms": 1500,
        "status": "STATUS_CODE_ERROR",
        "status_message": "TimeoutError",
        "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}],
    },
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("wrap", [lambda span: span, lambda span: [span], lambda span: {"spans": [span]},
                                  lambda span: {"data": [span]}])  # fmt: skip
def test_every_spelling_of_a_span_is_the_same_span(spelling: str, wrap: Any) -> None:
    decoded = forms.decode_text(json.dumps(wrap(SPELLINGS[spelling])).encode())
    assert decoded.rejected == []
    (span,) = decoded.spans
    assert (span.trace_id, span.span_id, span.parent_id) == (TRACE, SPAN, PARENT)
    assert (span.start_ns, span.end_ns, span.kind) == (START_NS, END_NS, 3)
    assert (span.status, span.status_text) == (2, "TimeoutError")
    assert span.attributes == {"gen_ai.operation.name": "chat"}


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("lines", [True, False])
def test_files_of_them_are_read(tmp_path: Path, indent: int | None, lines: bool) -> None:
    spans = [SPELLINGS["milliseconds"] | {"span_id": f"{number:016x}"} for number in range(1, 2001)]
    path = tmp_path / "a.json"
    parts = [json.dumps(span, indent=indent) for span in spans]
    path.write_text("\n".join(parts) if lines else "[" + ",".join(parts) + "]")
    found = list(documents.pieces(path))
    assert [span.span_id for piece in found for span in piece.decoded.spans] == [span["span_id"] for span in spans]


def test_what_stands_in_events_and_scope_is_kept_and_content_is_not() -> None:
    raw = SPELLINGS["milliseconds"] | {
        "scope": {"name": "s", "version": "1"},
        "resource": {"attributes": {"service.name": "svc"}},
        "attributes": {"input.value": "secret", "n": 1},
        "events": [{"name": "first_token", "timestamp": START_NS + 5, "attributes": {"a": 1}}],
    }
    (span,) = forms.decode_object(raw).spans
    assert (span.scope, span.resource, span.attributes) == ("s", {"service.name": "svc"}, {"n": 1})
    assert span.events is not None
    assert [(event.name, event.at_ns, event.attributes) for event in span.events] == [
        ("first_token", START_NS + 5, {"a": 1})
    ]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"trace_id": ""}, "no trace id"),
        ({"span_id": "0x0"}, "bad span id"),
        ({"start_time": "soon"}, "no start time"),
        ({"duration_ms": None}, "no end time"),
        ({"end_time": START_NS - 1_000_000_000}, "before its start"),
    ],
)
def test_a_span_that_cannot_be_placed_is_rejected(change: dict[str, Any], reason: str) -> None:
    decoded = forms.decode_object([SPELLINGS["milliseconds"] | change, SPELLINGS["Phoenix"]])
    assert len(decoded.spans) == 1
    assert reason in decoded.rejected[0]


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [
        (f"0x{SPAN}", 16, SPAN),
        (SPAN.upper(), 16, SPAN),
        (int(SPAN, 16), 16, SPAN),
        (str(int(SPAN, 16)), 16, SPAN),
        ("0x1", 16, "1".zfill(16)),
        ("6f8d2449-33ed-4c7c-82e7-5410e34ee4e6", 32, "6f8d244933ed4c7c82e75410e34ee4e6"),
        (0, 16, None),
        ("0" * 16, 16, None),
        ("", 16, None),
        (None, 16, None),
        (1 << 64, 16, None),
        ([], 16, None),
    ],
)
def test_ids(value: object, digits: int, expected: str | None) -> None:
    assert ids.to_hex(value, digits) == expected


def test_made_up_ids_keep_parents_and_children_together() -> None:
    assert ids.to_hex("chain-root", 16) == ids.to_hex("chain-root", 16) != ids.to_hex("llm-1", 16)
    assert len(ids.to_hex("chain-root", 16) or "") == 16


@pytest.mark.parametrize(
    "value",
    [
        1_700_000_000_250_000_000,
        1_700_000_000_250_000,
        1_700_000_000_250,
        1_700_000_000.25,
        "1700000000250",
        [1_700_000_000, 250_000_000],
        "2023-11-14T22:13:20.25Z",
        "2023-11-14 22:13:20.250",
        '"2023-11-14T23:13:20.250000+01:00"',
    ],
)
def test_an_instant_in_every_unit(value: object) -> None:
    assert instant(value) == START_NS


@pytest.mark.parametrize(
    "value", [None, True, "", "soon", -5, 12, float("nan"), [1], [1, -2], "2023-13-41T00:00:00Z", {}]
)
def test_what_is_no_instant(value: object) -> None:
    assert instant(value) is None


# --- Langfuse -------------------------------------------------------------------------------------------------------

OBSERVATION = {
    "id": SPAN,
    "traceId": TRACE,
    "type": "GENERATION",
    "name": "answer",
    "startTime": "2023-11-14T22:13:20.250Z",
    "endTime": "2023-11-14T22:13:21.750Z",
    "completionStartTime": "2023-11-14T22:13:20.750Z",
    "parentObservationId": PARENT,
    "model": "m",
    "usageDetails": {"input": 5, "output": 7},
    "level": "DEFAULT",
    "input": "secret",
    "metadata": json.dumps(
        {"scope": {"name": "pydantic-ai"}, "attributes": {"gen_ai.operation.name": "chat", "input.value": "secret"}}
    ),
    "latency": 1500,
}


def one(decoded: Decoded) -> Any:
    assert decoded.rejected == []
    (span,) = decoded.spans
    return span


@pytest.mark.parametrize("wrap", [lambda o: o, lambda o: [o], lambda o: {"data": [o], "meta": {"page": 1}}])
def test_an_observation_is_a_span_of_the_source_that_it_came_from(wrap: Any) -> None:
    span = one(forms.decode_object(wrap(OBSERVATION)))
    assert (span.trace_id, span.span_id, span.parent_id, span.scope) == (TRACE, SPAN, PARENT, "pydantic-ai")
    assert (span.start_ns, span.end_ns) == (START_NS, END_NS)
    assert span.attributes["gen_ai.usage.output_tokens"] == 7
    assert span.attributes["langfuse.observation.completion_start_time"] == "2023-11-14T22:13:20.750Z"
    assert "secret" not in str(span)


def test_in_a_whole_trace_what_hangs_on_nothing_is_a_root_and_has_the_traces_session(tmp_path: Path) -> None:
    trace = {"trace": {"id": TRACE, "sessionId": "s1", "name": "chat"}, "observations": [OBSERVATION]}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace, indent=1))
    (piece,) = documents.pieces(path)
    assert one(piece.decoded).parent_id is None
    assert one(forms.decode_object(trace)).parent_id is None
    root = trace | {"observations": [OBSERVATION | {"parentObservationId": None}]}
    assert one(forms.decode_object(root)).attributes["session.id"] == "s1"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"endTime": None}, "no end time"),
        ({"endTime": "2023-11-14T22:13:20Z"}, "before its start"),
        ({"id": ""}, "no id"),
    ],
)
def test_an_observation_that_cannot_be_placed_is_rejected(change: dict[str, Any], reason: str) -> None:
    decoded = forms.decode_object([OBSERVATION | change])
    assert decoded.spans == []
    assert reason in decoded.rejected[0]
