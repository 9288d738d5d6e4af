"""The output items of OpenAI's responses: what each looks like, and the events that open, fill and close it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from hopbudget.endpoint.script import Kind, Step

Status = Literal["in_progress", "completed", "incomplete"]
Event = dict[str, Any]


@dataclass(slots=True)
class Item:
    """One output item while it is written. `suffix` names the answer it stands in."""

    kind: Kind
    suffix: str
    index: int
    tool: str = ""
    text: str = ""

    def continues(self, step: Step) -> bool:
        """Whether `step` belongs to this item."""
        return step.kind == self.kind and not step.tool

    @property
    def id(self) -> str:
        """The item's name."""
        prefix = {"text": "msg", "tool": "fc"}.get(self.kind, "rs")
        return f"{prefix}_{self.suffix}-{self.index}"

    def as_object(self, status: Status) -> dict[str, Any]:
        """The item as it stands in the response."""
        match self.kind:
            case "text":
                content = [] if status == "in_progress" else [self._part()]
                return {"id": self.id, "type": "message", "status": status, "role": "assistant", "content": content}
            case "tool":
                call = {"call_id": f"call_{self.suffix}-{self.index}", "name": self.tool, "arguments": self.text}
                return {"id": self.id, "type": "function_call", "status": status, **call}
            case _:
                told = self.kind == "reasoning" and status != "in_progress"
                return {"id": self.id, "type": "reasoning", "summary": [self._part()] if told else []}

    def opening(self) -> Iterator[Event]:
        """The events before the first delta."""
        yield self._of_item("response.output_item.added", "in_progress")
        if (part := self._part_events) is not None:
            yield self._event(f"response.{part}.added", part=self._part())

    def delta(self, text: str) -> Iterator[Event]:
        """The event that carries `text`; a call's first step only names the tool, and the opening has done so."""
        self.text += text
        match self.kind:
            case "text":
                yield self._event("response.output_text.delta", delta=text, logprobs=[])
            case "reasoning":
                yield self._event("response.reasoning_summary_text.delta", delta=text)
            case "tool" if text:
                yield self._event("response.function_call_arguments.delta", delta=text)
            case _:
                pass

    def closing(self, status: Status) -> Iterator[Event]:
        """The events after the last delta."""
        match self.kind:
            case "text":
                yield self._event("response.output_text.done", text=self.text, logprobs=[])
            case "reasoning":
                yield self._event("response.reasoning_summary_text.done", text=self.text)
            case "tool":
                yield self._event("response.function_call_arguments.done", arguments=self.text)
            case _:
                pass
        if (part := self._part_events) is not None:
            yield self._event(f"response.{part}.done", part=self._part())
        yield self._of_item("response.output_item.done", status)

    @property
    def _part_events(self) -> str | None:
        return {"text": "content_part", "reasoning": "reasoning_summary_part"}.get(self.kind)

    def _part(self) -> dict[str, Any]:
        if self.kind == "reasoning":
            return {"type": "summary_text", "text": self.text}
        return {"type": "output_text", "text": self.text, "annotations": [], "logprobs": []}

    def _of_item(self, name: str, status: Status) -> Event:
        return {"type": name, "output_index": self.index, "item": self.as_object(status)}

    def _event(self, name: str, **rest: Any) -> Event:
        inner = {"text": {"content_index": 0}, "reasoning": {"summary_index": 0}}.get(self.kind, {})
        return {"type": name, "item_id": self.id, "output_index": self.index, **inner, **rest}
