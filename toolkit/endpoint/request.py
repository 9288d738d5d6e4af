"""A request to a model, whatever API it came by, and what the readers of the APIs share."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

import msgspec

from hopbudget.endpoint.gpu import GPUS

MAX_TOKENS: Final = 32_768
"""No answer is longer; also the bound on what a knob may ask for."""

Choice = Literal["auto", "none", "required"]
Reasoning = Literal["shown", "hidden", "none"]
"""Whether a model that reasons lets it be read, keeps it to itself, or doesn't."""
Body = TypeVar("Body")


class ApiError(Exception):
    """A refusal; the API that was asked gives it its form."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.param = param
        self.code = code
        self.headers = dict(headers or {})


@dataclass(frozen=True, slots=True)
class Function:
    """A tool's name and the JSON schema of its arguments."""

    name: str
    parameters: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One message. `text` is all that the model reads of it, calls and their arguments included."""

    role: str
    text: str
    calls: tuple[str, ...] = ()
    """The tools that it calls."""


@dataclass(frozen=True, slots=True)
class Ask:
    """The part of a request that changes the answer; other fields are accepted and ignored."""

    model: str
    turns: tuple[Turn, ...]
    stream: bool = False
    limit: int = MAX_TOKENS
    """The most tokens the answer may have."""
    tools: tuple[Function, ...] = ()
    choice: Choice = "auto"
    named: str | None = None
    """The tool that must be called."""
    schema: dict[str, Any] | None = None
    """What the answer must be an instance of."""
    seed: int | None = None
    wants_usage: bool = True
    """Whether a stream of this request ends with usage."""
    reasoning: Reasoning = "shown"
    echo: Mapping[str, Any] = field(default_factory=dict)
    """What the answer repeats of the request, where its API does that."""


def decode(body: bytes, kind: type[Body]) -> Body:
    """The request in `body`.

    Raises ApiError naming the field that is wrong.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        where = re.search(r"`\$\.([^`]+)`", str(error)) or re.search(r"field `([^`]+)`", str(error))
        raise ApiError(f"Invalid request body: {error}", param=where[1] if where else None) from None


def checked(ask: Ask, field_of_turns: str) -> Ask:
    """`ask`, if we can answer it.

    Raises ApiError: 404 for a model we don't have, 400 for no messages at all.
    """
    check_model(ask.model)
    if not ask.turns:
        raise ApiError(f"`{field_of_turns}` is empty; send at least one message.", param=field_of_turns)
    return ask


def check_model(name: str) -> None:
    """Raise ApiError with status 404 unless there is such a model."""
    if name not in GPUS:
        message = f"The model `{name}` does not exist. This simulation serves: {', '.join(GPUS)}."
        raise ApiError(message, status=404, param="model", code="model_not_found")


def limit_of(**asked: int | None) -> int:
    """The least of the limits that were set, each under the name of its field."""
    for name, count in asked.items():
        if count is not None and count < 1:
            raise ApiError(f"`{name}` must be at least 1.", param=name)
    return min([MAX_TOKENS, *(count for count in asked.values() if count is not None)])


def text_of(content: object) -> str:
    """The words in a message's content: a string, or parts of which some have a `text` or content of their own."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(
        text_of(part.get("text", part.get("content"))) if isinstance(part, dict) else text_of(part) for part in content
    )
