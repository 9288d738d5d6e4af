"""The formats of OpenAI: chat completions, completions, and the events of responses."""

from collections.abc import Mapping
from typing import Any, Final

from hopbudget.tracing.reading import LENGTH, Format, Reading, Usage, count, error_type, get, getter, number, word

_REPLY_ENDED: Final = {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}
_SUMMARIES: Final = "response.reasoning_summary"
_REASONING: Final = "response.reasoning_text"
_ITEM_BEGUN: Final = "response.output_item.added"
_CALL: Final = "_call"
"""Ends the types of items that call a tool: `function_call`, `custom_tool_call`, `mcp_call`."""
_LIMIT_REACHED: Final = "max_output_tokens"


def _usage(thing: Any) -> Usage | None:
    if thing is None:
        return None
    told = getter(thing)
    return Usage(
        input=number(told("prompt_tokens")),
        output=number(told("completion_tokens")),
        cached=count(told("prompt_tokens_details"), "cached_tokens"),
        reasoning=count(told("completion_tokens_details"), "reasoning_tokens"),
    )


def _call_text(call: Any) -> str:
    function = get(call, "function") or call
    return (word(get(function, "name")) or "") + (word(get(function, "arguments")) or "")


def read_chat_chunk(chunk: Any) -> Reading:
    """An OpenAI chat completion chunk: role-only, empty and usage-only chunks carry no generated token."""
    content: list[str] = []
    other: list[str] = []
    reasoned = called = False
    finish: str | None = None
    for choice in get(chunk, "choices") or ():
        finish = word(get(choice, "finish_reason")) or finish
        delta = get(choice, "delta")
        if delta is None:
            continue
        reasoning = word(get(delta, "reasoning_content")) or word(get(delta, "reasoning"))
        if reasoning:
            reasoned = True
            other.append(reasoning)
        calls = [*(get(delta, "tool_calls") or ())]
        if get(delta, "function_call"):
            calls.append(get(delta, "function_call"))
        called = called or bool(calls)
        other.extend(_call_text(call) for call in calls)
        other.append(word(get(delta, "refusal")) or "")
        said = get(delta, "content")
        if isinstance(said, (list, tuple)):
            for part in said:
                thought = "".join(word(get(piece, "text")) or "" for piece in get(part, "thinking") or ())
                reasoned = reasoned or bool(thought)
                other.append(thought)
                content.append(word(get(part, "text")) or "")
        else:
            content.append(word(said) or "")
    answer = "".join(content)
    text = "".join(other) + answer
    return Reading(
        text=text,
        answer=answer,
        generated=bool(text) or called,
        reasoning=reasoned,
        finish=finish,
        usage=_usage(get(chunk, "usage")),
        model=word(get(chunk, "model")),
        error=error_type(get(chunk, "error")),
    )


def quick_chat_chunk(chunk: Any) -> str | None:
    """The text of a chat chunk that carries answer text and nothing else; None when in doubt."""
    try:
        own = chunk.__dict__
        (choice,) = own["choices"]
        if own["usage"] is not None:
            return None
        own = choice.__dict__
        if own["finish_reason"] is not None:
            return None
        delta = own["delta"]
        if (delta.__pydantic_extra__ or len(delta.__pydantic_fields_set__) != 1) and _says_more(delta):
            return None
        text: str | None = delta.content
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return text or None


def _says_more(delta: Any) -> bool:
    """Whether a delta carries more than a text and the role."""
    own = delta.__dict__
    if own["tool_calls"] or own["refusal"] or own["function_call"]:
        return True
    extra = delta.__pydantic_extra__
    return bool(extra) and any(extra.values())


def _is_chat_chunk(thing: object) -> bool:
    if isinstance(thing, Mapping):
        return "choices" in thing or ("error" in thing and "type" not in thing)
    return get(thing, "choices") is not None


def read_chat_reply(reply: Any) -> Reading | None:
    """A whole chat completion."""
    return _choices_reply(reply, "message")


def read_completion_chunk(chunk: Any) -> Reading:
    """A chunk of the older completions: the text of each choice."""
    texts: list[str] = []
    finish: str | None = None
    for choice in get(chunk, "choices") or ():
        finish = word(get(choice, "finish_reason")) or finish
        texts.append(word(get(choice, "text")) or "")
    text = "".join(texts)
    return Reading(
        text=text,
        answer=text,
        generated=bool(text),
        finish=finish,
        usage=_usage(get(chunk, "usage")),
        model=word(get(chunk, "model")),
        error=error_type(get(chunk, "error")),
    )


