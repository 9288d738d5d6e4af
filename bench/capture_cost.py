"""What capture costs the application: a hop, a hop while tracing is off, a chunk of a stream, memory until export.

Times are this thread's processor time: medians over rounds in which all variants take turns, in changing order, in
one process; ratios are medians of the rounds' own ratios. The collector runs before each measurement and is off
during it.
"""

import gc
import os
import statistics
import sys
import time
import tracemalloc
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import openai
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.trace import SpanKind

from bench.timing_generator import timed
from hopbudget.tracing import hop, scope, watch

ROUNDS: Final = 41
CALLS: Final = 200
CHUNKS: Final = 1000
SHORT: Final = 10
HOP_LIMIT: Final = 1.25
OFF_LIMIT: Final = 0.05
CHUNK_LIMIT: Final = 3.0
KEPT_LIMIT: Final = 16 * 1024

Measured = Mapping[str, list[float]]


class Keep(SpanProcessor):
    """Takes ended spans as an exporter's queue does."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


class Figure(NamedTuple):
    """One ratio against its baseline."""

    what: str
    ours_s: float
    baseline_s: float
    ratio: float
    limit: float | None

    @property
    def missed(self) -> bool:
        return self.limit is not None and self.ratio > self.limit


# What is streamed ----------------------------------------------------------------------------------------------


def chunks(count: int) -> list[ChatCompletionChunk]:
    """A streamed answer of this many chunks as the client parses it: role, tokens, stop, usage."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "sim-small"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> ChatCompletionChunk:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return ChatCompletionChunk.model_validate({**head, "choices": [choice]})

    usage = {"prompt_tokens": 3, "completion_tokens": count - 3, "total_tokens": count}
    return [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": f" word{index}"}) for index in range(count - 3)),
        chunk({}, "stop"),
        ChatCompletionChunk.model_validate({**head, "choices": [], "usage": usage}),
    ]


def reply() -> ChatCompletion:
    """A whole answer."""
    message = {"role": "assistant", "content": "word", "refusal": None}
    return ChatCompletion.model_validate(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "sim-small",
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
        }
    )


def client_stream(source: Iterator[Any]) -> "openai.Stream[Any]":
    """The client's stream object over chunks in memory."""
    stream: openai.Stream[Any] = openai.Stream.__new__(openai.Stream)
    stream._iterator = source
    return stream


def generated(source: list[Any]) -> Iterator[Any]:
    """The chunks, as the client's own parser yields them."""
    yield from source


# Measuring -----------------------------------------------------------------------------------------------------


def interleaved(variants: Mapping[str, Callable[[], float]], rounds: int = ROUNDS) -> Measured:
    """Seconds of each variant by round; each call of a variant is one measurement."""
    found: dict[str, list[float]] = {name: [] for name in variants}
    names = list(variants)
    for number in range(rounds + 1):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            gc.collect()
            gc.disable()
            try:
                took = variants[name]()
            finally:
                gc.enable()
            if number:  # the first round warms up
                found[name].append(took)
    return found


def repeated(call: Callable[[], object], calls: int = CALLS) -> float:
    """Seconds of one call: the mean over some."""
    began = time.thread_time()
    for _ in range(calls):
        call()
    return (time.thread_time() - began) / calls


def drained(make: Callable[[], Iterator[Any]]) -> float:
    """Seconds of reading a stream to its end, its making not counted.

    The reader looks at each text, as any reader does: otherwise whoever looks first, which the plain stream never does,
    would pay for fetching the chunk into the processor's cache.
    """
    stream = make()
    began = time.thread_time()
    for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            pass
    return time.thread_time() - began


def ratio(measured: Measured, ours: str, baseline: str, *, over: tuple[str, str] | None = None) -> float:
    """The median of the rounds' ratios; `over` names what is taken off each first."""
    off_ours, off_baseline = over or ("", "")
    none = [0.0] * len(measured[ours])
    return statistics.median(
        (a - x) / (b - y)
        for a, b, x, y in zip(
            measured[ours],
            measured[baseline],
            measured.get(off_ours, none),
            measured.get(off_baseline, none),
            strict=True,
        )
    )


