"""Following a stream while its consumer reads it: who wants to know, and the tie between a stream and them."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Protocol

from hopbudget.tracing.outcomes import is_cancel
from hopbudget.tracing.scope import recorder_failed


def _nobody(item: object) -> None:
    pass


def _to_all(followers: "list[Follower]", item: object) -> None:
    for follower in followers:
        follower.chunk(item)


class Follower(Protocol):
    """Who wants to know what becomes of a stream."""

    def chunk(self, item: object) -> None:
        """The consumer pulled this."""

    def ended(self, exc: BaseException | None, by_consumer: bool) -> None:
        """It was exhausted, or ended with this exception, which the consumer may have caused."""

    def dropped(self) -> None:
        """Nobody holds it any more, and it had not ended."""


class Handle:
    """Ties one stream to its followers. It dies with the stream, which is how an abandoned one is noticed."""

    __slots__ = ("busy", "chunk", "ended", "followers")

    def __init__(self, *followers: Follower) -> None:
        self.followers: list[Follower] = []
        self.chunk: Callable[[object], None] = _nobody
        self.ended = not followers
        self.busy = False
        for follower in followers:
            self.add(follower)

    def add(self, follower: Follower) -> None:
        """One more who wants to know."""
        self.followers.append(follower)
        # A call for each chunk: the one follower there mostly is gets it without a detour.
        self.chunk = follower.chunk if len(self.followers) == 1 else partial(_to_all, self.followers)

    def end(self, exc: BaseException | None, *, by_consumer: bool = False) -> None:
        """The stream was exhausted, or ended with this exception."""
        if self.ended:
            return
        self.ended = True
        for follower in self.followers:
            try:
                follower.ended(exc, by_consumer)
            except Exception:
                recorder_failed()

    def closing(self) -> None:
        """The consumer closes the stream; while an exception is being handled, that exception is why."""
        if not self.busy:
            exc = sys.exc_info()[1]
            self.end(exc if is_cancel(exc) else None, by_consumer=True)

    def __del__(self) -> None:
        if self.ended:
            return
        self.ended = True
        for follower in self.followers:
            try:
                follower.dropped()
            except Exception:
                recorder_failed()
