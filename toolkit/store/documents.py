"""Files of spans, read part by part: memory does not grow with the file.

One request a line is the usual form and the fast one; any other text is walked as a document, and protobuf is read
message by message.
"""

import codecs
import itertools
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from hopbudget.store import framing, otlp
from hopbudget.store.framing import Messages
from hopbudget.store.walker import Piece, as_document, rejection

_CHUNK: Final = 1 << 18
_PACKED_CHUNK: Final = 1 << 17
_GZIP: Final = 31
_PEEK: Final = 1 << 22
_LONGEST_LINE: Final = 1 << 26
_LINES_TOGETHER: Final = 64


class Lines(msgspec.Struct, gc=False, tag=True):
    """Some whole lines of a file, one request in each."""

    line: int
    """The number of the first one, from 1."""
    text: bytes
    count: int


Undecoded = Lines | Messages
"""A part of a file that may be decoded anywhere and in any order."""


def pieces(path: Path) -> Iterator[Piece]:
    """All spans of a file. What can't be read is a rejection, and ends the file only if nothing can follow it."""
    return itertools.chain.from_iterable(map(decoded, parts(path)))


def parts(path: Path, on_bytes: Callable[[int], None] | None = None) -> Iterator[Undecoded | Piece]:
    """The same, lines and messages not decoded yet.

    `on_bytes` is told how many bytes of the file on disk have been read. Raises OSError.
    """
    with path.open("rb") as raw:
        zipped = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        read = _Reading(raw, on_bytes)
        chunks = read.unzipped() if zipped else read.plain()
        head: list[bytes] = []
        size = 0
        for chunk in chunks:
            head.append(chunk)
            size += len(chunk)
            if b"\n" in chunk or size >= _PEEK:
                break
        start = b"".join(head).removeprefix(codecs.BOM_UTF8)
        followed: Callable[[Iterator[bytes]], Iterator[Undecoded | Piece]] = as_document
        if framing.is_binary(path.name, start):
            followed = framing.as_messages
        elif _has_lines(start, whole=size < _CHUNK):
            followed = _by_lines
        line = 1
        for part in followed(itertools.chain([start], chunks)):
            line = part.line
            yield part
        if read.damage:
            yield rejection(line, f"the file is damaged or cut off ({read.damage}); what came before it is kept")


def decoded(part: Undecoded | Piece) -> Iterator[Piece]:
    """The spans of a part."""
    if isinstance(part, Lines):
        return _decode_lines(part)
    return framing.decode_messages(part) if isinstance(part, Messages) else iter((part,))


def _decode_lines(lines: Lines) -> Iterator[Piece]:
    """The spans of these lines; empty ones are passed over. A piece holds many lines where all in them is as usual."""
    together = otlp.decode_lines(lines.text, lines.count)
    if together is not None:
        yield Piece(lines.line, together)
        return
    texts = [
        (number, line)
        for number, line in enumerate(lines.text.split(b"\n"), start=lines.line)
        if line and not line.isspace()
    ]
    for start in range(0, len(texts), _LINES_TOGETHER):
        some = texts[start : start + _LINES_TOGETHER]
        together = otlp.decode_lines(b"\n".join(line for _, line in some), len(some))
        if together is not None:
            yield Piece(some[0][0], together)
        else:
            yield from (Piece(number, otlp.decode(line)) for number, line in some)


class _Reading:
    """Reads a file in chunks. What is wrong with a zipped one ends it and is noted in `damage`."""

    def __init__(self, raw: BinaryIO, on_bytes: Callable[[int], None] | None) -> None:
        self.damage = ""
        self._raw = raw
        self._on_bytes = on_bytes

    def plain(self, size: int = _CHUNK) -> Iterator[bytes]:
        while chunk := self._raw.read(size):
            if self._on_bytes:
                self._on_bytes(self._raw.tell())
            yield chunk

    def unzipped(self) -> Iterator[bytes]:
        """All that can be unzipped, also of a file that was cut off, which `gzip` would not give."""
        member = None
        for packed in self.plain(_PACKED_CHUNK):
            left = packed
            while left:
                if member is None:
                    left = left.lstrip(b"\0")  # padding between members
                    member = zlib.decompressobj(wbits=_GZIP) if left else None
                    continue
                try:
                    chunk = member.decompress(left, _CHUNK)
                except zlib.error as error:
                    self.damage = str(error)
                    return
                if chunk:
                    yield chunk
                left = member.unused_data if member.eof else member.unconsumed_tail
                member = None if member.eof else member
        if member is not None:
            self.damage = "its end is missing"


# --- one request a line --------------------------------------------------------------------------------------


def _has_lines(start: bytes, *, whole: bool) -> bool:
    """Whether the file holds one request or span a line, or nothing that looks like a document."""
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
            count = text.count(b"\n") + 1
            yield Lines(number, text, count)
            number += count
            rest, size = [chunk[end + 1 :]], len(chunk) - end - 1
            continue
        rest.append(chunk)
        size += len(chunk)
        if size > _LONGEST_LINE:
            yield rejection(number, "a line of more than 64 MiB, which can't be read; the file is left here")
            return
    if size:
        yield Lines(number, b"".join(rest), 1)
