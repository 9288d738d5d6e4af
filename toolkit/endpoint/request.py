"""A chat request as OpenAI's API takes it, read and checked; and the knobs that script its answer."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from hopbudget.endpoint.faults import ROWS
from hopbudget.endpoint.gpu import GPUS

MAX_TOKENS: Final = 32_768
"""No answer is longer; also the bound on what a knob may ask for."""


class ApiError(Exception):
    """A refusal in OpenAI's format."""

    def __init__(self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


class Function(msgspec.Struct):
    """A tool's name and the JSON schema of its arguments."""

    name: str
    parameters: dict[str, Any] | None = None


class Tool(msgspec.Struct):
    """A tool on offer."""

    function: Function
    type: str = "function"


class Message(msgspec.Struct):
    """One message; what we don't need of it is not read."""

    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[dict[str, Any]] | None = None


class StreamOptions(msgspec.Struct):
    """What a client asks of a stream."""

    include_usage: bool = False


class ChatRequest(msgspec.Struct):
    """The part of a chat completion request that changes the answer; other fields are accepted and ignored."""

    model: str
    messages: list[Message]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = None
    seed: int | None = None
    tools: list[Tool] | None = None
    tool_choice: str | dict[str, Any] | None = None

    @property
    def limit(self) -> int:
        """The most tokens the answer may have."""
        asked = [count for count in (self.max_tokens, self.max_completion_tokens) if count is not None]
        return min([MAX_TOKENS, *asked])

    @property
    def wants_usage(self) -> bool:
        """Whether a stream of this request ends with a usage chunk."""
        return self.stream_options is not None and self.stream_options.include_usage


@dataclass(frozen=True, slots=True)
class Knobs:
    """What the `x-hopbudget-*` headers fix; None leaves it to the GPU model. Fixed times are exact."""

    row: str | None = None
    ttft_s: float | None = None
    tpot_s: float | None = None
    tokens: int | None = None
    reasoning_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    per_chunk: int = 1
    reasoning_field: str = "reasoning_content"


def read_chat(body: bytes) -> ChatRequest:
    """The request in `body`.

    Raises ApiError: 400 for what can't be read or answered, 404 for a model we don't have.
    """
    try:
        chat = msgspec.json.decode(body, type=ChatRequest)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        where = re.search(r"`\$\.([^`]+)`", str(error)) or re.search(r"field `([^`]+)`", str(error))
        raise ApiError(f"Invalid request body: {error}", param=where[1] if where else None) from None
    if chat.model not in GPUS:
        have = ", ".join(GPUS)
        message = f"The model `{chat.model}` does not exist. This simulation serves: {have}."
        raise ApiError(message, status=404, param="model", code="model_not_found")
    if not chat.messages:
        raise ApiError("`messages` is empty; send at least one message.", param="messages")
    if chat.n not in {None, 1}:
        raise ApiError("`n` must be 1: the simulation writes one choice.", param="n")
    if chat.limit < 1:
        name = "max_tokens" if chat.max_tokens is not None and chat.max_tokens < 1 else "max_completion_tokens"
        raise ApiError(f"`{name}` must be at least 1.", param=name)
    if chat.stream_options is not None and not chat.stream:
        raise ApiError("`stream_options` is only allowed when `stream` is true.", param="stream_options")
    return chat


def read_knobs(headers: Mapping[str, str], *, streamed: bool) -> Knobs:
    """The knobs among the request's headers (names in lower case).

    Raises ApiError for a value out of range, an unknown row or knob, or a row without a stream.
    """
    knobs: dict[str, Any] = {}
    for header, value in headers.items():
        name = header.removeprefix("x-hopbudget-")
        if name == header:
            continue
        if name not in _READERS:
            have = ", ".join(f"x-hopbudget-{known}" for known in _READERS)
            raise ApiError(f"Unknown header {header}. The simulation knows: {have}.", param=header)
        field, read = _READERS[name]
        try:
            knobs[field] = read(value)
        except ValueError as error:
            raise ApiError(f"Header {header}: {error}.", param=header) from None
    if "row" in knobs and not streamed:
        raise ApiError("Header x-hopbudget-row asks for a stream's fault; set `stream` to true.", param="stream")
    return Knobs(**knobs)


def _row(value: str) -> str:
    if value.upper() not in ROWS:
        raise ValueError(f"no row {value!r}; there are {', '.join(ROWS)}")
    return value.upper()


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0.0 <= seconds <= 3600.0:
        raise ValueError(f"{value!r} is not a time in seconds between 0 and 3600")
    return seconds


def _count(value: str) -> int:
    if not value.isdecimal() or int(value) > MAX_TOKENS:
        raise ValueError(f"{value!r} is not a whole number up to {MAX_TOKENS}")
    return int(value)


def _positive(value: str) -> int:
    if (count := _count(value)) < 1:
        raise ValueError("must be at least 1")
    return count


def _reasoning_field(value: str) -> str:
    if value not in {"reasoning_content", "reasoning"}:
        raise ValueError("must be reasoning_content or reasoning")
    return value


_READERS: Final[dict[str, tuple[str, Any]]] = {
    "row": ("row", _row),
    "ttft": ("ttft_s", _seconds),
    "tpot": ("tpot_s", _seconds),
    "tokens": ("tokens", _positive),
    "reasoning-tokens": ("reasoning_tokens", _count),
    "prompt-tokens": ("prompt_tokens", _count),
    "cached-tokens": ("cached_tokens", _count),
    "per-chunk": ("per_chunk", _positive),
    "reasoning-field": ("reasoning_field", _reasoning_field),
}