def median(measured: Measured, name: str, off: str | None = None) -> float:
    """The median of a variant, or of what it takes beyond another."""
    taken_off = measured[off] if off else [0.0] * len(measured[name])
    return statistics.median(a - b for a, b in zip(measured[name], taken_off, strict=True))


# A hop against a span ------------------------------------------------------------------------------------------


def hops() -> list[Figure]:
    """A hop that emits a span, and one while tracing is off, against bare spans with the same attributes."""
    keep, provider = Keep(), TracerProvider()
    provider.add_span_processor(keep)
    answer = reply()

    def work() -> ChatCompletion:
        return answer

    def nothing() -> None:
        pass

    def opened() -> None:
        with hop("plan"):
            nothing()

    decorated, replying = hop("plan")(nothing), hop("plan")(work)
    tracer = provider.get_tracer("bench")
    bare: dict[str, Callable[[], None]] = {}
    calls = {"with": (opened, nothing), "decorated": (decorated, nothing), "replying": (replying, work)}
    for name, (call, inside) in calls.items():
        scope.configure(provider=provider)
        keep.spans.clear()
        call()
        bare[name] = _bare(tracer, keep.spans[-1], inside)

    def on(call: Callable[[], object]) -> float:
        scope.configure(provider=provider)
        keep.spans.clear()
        return repeated(call)

    def off(call: Callable[[], object]) -> float:
        scope.configure()
        return repeated(call, 10 * CALLS)

    measured = interleaved(
        {
            "hop, with": lambda: on(opened),
            "span, with": lambda: on(bare["with"]),
            "hop, decorated": lambda: on(decorated),
            "span, decorated": lambda: on(bare["decorated"]),
            "hop, replying": lambda: on(replying),
            "span, replying": lambda: on(bare["replying"]),
            "off, with": lambda: off(opened),
            "off, decorated": lambda: off(decorated),
        }
    )
    scope.configure()

    def figure(what: str, ours: str, baseline: str, limit: float | None) -> Figure:
        return Figure(what, median(measured, ours), median(measured, baseline), ratio(measured, ours, baseline), limit)

    return [
        figure("a hop around a block: `with hop(...)`", "hop, with", "span, with", HOP_LIMIT),
        figure("a hop around a call: `@hop(...)`", "hop, decorated", "span, decorated", HOP_LIMIT),
        figure("as before, and a chat completion returned is read", "hop, replying", "span, replying", None),
        figure("tracing off, `with hop(...)`", "off, with", "span, with", OFF_LIMIT),
        figure("tracing off, decorated call", "off, decorated", "span, decorated", OFF_LIMIT),
    ]


def _bare(tracer: Any, made: ReadableSpan, work: Callable[[], object]) -> Callable[[], None]:
    """A span as the SDK's user would write it: known attributes at its start, the outcome's at its end."""
    attributes = dict(made.attributes or {})
    known = {"gen_ai.operation.name", "hopbudget.hop"}
    early = {key: value for key, value in attributes.items() if key in known}
    late = {key: value for key, value in attributes.items() if key not in known}
    name = made.name

    def bare() -> None:
        with tracer.start_as_current_span(name, kind=SpanKind.CLIENT, attributes=early) as span:
            work()
            span.set_attributes(late)

    return bare


# A chunk against the generator ---------------------------------------------------------------------------------


