"""Time as the recorder reads it: durations from a monotonic clock, wall time once to anchor a trajectory."""

import time
from collections.abc import Callable

NANOSECONDS = 1_000_000_000


class Clock:
    """The two clocks of a recorder; tests pass their own."""

    __slots__ = ("now_ns", "wall_ns")

    def __init__(
        self, now_ns: Callable[[], int] = time.monotonic_ns, wall_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self.now_ns = now_ns
        self.wall_ns = wall_ns

    def anchor_ns(self, now_ns: int) -> int:
        """What must be added to a monotonic time to get nanoseconds since 1970; `now_ns` is that of now."""
        return self.wall_ns() - now_ns


def seconds(ns: int) -> float:
    """Nanoseconds as seconds."""
    return ns / NANOSECONDS
