"""Decoding in a process of its own, for large files: while one batch is inserted, the next one is made.

The decoder is `python -m hopbudget.store.decoding`. It is told on its input how many spans the next batch shall hold,
and answers with that batch. So it never runs ahead, and ends when its input does because its parent has died.

To decode takes longer than to store. So the decoder leaves the first parts of a batch as they are to its parent, which
decodes them when it has stored the batch before: so many that both are busy all the time.
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
from hopbudget.store.batch import Counts, Ready, make_ready
from hopbudget.store.columns import Buffer, pack, unpack
from hopbudget.store.documents import decoded
from hopbudget.store.intake import Batch, Filling, Left, Rejection

_PAYS_FROM_BYTES: Final = 20_000_000
_ZIPPED_TO: Final = 10
"""How many times larger a zipped file is about, unzipped."""
_UP: Final = b"up"
_LEFT_FIRST: Final = 4
"""So many parts of the first batch are left to the parent."""
_LEFT_MOST: Final = 0.4
"""The largest share of a batch's spans that is left to the parent."""


class Decoded(NamedTuple):
    """A batch that is ready to be stored, in its parts."""

    ready: list[Ready]
    rejected: list[Rejection]
    rejected_count: int
    file: int
    read: int


def make_decoded(batch: Batch) -> Decoded:
    """Make a batch ready to be stored."""
    return Decoded([make_ready([batch.part])], *batch[1:])


def _together(several: list[Decoded]) -> Decoded:
    """What is stored at once."""
    return Decoded(
        [ready for one in several for ready in one.ready],
        [rejection for one in several for rejection in one.rejected],
        sum(one.rejected_count for one in several),
        several[-1].file,
        several[-1].read,
    )


class Head(msgspec.Struct, tag=True):
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


_decode_message: Final = msgspec.msgpack.Decoder(Head | Left).decode


def write_batch(stream: IO[bytes], decoded: Decoded) -> None:
    """Send a batch."""
    (ready,) = decoded.ready
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


def write_left(stream: IO[bytes], left: Left) -> None:
    """Send what is not decoded here."""
    _write(stream, msgspec.msgpack.encode(left))


def read_message(stream: IO[bytes]) -> Left | Decoded | None:
    """What comes next; None if there is nothing any more. EOFError if the decoder stopped in the middle."""
    text = _read(stream)
    if not text:
        return None
    head = _decode_message(text)
    if isinstance(head, Left):
        return head
    tables = {}
    for table, size in head.sizes.items():
        content = bytearray(size)
        if cast(BufferedReader, stream).readinto(content) != size:
            raise EOFError
        tables[table] = unpack(head.tables[table], memoryview(content))
    ready = Ready(tables, head.trace_ids, head.given, Counts(dropped_content=head.dropped_content))
    return Decoded([ready], head.rejected, head.rejected_count, head.file, head.read)


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


def balanced(parts: int, spans: int, most: int, *, waits: bool) -> int:
    """How many parts of the next batch the parent decodes, so that neither waits for the other.

    These many held these spans the last time, of a batch of `most`, and the decoder waited for the parent or not.
    """
    return max(0, parts - 1) if waits or spans > most * _LEFT_MOST else parts + 1


class Decoder:
    """A decoder that runs; a thread takes in what it sends, so that it never waits for an insert."""

    def __init__(self, process: "subprocess.Popen[bytes]", files: Sequence[Path]) -> None:
        self._process = process
        self._files = files
        self._came: SimpleQueue[Left | Decoded | Exception | None] = SimpleQueue()
        self._leave = _LEFT_FIRST
        """How many parts of a batch are decoded here."""
        self._largest = 0
        """The most spans that one of them held."""
        threading.Thread(target=self._take_in, daemon=True).start()

    def batches(self, spans: Callable[[], int]) -> Iterator[Decoded]:
        """Its batches, each of about as many spans as `spans` said when it was begun; UserError if it has died."""
        self._ask(spans())
        while True:
            own, came = self._turn(spans)
            if own or came:
                yield _together([one for one in (own, came) if one])
            if not came:
                return

    def _turn(self, spans: Callable[[], int]) -> tuple[Decoded | None, Decoded | None]:
        """What was left to this process of a batch, and what the decoder made of it: None at the end."""
        filling, last = Filling(0), None
        while True:
            waits = not self._came.empty()
            came = self._next()
            if not isinstance(came, Left):
                break
            last, before = came, filling.count
            for piece in decoded(came.part):
                filling.add(self._files[came.file], piece)
            self._largest = max(self._largest, filling.count - before)
        if came:
            self._leave = balanced(self._leave, filling.count, spans(), waits=waits)
            self._ask(spans() - self._leave * self._largest)  # it makes the next one while this one is stored
        return make_decoded(filling.batch(last.file, last.read)) if last else None, came

    def _ask(self, spans: int) -> None:
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # it has ended, well or not; what it sent says which
            self._process.stdin.write(b"%d %d\n" % (spans, self._leave))
            self._process.stdin.flush()

    def _next(self) -> Left | Decoded | None:
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
            while message := read_message(self._process.stdout):
                self._came.put(message)
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
        yield Decoder(process, files) if _is_ready(process, files) else None
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if stream:
                    stream.close()


def _start() -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-P", "-m", "hopbudget.store.decoding"]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # NumPy's threads would only be started, never used
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )


def _is_ready(process: "subprocess.Popen[bytes]", files: Sequence[Path]) -> bool:
    """Whether it has found all that it needs, which it may not where only this process knows the way."""
    assert process.stdin and process.stdout
    try:
        write_job(process.stdin, files)
        return _read(process.stdout) == _UP
    except (EOFError, BrokenPipeError):
        return False
