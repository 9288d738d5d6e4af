"""What limits cost the application: a hop that has them, a chunk of its stream, and a hop while none were ever given.

Measured as in `capture_cost`: this thread's processor time, all variants in turns in one process, medians of the
rounds' own figures. What limits add to a hop is told in bare SDK spans, what they add to a chunk in nanoseconds: a
small difference of two long streams, which are read turn about, and of each the quickest reading of a round counts.
"""

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final, NamedTuple

from opentelemetry.sdk.trace import TracerProvider

from bench.capture_cost import (
    CALLS,
    CHUNKS,
    SHORT,
    Keep,
    _bare,
    chunks,
    client_stream,
    generated,
    interleaved,
)
from bench.capture_cost import repeated as repeated_sync
from hopbudget.tracing import hop, scope, trajectory, watch

ROUNDS: Final = 31
READINGS: Final = 5
"""Of each stream in a round."""
HOP_LIMIT: Final = 0.25
CHUNK_LIMIT_NS: Final = 200.0
LIMITS: Final[dict[str, Any]] = {
    "first_token_s": 60.0,
    "stall_s": 60.0,
    "completion_s": 60.0,
    "enforce": "deadline",
}


class Added(NamedTuple):
    """What limits add."""

    what: str
    added_s: float
    share: float | None
    """In bare spans; None for a chunk."""
    limit: float | None

    @property
    def missed(self) -> bool:
        return self.limit is not None and (self.added_s * 1e9 if self.share is None else self.share) > self.limit


def repeated(call: Callable[[], Awaitable[object]]) -> float:
    """Seconds of one awaited call on a running loop: the mean over some."""

    async def run() -> float:
        began = time.thread_time()
        for _ in range(CALLS):
            await call()
        return (time.thread_time() - began) / CALLS

    return asyncio.run(run())


def hops() -> list[Added]:
    """A hop with limits against the same hop without, in bare spans."""
    keep, provider = Keep(), TracerProvider()
    provider.add_span_processor(keep)
    scope.configure(provider=provider)

    def nothing() -> None:
        pass

    async def nothing_async() -> None:
        pass

    def opened() -> None:
        with hop("plan"):
            pass

    limited = hop("plan", **LIMITS)

    def opened_limited() -> None:
        with limited:
            pass

    opened()
    bare = _bare(provider.get_tracer("bench"), keep.spans[-1], nothing)
    plain, awaited = hop("plan")(nothing), hop("plan")(nothing_async)
    plain_limited, awaited_limited = limited(nothing), limited(nothing_async)

    def unlimited(measure: Callable[[], float]) -> Callable[[], float]:
        """As in a process where no limit was ever given."""

        def measured() -> float:
            keep.spans.clear()
            scope.setup.limited = False
            return measure()

        return measured

    def with_limits(measure: Callable[[], float]) -> Callable[[], float]:
        def measured() -> float:
            keep.spans.clear()
            scope.setup.limited = True
            return measure()

        return measured

    def in_trajectory(call: Callable[[], object], **terms: Any) -> Callable[[], float]:
        def measured() -> float:
            keep.spans.clear()
            scope.setup.limited = False
            with trajectory("agent", **terms):
                return repeated_sync(call)

        return measured

    found = interleaved(
        {
            "span": unlimited(lambda: repeated_sync(bare)),
            "with": unlimited(lambda: repeated_sync(opened)),
            "with, limits": with_limits(lambda: repeated_sync(opened_limited)),
            "call": unlimited(lambda: repeated_sync(plain)),
            "call, limits": with_limits(lambda: repeated_sync(plain_limited)),
            "call in trajectory": in_trajectory(plain),
            "call, deadline": in_trajectory(plain, deadline_s=60.0, enforce="deadline"),
            "awaited": unlimited(lambda: repeated(awaited)),
            "awaited, limits": with_limits(lambda: repeated(awaited_limited)),
            "call, others have limits": with_limits(lambda: repeated_sync(plain)),
        },
        ROUNDS,
    )
    scope.setup.limited = False
    scope.configure()

    def added(what: str, name: str, base: str, limit: float | None = HOP_LIMIT) -> Added:
        by_round = list(zip(found[name], found[base], found["span"], strict=True))
        return Added(
            what,
            statistics.median(ours - plain_s for ours, plain_s, _ in by_round),
            statistics.median((ours - plain_s) / span_s for ours, plain_s, span_s in by_round),
            limit,
        )

    return [
        added("three limits on a hop around a block", "with, limits", "with"),
        added("three limits on a decorated call", "call, limits", "call"),
        added("a deadline around a decorated call", "call, deadline", "call in trajectory"),
        added("three limits on a decorated coroutine, its timer included", "awaited, limits", "awaited"),
        added("none on this hop, but on others of the process", "call, others have limits", "call"),
    ]


