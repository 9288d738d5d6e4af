"""The APIs that the endpoint speaks: for each its path, its reader, its wire format and its form of a refusal."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from hopbudget.endpoint.read_choices import read_chat, read_completion
from hopbudget.endpoint.read_messages import read_messages
from hopbudget.endpoint.read_responses import read_responses
from hopbudget.endpoint.request import ApiError, Ask
from hopbudget.endpoint.wire import Wire
from hopbudget.endpoint.wire_choices import ChatWire, CompletionsWire
from hopbudget.endpoint.wire_messages import MessagesWire
from hopbudget.endpoint.wire_responses import ResponsesWire

RATE_LIMITED: Final = 429
SERVER_ERRORS: Final = 500
OPENAI_TYPES: Final = {401: "authentication_error", 403: "permission_error", RATE_LIMITED: "rate_limit_error"}
ANTHROPIC_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    RATE_LIMITED: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


@dataclass(frozen=True, slots=True)
class Api:
    """One API. `wire` takes a request, the answer's id and the time in whole seconds since 1970."""

    name: str
    path: str
    id_prefix: str
    read: Callable[[bytes], Ask]
    wire: Callable[[Ask, str, int], Wire]
    refusal: Callable[[ApiError], dict[str, Any]]


def openai_refusal(error: ApiError) -> dict[str, Any]:
    """`error` as OpenAI's APIs put it."""
    kind = OPENAI_TYPES.get(error.status, "server_error" if error.status >= SERVER_ERRORS else "invalid_request_error")
    return {"error": {"message": error.message, "type": kind, "param": error.param, "code": error.code}}


def anthropic_refusal(error: ApiError) -> dict[str, Any]:
    """`error` as Anthropic's API puts it."""
    kind = ANTHROPIC_TYPES.get(error.status, "api_error" if error.status >= SERVER_ERRORS else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": error.message}}


def _chat(ask: Ask, answer_id: str, created: int) -> Wire:
    return ChatWire(answer_id, ask.model, created, include_usage=ask.wants_usage)


def _completions(ask: Ask, answer_id: str, created: int) -> Wire:
    return CompletionsWire(answer_id, ask.model, created, include_usage=ask.wants_usage)


def _responses(ask: Ask, answer_id: str, created: int) -> Wire:
    return ResponsesWire(answer_id, ask.model, created, ask.echo)


def _messages(ask: Ask, answer_id: str, _created: int) -> Wire:
    return MessagesWire(answer_id, ask.model)


APIS: Final = (
    Api("chat", "/v1/chat/completions", "chatcmpl-", read_chat, _chat, openai_refusal),
    Api("completions", "/v1/completions", "cmpl-", read_completion, _completions, openai_refusal),
    Api("responses", "/v1/responses", "resp_", read_responses, _responses, openai_refusal),
    Api("messages", "/v1/messages", "msg_", read_messages, _messages, anthropic_refusal),
)
"""Every API, by the name that rows and records call it."""
