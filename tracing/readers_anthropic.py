"""The events of Anthropic messages."""

from typing import Any, Final

from hopbudget.tracing.reading import LENGTH, Format, Reading, Usage, count, error_type, get, word

_EVENTS: Final = {
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "ping",
    "error",
}
_LIMITS: Final = {"max_tokens", "model_context_window_exceeded"}
_DELTAS: Final = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
"""Where each kind of delta has its generated text. Signatures and citations are none."""


def _is_event(thing: object) -> bool:
    return get(thing, "type") in _EVENTS


def read_event(event: Any) -> Reading:
    """An event of a message: deltas of text, thinking and tool input carry tokens, pings and signatures none."""
    kind = get(event, "type")
    if kind == "content_block_delta":
        return _delta(get(event, "delta"))
    if kind == "content_block_start":
        return _block(get(event, "content_block"))
    if kind == "message_start":
        message = get(event, "message")
        usage = _usage(get(message, "usage"))
        if usage is not None:
            # It counts what was generated when the headers went; only the end says what was generated at all.
            usage.output = usage.reasoning = None
        return Reading(usage=usage, model=word(get(message, "model")))
    if kind == "message_delta":
        finish = word(get(get(event, "delta"), "stop_reason"))
        return Reading(finish=finish, truncated=finish in _LIMITS, ended=False, usage=_usage(get(event, "usage")))
    if kind == "message_stop":
        return Reading(ended=True)
    if kind == "error":
        return Reading(error=error_type(get(event, "error")) or "error")
    return Reading()


def _delta(delta: Any) -> Reading:
    kind = get(delta, "type")
    text = word(get(delta, _DELTAS[kind])) if kind in _DELTAS else None
    # Thinking may come as a summary, and `thinking_tokens` count the raw reasoning.
    thinking = kind == "thinking_delta"
    return Reading(
        text=text or "",
        answer=(text or "") if kind == "text_delta" else "",
        generated=text is not None,
        reasoning=thinking and text is not None,
        summary=thinking and text is not None,
    )


def _block(block: Any) -> Reading:
    kind = word(get(block, "type")) or ""
    if kind == "text":
        return _delta({"type": "text_delta", "text": get(block, "text")})
    name = word(get(block, "name")) if kind.endswith("tool_use") else None
    return Reading(text=name or "", generated=name is not None)


def _quick(event: Any) -> str | None:
    own = getattr(event, "__dict__", None)
    if own is None or own.get("type") != "content_block_delta":
        return None
    delta = getattr(own.get("delta"), "__dict__", None)
    if delta is None or delta.get("type") != "text_delta":
        return None
    text = delta.get("text")
    return text if isinstance(text, str) and text else None


def _usage(usage: Any) -> Usage | None:
    if usage is None:
        return None
    fresh = count(usage, "input_tokens")
    read = count(usage, "cache_read_input_tokens")
    written = count(usage, "cache_creation_input_tokens")
    return Usage(
        input=None if fresh is None else fresh + (read or 0) + (written or 0),
        output=count(usage, "output_tokens"),
        cached=read,
        reasoning=count(get(usage, "output_tokens_details"), "thinking_tokens"),
    )


def read_reply(reply: Any) -> Reading | None:
    """A whole message."""
    if get(reply, "type") == "error" and get(reply, "error"):
        return Reading(error=error_type(get(reply, "error")))
    if get(reply, "type") != "message" or get(reply, "role") != "assistant":
        return None
    finish = word(get(reply, "stop_reason"))
    return Reading(
        generated=True,
        finish=finish,
        truncated=finish in _LIMITS or finish == LENGTH,
        usage=_usage(get(reply, "usage")),
        model=word(get(reply, "model")),
        id=word(get(reply, "id")),
    )


MESSAGES: Final = Format(
    "anthropic.messages", is_chunk=_is_event, read=read_event, reply=read_reply, quick=_quick, end_mark=True
)
