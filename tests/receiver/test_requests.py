"""What the receiver takes, and what it says of the rest."""

import socket
import zlib

import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from hopbudget import listening
from hopbudget.receiver.answers import RefusedError, accepted, refused

from .conftest import Receiving, request, span, zipped

PROTOBUF = "application/x-protobuf"


def protobuf_request(names: list[str]) -> bytes:
    message = ExportTraceServiceRequest()
    spans = message.resource_spans.add().scope_spans.add().spans
    for number, name in enumerate(names, start=1):
        spans.add(
            trace_id=number.to_bytes(16),
            span_id=number.to_bytes(8),
            name=name,
            start_time_unix_nano=1_700_000_000_000_000_000,
            end_time_unix_nano=1_700_000_001_000_000_000,
        )
    return message.SerializeToString()


def test_spans_are_written_down_before_they_are_acknowledged(receiver: Receiving) -> None:
    answer = receiver.post(request(span(1), span(2)))
    assert (answer.status_code, answer.content) == (200, b"{}")
    assert [found.span_id for found in receiver.folder.stored()] == [f"{1:016x}", f"{2:016x}"]


def test_protobuf_is_answered_in_protobuf(receiver: Receiving) -> None:
    answer = receiver.post(protobuf_request(["a", "b"]), PROTOBUF)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == PROTOBUF
    assert [found.name for found in receiver.folder.stored()] == ["a", "b"]


@pytest.mark.parametrize("media", ["application/json; charset=utf-8", "Application/JSON"])
def test_a_content_type_may_have_parameters_and_any_case(receiver: Receiving, media: str) -> None:
    assert receiver.post(request(span()), media).status_code == 200


def test_a_body_may_be_zipped(receiver: Receiving) -> None:
    assert receiver.post(zipped(request(span())), content_encoding="gzip").status_code == 200
    assert len(receiver.folder.stored()) == 1


def test_a_zipped_body_may_have_several_members(receiver: Receiving) -> None:
    body = request(span())
    assert receiver.post(zipped(body[:40]) + zipped(body[40:]), content_encoding="gzip").status_code == 200
    assert len(receiver.folder.stored()) == 1


@pytest.mark.parametrize(("body", "media"), [(b"{}", "application/json"), (b"", PROTOBUF)])
def test_an_empty_request_is_a_success(receiver: Receiving, body: bytes, media: str) -> None:
    assert receiver.post(body, media).status_code == 200
    assert receiver.folder.files == []


def test_what_people_wrote_is_not_written_down(receiver: Receiving) -> None:
    secret = {"key": "gen_ai.input.messages", "value": {"stringValue": "my secret"}}
    receiver.post(request(span(attributes=[secret])))
    assert b"secret" not in b"".join(line for lines in receiver.folder.files for line in lines)
    assert receiver.account.dropped_content == 1


def test_bad_spans_are_left_out_and_told(receiver: Receiving) -> None:
    answer = receiver.post(request(span(1), span(2, endTimeUnixNano="5")))
    assert answer.status_code == 200
    partial = answer.json()["partialSuccess"]
    assert partial["rejectedSpans"] == "1"
    assert "ends" in partial["errorMessage"]
    assert len(receiver.folder.stored()) == 1
    assert receiver.account.rejected == 1