def _is_completion_chunk(thing: object) -> bool:
    choices = get(thing, "choices")
    return isinstance(choices, (list, tuple)) and bool(choices) and get(choices[0], "text") is not None


def read_completion_reply(reply: Any) -> Reading | None:
    """A whole completion of the older kind."""
    return _choices_reply(reply, "text")


def _choices_reply(reply: Any, part: str) -> Reading | None:
    told = getter(reply)
    choices = told("choices")
    if not isinstance(choices, (list, tuple)):
        return None
    there = False
    finish: str | None = None
    for choice in choices:
        of_choice = getter(choice)
        there = there or of_choice(part) is not None
        reason = word(of_choice("finish_reason"))
        finish = reason if finish is None or reason == LENGTH else finish
    if not there:
        return None
    return Reading(
        generated=True,
        finish=finish,
        usage=_usage(told("usage")),
        model=word(told("model")),
        error=error_type(told("error")),
        id=word(told("id")),
    )


def _is_event(thing: object) -> bool:
    kind = get(thing, "type")
    return isinstance(kind, str) and (
        kind.startswith("response.") or (kind == "error" and get(thing, "sequence_number") is not None)
    )


def read_response_event(event: Any) -> Reading:
    """An event of a response: every `.delta` with a text carries tokens, an answer if it is of the output's text.

    A tool call begins with its name, which no delta repeats.
    """
    kind = word(get(event, "type")) or ""
    if kind.endswith(".delta"):
        return _response_delta(kind, word(get(event, "delta")) or "")
    if kind == _ITEM_BEGUN:
        name = _called(get(event, "item"))
        return Reading(text=name, generated=bool(name))
    if kind == "error":
        return Reading(error=word(get(event, "code")) or error_type(get(event, "error")) or "error")
    response = get(event, "response")
    if response is None:
        return Reading()
    if kind in _REPLY_ENDED:
        return _response(response)
    return Reading(model=word(get(response, "model")))


def _response_delta(kind: str, text: str) -> Reading:
    return Reading(
        text=text,
        answer=text if kind == "response.output_text.delta" else "",
        generated=bool(text),
        reasoning=kind.startswith(_REASONING),
        summary=kind.startswith(_SUMMARIES),
    )


def _called(item: Any) -> str:
    """The name of the tool that an item of the output calls; empty if it is a message, say."""
    return (word(get(item, "name")) or "") if (word(get(item, "type")) or "").endswith(_CALL) else ""


def _quick_response_event(event: Any) -> str | None:
    own = getattr(event, "__dict__", None)
    if own is None or own.get("type") != "response.output_text.delta":
        return None
    text = own.get("delta")
    return text if isinstance(text, str) and text else None


def read_response_reply(reply: Any) -> Reading | None:
    """A whole response; one that goes on in the background has not finished."""
    return _response(reply) if get(reply, "object") == "response" else None


def _response(response: Any) -> Reading:
    status = word(get(response, "status"))
    finish: str | None = None
    if status == "completed":
        finish = "stop"
    elif status == "incomplete":
        finish = word(get(get(response, "incomplete_details"), "reason")) or status
    usage = get(response, "usage")
    error = None
    if status in {"failed", "cancelled"}:
        error = word(get(get(response, "error"), "code")) or status
    return Reading(
        finish=LENGTH if finish == _LIMIT_REACHED else finish,
        ended=finish is not None or error is not None,
        usage=None
        if usage is None
        else Usage(
            input=count(usage, "input_tokens"),
            output=count(usage, "output_tokens"),
            cached=count(get(usage, "input_tokens_details"), "cached_tokens"),
            reasoning=count(get(usage, "output_tokens_details"), "reasoning_tokens"),
        ),
        model=word(get(response, "model")),
        error=error,
        id=word(get(response, "id")),
    )


CHAT: Final = Format(
    "openai.chat",
    is_chunk=_is_chat_chunk,
    read=read_chat_chunk,
    reply=read_chat_reply,
    quick=quick_chat_chunk,
    end_mark=True,
)
COMPLETIONS: Final = Format(
    "openai.completions",
    is_chunk=_is_completion_chunk,
    read=read_completion_chunk,
    reply=read_completion_reply,
    end_mark=True,
)
RESPONSES: Final = Format(
    "openai.responses",
    is_chunk=_is_event,
    read=read_response_event,
    reply=read_response_reply,
    quick=_quick_response_event,
    end_mark=True,
)
