"""Where nothing can be cancelled: a client's sockets wait no longer than what is left.

It is done to one request, never to a client: the request carries its time-outs with it, and a connection asks them anew
for each thing that it waits for. The body of a response is read with the time-out that held when its first byte was
asked for, so there each read of its connection is bounded, until the response is closed.
"""

import inspect
import math
import time
from collections.abc import Callable
from typing import Any, Final

from hopbudget.tracing.limits_steps import left
from hopbudget.tracing.limits_waits import Wait

TIMEOUT: Final = "timeout"
_STREAM: Final = "network_stream"


class Timeouts(dict[str, float | None]):
    """The time-outs of one request, each the smaller of the client's and what is left."""

    __slots__ = ("left_s",)

    def __init__(self, theirs: dict[str, float | None], left_s: Callable[[], float]) -> None:
        super().__init__(theirs)
        self.left_s: Callable[[], float] | None = left_s

    def get(self, key: str, default: Any = None) -> float | None:
        """What is left, if the client waits longer."""
        return self._lower(super().get(key, default))

    def __getitem__(self, key: str) -> float | None:
        return self._lower(super().__getitem__(key))

    def _lower(self, theirs: float | None) -> float | None:
        if self.left_s is None:
            return theirs
        return smaller(theirs, self.left_s())


def smaller(theirs_s: float | None, left_s: float) -> float | None:
    """The shorter wait, None being endless: a socket takes no infinity."""
    return theirs_s if left_s == math.inf or (theirs_s is not None and theirs_s <= left_s) else left_s


def lower(request: Any, wait: Wait) -> None:
    """Lower the time-outs of a request that is about to be sent."""
    theirs = request.extensions.get(TIMEOUT)
    if isinstance(theirs, dict):
        wait.lowered = True
        request.extensions[TIMEOUT] = Timeouts(theirs, wait.left_s)


def bound(response: Any, wait: Wait) -> None:
    """Bound the reads of a response whose headers have come, and whose body is a stream."""
    timeouts = response.request.extensions.get(TIMEOUT)
    if not isinstance(timeouts, Timeouts):
        return
    wait.lowered = True
    # What was left for the headers is not what a gap between two tokens may take.
    timeouts.left_s = None if _bound_reads(response, wait) else wait.left_at_most_s


def _bound_reads(response: Any, wait: Wait) -> bool:
    """False where the connection is shared, or of a kind that is not known."""
    stream = response.extensions.get(_STREAM)
    own = getattr(stream, "__dict__", None)
    if own is None or "read" in own or response.extensions.get("http_version") not in {b"HTTP/1.1", b"HTTP/1.0"}:
        return False
    plain: Callable[..., Any] = stream.read

    def let_be() -> bool:
        # It is another response's by now, or somebody reads for its own ends.
        return response.is_closed or not wait.asked_ns

    def read(max_bytes: int, timeout: float | None = None) -> Any:
        if let_be():
            return plain(max_bytes, timeout)
        wait.check()
        try:
            return plain(max_bytes, smaller(timeout, wait.left_s()))
        except Exception as exc:
            reached = left(wait, exc)
            if reached is None:
                raise
            raise reached from exc

    async def read_async(max_bytes: int, timeout: float | None = None) -> Any:
        if let_be():
            return await plain(max_bytes, timeout)
        wait.check()
        try:
            return await plain(max_bytes, smaller(timeout, wait.left_s()))
        except Exception as exc:
            reached = left(wait, exc)
            if reached is None:
                raise
            raise reached from exc

    stream.read = read_async if inspect.iscoroutinefunction(plain) else read
    wait.undo = lambda: own.pop("read", None)
    return True


def sleeps_ours(wait: Wait, client: Any, arguments: dict[str, Any]) -> bool:
    """Sleep in a client's place before its next attempt, no longer than until a limit is due; False to let it sleep.

    Raises the limit that is due then.
    """
    if wait.guard.rules.retries != "ours":
        return False
    options, response = arguments["options"], arguments["response"]
    remaining = arguments["max_retries"] - arguments["retries_taken"]
    theirs_s: float = client._calculate_retry_timeout(remaining, options, response.headers if response else None)
    time.sleep(min(theirs_s, wait.left_s()))
    return True
