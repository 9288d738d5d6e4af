"""OpenAI's chat completions and legacy completions on the wire: chunks of choices, `[DONE]` at the end."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from hopbudget.endpoint.script import Framing, Script, Step, Usage, comment, event
from hopbudget.endpoint.wire import FINGERPRINT


@dataclass(frozen=True, slots=True)
class ChoicesWire:
    """What all events of one answer have in common.

    With `include_usage` every chunk carries a `usage` field, null on all but the usage chunk. Whether that chunk
    comes at all is the script's say.
    """

    id: str
    model: str
    created: int
    include_usage: bool

    def encoded(self, script: Script) -> Iterator[tuple[Step, bytes]]:
        """Each step of the stream with its bytes."""
        texts = inlined(script.steps) if self._thinks_aloud(script) else ((step, step.text) for step in script.steps)
        for step, text in texts:
            yield step, self._bytes(step, text, script)

    def ping(self, framing: Framing) -> bytes:
        """A comment."""
        return comment("ping", framing)

    def _thinks_aloud(self, script: Script) -> bool:
        return script.reasoning_field == "content"

    def _said(self, script: Script) -> str:
        if not self._thinks_aloud(script):
            return script.text_of("text")
        return "".join(text for step, text in inlined(script.steps) if step.kind in {"text", "reasoning"})

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": FINGERPRINT,
        }

    def _bytes(self, step: Step, text: str, script: Script) -> bytes:
        match step.kind:
            case "ping":
                return self.ping(script.framing)
            case "hidden":
                return b""
            case "done":
                return event(b"[DONE]", script.framing)
            case _:
                return event(msgspec.json.encode(self._event(step, text, script)), script.framing)

    def _event(self, step: Step, text: str, script: Script) -> dict[str, Any]:
        if step.kind == "error":
            return {"error": {"message": step.text, "type": "server_error", "param": None, "code": None}}
        head = self._head(self._chunk_kind)
        if step.kind == "usage":
            return {**head, "choices": [], "usage": usage_object(script.usage)}
        head["choices"] = [self._choice(step, text, script)]
        return {**head, "usage": None} if self.include_usage else head

    @property
    def _chunk_kind(self) -> str:
        raise NotImplementedError

    def _choice(self, step: Step, text: str, script: Script) -> dict[str, Any]:
        raise NotImplementedError


class ChatWire(ChoicesWire):
    """Chat completions."""

    __slots__ = ()

    def reply(self, script: Script) -> dict[str, Any]:
        """The answer as one object."""
        message: dict[str, Any] = {"role": "assistant", "content": self._said(script) or None, "refusal": None}
        if not self._thinks_aloud(script) and (thought := script.text_of("reasoning")):
            message[script.reasoning_field] = thought
        if script.tool:
            function = {"name": script.tool, "arguments": script.text_of("tool")}
            message["tool_calls"] = [{"id": self._call_id, "type": "function", "function": function}]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": script.finish}
        return {**self._head("chat.completion"), "choices": [choice], "usage": usage_object(script.usage)}

    @property
    def _chunk_kind(self) -> str:
        return "chat.completion.chunk"

    @property
    def _call_id(self) -> str:
        return f"call_{self.id.removeprefix('chatcmpl-')}"

    def _choice(self, step: Step, text: str, script: Script) -> dict[str, Any]:
        finish = script.finish if step.kind == "stop" else None
        return {"index": 0, "delta": self._delta(step, text, script), "logprobs": None, "finish_reason": finish}

    def _delta(self, step: Step, text: str, script: Script) -> dict[str, Any]:
        match step.kind:
            case "role":
                return {"role": "assistant", "content": ""}
            case "text":
                return {"content": text}
            case "reasoning":
                return {script.reasoning_field: text}
            case "tool" if step.tool:
                function = {"name": step.tool, "arguments": text}
                return {"tool_calls": [{"index": 0, "id": self._call_id, "type": "function", "function": function}]}
            case "tool":
                return {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}
            case _:
                return {}


class CompletionsWire(ChoicesWire):
    """Legacy completions. They have no role, so that step is a chunk of no text; reasoning stands in the text."""

    __slots__ = ()

    def reply(self, script: Script) -> dict[str, Any]:
        """The answer as one object."""
        choice = {"index": 0, "text": self._said(script), "logprobs": None, "finish_reason": script.finish}
        return {**self._head(self._chunk_kind), "choices": [choice], "usage": usage_object(script.usage)}

    @property
    def _chunk_kind(self) -> str:
        return "text_completion"

    def _thinks_aloud(self, script: Script) -> bool:
        return True

    def _choice(self, step: Step, text: str, script: Script) -> dict[str, Any]:
        finish = script.finish if step.kind == "stop" else None
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}


def inlined(steps: Sequence[Step]) -> Iterator[tuple[Step, str]]:
    """Each step with its text where reasoning has no field of its own: between <think> tags, in the text.

    The tags go with the first token on either side, as those of a model that writes them do in one chunk.
    """
    thinking = False
    for step in steps:
        text = step.text
        if step.kind == "reasoning" and not thinking:
            thinking, text = True, f"<think>{text}"
        elif step.kind == "text" and thinking:
            thinking, text = False, f"</think>{text}"
        yield step, text


def usage_object(usage: Usage) -> dict[str, Any]:
    """Token counts as these two APIs state them."""
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
