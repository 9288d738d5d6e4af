"""OpenAI's responses on the wire: typed events, ended by `response.completed` or `response.incomplete`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hopbudget.endpoint.response_items import Event, Item, Status
from hopbudget.endpoint.script import Framing, Script, Step, Usage, comment
from hopbudget.endpoint.wire import typed

UNASKED: Final[dict[str, Any]] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "reasoning": {"effort": None, "summary": None},
    "store": False,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""What a response repeats of its request, and says where the request left it open."""


@dataclass(frozen=True, slots=True)
class ResponsesWire:
    """What all events of one answer have in common; `echo` is what the request asked of those in UNASKED."""

    id: str
    model: str
    created: int
    echo: Mapping[str, Any]

    def encoded(self, script: Script) -> Iterator[tuple[Step, bytes]]:
        """Each step of the stream with its bytes: often several events, always one write."""
        stream = _Stream(self, script)
        for step in script.steps:
            is_ping = step.kind == "ping"
            yield step, self.ping(script.framing) if is_ping else typed(stream.numbered(step), script.framing)

    def ping(self, framing: Framing) -> bytes:
        """A comment."""
        return comment("ping", framing)

    def reply(self, script: Script) -> dict[str, Any]:
        """The answer as one object: what its stream would end with."""
        stream = _Stream(self, script)
        last = [event for step in script.steps for event in stream.numbered(step)][-1]
        response: dict[str, Any] = last["response"]
        return response

    def response(self, status: str, output: list[dict[str, Any]], **rest: Any) -> dict[str, Any]:
        """The response object in one of its states."""
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "model": self.model,
            "output": output,
            "previous_response_id": None,
            "usage": None,
            **UNASKED,
            **self.echo,
            **rest,
        }


class _Stream:
    """The state of one stream: which items are done, which is open, how many events went before."""

    def __init__(self, wire: ResponsesWire, script: Script) -> None:
        self._wire = wire
        self._script = script
        self._cut = script.finish == "length"
        self._done: list[dict[str, Any]] = []
        self._open: Item | None = None
        self._sequence = 0

    def numbered(self, step: Step) -> Iterator[Event]:
        """The events of `step` with their sequence numbers."""
        for event in self._events(step):
            yield {"type": event["type"], "sequence_number": self._sequence, **event}
            self._sequence += 1

    def _events(self, step: Step) -> Iterator[Event]:
        match step.kind:
            case "role":
                for name in ("created", "in_progress"):
                    yield {"type": f"response.{name}", "response": self._wire.response("in_progress", [])}
            case "text" | "reasoning" | "hidden" | "tool":
                yield from self._generated(step)
            case "stop":
                yield from self._close(last=True)
            case "done":
                yield self._end("incomplete" if self._cut else "completed")
            case "error":
                yield {"type": "error", "code": "server_error", "message": step.text, "param": None}
            case "failed":
                error = {"code": "server_error", "message": step.text}
                yield {"type": "response.failed", "response": self._wire.response("failed", [], error=error)}
            case "usage" | "ping":
                pass  # usage rides on the last event

    def _generated(self, step: Step) -> Iterator[Event]:
        if self._open is None or not self._open.continues(step):
            yield from self._close()
            self._open = Item(step.kind, self._wire.id.removeprefix("resp_"), len(self._done), step.tool)
            yield from self._open.opening()
        yield from self._open.delta(step.text)

    def _close(self, *, last: bool = False) -> Iterator[Event]:
        if self._open is None:
            return
        status: Status = "incomplete" if last and self._cut else "completed"
        yield from self._open.closing(status)
        self._done.append(self._open.as_object(status))
        self._open = None

    def _end(self, status: str) -> Event:
        rest: dict[str, Any] = {"usage": usage_object(self._script.usage)} if self._script.states_usage else {}
        if self._cut:
            rest["incomplete_details"] = {"reason": "max_output_tokens"}
        return {"type": f"response.{status}", "response": self._wire.response(status, self._done, **rest)}


def usage_object(usage: Usage) -> dict[str, Any]:
    """Token counts as this API states them."""
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.prompt + usage.completion,
    }
