"""What a chunk of a stream, or a whole reply, carries: one pure function for each format on the wire.

Values are read by name from objects and from dicts alike, so that no client library is imported. A new format is a
new row in `FORMATS`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final


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


class Reading:
    """What one chunk carries.

    `generated`: at least one generated token. `text`: all text generated, for a tokenizer. `answer`: the part of it
    that belongs to the answer, inline thinking still in it. `reasoning`: the model's reasoning was streamed here.
    """

    __slots__ = ("answer", "error", "finish", "generated", "model", "reasoning", "text", "usage")

    def __init__(
        self,
        *,
        text: str = "",
        answer: str = "",
        generated: bool = False,
        reasoning: bool = False,
        finish: str | None = None,
        usage: Usage | None = None,
        model: str | None = None,
        error: str | None = None,
    ) -> None:
        self.text = text
        self.answer = answer
        self.generated = generated
        self.reasoning = reasoning
        self.finish = finish
        self.usage = usage
        self.model = model
        self.error = error


class Format:
    """One format: `read` says what a chunk carries; `quick` gives a chunk's text if plain answer text is all of it.

    `quick` is a short cut only: None means "ask `read`". `end_mark`: a complete stream says why it finished.
    """

    __slots__ = ("end_mark", "is_chunk", "name", "quick", "read")

    def __init__(
        self,
        name: str,
        *,
        is_chunk: Callable[[object], bool],
        read: Callable[[Any], Reading],
        quick: Callable[[Any], str | None],
        end_mark: bool,
    ) -> None:
        self.name = name
        self.is_chunk = is_chunk
        self.read = read
        self.quick = quick
        self.end_mark = end_mark


def get(thing: Any, key: str) -> Any:
    """A value by name from a dict or an object, None if it has none.

    Pydantic's own look-up of a missing name costs microseconds, so its two dicts are asked directly.
    """
    if isinstance(thing, Mapping):
        return thing.get(key)
    own = getattr(thing, "__dict__", None)
    if own is not None:
        if key in own:
            return own[key]
        if "__pydantic_fields_set__" in type(thing).__dict__ or hasattr(type(thing), "model_fields"):
            extra = getattr(thing, "__pydantic_extra__", None)
            return extra.get(key) if extra else None
    return getattr(thing, key, None)


def _count(thing: Any, key: str) -> int | None:
    value = get(thing, key) if thing is not None else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _usage(thing: Any) -> Usage | None:
    if thing is None:
        return None
    return Usage(
        input=_count(thing, "prompt_tokens"),
        output=_count(thing, "completion_tokens"),
        cached=_count(get(thing, "prompt_tokens_details"), "cached_tokens"),
        reasoning=_count(get(thing, "completion_tokens_details"), "reasoning_tokens"),
    )


def _error(thing: Any) -> str | None:
    """The error.type of an error sent inside the stream."""
    error = get(thing, "error")
    if not error:
        return None
    return _word(get(error, "type")) or _word(get(error, "code")) or "error"


def _call_text(call: Any) -> str:
    function = get(call, "function") or call
    return (_word(get(function, "name")) or "") + (_word(get(function, "arguments")) or "")


def read_chat_chunk(chunk: Any) -> Reading:
    """An OpenAI chat completion chunk: role-only, empty and usage-only chunks carry no generated token."""
    content: list[str] = []
    other: list[str] = []
    reasoned = called = False
    finish: str | None = None
    for choice in get(chunk, "choices") or ():
        finish = _word(get(choice, "finish_reason")) or finish
        delta = get(choice, "delta")
        if delta is None:
            continue
        reasoning = _word(get(delta, "reasoning_content")) or _word(get(delta, "reasoning"))
        if reasoning:
            reasoned = True
            other.append(reasoning)
        calls = [*(get(delta, "tool_calls") or ())]
        if get(delta, "function_call"):
            calls.append(get(delta, "function_call"))
        called = called or bool(calls)
        other.extend(_call_text(call) for call in calls)
        other.append(_word(get(delta, "refusal")) or "")
        content.append(_word(get(delta, "content")) or "")
    answer = "".join(content)
    text = "".join(other) + answer
    return Reading(
        text=text,
        answer=answer,
        generated=bool(text) or called,
        reasoning=reasoned,
        finish=finish,
        usage=_usage(get(chunk, "usage")),
        model=_word(get(chunk, "model")),
        error=_error(chunk),
    )


def quick_chat_chunk(chunk: Any) -> str | None:
    """The text of a chat chunk that carries answer text and nothing else; None when in doubt."""
    try:
        own = chunk.__dict__
        (choice,) = own["choices"]
        if own.get("usage") is not None:
            return None
        choice = choice.__dict__
        if choice["finish_reason"] is not None:
            return None
        delta = choice["delta"]
        own = delta.__dict__
        text = own["content"]
        if own["tool_calls"] or own["refusal"] or own["function_call"]:
            return None
        extra = delta.__pydantic_extra__
        if extra and any(extra.values()):
            return None
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return text or None


def _is_chat_chunk(thing: object) -> bool:
    if isinstance(thing, Mapping):
        return "choices" in thing or "error" in thing
    return get(thing, "choices") is not None


def read_text(piece: Any) -> Reading:
    """A piece of plain text, all of it answer."""
    text = piece if isinstance(piece, str) else ""
    return Reading(text=text, answer=text, generated=bool(text))


def _quick_text(piece: Any) -> str | None:
    return piece if piece and isinstance(piece, str) else None


TEXT: Final = Format(
    "text", is_chunk=lambda thing: isinstance(thing, str), read=read_text, quick=_quick_text, end_mark=False
)
CHAT: Final = Format(
    "openai.chat", is_chunk=_is_chat_chunk, read=read_chat_chunk, quick=quick_chat_chunk, end_mark=True
)
FORMATS: Final = (TEXT, CHAT)


def format_of(chunk: object) -> Format | None:
    """The format of a stream by one of its chunks; None while that can't be told."""
    for row in FORMATS:
        if row.is_chunk(chunk):
            return row
    return None


def read_reply(reply: object) -> Reading | None:
    """A whole chat completion; None if the object is no reply of a model."""
    choices = get(reply, "choices")
    if not isinstance(choices, (list, tuple)) or all(get(choice, "message") is None for choice in choices):
        return None
    reasons = [reason for choice in choices if (reason := _word(get(choice, "finish_reason")))]
    return Reading(
        generated=True,
        finish="length" if "length" in reasons else next(iter(reasons), None),
        usage=_usage(get(reply, "usage")),
        model=_word(get(reply, "model")),
        error=_error(reply),
    )
