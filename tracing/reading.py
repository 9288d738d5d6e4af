"""What a chunk of a stream, or a whole reply, carries, and what a wire format is.

Values are read by name from objects and from dicts alike, so that no client library is imported.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

LENGTH: Final = "length"
"""The finish reason of a reply that the token limit ended, as chat completions call it."""


class Usage:
    """Token counts as the provider states them; None is not stated."""

    __slots__ = ("cached", "input", "output", "reasoning")

    def __init__(
        self,
        input: int | None = None,
        output: int | None = None,
        cached: int | None = None,
        reasoning: int | None = None,
    ) -> None:
        self.input = input
        self.output = output
        self.cached = cached
        self.reasoning = reasoning

    def then(self, later: "Usage") -> "Usage":
        """This usage and a later one of the same stream: counts are cumulative, so the later one's win."""
        return Usage(
            self.input if later.input is None else later.input,
            self.output if later.output is None else later.output,
            self.cached if later.cached is None else later.cached,
            self.reasoning if later.reasoning is None else later.reasoning,
        )


class Reading:
    """What one chunk, or one reply, carries.

    `generated`: at least one generated token. `text`: all text generated, for a tokenizer. `answer`: the part of it
    that belongs to the answer, inline thinking still in it. `reasoning`: the model's reasoning was streamed here;
    `summary`: a summary of it, whose tokens no usage counts. `ended`: the end mark of its format, which is the finish
    reason unless said otherwise. `truncated`: the token limit ended it.
    """

    __slots__ = (
        "answer", "ended", "error", "finish", "generated", "id", "model", "reasoning", "summary", "text", "truncated",
        "usage",
    )  # fmt: skip

    def __init__(
        self,
        *,
        text: str = "",
        answer: str = "",
        generated: bool = False,
        reasoning: bool = False,
        summary: bool = False,
        finish: str | None = None,
        truncated: bool | None = None,
        ended: bool | None = None,
        usage: Usage | None = None,
        model: str | None = None,
        error: str | None = None,
        id: str | None = None,
    ) -> None:
        self.text = text
        self.answer = answer
        self.generated = generated
        self.reasoning = reasoning
        self.summary = summary
        self.finish = finish
        self.truncated = finish == LENGTH if truncated is None else truncated
        self.ended = finish is not None if ended is None else ended
        self.usage = usage
        self.model = model
        self.error = error
        self.id = id


def _none(thing: Any) -> None:
    return None


class Format:
    """One format: `read` says what a chunk carries; `quick` gives a chunk's text if plain answer text is all of it.

    `quick` is a short cut only: None means "ask `read`". `reply` reads a whole reply, None if it is none of this
    format. `end_mark`: a complete stream says that it ended. `by_value`: chunks are what they are, also those that look
    like lines of an event stream.
    """

    __slots__ = ("by_value", "end_mark", "is_chunk", "name", "quick", "read", "reply")

    def __init__(
        self,
        name: str,
        *,
        is_chunk: Callable[[object], bool],
        read: Callable[[Any], Reading],
        reply: Callable[[Any], Reading | None] = _none,
        quick: Callable[[Any], str | None] = _none,
        end_mark: bool,
        by_value: bool = False,
    ) -> None:
        self.name = name
        self.is_chunk = is_chunk
        self.read = read
        self.reply = reply
        self.quick = quick
        self.end_mark = end_mark
        self.by_value = by_value


def get(thing: Any, key: str) -> Any:
    """A value by name from a dict or an object, None if it has none.

    Pydantic's own look-up of a missing name costs microseconds, so its two dicts are asked directly.
    """
    if type(thing) is dict:
        return thing.get(key)
    own = getattr(thing, "__dict__", None)
    if own is not None:
        if key in own:
            return own[key]
        extra = getattr(thing, "__pydantic_extra__", thing)
        if extra is not thing:
            return extra.get(key) if extra else None
    if isinstance(thing, Mapping):
        return thing.get(key)
    return getattr(thing, key, None)


def getter(thing: Any) -> Callable[[str], Any]:
    """`get` for several names of one thing, which is quicker where its values are in one dict."""
    if type(thing) is dict:
        return thing.get
    if not getattr(thing, "__pydantic_extra__", True):
        found: Callable[[str], Any] = thing.__dict__.get
        return found
    return partial(get, thing)


def count(thing: Any, key: str) -> int | None:
    """A count by name; None for anything that is none."""
    return None if thing is None else number(get(thing, key))


def number(value: Any) -> int | None:
    """A count as it is; None for anything that is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def word(value: Any) -> str | None:
    """A text that says something, else None."""
    return value if isinstance(value, str) and value else None


def rows(value: Any) -> list[Any] | tuple[Any, ...]:
    """A list as it is; nothing for anything else."""
    return value if isinstance(value, (list, tuple)) else ()


def error_type(error: Any) -> str | None:
    """The error.type of an error sent in band; None if there is none."""
    if not error:
        return None
    return word(get(error, "type")) or word(get(error, "code")) or "error"
