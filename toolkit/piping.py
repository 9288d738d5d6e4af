"""Standard output into a pipe whose reader may have seen enough: what else is said is dropped, and the command goes on.

So the exit code of `hopbudget check | head` is the verdict's, and what comes after the screen is still done.
"""

import io
import os
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Pipe(io.FileIO):
    """A file that its reader may leave."""

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            silence(self.fileno())
            return memoryview(data).nbytes


def silence(descriptor: int) -> None:
    """Drop whatever else is written to this file descriptor."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def patient(stream: TextIO) -> TextIO:
    """The same standard stream, with question marks for what its encoding lacks, and no error when its reader leaves.

    A stream that is no file, such as a test's, is given back as it is.
    """
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.reconfigure(errors="replace")
    if stream.isatty():
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(_Pipe(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors="replace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
