"""A kit for testing agents and their budgets: a clock that moves when told to, scripted streams, a recorder in memory.

Nothing here sleeps, and nothing depends on the machine: a hop that a test lets take 200 ms takes 200 ms.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from hopbudget.errors import Exit, UserError
from hopbudget.recording.recorded import Hop, hop_of, tree_of
from hopbudget.tracing import garbage, scope
from hopbudget.tracing.clock import NANOSECONDS, Clock

try:
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
except ImportError as error:
    raise UserError(
        f"hopbudget.testing needs {error.name}, which is missing. Install it: pip install 'hopbudget[local]'",
        Exit.ENVIRONMENT,
    ) from error

__all__ = ["AsyncScriptedStream", "FakeClock", "Hop", "Recording", "ScriptedStream", "Stall", "chat_chunk", "recording"]

WALL_S: Final = 1_767_225_600.0
"""What the fake clock calls the wall time of its beginning: the first second of 2026."""


class FakeClock:
    """Seconds that pass only when told to, from 0."""

    def __init__(self) -> None:
        self._ns = 0

    @property
    def s(self) -> float:
        """The time, in seconds since the clock was made."""
        return self._ns / NANOSECONDS

    def to(self, at_s: float) -> None:
        """Let it be this time. Raises ValueError if that has passed."""
        at_ns = round(at_s * NANOSECONDS)
        if at_ns < self._ns:
            raise ValueError(f"it is {self.s:g} s already, and time does not go back to {at_s:g} s")
        self._ns = at_ns

    def sleep(self, for_s: float) -> None:
        """Let this much time pass."""
        self.to(self.s + for_s)

    async def asleep(self, for_s: float) -> None:
        """Let this much time pass, and other tasks run."""
        self.sleep(for_s)
        await asyncio.sleep(0)

    def now_ns(self) -> int:
        """The monotonic clock's reading."""
        return self._ns

    def wall_ns(self) -> int:
        """Nanoseconds since 1970."""
        return round(WALL_S * NANOSECONDS) + self._ns


class Stall:
    """In a script: from here on nothing comes any more."""


Script = Sequence[tuple[float, Any]]
"""(seconds after the stream was opened, what comes then): a chunk, an exception to raise, or a `Stall`."""


def chat_chunk(
    content: str | None = None, *, finish: str | None = None, usage: dict[str, Any] | None = None, **delta: Any
) -> dict[str, Any]:
    """A chunk of a streamed chat completion, as a dict. `delta`: what else its delta holds (`role="assistant"`)."""
    fields = {**({} if content is None else {"content": content}), **delta}
    usage_only = usage is not None and not fields and finish is None
    choices = [] if usage_only else [{"index": 0, "delta": fields, "finish_reason": finish}]
    return {"object": "chat.completion.chunk", "model": "scripted", "choices": choices, "usage": usage}


class ScriptedStream:
    """A client's stream that says what the script says, when it says it; a context manager, and closable.

    A script of `chat_chunk`s is complete with a finish reason; one that ends without was cut off. A `Stall` raises
    RuntimeError: nothing could end it.
    """

    def __init__(self, clock: FakeClock, script: Script) -> None:
        self.closed = False
        self._clock = clock
        self._opened_s = clock.s
        self._rows = iter(script)

    def __iter__(self) -> "ScriptedStream":
        return self

    def __next__(self) -> Any:
        if self.closed:
            raise StopIteration
        at_s, item = next(self._rows)
        if isinstance(item, Stall):
            raise RuntimeError("a stream that is read without awaiting would stall for ever; script its time-out")
        return _play(self._clock, self._opened_s + at_s, item)

    def close(self) -> None:
        """No more comes."""
        self.closed = True

    def __enter__(self) -> "ScriptedStream":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class AsyncScriptedStream:
    """The same for asyncio. A `Stall` waits until the reading task is cancelled or timed out."""

    def __init__(self, clock: FakeClock, script: Script) -> None:
        self.closed = False
        self._clock = clock
        self._opened_s = clock.s
        self._rows = iter(script)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        row = None if self.closed else next(self._rows, None)
        if row is None:
            raise StopAsyncIteration
        at_s, item = row
        if isinstance(item, Stall):
            self._clock.to(max(self._opened_s + at_s, self._clock.s))
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        return _play(self._clock, self._opened_s + at_s, item)

    async def close(self) -> None:
        """No more comes."""
        self.closed = True

    async def __aenter__(self) -> "AsyncScriptedStream":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


def _play(clock: FakeClock, at_s: float, item: Any) -> Any:
    # A consumer that took its time finds the chunk ready.
    clock.to(max(at_s, clock.s))
    if isinstance(item, BaseException):
        raise item
    return item


class Recording(SpanProcessor):
    """What was recorded: hops as rows, spans as a tree."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self._spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        """Keep it."""
        self._spans.append(span)

    @property
    def spans(self) -> list[ReadableSpan]:
        """Ended spans, in the order in which they ended."""
        garbage.settle()
        return self._spans

    @property
    def hops(self) -> list[Hop]:
        """Ended hops, in the order in which they began."""
        found = [hop for span in self.spans if (hop := hop_of(span, WALL_S)) is not None]
        return sorted(found, key=lambda hop: hop.began_s)

    def tree(self) -> str:
        """One line a span: two blanks for each level, the hop's or the span's name, seconds, outcome, error type."""
        return tree_of(self.spans, WALL_S)


@contextmanager
def recording() -> Iterator[Recording]:
    """Record in memory, under a fake clock, until the block ends; then everything is as it was.

    Works beside a recorder that is set up, which gets nothing in the meantime.
    """
    before = (scope.setup.clock, scope.setup.tokenizer, scope.setup.provider)
    found = Recording()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(found)
    scope.configure(
        clock=Clock(found.clock.now_ns, found.clock.wall_ns), tokenizer=scope.setup.tokenizer, provider=provider
    )
    try:
        yield found
    finally:
        scope.setup.clock, scope.setup.tokenizer, scope.setup.provider = before
