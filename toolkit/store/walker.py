"""One document of export requests, walked down to its lists of spans as it is read.

For files whose lines are not requests: one pretty-printed object, an array of them, one endless line. What has been
read is let go, so memory does not grow with the document.
"""

import codecs
import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from hopbudget.store.forms import LISTS, decode_object, decode_part
from hopbudget.store.spans import Decoded

_LARGEST_VALUE: Final = 1 << 24
_SPANS_A_PIECE: Final = 500
_WHITE: Final = " \t\r\n"


class Piece(NamedTuple):
    """Decoded spans and the line where they end."""

    line: int
    decoded: Decoded


def rejection(line: int, reason: str) -> Piece:
    """A piece that holds nothing but the reason why."""
    return Piece(line, Decoded([], [reason], 0))


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


def as_document(chunks: Iterator[bytes]) -> Iterator[Piece]:
    """The spans of a document that comes in chunks; where it can't be followed any further, a rejection ends it."""
    text = _Text(chunks)
    try:
        while text.peek():
            if text.peek() == "[":
                for _ in _elements(text):
                    yield from _request(text)
            else:
                yield from _request(text)
    except _BadDocumentError as bad:
        yield rejection(text.line, str(bad))


def _request(text: _Text) -> Iterator[Piece]:
    if text.peek() != "{":
        yield Piece(text.line, decode_object(text.value()))
        return
    other: dict[str, Any] = {}
    listed = False
    for key in _keys(text):
        if key == "resourceSpans" and text.peek() == "[":
            other[key] = []
            for _ in _elements(text):
                yield from _resource_spans(text)
        elif key in LISTS and text.peek() == "[":
            listed = True
            yield from _listed(text, key, other)
        else:
            other[key] = text.value()
    if not listed:
        yield Piece(text.line, decode_object(other))


def _listed(text: _Text, key: str, head: dict[str, Any]) -> Iterator[Piece]:
    """A list of plain spans or observations, with what stands before it in its object."""
    items: list[Any] = []
    whole = True
    for _ in _elements(text):
        items.append(text.value())
        if len(items) >= 100 * _SPANS_A_PIECE:
            whole = False
            yield Piece(text.line, decode_part(key, items, head, whole=whole))
            items = []
    yield Piece(text.line, decode_part(key, items, head, whole=whole))


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
    yield Piece(line, decode_object({"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]}))


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
