"""Files of export requests, read piece by piece: memory does not grow with the file.

One request a line is the usual form and the fast one. A file whose lines are not requests (one pretty-printed object,
an array, one endless line) is walked as a document, down to its lists of spans.
"""

import codecs
import gzip
import itertools
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, cast

import msgspec

from hopbudget.store import otlp
from hopbudget.store.otlp import Decoded

_CHUNK: Final = 1 << 18
_PEEK: Final = 1 << 22
_LONGEST_LINE: Final = 1 << 26
_LARGEST_VALUE: Final = 1 << 24
_SPANS_A_PIECE: Final = 500
_WHITE: Final = " \t\r\n"


class Piece(NamedTuple):
    """Decoded spans and the line where they end."""

    line: int
    decoded: Decoded


def pieces(path: Path, on_bytes: Callable[[int], None] | None = None) -> Iterator[Piece]:
    """All spans of a file. What can't be read is a rejection, and ends the file only if nothing can follow it.

    `on_bytes` is told how many bytes of the file on disk have been read. Raises OSError.
    """
    with path.open("rb") as raw:
        zipped = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        stream = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if zipped else raw
        chunks = _chunks(stream, raw, on_bytes)
        head: list[bytes] = []
        line = 1
        try:
            size = 0
            for chunk in chunks:
                head.append(chunk)
                size += len(chunk)
                if b"\n" in chunk or size >= _PEEK:
                    break
            start = b"".join(head).removeprefix(codecs.BOM_UTF8)
            read = _by_lines if _has_lines(start, whole=size < _CHUNK) else _as_document
            for piece in read(itertools.chain([start], chunks)):
                line = piece.line
                yield piece
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            yield _rejection(line, f"the file is damaged or cut off ({error}); what came before it is kept")


def _chunks(stream: BinaryIO, raw: BinaryIO, on_bytes: Callable[[int], None] | None) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield chunk
        if on_bytes:
            on_bytes(raw.tell())


def _rejection(line: int, reason: str) -> Piece:
    return Piece(line, Decoded([], [reason], 0))


# --- one request a line --------------------------------------------------------------------------------------


def _has_lines(start: bytes, *, whole: bool) -> bool:
    """Whether the file holds one request a line: a line that is an object, or nothing that looks like a document."""
    text = start.lstrip()
    if text[:1] not in {b"{", b"["}:
        return True
    lines = start.split(b"\n")
    if not whole:
        lines.pop()
    for line in lines[:100]:
        try:
            if msgspec.json.decode(line):
                return isinstance(msgspec.json.decode(line), dict | list)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    return False


def _by_lines(chunks: Iterator[bytes]) -> Iterator[Piece]:
    rest: list[bytes] = []
    size = 0
    number = 0
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        if size <= _LONGEST_LINE:
            rest.append(first)
        size += len(first)
        if not others:
            continue
        number += 1
        yield from _line(b"".join(rest), number, size)
        for line in others[:-1]:
            number += 1
            yield from _line(line, number, len(line))
        rest, size = [others[-1]], len(others[-1])
    yield from _line(b"".join(rest), number + 1, size)


def _line(text: bytes, number: int, size: int) -> Iterator[Piece]:
    if size > _LONGEST_LINE:
        yield _rejection(number, f"a line of {size >> 20} MiB; the longest that can be read is 64 MiB")
    elif text.strip():
        yield Piece(number, otlp.decode(text))


# --- one document --------------------------------------------------------------------------------------------


class _BadDocumentError(Exception):
    """The document can't be followed any further."""


