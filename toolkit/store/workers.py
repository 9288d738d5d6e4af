"""Decoding in processes of their own, for large files: while one batch is inserted, the next ones are made.

A decoder is `python -m hopbudget.store.decoding`. It is told on its input how many spans the next batch shall hold, and
answers with that batch. So none runs ahead, and one whose parent has died ends as its input does.
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
_MOST_DECODERS: Final = 2
_UP: Final = b"up"


class Decoded(NamedTuple):
    """A batch that is ready to be stored."""

    ready: Ready
    rejected: list[Rejection]
    rejected_count: int
    file: int
    read: int


class Job(msgspec.Struct):
    """What a decoder is to do."""

    files: list[str]
    turn: int
    of: int


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


def decoders_for(files: Sequence[Path], size: int) -> int:
    """How many decoders pay for these files, of this size in all; 0 if none does."""
    zipped = sum(file.stat().st_size for file in files if file.suffix == ".gz")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    worth_it = size + zipped * (_ZIPPED_TO - 1) >= _PAYS_FROM_BYTES
    return min(cores, _MOST_DECODERS) if worth_it and cores > 1 else 0


# --- on the wire -------------------------------------------------------------------------------------------------


def say_up(stream: IO[bytes]) -> None:
    """A decoder's first message."""
    _write(stream, _UP)


def write_job(stream: IO[bytes], job: Job) -> None:
    """Tell a decoder what to do."""
    _write(stream, msgspec.msgpack.encode(job))


def read_job(stream: IO[bytes]) -> Job:
    """What the first message says."""
    return msgspec.msgpack.decode(_read(stream), type=Job)


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


class Decoders:
    """Decoders that run, each with its share of the files."""

    def __init__(self, processes: Sequence["subprocess.Popen[bytes]"]) -> None:
        self._running = [_Decoder(process) for process in processes]

    def batches(self, spans: Callable[[], int]) -> Iterator[Decoded]:
        """Their batches in turn, each of about as many spans as `spans` said when it was begun."""
        waiting = list(self._running)
        for decoder in waiting:
            decoder.ask(spans())
        while waiting:
            for decoder in list(waiting):
                decoded = decoder.next()
                if decoded is None:
                    waiting.remove(decoder)
                    continue
                decoder.ask(spans())  # it makes the next one while this one is stored
                yield decoded


class _Decoder:
    """One decoder; a thread takes in what it sends, so that it never waits for an insert."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._came: SimpleQueue[Decoded | Exception | None] = SimpleQueue()
        threading.Thread(target=self._take_in, daemon=True).start()

    def ask(self, spans: int) -> None:
        """Ask for one more batch."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # it has ended, well or not; what it sent says which
            self._process.stdin.write(b"%d\n" % spans)
            self._process.stdin.flush()

    def next(self) -> Decoded | None:
        """The next batch; UserError if the process has died."""
        came = self._came.get()
        if isinstance(came, Exception):
            code = self._process.wait()
            how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
            raise UserError(
                f"A process that decoded the files {how}. What it had sent is stored; import again to add the rest.",
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
def decoders(files: Sequence[Path], count: int) -> Iterator[Decoders | None]:
    """Run so many decoders; None if they can't be started here. None is left when this is over."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        with contextlib.suppress(OSError):
            for index in range(count):
                processes.append(_start(Job([str(file) for file in files], index, count)))
        yield Decoders(processes) if len(processes) == count and all(map(_is_up, processes)) else None
    finally:
        for process in processes:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    if stream:
                        stream.close()


def _start(job: Job) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-P", "-m", "hopbudget.store.decoding"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
    assert process.stdin
    write_job(process.stdin, job)
    return process


def _is_up(process: "subprocess.Popen[bytes]") -> bool:
    """Whether it has found all that it needs; elsewhere than in this process it may not."""
    assert process.stdout
    try:
        return _read(process.stdout) == _UP
    except EOFError:
        return False
