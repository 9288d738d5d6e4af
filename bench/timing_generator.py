"""The least that timing a stream can cost in Python: the baseline that capture is held against."""

import time
from collections.abc import Iterable, Iterator
from typing import Any


def timed(chunks: Iterable[Any], stamps: list[int]) -> Iterator[Any]:
    """The chunks, as they come; of those with content the first time and the gaps are appended, in nanoseconds."""
    now_ns = time.monotonic_ns
    last_ns = 0
    for chunk in chunks:
        if chunk.choices and chunk.choices[0].delta.content:
            at_ns = now_ns()
            stamps.append(at_ns - last_ns)
            last_ns = at_ns
        yield chunk
