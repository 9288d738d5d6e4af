"""The bytes of a request, unzipped, and never more of them than allowed."""

import zlib
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Final

from hopbudget.receiver.answers import RefusedError

_GZIP: Final = 31
_STEP: Final = 1 << 20
RETRY_AFTER_S: Final = 1


class Held:
    """How many bytes of requests are in memory, over all of them."""

    def __init__(self, most: int) -> None:
        self.bytes = 0
        self._most: Final = most

    def share(self) -> "Share":
        """One request's part of it, given back at the end of a `with` block."""
        return Share(self)

    def add(self, size: int) -> None:
        """Take some more; RefusedError (429) while others hold too many."""
        if self.bytes and self.bytes + size > self._most:
            raise RefusedError(429, "too many requests are being taken in; try again", RETRY_AFTER_S)
        self.bytes += size


class Share:
    """What one request holds."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self._size = 0

    def add(self, size: int) -> None:
        """Take some more."""
        self._held.add(size)
        self._size += size

    def __enter__(self) -> "Share":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._held.bytes -= self._size


async def read_body(chunks: AsyncIterator[bytes], encoding: str, most: int, share: Share) -> bytes:
    """The whole body. RefusedError: 413 past `most` bytes, zipped or not; 400 for bad gzip; 415 for another coding."""
    if encoding not in {"", "identity", "gzip"}:
        raise RefusedError(415, f"content-encoding {encoding!r} is not understood; use gzip, or none")
    unzip = _Unzipper(most, share) if encoding == "gzip" else None
    found = bytearray()
    async for chunk in chunks:
        for piece in unzip.pieces(chunk) if unzip else (chunk,):
            if unzip is None:
                share.add(len(piece))
            found += piece
            if len(found) > most:
                raise too_large(most)
    if unzip and not unzip.complete:
        raise RefusedError(400, "the body is cut off: the end of its gzip stream is missing")
    return bytes(found)


def too_large(most: int) -> RefusedError:
    """The refusal of a body of more than `most` bytes."""
    return RefusedError(413, f"the body is larger than {most:,} bytes; send fewer spans at a time")


class _Unzipper:
    """Unzips in small steps, so that a short body can't become a long one before it is noticed."""

    def __init__(self, most: int, share: Share) -> None:
        self._zip = zlib.decompressobj(wbits=_GZIP)
        self._most = most
        self._share = share
        self._begun = False

    @property
    def complete(self) -> bool:
        return self._zip.eof or not self._begun

    def pieces(self, chunk: bytes) -> "list[bytes]":
        out: list[bytes] = []
        size = 0
        left = chunk
        while left:
            self._begun = True
            if self._zip.eof:  # another member
                self._zip = zlib.decompressobj(wbits=_GZIP)
            try:
                piece = self._zip.decompress(left, _STEP)
            except zlib.error as error:
                raise RefusedError(400, f"the body is not gzip: {error}") from error
            self._share.add(len(piece))
            out.append(piece)
            size += len(piece)
            if size > self._most:
                raise too_large(self._most)
            left = self._zip.unused_data if self._zip.eof else self._zip.unconsumed_tail
        return out
