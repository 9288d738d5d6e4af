"""Decoding in a process of its own, for large files: while one batch is inserted, the next one is made.

The decoder is `python -m hopbudget.store.decoding`. It is told on its input how many spans the next batch shall hold,
and answers with that batch. So it never runs ahead, and ends when its input does because its parent has died.
"""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Final, NamedTuple, cast

import msgspec

from hopbudget.errors import Exit, UserError
from hopbudget.store.batch import Counts, Ready
from hopbudget.store.columns import Buffer, pack, unpack
from hopbudget.store.intake import Rejection

_PAYS_FROM_BYTES: Final = 20_000_000
_ZIPPED_TO: Final = 10
"""How many times larger a zipped file is about, unzipped."""
_UP: Final = b"up"


class Decoded(NamedTuple):
    """A batch that is ready to be stored."""

    ready: Ready
    rejected: list[Rejection]
    rejected_count: int
    file: int
    read: int


class Head(msgspec.Struct):
    """What comes before the buffers of a batch."""

    tables: dict[str, bytes]
    sizes: dict[str, int]
    trace_ids: list[str]
    given: int
    dropped_content: int
    rejected: list[Rejection]
    rejected_count: int
    file: int
    read: int


def decoder_pays(files: Sequence[Path]) -> bool:
    """Whether these files are large enough, and this machine can run two processes at once."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    size = sum(file.stat().st_size * (_ZIPPED_TO if file.suffix == ".gz" else 1) for file in files)
    return cores > 1 and size >= _PAYS_FROM_BYTES


# --- on the wire -------------------------------------------------------------------------------------------------


def say_up(stream: IO[bytes]) -> None:
    """A decoder's first message."""
    _write(stream, _UP)


def write_job(stream: IO[bytes], files: Sequence[Path]) -> None:
    """Tell a decoder which files to decode."""
    _write(stream, msgspec.msgpack.encode([str(file) for file in files]))


def read_job(stream: IO[bytes]) -> list[Path]:
    """The files that the first message names."""
    return [Path(file) for file in msgspec.msgpack.decode(_read(stream), type=list[str])]


def write_batch(stream: IO[bytes], decoded: Decoded) -> None:
    """Send a batch."""
    ready = decoded.ready
    descriptions: dict[str, bytes] = {}
    sizes: dict[str, int] = {}
    buffers: list[Buffer] = []
    for table, columns in ready.tables.items():
        descriptions[table], found = pack(columns)
        sizes[table] = sum(map(len, found))
        buffers += found
    head = Head(descriptions, sizes, ready.trace_ids, ready.given, ready.counts.dropped_content, *decoded[1:])
    _write(stream, msgspec.msgpack.encode(head))
    for buffer in buffers:
        stream.write(buffer)
    stream.flush()


def read_batch(stream: IO[bytes]) -> Decoded | None:
    """The next batch; None if there is none any more. EOFError if the decoder stopped in the middle."""
    text = _read(stream)
    if not text:
        return None
    head = msgspec.msgpack.decode(text, type=Head)
    tables = {}
    for table, size in head.sizes.items():
        content = bytearray(size)
        if cast(BufferedReader, stream).readinto(content) != size:
            raise EOFError
        tables[table] = unpack(head.tables[table], memoryview(content))
    ready = Ready(tables, head.trace_ids, head.given, Counts(dropped_content=head.dropped_content))
    return Decoded(ready, head.rejected, head.rejected_count, head.file, head.read)


def write_end(stream: IO[bytes]) -> None:
    """Say that there is no batch any more."""
    _write(stream, b"")


def _write(stream: IO[bytes], text: bytes) -> None:
    stream.write(len(text).to_bytes(8, "little") + text)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes:
    size = stream.read(8)
    text = stream.read(int.from_bytes(size, "little")) if len(size) == 8 else b""
    if len(size) < 8 or len(text) < int.from_bytes(size, "little"):
        raise EOFError
    return text


# --- the parent's side -------------------------------------------------------------------------------------------


class Decoder:
    """A decoder that runs; a thread takes in what it sends, so that it never waits for an insert."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._came: SimpleQueue[Decoded | Exception | None] = SimpleQueue()
        threading.Thread(target=self._take_in, daemon=True).start()

    def batches(self, spans: Callable[[], int]) -> Iterator[Decoded]:
        """Its batches, each of about as many spans as `spans` said when it was begun; UserError if it has died."""
        self._ask(spans())
        while decoded := self._next():
            self._ask(spans())  # it makes the next one while this one is stored
            yield decoded

    def _ask(self, spans: int) -> None:
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # it has ended, well or not; what it sent says which
            self._process.stdin.write(b"%d\n" % spans)
            self._process.stdin.flush()

    def _next(self) -> Decoded | None:
        came = self._came.get()
        if isinstance(came, Exception):
            code = self._process.wait()
            how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
            raise UserError(
                f"The process that decoded the files {how}. What it had sent is stored; import again to add the rest.",
                Exit.ENVIRONMENT,
            ) from came
        return came

    def _take_in(self) -> None:
        assert self._process.stdout
        try:
            while decoded := read_batch(self._process.stdout):
                self._came.put(decoded)
            self._came.put(None)
        except (EOFError, OSError, ValueError, msgspec.DecodeError) as error:
            self._came.put(error)


@contextlib.contextmanager
def decoder(files: Sequence[Path]) -> Iterator[Decoder | None]:
    """Run a decoder; None if it can't be started here. It has ended when this is over."""
    try:
        process = _start()
    except OSError:
        yield None
        return
    try:
        yield Decoder(process) if _is_ready(process, files) else None
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if stream:
                    stream.close()


def _start() -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-P", "-m", "hopbudget.store.decoding"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def _is_ready(process: "subprocess.Popen[bytes]", files: Sequence[Path]) -> bool:
    """Whether it has found all that it needs, which it may not where only this process knows the way."""
    assert process.stdin and process.stdout
    try:
        write_job(process.stdin, files)
        return _read(process.stdout) == _UP
    except (EOFError, BrokenPipeError):
        return False
