"""Two attempts at one stream, of which the first to send a token is kept."""

import asyncio
from collections import deque
from typing import Any, Final

from hopbudget.tracing import terms
from hopbudget.tracing.attempts import Attempt, Cap
from hopbudget.tracing.limits_errors import DeadlineExceeded

CLOSING_S: Final = 1.0
"""How long is waited for a cancelled attempt to close what it opened."""


class FailoverStream:
    """The stream that was kept: an async iterator over its chunks. `sent_by` says whose it is.

    All else is asked of the client's own stream, which is `stream`.
    """

    def __init__(self, kept: Attempt, loser: "asyncio.Task[None] | None") -> None:
        self.stream = kept.stream
        self.sent_by = kept.name
        """`primary` or `secondary`."""
        self._kept = kept
        self._pieces = deque(chunk for chunk, _, _ in kept.pieces)
        self._loser = loser

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["stream"], name)

    def __aiter__(self) -> "FailoverStream":
        return self

    async def __anext__(self) -> Any:
        if self._pieces:
            return self._pieces.popleft()
        try:
            return await self._kept.rest()
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Close it. The loser has ended by then, too, if its client closes its connection within a second."""
        await self._kept.close()
        if self._loser is not None:
            loser, self._loser = self._loser, None
            await asyncio.wait([loser], timeout=CLOSING_S)

    close = aclose

    async def __aenter__(self) -> "FailoverStream":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Race:
    """Two attempts, and what came of them."""

    def __init__(self, primary: Attempt, secondary: Attempt, after_s: float | None, cap: Cap) -> None:
        self.primary = primary
        self.secondary = secondary
        self.after_s = after_s
        self.cap = cap
        self.off = terms.off()
        self.capped = False
        self.second_sent = False
        self.kept: Attempt | None = None
        self.lost: list[tuple[Attempt, BaseException]] = []
        """Who did not answer, and what ended them."""

    async def run(self) -> FailoverStream:
        """The stream of whoever sends a token first. Cancelled, or failing, it leaves nothing running."""
        self.cap.call()
        tasks = {_started(self.primary): self.primary}
        try:
            await asyncio.wait(tasks, timeout=None if self.off else self.after_s)
            if self._winner(tasks) is None and self._may_try_again(*tasks):
                self.second_sent = True
                tasks[_started(self.secondary)] = self.secondary
            while (winner := self._winner(tasks)) is None and (waiting := [t for t in tasks if not t.done()]):
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=CLOSING_S)
            raise
        if winner is None:
            self.lost = [(attempt, _error(task)) for task, attempt in tasks.items()]
            raise self.lost[0][1]
        self.kept = tasks.pop(winner)
        return FailoverStream(self.kept, self._let_go(tasks))

    def so_far(self) -> str:
        """What had come of the attempts, in words."""
        sent = [self.primary, self.secondary] if self.second_sent else [self.primary]
        return ", ".join(f"{attempt.so_far} of the {attempt.name}" for attempt in sent)

    def _winner(self, tasks: "dict[asyncio.Task[None], Attempt]") -> "asyncio.Task[None] | None":
        won = [task for task in tasks if task.done() and not task.cancelled() and task.exception() is None]
        return won[0] if won else None

    def _may_try_again(self, first: "asyncio.Task[None]") -> bool:
        if self.off or (first.done() and _is_final(_error(first))):
            return False
        self.capped = not self.cap.take()
        return not self.capped

    def _let_go(self, tasks: "dict[asyncio.Task[None], Attempt]") -> "asyncio.Task[None] | None":
        """Cancel the loser. Nobody who reads the winner waits for that before its end."""
        for task, attempt in tasks.items():
            self.lost.append((attempt, _error(task)))
            if not task.done():
                task.cancel()
                return task
        return None


def _started(attempt: Attempt) -> "asyncio.Task[None]":
    task = asyncio.create_task(attempt.first_token())
    # Looked at, so that asyncio does not report the loser's exception as never retrieved.
    task.add_done_callback(_error)
    return task


def _error(task: "asyncio.Task[None]") -> BaseException:
    """What ended, or will end, a task that has not won."""
    error = None if not task.done() or task.cancelled() else task.exception()
    return error or asyncio.CancelledError()


def _is_final(error: BaseException) -> bool:
    """Whether there is no time for another attempt."""
    return isinstance(error, DeadlineExceeded) and (error.capped or error.outcome == "refused")
