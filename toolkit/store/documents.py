"""Files of export requests, read part by part: memory does not grow with the file.

One request a line is the usual form and the fast one; any other file is walked as a document.
"""

import codecs
import gzip
import itertools
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast

import msgspec

from hopbudget.store import otlp
from hopbudget.store.walker import Piece, as_document, rejection

_CHUNK: Final = 1 << 20
_PEEK: Final = 1 << 22
_LONGEST_LINE: Final = 1 << 26


class Lines(NamedTuple):
    """Some whole lines of a file, one request in each."""

    first: int
    """The number of the first line, from 1."""
    text: bytes


def pieces(path: Path) -> Iterator[Piece]:
    """All spans of a file. What can't be read is a rejection, and ends the file only if nothing can follow it."""
    for part in parts(path):
        if isinstance(part, Lines):
            yield from decode_lines(part)
        else:
            yield part


def parts(path: Path, on_bytes: Callable[[int], None] | None = None) -> Iterator[Lines | Piece]:
    """The same, lines not decoded yet: they may be decoded anywhere and in any order.

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
            read = _by_lines if _has_lines(start, whole=size < _CHUNK) else as_document
            for part in read(itertools.chain([start], chunks)):
                line = part[0]
                yield part
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            yield rejection(line, f"the file is damaged or cut off ({error}); what came before it is kept")


def decode_lines(lines: Lines) -> Iterator[Piece]:
    """The spans of these lines, a piece a line; empty lines are passed over."""
    for number, line in enumerate(lines.text.split(b"\n"), start=lines.first):
        if line and not line.isspace():
            yield Piece(number, otlp.decode(line))


def _chunks(stream: BinaryIO, raw: BinaryIO, on_bytes: Callable[[int], None] | None) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield chunk
        if on_bytes:
            on_bytes(raw.tell())


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


def _by_lines(chunks: Iterator[bytes]) -> Iterator[Lines | Piece]:
    rest: list[bytes] = []
    size = 0
    number = 1
    for chunk in chunks:
        end = chunk.rfind(b"\n")
        if end >= 0:
            rest.append(chunk[:end])
            text = b"".join(rest)
            yield Lines(number, text)
            number += text.count(b"\n") + 1
            rest, size = [chunk[end + 1 :]], len(chunk) - end - 1
            continue
        rest.append(chunk)
        size += len(chunk)
        if size > _LONGEST_LINE:
            yield rejection(number, "a line of more than 64 MiB, which can't be read; the file is left here")
            return
    if size:
        yield Lines(number, b"".join(rest))
