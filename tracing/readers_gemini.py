"""Gemini's `generateContent`, streamed or whole: each chunk is a reply of its own, in either spelling of names."""

from typing import Any, Final

from hopbudget.tracing.reading import Format, Reading, Usage, count, error_type, get, rows, word


def _either(thing: Any, snake: str, camel: str) -> Any:
    value = get(thing, snake)
    return get(thing, camel) if value is None else value


def _is_chunk(thing: object) -> bool:
    candidates = get(thing, "candidates")
    return isinstance(candidates, (list, tuple)) or _either(thing, "usage_metadata", "usageMetadata") is not None


def read_chunk(chunk: Any) -> Reading:
    """A chunk: parts with text, thought or a function call carry tokens."""
    answer: list[str] = []
    thought: list[str] = []
    called = False
    finish: str | None = None
    for candidate in rows(get(chunk, "candidates")):
        finish = _reason(_either(candidate, "finish_reason", "finishReason")) or finish
        for part in rows(get(get(candidate, "content"), "parts")):
            text = word(get(part, "text")) or ""
            (thought if get(part, "thought") else answer).append(text)
            called = called or _either(part, "function_call", "functionCall") is not None
    said, hidden = "".join(answer), "".join(thought)
    return Reading(
        text=hidden + said,
        answer=said,
        generated=bool(said or hidden) or called,
        summary=bool(hidden),
        finish=finish,
        truncated=finish == "max_tokens",
        usage=_usage(_either(chunk, "usage_metadata", "usageMetadata")),
        model=word(_either(chunk, "model_version", "modelVersion")),
        error=error_type(get(chunk, "error")),
    )


def _reason(value: Any) -> str | None:
    """The reason in lower case, from a text or an enumeration's member."""
    return word(str(get(value, "value") or value).lower()) if value else None


def _usage(usage: Any) -> Usage | None:
    if usage is None:
        return None
    said = _first(count(usage, "candidates_token_count"), count(usage, "candidatesTokenCount"))
    thought = _first(count(usage, "thoughts_token_count"), count(usage, "thoughtsTokenCount"))
    return Usage(
        input=_first(count(usage, "prompt_token_count"), count(usage, "promptTokenCount")),
        output=None if said is None else said + (thought or 0),
        cached=_first(count(usage, "cached_content_token_count"), count(usage, "cachedContentTokenCount")),
        reasoning=thought,
    )


def _first(one: int | None, other: int | None) -> int | None:
    return other if one is None else one


def read_reply(reply: Any) -> Reading | None:
    """A whole reply."""
    if not rows(get(reply, "candidates")):
        return None
    reading = read_chunk(reply)
    reading.id = word(_either(reply, "response_id", "responseId"))
    return reading


GEMINI: Final = Format("gemini", is_chunk=_is_chunk, read=read_chunk, reply=read_reply, end_mark=True)
