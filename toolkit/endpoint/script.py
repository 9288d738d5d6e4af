"""What one answer will send, and when: the form that the GPU model and the fault rows share.

A script says nothing about any one API. `wire` turns its steps into the bytes of one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

Kind = Literal["role", "text", "reasoning", "tool", "stop", "usage", "done", "ping", "error"]
Finish = Literal["stop", "length", "tool_calls"]
ReasoningField = Literal["reasoning_content", "reasoning"]

FRAGMENT_EVERY_S: Final = 0.0002


@dataclass(frozen=True, slots=True)
class Step:
    """One event: `after_s` counts from the request's arrival to the moment the whole event is out."""

    after_s: float
    kind: Kind
    text: str = ""
    tokens: int = 0
    tool: str = ""
    """The name of the tool, on the first step of a call to it."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as a provider states them; `completion` includes `reasoning`."""

    prompt: int
    completion: int
    cached: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class Framing:
    """How events lie in bytes: what servers differ in and parsers trip over."""

    line_end: bytes = b"\n"
    space: bool = True
    fragment_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """A whole answer. Steps stand in order of time."""

    steps: Sequence[Step]
    usage: Usage
    finish: Finish = "stop"
    framing: Framing = field(default_factory=Framing)
    reasoning_field: ReasoningField = "reasoning_content"


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes to put on the wire at `after_s`; `step` is set on the write that completes that step."""

    after_s: float
    data: bytes
    step: Step | None


def event(payload: bytes, framing: Framing) -> bytes:
    """One server-sent event around `payload`."""
    return b"".join((b"data:", b" " if framing.space else b"", payload, framing.line_end * 2))


def comment(text: str, framing: Framing) -> bytes:
    """A server-sent comment, which carries no data."""
    return f": {text}".encode() + framing.line_end * 2


def fragments(step: Step, data: bytes, size: int | None, *, earliest_s: float) -> Iterator[Write]:
    """`data` in pieces of `size` bytes that lead up to the step's time, so that the last one is on time.

    None of them goes before `earliest_s`, when the event before was complete.
    """
    if size is None or len(data) <= size:
        yield Write(step.after_s, data, step)
        return
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    for left, piece in zip(range(len(pieces) - 1, -1, -1), pieces, strict=True):
        yield Write(max(earliest_s, step.after_s - left * FRAGMENT_EVERY_S), piece, None if left else step)
