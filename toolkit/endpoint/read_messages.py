"""Requests to Anthropic's messages, read and checked."""

import json
from typing import Any

import msgspec

from hopbudget.endpoint.request import Ask, Choice, Function, Reasoning, Turn, checked, decode, limit_of, text_of


class AnthropicMessage(msgspec.Struct):
    """One message; blocks are read by hand."""

    role: str
    content: str | list[dict[str, Any]]


class MessagesRequest(msgspec.Struct):
    """A messages request."""

    model: str
    max_tokens: int
    messages: list[AnthropicMessage]
    system: str | list[dict[str, Any]] | None = None
    stream: bool | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None
    output_format: dict[str, Any] | None = None


def read_messages(body: bytes) -> Ask:
    """The request in `body`.

    Raises ApiError: 400 for what can't be read or answered, 404 for a model we don't have.
    """
    request = decode(body, MessagesRequest)
    choice, named = _tool_choice(request.tool_choice)
    system = [Turn("system", text_of(request.system))] if request.system else []
    said = [_turn(message) for message in request.messages]
    ask = Ask(
        model=request.model,
        turns=tuple(system + said) if said else (),
        stream=bool(request.stream),
        limit=limit_of(max_tokens=request.max_tokens),
        tools=tuple(_functions(request.tools or [])),
        choice=choice,
        named=named,
        schema=_schema((request.output_config or {}).get("format") or request.output_format),
        reasoning=_reasoning(request.thinking),
    )
    return checked(ask, "messages")


def _turn(message: AnthropicMessage) -> Turn:
    blocks = message.content if isinstance(message.content, list) else []
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    text = text_of(message.content) + (json.dumps(calls) if calls else "")
    return Turn(message.role, text, tuple(str(call.get("name")) for call in calls))


def _functions(tools: list[dict[str, Any]]) -> list[Function]:
    """The tools that are the caller's to run; those that the provider would run are never called here."""
    found = []
    for tool in tools:
        match tool:
            case {"name": str(name), "input_schema": dict(schema)}:
                found.append(Function(name, schema))
    return found


def _tool_choice(given: dict[str, Any] | None) -> tuple[Choice, str | None]:
    match given:
        case {"type": "none"}:
            return "none", None
        case {"type": "any"}:
            return "required", None
        case {"type": "tool", "name": str(name)}:
            return "required", name
        case _:
            return "auto", None


def _schema(form: Any) -> dict[str, Any] | None:
    match form:
        case {"type": "json_schema", "schema": dict(schema)}:
            return schema
        case _:
            return None


def _reasoning(thinking: dict[str, Any] | None) -> Reasoning:
    """A model thinks on this API only when it is told to."""
    match thinking:
        case {"type": "enabled" | "adaptive", "display": "omitted"}:
            return "hidden"
        case {"type": "enabled" | "adaptive"}:
            return "shown"
        case _:
            return "none"