@pytest.mark.parametrize(
    ("body", "media", "headers", "status", "says"),
    [
        (b"{", "application/json", {}, 400, "JSON"),
        (b"[1, 2]", "application/json", {}, 400, "JSON"),
        (b'{"resourceSpans": 3}', "application/json", {}, 400, "JSON"),
        (b'{"resourceSpans": ["\xff"]}', "application/json", {}, 400, "UTF-8"),
        (b'{"resourceSpans":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "application/json", {}, 400, "nested"),
        (b"\xff\xff\xff", PROTOBUF, {}, 400, "protobuf"),
        (b"{}", "text/plain", {}, 415, "content-type"),
        (b"{}", "application/json", {"content_encoding": "br"}, 415, "content-encoding"),
        (b"not gzip", "application/json", {"content_encoding": "gzip"}, 400, "gzip"),
        (zipped(request(span()))[:-9], "application/json", {"content_encoding": "gzip"}, 400, "cut off"),
    ],
    ids=["json", "array", "shape", "utf8", "deep", "protobuf", "type", "coding", "gzip", "cut"],
)
def test_what_is_no_request_is_refused_with_a_sentence(
    receiver: Receiving, body: bytes, media: str, headers: dict[str, str], status: int, says: str
) -> None:
    answer = receiver.post(body, media, **headers)
    assert answer.status_code == status
    message = Status.FromString(answer.content).message if media == PROTOBUF else answer.json()["message"]
    assert says in message
    assert receiver.post(request(span())).status_code == 200


def test_a_body_past_the_limit_is_refused(receiver_with: "type[Receiving]") -> None:
    receiver = receiver_with(most_bytes=1000)
    assert receiver.post(request(*(span(n) for n in range(1, 20)))).status_code == 413
    assert receiver.post(request(span())).status_code == 200


def test_a_body_that_unzips_past_the_limit_is_refused(receiver_with: "type[Receiving]") -> None:
    receiver = receiver_with(most_bytes=1000)
    packer = zlib.compressobj(wbits=31)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(64)) + packer.flush()
    answer = receiver.post(bomb[:900], content_encoding="gzip")
    assert answer.status_code == 413


def test_nothing_is_taken_while_too_much_waits_for_the_store(receiver: Receiving) -> None:
    receiver.folder.waiting = 1 << 40
    answer = receiver.post(request(span()))
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) > 0


def test_a_full_disk_is_a_503_until_there_is_room(receiver: Receiving) -> None:
    receiver.folder.error = OSError(28, "No space left on device")
    answer = receiver.post(request(span()))
    assert (answer.status_code, int(answer.headers["retry-after"]) > 0) == (503, True)
    assert receiver.account.spans == 0
    receiver.folder.error = None
    assert receiver.post(request(span())).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/v1/traces", 405), ("POST", "/v1/logs", 404), ("GET", "/", 404)]
)
def test_other_doors_say_where_the_right_one_is(receiver: Receiving, method: str, path: str, status: int) -> None:
    answer = receiver.client.request(method, path)
    assert answer.status_code == status
    assert answer.json()["message"]


def test_a_token_is_asked_for_where_there_is_one(receiver_with: "type[Receiving]") -> None:
    receiver = receiver_with(token="right")
    assert receiver.post(request(span())).status_code == 401
    assert receiver.post(request(span()), authorization="Bearer wrong").status_code == 401
    assert receiver.post(request(span()), authorization="Bearer right").status_code == 200
    assert receiver.client.get("/metrics").status_code == 401
    assert receiver.client.get("/healthz").status_code == 200


def test_the_account_is_there_for_prometheus(receiver: Receiving) -> None:
    receiver.post(request(span(1), span(2)))
    receiver.post(b"{")
    lines = receiver.client.get("/metrics").text.splitlines()
    assert "hopbudget_receiver_spans_total 2" in lines
    assert 'hopbudget_receiver_requests_total{code="200"} 1' in lines
    assert 'hopbudget_receiver_requests_total{code="400"} 1' in lines
    assert "hopbudget_receiver_spool_spans 2" in lines


def test_health_says_what_waits(receiver: Receiving) -> None:
    receiver.post(request(span()))
    assert receiver.client.get("/healthz").json() == {
        "status": "ok",
        "waiting_files": 1,
        "waiting_spans": 1,
        "drain_problem": "",
    }


def test_the_hand_written_protobuf_is_what_the_official_classes_read() -> None:
    partial = ExportTraceServiceResponse.FromString(bytes(accepted("protobuf", 300, "ärger").body)).partial_success
    assert (partial.rejected_spans, partial.error_message) == (300, "ärger")
    status = Status.FromString(bytes(refused("protobuf", RefusedError(503, "x" * 400)).body))
    assert (status.code, status.message) == (14, "x" * 400)


def test_an_answer_leaves_at_once_in_small_pieces() -> None:
    with listening.listen("127.0.0.1", 0) as listener:
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