def streams() -> list[Figure]:
    """What watching adds to each chunk, against what the timing generator adds.

    A chunk's cost is the difference between a long stream and a short one, by the chunk: opening and ending a hop are
    the hop's cost.
    """
    keep, provider = Keep(), TracerProvider()
    provider.add_span_processor(keep)
    scope.configure(provider=provider)
    long, short = chunks(CHUNKS), chunks(SHORT)

    def watched(make: Callable[[list[Any]], Any], source: list[Any]) -> Iterator[Any]:
        keep.spans.clear()
        with hop("answer"):
            return iter(watch(make(source)))

    def by_chunk(make: Callable[[list[Any]], Iterator[Any]]) -> Callable[[], float]:
        def measure() -> float:
            short_s = statistics.median(drained(lambda: make(short)) for _ in range(5))
            long_s = statistics.median(drained(lambda: make(long)) for _ in range(3))
            return (long_s - short_s) / (CHUNKS - SHORT)

        return measure

    def in_client(source: list[Any]) -> Any:
        return client_stream(generated(source))

    measured = interleaved(
        {
            "plain generator": by_chunk(generated),
            "timed generator": by_chunk(lambda source: timed(generated(source), [])),
            "watched generator": by_chunk(lambda source: watched(generated, source)),
            "plain stream": by_chunk(lambda source: iter(in_client(source))),
            "watched stream": by_chunk(lambda source: watched(in_client, source)),
        }
    )
    scope.configure()

    def figure(what: str, kind: str) -> Figure:
        ours, plain = f"watched {kind}", f"plain {kind}"
        return Figure(
            what,
            median(measured, ours, plain),
            median(measured, "timed generator", "plain generator"),
            ratio(measured, ours, "timed generator", over=(plain, "plain generator")),
            CHUNK_LIMIT,
        )

    return [
        figure("a chunk of the client's stream object, added", "stream"),
        figure("a chunk of a generator, added", "generator"),
    ]


# Memory --------------------------------------------------------------------------------------------------------


class Kept(NamedTuple):
    """Bytes held for one stream: just before its last chunk is pulled, and once it has ended and waits for export."""

    open: int
    ended: int
    chunks_alive: int


def memory() -> Kept:
    """What a stream of 1,000 chunks leaves in memory, its chunks not counted unless they are kept."""
    keep, provider = Keep(), TracerProvider()
    provider.add_span_processor(keep)
    scope.configure(provider=provider)
    _read_one(chunks(CHUNKS), [])  # whatever is made once for all streams
    keep.spans.clear()
    source = chunks(CHUNKS)
    alive = [weakref.ref(chunk) for chunk in source]
    marks: list[int] = []
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        _read_one(source, marks)
        gc.collect()
        ended = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    del source
    gc.collect()
    scope.configure()
    still = sum(ref() is not None for ref in alive)
    return Kept(marks[0] - before, ended, still)


def _read_one(source: list[Any], marks: list[int]) -> None:
    with hop("answer"):
        stream = watch(client_stream(generated(source)))
    for number, _ in enumerate(stream, 1):
        if number == CHUNKS - 1 and tracemalloc.is_tracing():
            marks.append(tracemalloc.get_traced_memory()[0])


# The section ---------------------------------------------------------------------------------------------------


def run() -> str:
    """Measure, and return a Markdown section."""
    found = [*hops(), *streams()]
    kept = memory()
    return section(found, kept)


def section(found: list[Figure], kept: Kept) -> str:
    """The results as Markdown."""
    rows = [
        f"| {figure.what} | {figure.ours_s * 1e6:.2f} µs | {figure.baseline_s * 1e6:.2f} µs "
        f"| {figure.ratio:.2f} | {'-' if figure.limit is None else figure.limit} |"
        for figure in found
    ]
    lines = [
        "## Cost of capture",
        "",
        f"Processor time: medians of {ROUNDS} rounds in one process, all variants in turns, {os.cpu_count()} cores. "
        "A hop is compared with a span of the bare SDK that gets the same attributes, a chunk with what "
        "`bench/timing_generator.py` adds to it. A hop that is off is compared with the span that it does not make.",
        "",
        "| | ours | baseline | ratio | at most |",
        "|---|---|---|---|---|",
        *rows,
        "",
        f"A stream of {CHUNKS:,} chunks holds {kept.open / 1024:.1f} KB before its last chunk and "
        f"{kept.ended / 1024:.1f} KB from its end until export (at most {KEPT_LIMIT // 1024}); "
        f"{kept.chunks_alive or 'no'} chunks are kept.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    measured_figures, measured_kept = [*hops(), *streams()], memory()
    print(section(measured_figures, measured_kept))
    missed = any(figure.missed for figure in measured_figures)
    sys.exit(missed or max(measured_kept[:2]) > KEPT_LIMIT or measured_kept.chunks_alive > 0)
