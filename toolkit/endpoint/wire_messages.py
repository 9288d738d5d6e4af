"""Anthropic's messages on the wire: typed events about content blocks, ended by `message_stop`."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from hopbudget.endpoint.script import Finish, Framing, Kind, Script, Step, Usage
from hopbudget.endpoint.wire import typed

STOP_REASONS: Final[dict[Finish, str]] = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
SIGNATURE: Final = "c2ltdWxhdGVkLCBzaWducyBub3RoaW5n"
"""Closes a block of thinking; it says in base64 that it signs nothing."""
OUTPUT_AT_START: Final = 1
"""What `message_start` claims as output tokens before any is written, as the real API does."""
Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MessagesWire:
    """What all events of one answer have in common."""

    id: str
    model: str

    def encoded(self, script: Script) -> Iterator[tuple[Step, bytes]]:
        """Each step of the stream with its bytes: often several events, always one write."""
        stream = _Stream(self, script)
        for step in script.steps:
            yield step, typed(stream.events(step), script.framing)

    def ping(self, framing: Framing) -> bytes:
        """A ping event."""
        return typed(iter([{"type": "ping"}]), framing)

    def reply(self, script: Script) -> dict[str, Any]:
        """The answer as one object."""
        stream = _Stream(self, script)
        for step in script.steps:
            for _ in stream.events(step):
                pass
        usage = {**input_usage(script.usage), **output_usage(script.usage)}
        return self.message(stream.content, STOP_REASONS[script.finish], usage)

    def message(self, content: list[dict[str, Any]], stop_reason: str | None, usage: dict[str, Any]) -> dict[str, Any]:
        """The message object."""
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": {**usage, "service_tier": "standard"},
        }


@dataclass(slots=True)
class _Block:
    kind: Kind
    tool: str
    tool_id: str
    text: str = ""

    def as_object(self, *, whole: bool) -> dict[str, Any]:
        """The block as it stands in the message, or as it starts."""
        text = self.text if whole else ""
        match self.kind:
            case "text":
                return {"type": "text", "text": text}
            case "tool":
                return {"type": "tool_use", "id": self.tool_id, "name": self.tool, "input": _input(text)}
            case _:
                return {"type": "thinking", "thinking": text, "signature": SIGNATURE if whole else ""}

    def deltas(self, text: str) -> Iterator[dict[str, Any]]:
        """What `text` adds to the block."""
        self.text += text
        match self.kind:
            case "text":
                yield {"type": "text_delta", "text": text}
            case "reasoning":
                yield {"type": "thinking_delta", "thinking": text}
            case "tool":
                yield {"type": "input_json_delta", "partial_json": text}
            case _:
                pass


class _Stream:
    """The state of one stream: which blocks are done and which is open."""

    def __init__(self, wire: MessagesWire, script: Script) -> None:
        self.content: list[dict[str, Any]] = []
        self._wire = wire
        self._script = script
        self._open: _Block | None = None

    def events(self, step: Step) -> Iterator[Event]:
        """What goes out for `step`."""
        match step.kind:
            case "role":
                usage = {**input_usage(self._script.usage), "output_tokens": OUTPUT_AT_START}
                yield {"type": "message_start", "message": self._wire.message([], None, usage)}
                yield {"type": "ping"}
            case "text" | "reasoning" | "hidden" | "tool":
                yield from self._generated(step)
            case "stop":
                yield from self._close()
                yield self._delta()
            case "done":
                yield {"type": "message_stop"}
            case "ping":
                yield {"type": "ping"}
            case "error" | "failed":
                error = {"type": "overloaded_error", "message": step.text}
                yield {"type": "error", "error": error, "request_id": self._wire.id}
            case "usage":
                pass  # usage rides on message_delta

    def _generated(self, step: Step) -> Iterator[Event]:
        if self._open is None or self._open.kind != step.kind or step.tool:
            yield from self._close()
            index = len(self.content)
            self._open = _Block(step.kind, step.tool, f"toolu_{self._wire.id.removeprefix('msg_')}-{index}")
            yield {"type": "content_block_start", "index": index, "content_block": self._open.as_object(whole=False)}
        yield from self._block_deltas(self._open.deltas(step.text))

    def _close(self) -> Iterator[Event]:
        if self._open is None:
            return
        if self._open.kind in {"reasoning", "hidden"}:
            yield from self._block_deltas(iter([{"type": "signature_delta", "signature": SIGNATURE}]))
        yield {"type": "content_block_stop", "index": len(self.content)}
        self.content.append(self._open.as_object(whole=True))
        self._open = None

    def _block_deltas(self, deltas: Iterator[dict[str, Any]]) -> Iterator[Event]:
        for delta in deltas:
            yield {"type": "content_block_delta", "index": len(self.content), "delta": delta}

    def _delta(self) -> Event:
        delta = {"stop_reason": STOP_REASONS[self._script.finish], "stop_sequence": None}
        usage = {**input_usage(self._script.usage), **output_usage(self._script.usage)}
        return {"type": "message_delta", "delta": delta, "usage": usage if self._script.states_usage else {}}


def input_usage(usage: Usage) -> dict[str, Any]:
    """What was read. Here the API's `input_tokens` leave out those that were cached."""
    return {
        "input_tokens": usage.prompt - usage.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
    }


def output_usage(usage: Usage) -> dict[str, Any]:
    """What was written in all, so far."""
    return {
        "output_tokens": usage.completion,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    }


def _input(text: str) -> dict[str, Any]:
    """A call's arguments; those of a call that was cut off can't be read, and are none."""
    try:
        parsed = json.loads(text) if text else {}
    except json.JSONDecodeError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