def streams() -> list[Added]:
    """A chunk of a watched stream with limits against one without."""
    keep, provider = Keep(), TracerProvider()
    provider.add_span_processor(keep)
    scope.configure(provider=provider)
    long, short = chunks(CHUNKS), chunks(SHORT)

    def watched(source: list[Any], limits: dict[str, Any]) -> Iterator[Any]:
        keep.spans.clear()
        scope.setup.limited = bool(limits)
        with hop("answer", **limits):
            return iter(watch(client_stream(generated(source))))

    async def arriving(source: list[Any]) -> AsyncIterator[Any]:
        for chunk in source:
            yield chunk

    def drained(source: list[Any], limits: dict[str, Any]) -> float:
        stream = watched(source, limits)
        began = time.thread_time()
        for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                pass
        return time.thread_time() - began

    async def drained_async(source: list[Any], limits: dict[str, Any]) -> float:
        keep.spans.clear()
        scope.setup.limited = bool(limits)
        with hop("answer", **limits):
            stream = watch(_Stream(arriving(source)))
        began = time.thread_time()
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                pass
        return time.thread_time() - began

    def awaited(source: list[Any], limits: dict[str, Any]) -> float:
        return asyncio.run(drained_async(source, limits))

    def by_chunk(drain: Callable[[list[Any], dict[str, Any]], float]) -> float:
        """What limits add to a chunk, by one round."""
        quickest: dict[tuple[bool, bool], float] = {}
        for number in range(READINGS):
            for limits in (LIMITS, {}) if number % 2 else ({}, LIMITS):
                for source in (short, long):
                    kind = source is long, bool(limits)
                    quickest[kind] = min(quickest.get(kind, float("inf")), drain(source, limits))
        limited, plain = (quickest[True, kind] - quickest[False, kind] for kind in (True, False))
        return (limited - plain) / (CHUNKS - SHORT)

    found = interleaved({"stream": lambda: by_chunk(drained), "async": lambda: by_chunk(awaited)}, ROUNDS)
    scope.setup.limited = False
    scope.configure()
    return [
        Added("three limits on a stream, by the chunk", statistics.median(found["stream"]), None, CHUNK_LIMIT_NS),
        Added("three limits on an async stream, by the chunk", statistics.median(found["async"]), None, CHUNK_LIMIT_NS),
    ]


class _Stream:
    """An async stream object, as clients have."""

    def __init__(self, source: AsyncIterator[Any]) -> None:
        self._source = source

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._source

    async def close(self) -> None:
        pass


def run() -> str:
    """Measure, and return a Markdown section."""
    return section([*hops(), *streams()])


def section(found: list[Added]) -> str:
    """The results as Markdown."""
    rows = []
    for row in found:
        if row.share is None:
            rows.append(f"| {row.what} | {row.added_s * 1e9:.0f} ns | | {row.limit:.0f} ns |")
        else:
            rows.append(f"| {row.what} | {row.added_s * 1e6:.2f} µs | {row.share:.2f} | {row.limit} |")
    missed = [row.what for row in found if row.missed]
    lines = [
        "## Cost of limits",
        "",
        f"Processor time, medians of {ROUNDS} rounds in one process, all variants in turns, {os.cpu_count()} cores. "
        "What limits add to what a hop costs without them, in spans of the bare SDK; and to a chunk.",
        "",
        "| | added | in bare spans | at most |",
        "|---|---|---|---|",
        *rows,
        "",
    ]
    if missed:
        lines += [f"**Missed:** {'; '.join(missed)}.", ""]
    return "\n".join(lines)
