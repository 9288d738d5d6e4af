"""What a library adds to a call and to a chunk, on chunks parsed beforehand and served from memory at full speed.

The process waits for a line on standard input for each round, so that the caller can take all libraries in turns. The
collector is run before each round and off during it.
"""

import gc
import json
import sys
import time
from collections.abc import Iterator
from statistics import median
from typing import Any, Final

import openai

from bench.peers.probe.adapters import ADAPTERS, Adapter
from bench.peers.probe.wire import MESSAGES, MODEL, Transport

SHORT: Final = 10
FIRST: Final = 8
"""So many chunks are read before the time of a chunk is taken."""
LONG: Final = 1000
SHORT_CALLS: Final = 20
LONG_CALLS: Final = 5


def parsed(tokens: int) -> list[Any]:
    """The chunks of one answer, as the client parses them."""
    client = Transport(tokens).sync()
    return list(client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True))


class _Source:
    """Takes the place of the client's own parsing: every stream gives the chunks set here."""

    chunks: list[Any]

    def install(self) -> None:
        source = self

        def stream(self: Any) -> Iterator[Any]:
            try:
                yield from source.chunks
            finally:
                self.response.close()

        openai.Stream.__stream__ = stream  # type: ignore[method-assign]


def timed(adapter: Adapter, client: Any, calls: int) -> tuple[float, float]:
    """Seconds of one call that is read to its end, and of its part after the first chunks: the medians over these.

    Both by this thread's processor time. The part is what a chunk's cost is told from: opening a call takes as long as
    a thousand chunks and varies by as much as they cost.

    The reader looks at each text, as any reader does: so it is not the library's doing that a chunk is fetched into the
    processor's cache.
    """
    create = client.chat.completions.create
    took: list[float] = []
    after: list[float] = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(calls):
            began = time.thread_time()
            chunks = iter(adapter.open(create, model=MODEL, messages=MESSAGES, stream=True))
            for _ in zip(range(FIRST), chunks, strict=False):
                pass
            first = time.thread_time()
            for chunk in chunks:
                if chunk.choices and chunk.choices[0].delta.content:
                    pass
            ended = time.thread_time()
            took.append(ended - began)
            after.append(ended - first)
    finally:
        gc.enable()
    return median(took), median(after)


def main(name: str, *, metrics: bool) -> None:
    """Answer each line with the seconds of a short and of a long call."""
    short, long = parsed(SHORT), parsed(LONG)
    adapter = ADAPTERS[name](metrics=metrics)
    source = _Source()
    source.chunks = short
    source.install()
    client = Transport(1).sync()
    answer = sys.stdout
    sys.stdout = sys.stderr  # what a library prints is no answer
    timed(adapter, client, 3)
    print("ready", file=answer, flush=True)
    for _ in sys.stdin:
        source.chunks = short
        call_s, short_s = timed(adapter, client, SHORT_CALLS)
        adapter.take()
        source.chunks = long
        _, long_s = timed(adapter, client, LONG_CALLS)
        adapter.take()
        print(json.dumps({"call_s": call_s, "short_s": short_s, "long_s": long_s}), file=answer, flush=True)
