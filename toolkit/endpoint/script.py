"""What one answer will send, and when: the form that the GPU model and the fault rows share.

A script says nothing about any one API. The `wire_*` modules turn its steps into the bytes of one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

Kind = Literal["role", "text", "reasoning", "hidden", "tool", "stop", "usage", "done", "ping", "error", "failed"]
"""`hidden` is where reasoning begins that nobody gets to read; `error` breaks the stream off, `failed` ends it."""
Finish = Literal["stop", "length", "tool_calls"]
ReasoningField = Literal["reasoning_content", "reasoning", "content"]
"""Where chat completions put reasoning; in `content` it stands between <think> tags."""
Ending = Literal["close", "reset", "hang", "ping"]
"""After the last step: close cleanly, reset the connection, say nothing more, or send pings and nothing else."""

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
    headers: bool = True
    """Whether the server answers at all."""
    ending: Ending = "close"
    end_s: float = 0.0
    """When the ending comes, if that is after the last step."""

    @property
    def states_usage(self) -> bool:
        """Whether the answer says what it cost."""
        return any(step.kind == "usage" for step in self.steps)

    @property
    def tool(self) -> str:
        """The tool that is called, or ''."""
        return next((step.tool for step in self.steps if step.tool), "")

    def text_of(self, kind: Kind) -> str:
        """All that the steps of this kind say."""
        return "".join(step.text for step in self.steps if step.kind == kind)


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes to put on the wire at `after_s`; `step` is set on the write that completes that step."""

    after_s: float
    data: bytes
    step: Step | None


def event(payload: bytes, framing: Framing, name: str | None = None) -> bytes:
    """One server-sent event around `payload`, with its type on a line before if it has a name."""
    space = b" " if framing.space else b""
    head = b"" if name is None else b"".join((b"event:", space, name.encode(), framing.line_end))
    return b"".join((head, b"data:", space, payload, framing.line_end * 2))


def comment(text: str, framing: Framing) -> bytes:
    """A server-sent comment, which carries no data."""
    return f": {text}".encode() + framing.line_end * 2


def fragments(step: Step, data: bytes, size: int | None, *, first: int, earliest_s: float) -> Iterator[Write]:
    """`data` in pieces of `size` bytes that lead up to the step's time, so that the last one is on time.

    The first piece has `first` bytes, which decides where the cuts fall. No piece goes before `earliest_s`, when the
    event before was complete.
    """
    if size is None or len(data) <= size:
        yield Write(step.after_s, data, step)
        return
    pieces = [data[:first], *(data[start : start + size] for start in range(first, len(data), size))]
    for left, piece in zip(range(len(pieces) - 1, -1, -1), pieces, strict=True):
        yield Write(max(earliest_s, step.after_s - left * FRAGMENT_EVERY_S), piece, None if left else step)
