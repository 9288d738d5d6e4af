"""A request's body to spans, and to the lines that the spool keeps of them."""

from typing import NamedTuple

import msgspec

from hopbudget.receiver.answers import Encoding, RefusedError
from hopbudget.store import otlp, protobuf
from hopbudget.store.rewriting import lines


class Taken(NamedTuple):
    """What a body holds."""

    lines: list[bytes]
    spans: int
    rejected: list[str]
    """Why spans were left out, one sentence each."""
    dropped_content: int


class _Request(msgspec.Struct):
    resourceSpans: list[object] | None = None  # noqa: N815  (the name on the wire)


def take(body: bytes, encoding: Encoding) -> Taken:
    """The spans of one export request, without content. RefusedError (400) if it is no such request."""
    if encoding == "json":
        decoded = otlp.decode(body)
        if not decoded.spans:
            _check_request(body)
    else:
        try:
            decoded = protobuf.decode(body)
        except ValueError as error:
            raise RefusedError(400, f"not an OTLP trace export request in protobuf: {error}") from error
    return Taken(lines(decoded.spans), len(decoded.spans), decoded.rejected, decoded.dropped_content)


def _check_request(body: bytes) -> None:
    """Whether there is nothing in it because it is empty, or because it is something else."""
    try:
        msgspec.json.decode(body, type=_Request)
    except UnicodeDecodeError as error:
        raise RefusedError(400, "the body is not UTF-8") from error
    except RecursionError as error:
        raise RefusedError(400, "the body is nested too deeply") from error
    except msgspec.DecodeError as error:
        raise RefusedError(400, f"not an OTLP trace export request in JSON: {error}") from error
