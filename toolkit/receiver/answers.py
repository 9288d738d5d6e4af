"""What the receiver answers, in the encoding of the request: OTLP's response, or a google.rpc.Status.

Both messages are a few fields, written here by hand: a number n as field f is the tag byte 8f and n as a varint, a
text or message is 8f + 2, its length and its bytes (protobuf's wire format). A test holds them against the official
classes.
"""

from typing import Final, Literal

import msgspec
from starlette.responses import Response

Encoding = Literal["json", "protobuf"]

CONTENT_TYPES: Final[dict[str, Encoding]] = {"application/json": "json", "application/x-protobuf": "protobuf"}
_CODES: Final = {400: 3, 401: 16, 404: 5, 405: 12, 408: 4, 413: 3, 415: 3, 429: 8, 503: 14}
"""google.rpc.Code by HTTP status; 13 (internal) for any other."""
_MEDIA: Final = {encoding: media for media, encoding in CONTENT_TYPES.items()}
_LONGEST: Final = 500


class RefusedError(Exception):
    """A request that is not taken: the HTTP status, a sentence, and when to try again if that is worth it."""

    def __init__(self, status: int, sentence: str, retry_after_s: int | None = None) -> None:
        super().__init__(sentence)
        self.status: Final = status
        self.sentence: Final = sentence
        self.retry_after_s: Final = retry_after_s


def accepted(encoding: Encoding, rejected: int = 0, reason: str = "") -> Response:
    """Taken: all of it (an empty response), or all but some spans that no second try would save."""
    reason = reason[:_LONGEST]
    if encoding == "json":
        partial = {"partialSuccess": {"rejectedSpans": str(rejected), "errorMessage": reason}} if rejected else {}
        return Response(msgspec.json.encode(partial), media_type=_MEDIA[encoding])
    body = _bytes(1, _number(1, rejected) + _bytes(2, reason.encode())) if rejected else b""
    return Response(body, media_type=_MEDIA[encoding])


def refused(encoding: Encoding, refusal: RefusedError) -> Response:
    """Not taken, and why."""
    code = _CODES.get(refusal.status, 13)
    sentence = refusal.sentence[:_LONGEST]
    if encoding == "json":
        body = msgspec.json.encode({"code": code, "message": sentence})
    else:
        body = _number(1, code) + _bytes(2, sentence.encode("utf-8", "replace"))
    headers = {} if refusal.retry_after_s is None else {"retry-after": str(refusal.retry_after_s)}
    if refusal.status == 401:
        headers["www-authenticate"] = "Bearer"
    return Response(body, refusal.status, headers, _MEDIA[encoding])


def _number(field: int, value: int) -> bytes:
    return bytes([8 * field]) + _varint(value)


def _bytes(field: int, content: bytes) -> bytes:
    return bytes([8 * field + 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
