"""Files of OTLP in protobuf, message by message: memory does not grow with the file.

One request as it is (also several, one after the other, which protobuf reads as one), or messages with their length
before each: four bytes, as the OpenTelemetry Collector's file exporter writes them, or a varint.
"""

import codecs
from collections.abc import Iterator
from typing import Final

import msgspec

from hopbudget.store.walker import Piece, rejection

_LARGEST: Final = 1 << 26
_TOGETHER: Final = 1 << 17
"""Bytes of messages that are decoded at once."""
_RESOURCE_SPANS: Final = 0x0A
"""Field 1, with a length: the only field of an export request."""
_VARINT_MOST: Final = 10


class _CutOffError(Exception):
    """The file can't be followed any further."""


def is_named_binary(name: str) -> bool:
    """Whether a file of this name should hold protobuf."""
    return name.removesuffix(".gz").endswith((".pb", ".binpb"))


def is_binary(name: str, start: bytes) -> bool:
    """Whether a file of this name that begins so holds protobuf."""
    if is_named_binary(name):
        return True
    if start[:1] == b"\0":
        return True
    if start[:1] != b"\n":
        return False
    if start.lstrip()[:1] in {b"{", b"["}:
        return False
    return b"\0" in start[:4096] or not _is_text(start[:4096])


def _is_text(start: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return False
    return True


class Messages(msgspec.Struct, gc=False, tag=True):
    """Some messages of a file."""

    line: int
    """The number of the last one, from 1."""
    bodies: list[bytes]


def as_messages(chunks: Iterator[bytes]) -> Iterator[Messages | Piece]:
    """The messages of such a file; where it can't be followed any further, a rejection ends it."""
    reader = _Reader(chunks)
    number = 0
    waiting: list[bytes] = []
    size = 0
    try:
        for body in _bodies(reader):
            number += 1
            waiting.append(body)
            size += len(body)
            if size >= _TOGETHER:
                yield Messages(number, waiting)
                waiting, size = [], 0
        yield Messages(number, waiting)
    except _CutOffError as bad:
        yield Messages(number, waiting)
        yield rejection(number + 1, str(bad))


def decode_messages(messages: Messages) -> Iterator[Piece]:
    """Their spans, together if they are usual, which is cheaper: one after the other they are one message.

    Raises ModuleNotFoundError where the extra that brings protobuf is not installed.
    """
    from hopbudget.store import protobuf

    bodies, last = messages.bodies, messages.line
    together = protobuf.decode_usual(b"".join(bodies)) if all(map(_is_whole, bodies)) else None
    if together:
        yield Piece(last, together)
        return
    for number, body in enumerate(bodies, start=last - len(bodies) + 1):
        try:
            yield Piece(number, protobuf.decode(body))
        except ValueError as error:
            yield rejection(number, f"not an OTLP message in protobuf: {error}")


def _is_whole(body: bytes) -> bool:
    """Whether it ends where its last field does, so that none of what follows it could be taken for a part of it."""
    at = 0
    while at < len(body):
        if body[at] != _RESOURCE_SPANS:
            return False
        length = place = 0
        byte = 128
        while byte >= 128:
            at += 1
            if at >= len(body):
                return False
            byte = body[at]
            length |= (byte & 127) << place
            place += 7
        at += 1 + length
    return at == len(body)


def _bodies(reader: "_Reader") -> Iterator[bytes]:
    first = reader.peek()
    if first is None:
        return
    while reader.peek() is not None:
        if first == _RESOURCE_SPANS:
            tag = reader.take(1)
            if tag[0] != _RESOURCE_SPANS:
                raise _CutOffError("not an OTLP export request in protobuf, or cut off")
            length, digits = reader.varint()
            yield tag + digits + reader.take(length)
        elif first == 0:
            yield reader.take(int.from_bytes(reader.take(4), "big"))
        else:
            length, _ = reader.varint()
            yield reader.take(length)


class _Reader:
    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._buffer = b""
        self._at = 0

    def peek(self) -> int | None:
        """The next byte; None at the end."""
        return self._buffer[self._at] if self._fill(1) else None

    def take(self, size: int) -> bytes:
        """So many bytes."""
        if size > _LARGEST:
            raise _CutOffError("not OTLP in protobuf, or one message of more than 64 MiB")
        if not self._fill(size):
            raise _CutOffError("it is cut off, or not OTLP in protobuf")
        self._at += size
        return self._buffer[self._at - size : self._at]

    def varint(self) -> tuple[int, bytes]:
        """A number, and the bytes that it is written in."""
        digits = b""
        while len(digits) < _VARINT_MOST:
            digits += self.take(1)
            if digits[-1] < 128:
                return sum((byte & 127) << (7 * place) for place, byte in enumerate(digits)), digits
        raise _CutOffError("not OTLP in protobuf")

    def _fill(self, size: int) -> bool:
        missing = size - (len(self._buffer) - self._at)
        if missing <= 0:
            return True
        parts = [self._buffer[self._at :]]
        while missing > 0:
            chunk = next(self._chunks, b"")
            if not chunk:
                break
            parts.append(chunk)
            missing -= len(chunk)
        self._buffer, self._at = b"".join(parts), 0
        return missing <= 0
