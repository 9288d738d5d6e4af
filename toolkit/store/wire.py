"""OTLP's export request in protobuf, parsed only as far as its spans.

On the wire a message inside another one is bytes with their length, so these messages read the same requests as the
official ones do. What spans say again and again (attributes, resource, scope, status) stays bytes, and whoever reads
it can look the bytes up.
"""

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

_PACKAGE: Final = "hopbudget.wire"
_KINDS: Final[dict[str, Any]] = {"bytes": 12, "string": 9, "fixed64": 6, "uint32": 13, "int32": 5}
_MESSAGE: Final[Any] = 11
_ONE: Final[Any] = 1
_MANY: Final[Any] = 3
_MESSAGES: Final[dict[str, dict[str, tuple[int, str]]]] = {
    "Request": {"resource_spans": (1, "*ResourceSpans")},
    "ResourceSpans": {"resource": (1, "bytes"), "scope_spans": (2, "*ScopeSpans")},
    "ScopeSpans": {"scope": (1, "bytes"), "spans": (2, "*Span")},
    "Span": {
        "trace_id": (1, "bytes"),
        "span_id": (2, "bytes"),
        "trace_state": (3, "string"),
        "parent_span_id": (4, "bytes"),
        "name": (5, "string"),
        "kind": (6, "int32"),
        "start_time_unix_nano": (7, "fixed64"),
        "end_time_unix_nano": (8, "fixed64"),
        "attributes": (9, "*bytes"),
        "events": (11, "*bytes"),
        "dropped_events_count": (12, "uint32"),
        "status": (15, "bytes"),
    },
}
"""Fields by message: the number on the wire, and what it holds; `*` where there may be several."""


def _request_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="hopbudget/wire.proto", package=_PACKAGE, syntax="proto3")
    for message, fields in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for name, (number, holds) in fields.items():
            field = described.field.add(name=name, number=number, label=_MANY if holds[0] == "*" else _ONE)
            kind = holds.removeprefix("*")
            field.type = _KINDS.get(kind, _MESSAGE)
            if kind not in _KINDS:
                field.type_name = f".{_PACKAGE}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Request"))


Request: Final = _request_class()
