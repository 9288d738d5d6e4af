"""Spans from anywhere: how much of one is kept, and that no change of a real one breaks anything."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from hopbudget.store import caps, content, documents, facts, forms, otlp, protobuf, shapes
from hopbudget.store.accounts import Account
from hopbudget.store.spans import Decoded

from .test_protobuf import as_protobuf
from .traces import by_trace

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.jsonl"))

# --- caps ----------------------------------------------------------------------------------------------------------


def test_of_many_attributes_the_first_are_kept_in_every_encoding(make: Any) -> None:
    attributes = {f"a{number}": number for number in range(caps.MOST_ATTRIBUTES + 50)}
    (span,) = make.spans(make.span("s", 0, 1, attributes=attributes))
    assert list(span.attributes) == list(attributes)[: caps.MOST_ATTRIBUTES]
    request = ExportTraceServiceRequest()
    raw = request.resource_spans.add().scope_spans.add().spans.add()
    raw.trace_id, raw.span_id, raw.start_time_unix_nano, raw.end_time_unix_nano = b"1" * 16, b"2" * 8, 1, 2
    for name, value in attributes.items():
        raw.attributes.add(key=name).value.int_value = value
    assert protobuf.decode(request.SerializeToString()).spans[0].attributes == span.attributes


def test_long_texts_are_cut_and_long_names_dropped(make: Any) -> None:
    attributes = {"long": "x" * (caps.LONGEST_TEXT + 1), "n" * (caps.LONGEST_NAME + 1): 1}
    (span,) = make.spans(make.span("s", 0, 1, attributes=attributes))
    assert span.attributes == {"long": "x" * caps.LONGEST_TEXT}


def test_of_many_events_the_first_are_kept(make: Any) -> None:
    events = [{"name": "e", "timeUnixNano": str(number)} for number in range(1, caps.MOST_EVENTS + 10)]
    (span,) = make.spans(make.span("s", 0, 1, events=events))
    assert len(span.events) == caps.MOST_EVENTS


def test_nothing_that_is_remembered_grows_without_end(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    most = {(otlp, "_LISTS_MOST"), (otlp, "_NAMES_MOST"), (shapes, "_SHAPES_MOST"), (shapes, "_SCOPES_MOST")}
    for module, name in most | {(content, "_KNOWN_MOST")}:
        monkeypatch.setattr(module, name, 20)
    for remembered in (otlp._lists, otlp._names, shapes._shapes, content._verdicts):
        remembered.clear()  # type: ignore[attr-defined]
    for number in range(100):
        attributes = {f"key-{number}-{index}": "v" for index in range(3)}
        make.facts(make.chat("c", 0, 1, attributes=attributes))
        shapes.shape_of(f"scope-{number}", attributes)
    assert max(len(otlp._lists), len(otlp._names), len(shapes._shapes), len(content._verdicts)) <= 20
    assert sum(map(len, shapes._shapes.values())) <= 20


@pytest.mark.parametrize(
    "name",
    ["gen_ai.headers", "http.request.header.authorization", "http.request.header.cookie", "llm.openai.choices",
     "llm.anthropic.content.0.text", "hidden_params", "gen_ai.output", "llm.tools"],
)  # fmt: skip
def test_what_a_request_was_sent_with_and_what_came_back_is_dropped(make: Any, name: str) -> None:
    decoded = otlp.decode(make.line([make.chat("c", 0, 1, attributes={name: "secret"})]))
    assert "secret" not in str(decoded.spans)
    assert decoded.dropped_content == 1


def test_of_a_requests_parameters_only_plain_ones_are_kept(make: Any) -> None:
    parameters = {
        "model": "m",
        "stream": True,
        "temperature": 0.5,
        "instructions": "secret",
        "tools": [{"a": 1}],
        "n": "x",
    }
    (span,) = make.spans(make.span("s", 0, 1, attributes={"llm.invocation_parameters": json.dumps(parameters)}))
    kept = json.loads(span.attributes["llm.invocation_parameters"])
    assert kept == {"model": "m", "stream": True, "temperature": 0.5}


def test_deep_nesting_of_every_kind_is_no_danger(make: Any) -> None:
    deep: Any = {"stringValue": "x"}
    for _ in range(200):
        deep = {"arrayValue": {"values": [deep]}}
    (span,) = make.spans(make.span("s", 0, 1) | {"attributes": [{"key": "deep", "value": deep}]})
    assert "x" not in str(span.attributes)
    nested: Any = {"a": 1}
    for _ in range(500):
        nested = {"spans": [nested], "data": nested}
    assert forms.decode_object(nested).spans == []
    for opening in (b'{"data":', b"[", b'{"spans":['):
        for depth in (5, 50, 400, 50_000):
            closing = b"".join({b"[": b"]", b"{": b"}"}[bytes([byte])] for byte in reversed(opening) if byte in b"[{")
            assert forms.decode_text(opening * depth + b"1" + closing * depth).spans == []
    request = ExportTraceServiceRequest()
    value = request.resource_spans.add().resource.attributes.add(key="deep").value
    for _ in range(300):
        value = value.array_value.values.add()
    with pytest.raises(ValueError, match=r"."):
        protobuf.decode(request.SerializeToString())


# --- any change of a real payload --------------------------------------------------------------------------------


def payloads(shared: Path | None) -> list[Any]:
    """Real documents of every form, small ones."""
    found = [json.loads(line) for path in RECORDED for line in path.read_text().splitlines()]
    if shared is not None:
        for path in sorted((shared / "data" / "spans").rglob("*.json")):
            if path.stat().st_size < 20_000:
                found.append(json.loads(path.read_text()))
    return found


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


Odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(["", "0", "1e400", "-1", "chat", "LLM", "generation", "call_llm", '"2023-11-14T22:13:20Z"', "NaN"]),
    st.lists(st.integers(-5, 1 << 62), max_size=3),
    st.dictionaries(
        st.sampled_from(["name", "key", "value", "spans", "stringValue", "code"]), st.text(max_size=4), max_size=3
    ),
)


def check(decoded: Decoded) -> None:
    """Everything that is made of spans is made of these, and no time runs backwards."""
    for span in decoded.spans:
        assert 0 < span.start_ns <= span.end_ns < 1 << 63
        assert (len(bytes.fromhex(span.trace_id)), len(bytes.fromhex(span.span_id))) == (16, 8)
    traces = by_trace(decoded.spans)
    found = facts.of_traces(traces)
    for row in found.trajectories:
        assert min(row.duration_s, row.work_s, row.model_s, row.paused_s) >= 0
    for hop in found.hops:
        known = (hop.ttft_s, hop.tpot_s, hop.e2e_s, hop.server_e2e_s, hop.server_queue_s, hop.server_prefill_s)
        assert all(value >= 0 for value in (hop.duration_s, *known) if value is not None)
        assert hop.ttft_s is None or hop.ttft_source != "first_chunk" or hop.ttft_s <= hop.duration_s + 2e-3
    account = Account()
    account.add(traces)
    account.as_json()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_no_change_of_a_real_document_breaks_what_reads_it(data: st.DataObject) -> None:
    document = copy.deepcopy(data.draw(st.sampled_from(_PAYLOADS)))
    for _ in range(data.draw(st.integers(1, 4))):
        *path, last = data.draw(st.sampled_from(places(document) or [(0,)]))
        target = document
        for key in path:
            target = target[key]
        if isinstance(target, list | dict) and last in (target if isinstance(target, dict) else range(len(target))):
            target[last] = data.draw(Odd)
    check(forms.decode_object(document))
    check(otlp.decode(json.dumps(document).encode()))


_SHARED = Path(__file__).resolve().parents[3] / "shared"
_PAYLOADS = payloads(_SHARED if (_SHARED / "data").is_dir() else None)
_BODIES = [line for path in RECORDED for line in path.read_bytes().splitlines()]


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_change_of_bytes_breaks_the_decoders(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    line = data.draw(st.sampled_from(_BODIES))
    for encoded, decode in ((line, otlp.decode), (as_protobuf(line), protobuf.decode)):
        body = bytearray(encoded)
        for _ in range(data.draw(st.integers(1, 6))):
            body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
        cut = bytes(body[: data.draw(st.integers(0, len(body)))])
        for changed in (bytes(body), cut):
            try:
                check(decode(changed))
            except ValueError:
                assert decode is protobuf.decode


@given(content_=st.binary(max_size=300), name=st.sampled_from(["a.json", "a.pb", "a.jsonl.gz", "a"]))
def test_no_file_breaks_the_reader(content_: bytes, name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("odd", numbered=True) / name
    path.write_bytes(content_)
    for piece in documents.pieces(path):
        check(piece.decoded)
