"""The client's transport replaced: recorded server-sent events from memory, and what was asked is kept."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import openai

MODEL = "sim-small"
MESSAGES = [{"role": "user", "content": "How long?"}]


def httpx_of_openai() -> Any:
    """The HTTP library that the installed client is built on: httpx, or httpx2 from openai 3 on."""
    bases = openai.DefaultHttpxClient.__mro__
    name = next(base.__module__.partition(".")[0] for base in bases if base.__module__.startswith("httpx"))
    return __import__(name)


httpx = httpx_of_openai()


def events(tokens: int) -> list[dict[str, Any]]:
    """A streamed answer: a role chunk, as many chunks of one token, a stop chunk, a usage chunk."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**head, "choices": [choice]}

    usage = {"prompt_tokens": 3, "completion_tokens": tokens, "total_tokens": tokens + 3}
    return [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": f" word{index}"}) for index in range(tokens)),
        chunk({}, "stop"),
        {**head, "choices": [], "usage": usage},
    ]


def reply(tokens: int = 3) -> dict[str, Any]:
    """A whole answer."""
    message = {"role": "assistant", "content": " word" * tokens, "refusal": None}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": tokens, "total_tokens": tokens + 3},
    }


def sse(chunks: list[dict[str, Any]]) -> bytes:
    """Chunks as server-sent events with an end marker."""
    return b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"


class Transport:
    """Answers every request from memory. `boom` is raised in the middle of a stream, or in place of an answer."""

    def __init__(self, tokens: int = 3, *, boom: Exception | None = None, before: bool = False) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.tokens = tokens
        self.boom = boom
        self.before = before

    def _answer(self, request: Any, stream_of: Callable[[bytes], Any]) -> Any:
        self.bodies.append(request.content)
        self.headers.append(dict(request.headers))
        if self.boom is not None and self.before:
            raise self.boom
        headers = {"x-request-id": "req-1"}
        if json.loads(request.content).get("stream"):
            headers["content-type"] = "text/event-stream"
            return httpx.Response(200, headers=headers, content=stream_of(sse(events(self.tokens))))
        return httpx.Response(200, headers=headers, json=reply(self.tokens))

    def sync(self) -> Any:
        """As a client for `openai.OpenAI`."""

        def stream_of(data: bytes) -> Iterator[bytes]:
            for part in data.split(b"\n\n")[:3] if self.boom is not None else [data]:
                yield part + b"\n\n" if self.boom is not None else part
            if self.boom is not None:
                raise self.boom

        handler = httpx.MockTransport(lambda request: self._answer(request, stream_of))
        return openai.OpenAI(
            api_key="x", base_url="http://x/v1", http_client=httpx.Client(transport=handler), max_retries=0
        )

    def async_(self) -> Any:
        """As a client for `openai.AsyncOpenAI`."""

        async def stream_of(data: bytes) -> AsyncIterator[bytes]:
            for part in data.split(b"\n\n")[:3] if self.boom is not None else [data]:
                yield part + b"\n\n" if self.boom is not None else part
            if self.boom is not None:
                raise self.boom

        async def handle(request: Any) -> Any:
            return self._answer(request, stream_of)

        client = httpx.AsyncClient(transport=httpx.MockTransport(handle))
        return openai.AsyncOpenAI(api_key="x", base_url="http://x/v1", http_client=client, max_retries=0)
