"""From requests to the spool: what several requests hold goes down in one file, and each learns when it is safe."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

Append = Callable[[Sequence[bytes], int], None]
"""Write these lines, with so many spans in them, so that they survive a crash. Raises OSError."""


class _Waiting(NamedTuple):
    lines: list[bytes]
    spans: int
    stored: "asyncio.Future[None]"


class Inbox:
    """Writes one file at a time; what comes meanwhile waits, and goes into the next one together."""

    def __init__(self, append: Append) -> None:
        self._append: Final = append
        self._waiting: list[_Waiting] = []
        self._writer: asyncio.Task[None] | None = None

    async def put(self, lines: list[bytes], spans: int) -> None:
        """Returns once these are on disk. Raises OSError if they can't be written; then none of them is stored."""
        stored = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(lines, spans, stored))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())
        await stored

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            lines = [line for one in batch for line in one.lines]
            try:
                await asyncio.to_thread(self._append, lines, sum(one.spans for one in batch))
            except Exception as error:
                for one in batch:
                    if not one.stored.done():
                        one.stored.set_exception(error)
            else:
                for one in batch:
                    if not one.stored.done():
                        one.stored.set_result(None)