class _Text:
    """A window on the text that moves forward: what has been read is let go."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self.line = 1
        self._chunks = chunks
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._buffer = ""
        self._at = 0
        self._ended = False
        self._scan = json.JSONDecoder().raw_decode

    def peek(self) -> str:
        """The next character that is not white space; "" at the end."""
        while True:
            while self._at < len(self._buffer):
                character = self._buffer[self._at]
                if character not in _WHITE:
                    return character
                self._at += 1
            if not self._more():
                return ""

    def take(self, wanted: str) -> bool:
        """Step over the next character if it is this one."""
        if self.peek() != wanted:
            return False
        self._at += 1
        return True

    def value(self) -> Any:
        """The JSON value that comes next."""
        if not self.peek():
            raise _BadDocumentError("it ends in the middle")
        while True:
            try:
                value, end = self._scan(self._buffer, self._at)
                if end < len(self._buffer) or not self._more():  # a number may go on
                    self._at = end
                    return value
            except (json.JSONDecodeError, RecursionError) as error:
                if len(self._buffer) - self._at > _LARGEST_VALUE:
                    raise _BadDocumentError("not JSON, or one value of more than 16 MiB") from error
                if not self._more():
                    raise _BadDocumentError(f"not JSON, or cut off: {error}") from error

    def _more(self) -> bool:
        if self._ended:
            return False
        chunk = next(self._chunks, b"")
        self._ended = not chunk
        try:
            text = self._decoder.decode(chunk, final=self._ended)
        except UnicodeDecodeError as error:
            raise _BadDocumentError("not UTF-8") from error
        self.line += self._buffer.count("\n", 0, self._at)
        self._buffer = self._buffer[self._at :] + text
        self._at = 0
        return bool(text) or not self._ended


def _as_document(chunks: Iterator[bytes]) -> Iterator[Piece]:
    text = _Text(chunks)
    try:
        while text.peek():
            if text.peek() == "[":
                for _ in _elements(text):
                    yield from _request(text)
            else:
                yield from _request(text)
    except _BadDocumentError as bad:
        yield _rejection(text.line, str(bad))


def _request(text: _Text) -> Iterator[Piece]:
    if text.peek() != "{":
        yield Piece(text.line, otlp.decode_object(text.value()))
        return
    other: dict[str, Any] = {}
    for key in _keys(text):
        if key == "resourceSpans" and text.peek() == "[":
            other[key] = []
            for _ in _elements(text):
                yield from _resource_spans(text)
        else:
            other[key] = text.value() and None
    yield Piece(text.line, otlp.decode_object(other))


def _resource_spans(text: _Text) -> Iterator[Piece]:
    """One resource's spans. They wait for their resource if it comes after them."""
    if text.peek() != "{":
        text.value()
        return
    resource: Any = None
    waiting: list[tuple[Any, list[Any]]] = []
    for key in _keys(text):
        if key == "scopeSpans" and text.peek() == "[":
            for _ in _elements(text):
                for scope, spans in _scope_spans(text):
                    waiting.append((scope, spans))
                    if resource is not None:
                        yield from _flush(text.line, resource, waiting)
        elif key == "resource":
            resource = text.value()
        else:
            text.value()
        if sum(len(spans) for _, spans in waiting) > 100 * _SPANS_A_PIECE:
            raise _BadDocumentError("too many spans come before their resource; write one request a line")
    yield from _flush(text.line, resource, waiting)


def _scope_spans(text: _Text) -> Iterator[tuple[Any, list[Any]]]:
    if text.peek() != "{":
        text.value()
        return
    scope: Any = None
    for key in _keys(text):
        if key == "spans" and text.peek() == "[":
            spans: list[Any] = []
            for _ in _elements(text):
                spans.append(text.value())
                if len(spans) >= _SPANS_A_PIECE:
                    yield scope, spans
                    spans = []
            yield scope, spans
        elif key == "scope":
            scope = text.value()
        else:
            text.value()


def _flush(line: int, resource: Any, waiting: list[tuple[Any, list[Any]]]) -> Iterator[Piece]:
    scopes = [{"scope": scope, "spans": spans} for scope, spans in waiting]
    waiting.clear()
    yield Piece(line, otlp.decode_object({"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]}))


def _elements(text: _Text) -> Iterator[None]:
    """Stops before each element of an array; whoever iterates reads the element."""
    text.take("[")
    while not text.take("]"):
        yield
        if not text.take(",") and text.peek() != "]":
            raise _BadDocumentError("it is cut off, or not JSON, in a list")


def _keys(text: _Text) -> Iterator[str]:
    """Stops before the value of each key of an object; whoever iterates reads the value."""
    text.take("{")
    while not text.take("}"):
        key = text.value()
        if not isinstance(key, str) or not text.take(":"):
            raise _BadDocumentError("it is not JSON: a key is expected")
        yield key
        if not text.take(",") and text.peek() != "}":
            raise _BadDocumentError("it is cut off, or not JSON, in an object")
