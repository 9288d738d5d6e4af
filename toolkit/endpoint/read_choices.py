"""Requests to OpenAI's chat completions and legacy completions, read and checked."""

import json
from typing import Any

import msgspec

from hopbudget.endpoint.request import ApiError, Ask, Choice, Function, Turn, checked, decode, limit_of, text_of


class ChatFunction(msgspec.Struct):
    """A tool's name and the JSON schema of its arguments."""

    name: str
    parameters: dict[str, Any] | None = None


class ChatTool(msgspec.Struct):
    """A tool on offer."""

    function: ChatFunction
    type: str = "function"


class ChatMessage(msgspec.Struct):
    """One message; what we don't need of it is not read."""

    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[dict[str, Any]] | None = None


class StreamOptions(msgspec.Struct):
    """What a client asks of a stream."""

    include_usage: bool = False


class ChatRequest(msgspec.Struct):
    """A chat completion request."""

    model: str
    messages: list[ChatMessage]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = None
    seed: int | None = None
    tools: list[ChatTool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None


class CompletionRequest(msgspec.Struct):
    """A legacy completion request; a prompt of numbers is one of tokens."""

    model: str
    prompt: str | list[str | int | list[int]]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    n: int | None = None
    seed: int | None = None


def read_chat(body: bytes) -> Ask:
    """The chat completion request in `body`.

    Raises ApiError: 400 for what can't be read or answered, 404 for a model we don't have.
    """
    chat = decode(body, ChatRequest)
    choice, named = _tool_choice(chat.tool_choice)
    ask = Ask(
        model=chat.model,
        turns=tuple(_turn(message) for message in chat.messages),
        stream=bool(chat.stream),
        limit=limit_of(max_tokens=chat.max_tokens, max_completion_tokens=chat.max_completion_tokens),
        tools=tuple(Function(tool.function.name, tool.function.parameters) for tool in chat.tools or []),
        choice=choice,
        named=named,
        schema=_schema(chat.response_format),
        seed=chat.seed,
        wants_usage=chat.stream_options is not None and chat.stream_options.include_usage,
    )
    _check_choices(chat)
    return checked(ask, "messages")


def read_completion(body: bytes) -> Ask:
    """The legacy completion request in `body`; raises as `read_chat`."""
    request = decode(body, CompletionRequest)
    ask = Ask(
        model=request.model,
        turns=(Turn("user", _prompt(request.prompt)),),
        stream=bool(request.stream),
        limit=limit_of(max_tokens=request.max_tokens),
        seed=request.seed,
        wants_usage=request.stream_options is not None and request.stream_options.include_usage,
    )
    _check_choices(request)
    return checked(ask, "prompt")


def _check_choices(request: ChatRequest | CompletionRequest) -> None:
    if request.n not in {None, 1}:
        raise ApiError("`n` must be 1: the simulation writes one choice.", param="n")
    if request.stream_options is not None and not request.stream:
        raise ApiError("`stream_options` is only allowed when `stream` is true.", param="stream_options")


def _turn(message: ChatMessage) -> Turn:
    calls = message.tool_calls or []
    functions = [call.get("function") for call in calls]
    names = (function.get("name") for function in functions if isinstance(function, dict))
    text = text_of(message.content) + (json.dumps(calls) if calls else "")
    return Turn(message.role, text, tuple(name for name in names if isinstance(name, str)))


def _tool_choice(given: str | dict[str, Any] | None) -> tuple[Choice, str | None]:
    match given:
        case "none" | "required":
            return given, None
        case {"type": "function", "function": {"name": str(name)}}:
            return "required", name
        case {"type": "allowed_tools", "allowed_tools": {"mode": "required"}}:
            return "required", None
        case _:
            return "auto", None


def _schema(given: dict[str, Any] | None) -> dict[str, Any] | None:
    match given:
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return schema
        case {"type": "json_object"}:
            return {"type": "object"}
        case _:
            return None


def _prompt(prompt: str | list[str | int | list[int]]) -> str:
    """The prompt's words; four characters stand for each of its tokens if those are what was sent."""
    if isinstance(prompt, str):
        return prompt
    if prompt and all(isinstance(part, int) for part in prompt):
        return "".join(f"{part:>4}"[-4:] for part in prompt)
    if len(prompt) != 1:
        raise ApiError("`prompt` must be one prompt: the simulation writes one choice.", param="prompt")
    first = prompt[0]
    return first if isinstance(first, str) else _prompt([*first] if isinstance(first, list) else [first])
