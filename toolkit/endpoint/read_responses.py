"""Requests to OpenAI's responses, read and checked."""

import json
from typing import Any

import msgspec

from hopbudget.endpoint.request import (
    ApiError,
    Ask,
    Choice,
    Function,
    Reasoning,
    Turn,
    checked,
    decode,
    limit_of,
    text_of,
)
from hopbudget.endpoint.wire_responses import UNASKED


class ResponsesRequest(msgspec.Struct):
    """A responses request; items and tools are read by hand, as there are dozens of kinds."""

    model: str
    input: str | list[dict[str, Any]]
    instructions: str | None = None
    stream: bool | None = None
    max_output_tokens: int | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    text: dict[str, Any] | None = None
    reasoning: dict[str, Any] | None = None
    previous_response_id: str | None = None
    conversation: str | dict[str, Any] | None = None
    background: bool | None = None


def read_responses(body: bytes) -> Ask:
    """The request in `body`.

    Raises ApiError: 400 for what can't be read or answered, 404 for a model we don't have.
    """
    request = decode(body, ResponsesRequest)
    _check(request)
    choice, named = _tool_choice(request.tool_choice)
    items = request.input if isinstance(request.input, list) else [{"role": "user", "content": request.input}]
    said = [_turn(item) for item in items]
    system = [Turn("system", request.instructions)] if request.instructions else []
    ask = Ask(
        model=request.model,
        turns=tuple(system + said) if said else (),
        stream=bool(request.stream),
        limit=limit_of(max_output_tokens=request.max_output_tokens),
        tools=tuple(_functions(request.tools or [])),
        choice=choice,
        named=named,
        schema=_schema(request.text),
        reasoning=_reasoning(request.reasoning),
        echo={name: value for name, value in decode(body, dict[str, Any]).items() if name in UNASKED},
    )
    return checked(ask, "input")


def _check(request: ResponsesRequest) -> None:
    for name in ("previous_response_id", "conversation", "background"):
        if getattr(request, name):
            raise ApiError(f"`{name}` is not served: the simulation keeps no responses; send all input.", param=name)


def _turn(item: dict[str, Any]) -> Turn:
    match item:
        case {"type": "function_call", "name": str(name)}:
            return Turn("assistant", json.dumps([name, item.get("arguments", "")]), (name,))
        case {"type": "function_call_output"}:
            return Turn("tool", text_of(item.get("output")))
        case _:
            return Turn(str(item.get("role", "assistant")), text_of(item.get("content")))


def _functions(tools: list[dict[str, Any]]) -> list[Function]:
    """The tools that are the caller's to run; those that the provider would run are never called here."""
    found = []
    for tool in tools:
        match tool:
            case {"type": "function", "name": str(name)}:
                parameters = tool.get("parameters")
                found.append(Function(name, parameters if isinstance(parameters, dict) else None))
    return found


def _tool_choice(given: str | dict[str, Any] | None) -> tuple[Choice, str | None]:
    match given:
        case "none" | "required":
            return given, None
        case {"type": "function", "name": str(name)}:
            return "required", name
        case {"type": "allowed_tools", "mode": "required"}:
            return "required", None
        case _:
            return "auto", None


def _schema(text: dict[str, Any] | None) -> dict[str, Any] | None:
    match text:
        case {"format": {"type": "json_schema", "schema": dict(schema)}}:
            return schema
        case {"format": {"type": "json_object"}}:
            return {"type": "object"}
        case _:
            return None


def _reasoning(asked: dict[str, Any] | None) -> Reasoning:
    """This API tells what a model thought only to those who ask for a summary."""
    match asked:
        case {"summary": str()} | {"generate_summary": str()}:
            return "shown"
        case _:
            return "hidden"
