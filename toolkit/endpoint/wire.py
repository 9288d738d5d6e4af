"""OpenAI's chat completions on the wire: steps to server-sent events, or to one reply."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from hopbudget.endpoint.script import Script, Step, Usage, Write, comment, event, fragments

FINGERPRINT: Final = "hopbudget-simulation"
"""Stands in every answer, so that nobody takes a simulated time for a measured one."""


@dataclass(frozen=True, slots=True)
class ChatWire:
    """What all events of one answer have in common.

    With `include_usage` every chunk carries a `usage` field, null on all but the usage chunk. Whether that chunk
    comes at all is the script's say.
    """

    id: str
    model: str
    created: int
    include_usage: bool

    def writes(self, script: Script) -> Iterator[Write]:
        """The answer as a stream: bytes and when to write them."""
        before_s = 0.0
        for step in script.steps:
            data = self._bytes(step, script)
            yield from fragments(step, data, script.framing.fragment_bytes, earliest_s=before_s)
            before_s = step.after_s

    def reply(self, script: Script) -> dict[str, Any]:
        """The answer as one object."""
        message: dict[str, Any] = {"role": "assistant", "content": _joined(script, "text"), "refusal": None}
        if thought := _joined(script, "reasoning"):
            message[script.reasoning_field] = thought
        if name := next((step.tool for step in script.steps if step.tool), ""):
            function = {"name": name, "arguments": _joined(script, "tool") or ""}
            message["tool_calls"] = [{"id": self._call_id, "type": "function", "function": function}]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": script.finish}
        return {**self._head("chat.completion"), "choices": [choice], "usage": usage_object(script.usage)}

    @property
    def _call_id(self) -> str:
        return f"call_{self.id.removeprefix('chatcmpl-')}"

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": FINGERPRINT,
        }

    def _bytes(self, step: Step, script: Script) -> bytes:
        if step.kind == "ping":
            return comment("ping", script.framing)
        payload = b"[DONE]" if step.kind == "done" else msgspec.json.encode(self._event(step, script))
        return event(payload, script.framing)

    def _event(self, step: Step, script: Script) -> dict[str, Any]:
        if step.kind == "error":
            return {"error": {"message": step.text, "type": "server_error", "param": None, "code": None}}
        head = self._head("chat.completion.chunk")
        if step.kind == "usage":
            return {**head, "choices": [], "usage": usage_object(script.usage)}
        finish = script.finish if step.kind == "stop" else None
        delta = self._delta(step, script)
        head["choices"] = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
        return {**head, "usage": None} if self.include_usage else head

    def _delta(self, step: Step, script: Script) -> dict[str, Any]:
        match step.kind:
            case "role":
                return {"role": "assistant", "content": ""}
            case "text":
                return {"content": step.text}
            case "reasoning":
                return {script.reasoning_field: step.text}
            case "tool" if step.tool:
                function = {"name": step.tool, "arguments": step.text}
                return {"tool_calls": [{"index": 0, "id": self._call_id, "type": "function", "function": function}]}
            case "tool":
                return {"tool_calls": [{"index": 0, "function": {"arguments": step.text}}]}
            case _:
                return {}


def usage_object(usage: Usage) -> dict[str, Any]:
    """Token counts as OpenAI states them."""
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def _joined(script: Script, kind: str) -> str | None:
    return "".join(step.text for step in script.steps if step.kind == kind) or None
