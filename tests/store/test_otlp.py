"""The decoder takes what real senders write, rejects with a reason what can't be placed, and never fails."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.store import otlp, tolerant
from hopbudget.store.spans import ERROR, SERVER, Decoded, Event


def decode_one(make: Any, **changes: Any) -> Decoded:
    span = make.chat("one", 0, 1) | changes
    return otlp.decode(make.line([{key: value for key, value in span.items() if value is not None}]))


def test_a_span_comes_out_with_its_ids_times_and_attributes(make: Any) -> None:
    (span,) = decode_one(make).spans
    assert (span.trace_id, span.span_id, span.parent_id) == (make.trace_id("t"), make.span_id("one"), None)
    assert (span.start_ns, span.end_ns) == (make.t0, make.t0 + 1_000_000_000)
    assert span.attributes["gen_ai.operation.name"] == "chat"
    assert span.resource == {"service.name": "svc"}
    assert span.scope == "tests"


def test_times_may_be_numbers(make: Any) -> None:
    (span,) = decode_one(make, startTimeUnixNano=5, endTimeUnixNano=7.0).spans
    assert (span.start_ns, span.end_ns) == (5, 7)


def test_enums_may_be_names(make: Any) -> None:
    (span,) = decode_one(make, kind="SPAN_KIND_SERVER", status={"code": "STATUS_CODE_ERROR"}).spans
    assert (span.kind, span.status) == (SERVER, ERROR)


def test_ids_of_any_case_become_lower_case(make: Any) -> None:
    (span,) = decode_one(make, traceId=make.trace_id("t").upper(), spanId=make.span_id("one").upper()).spans
    assert (span.trace_id, span.span_id) == (make.trace_id("t"), make.span_id("one"))


def test_unknown_fields_are_ignored(make: Any) -> None:
    assert len(decode_one(make, traceState="a=b", links=[{}], trace_id="x", novelty={"deep": [1]}).spans) == 1


def test_every_kind_of_value_is_read(make: Any) -> None:
    pairs = [
        {"key": "text", "value": {"stringValue": "a"}},
        {"key": "int", "value": {"intValue": "5"}},
        {"key": "bare", "value": {"intValue": 6}},
        {"key": "double", "value": {"doubleValue": 1.5}},
        {"key": "bool", "value": {"boolValue": True}},
        {"key": "array", "value": {"arrayValue": {"values": [{"stringValue": "x"}, {"intValue": "1"}]}}},
        {"key": "pairs", "value": {"kvlistValue": {"values": [{"key": "k", "value": {"stringValue": "v"}}]}}},
        {"key": "bytes", "value": {"bytesValue": "AAE="}},
        {"key": "nothing", "value": {}},
        {"key": "not finite", "value": {"doubleValue": "NaN"}},
    ]
    (span,) = decode_one(make, attributes=pairs).spans
    assert span.attributes == {
        "text": "a",
        "int": 5,
        "bare": 6,
        "double": 1.5,
        "bool": True,
        "array": ["x", 1],
        "pairs": {"k": "v"},
        "bytes": "AAE=",
    }


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"traceId": None}, "no trace id"),
        ({"spanId": ""}, "no span id"),
        ({"traceId": "0" * 32}, "the trace id is all zeros"),
        ({"spanId": "0" * 16}, "the span id is all zeros"),
        ({"traceId": "3q2+796tvu/erb7v3q2+7w=="}, "base64"),
        ({"spanId": "xyz"}, "16 hex digits are expected"),
        ({"spanId": "0x12345678901234"}, "16 hex digits are expected"),
        ({"parentSpanId": "short"}, "bad parent span id"),
        ({"startTimeUnixNano": None}, "no start time"),
        ({"endTimeUnixNano": "0"}, "no end time"),
        ({"startTimeUnixNano": "-5"}, "its start time is out of range"),
        ({"endTimeUnixNano": str(1 << 63)}, "its end time is out of range"),
        ({"endTimeUnixNano": "1699999999500000000"}, "it ends 0.5 s before its start"),
    ],
)
def test_a_span_that_cannot_be_placed_is_rejected_with_a_reason(make: Any, changes: Any, reason: str) -> None:
    decoded = decode_one(make, **changes)
    assert decoded.spans == []
    assert len(decoded.rejected) == 1
    assert reason in decoded.rejected[0]


def test_a_rejected_span_does_not_take_the_others_of_its_request_along(make: Any) -> None:
    good, bad = make.chat("good", 0, 1), make.chat("bad", 0, 1) | {"spanId": ""}
    decoded = otlp.decode(make.line([bad, good]))
    assert [span.span_id for span in decoded.spans] == [make.span_id("good")]
    assert decoded.rejected == ["span 'chat m': no span id"]


def test_a_parent_of_zeros_is_no_parent(make: Any) -> None:
    (span,) = decode_one(make, parentSpanId="0" * 16).spans
    assert span.parent_id is None


@pytest.mark.parametrize(
    "name",
    [
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.system_instructions",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
        "gen_ai.prompt",
        "gen_ai.prompt.0.content",
        "gen_ai.completion.0.content",
        "llm.input_messages.0.message.content",
        "input.value",
        "traceloop.entity.input",
    ],
)
def test_content_is_dropped_and_counted(make: Any, name: str) -> None:
    decoded = decode_one(make, attributes=make.pairs({name: "secret", "kept": 1}))
    assert decoded.spans[0].attributes == {"kept": 1}
    assert decoded.dropped_content == 1


@pytest.mark.parametrize("name", ["gen_ai.prompt.name", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"])
def test_what_only_sounds_like_content_is_kept(make: Any, name: str) -> None:
    assert name in decode_one(make, attributes=make.pairs({name: "x"})).spans[0].attributes


def test_an_event_with_a_message_keeps_its_time_and_loses_its_attributes(make: Any) -> None:
    event = {"name": "gen_ai.choice", "timeUnixNano": "5", "attributes": make.pairs({"message": "secret", "index": 0})}
    decoded = decode_one(make, events=[event])
    assert decoded.spans[0].events == [Event("gen_ai.choice", 5, {})]
    assert decoded.dropped_content == 2


def test_of_an_exception_the_class_is_kept_and_the_message_is_not(make: Any) -> None:
    told = {"exception.type": "ValueError", "exception.message": "secret", "exception.stacktrace": "secret"}
    decoded = decode_one(make, events=[{"name": "exception", "timeUnixNano": "5", "attributes": make.pairs(told)}])
    assert decoded.spans[0].events == [Event("exception", 5, {"exception.type": "ValueError"})]


def test_of_a_status_message_only_the_class_of_the_error_is_kept(make: Any) -> None:
    (span,) = decode_one(make, status={"code": 2, "message": "openai.APITimeoutError: your prompt was ..."}).spans
    assert span.status_text == "openai.APITimeoutError"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"hello", "not JSON"),
        (b'{"resourceSpans": [', "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[1, 2]", "not an export request"),
        (b'{"resourceLogs": []}', "it has no resourceSpans"),
    ],
)
def test_what_is_no_request_is_rejected_with_a_reason(text: bytes, reason: str) -> None:
    decoded = otlp.decode(text)
    assert decoded.spans == []
    assert reason in decoded.rejected[0]


def test_an_empty_request_is_good() -> None:
    assert otlp.decode(b"{}") == Decoded([], [], 0)


def test_a_line_may_hold_a_list_of_requests(make: Any) -> None:
    requests = [make.request([make.chat("one", 0, 1)]), make.request([make.chat("two", 0, 1)])]
    assert len(otlp.decode(json.dumps(requests).encode()).spans) == 2


def test_nesting_without_end_is_no_danger() -> None:
    assert otlp.decode(b"[" * 100_000).spans == []


Json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


@given(data=st.data())
def test_no_change_of_a_request_breaks_the_decoder_or_makes_time_run_backwards(make: Any, data: st.DataObject) -> None:
    request = copy.deepcopy(make.request(make.run("t")))
    for _ in range(data.draw(st.integers(1, 3))):
        *path, last = data.draw(st.sampled_from(places(request)))
        target = request
        for key in path:
            target = target[key]
        target[last] = data.draw(Json)
    compact = data.draw(st.booleans())
    text = json.dumps(request, allow_nan=False, separators=(",", ":") if compact else None).encode()
    decoded = otlp.decode(text)
    assert decoded == tolerant.decode_text(text)
    for span in decoded.spans:
        assert span.end_ns >= span.start_ns > 0
        assert len(bytes.fromhex(span.trace_id)) == 16
        assert len(bytes.fromhex(span.span_id)) == 8


seam = '"},"intValue":"5"}},{"key":"a","value":{"intValue":"'
inner = st.sampled_from(
    [
        *({"intValue": number} for number in ("1", "25", "0", "007", "-3", "", " 4", "1_0", "9" * 18, "9" * 19, 6)),
        *({"stringValue": "x"}, {"stringValue": seam}, {"stringValue": "x", "intValue": "7"}, {"boolValue": True}, {}),
        *({"doubleValue": 0.5}, {"doubleValue": "NaN"}, {"kvlistValue": {"values": []}, "intValue": "8"}),
        {"arrayValue": {"values": [{"intValue": "1"}, {"stringValue": "x"}]}},
        {"kvlistValue": {"values": [{"key": key, "value": {"intValue": "2"}} for key in "ab"]}},
    ]
)
pairs = st.lists(st.fixed_dictionaries({"key": st.sampled_from(["a", "b", "gen_ai.prompt", "", seam]), "value": inner}))


@given(lists=st.lists(pairs, min_size=2, max_size=4), separators=st.sampled_from([(",", ":"), (", ", ": ")]))
def test_lists_of_attributes_that_are_alike_are_told_apart(make: Any, lists: list[Any], separators: Any) -> None:
    for attributes in lists:
        request = make.request([make.span("s", 0, 1) | {"attributes": attributes}])
        text = json.dumps(request, separators=separators).encode()
        assert repr(otlp.decode(text)) == repr(tolerant.decode_text(text))  # True is not 1


@given(st.binary(max_size=60))
def test_no_bytes_break_the_decoder(text: bytes) -> None:
    otlp.decode(text)
