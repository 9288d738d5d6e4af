"""Real clients over a transport that plays a script: bytes come when the fake clock says so."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

import hopbudget as hb

httpx2 = pytest.importorskip("httpx2")
openai = pytest.importorskip("openai", minversion="3")
anthropic = pytest.importorskip("anthropic")

Script = list[tuple[float, Any]]


def event(data: Any, name: str | None = None) -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


@dataclass
class Answer:
    """A response: when its headers come, and its body as (milliseconds, bytes or exception)."""

    status: int
    at: float
    body: Script
    headers: dict[str, str] = field(default_factory=dict)


class Body(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    def __init__(self, time: Any, script: Script) -> None:
        self.time = time
        self.script = script
        self.closed = False

    def _play(self) -> Iterator[bytes]:
        for ms, item in self.script:
            self.time.to(max(ms, self.time.ms))
            if isinstance(item, BaseException):
                raise item
            yield item

    def __iter__(self) -> Iterator[bytes]:
        yield from self._play()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for ms, item in self.script:
            self.time.to(max(ms, self.time.ms))
            if isinstance(item, BaseException):
                raise item
            if callable(item):
                await item()
                continue
            yield item

    def close(self) -> None:
        self.closed = True

    async def aclose(self) -> None:
        self.closed = True


class Wire(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """Plays one answer a request, and keeps what was asked."""

    def __init__(self, time: Any) -> None:
        self.time = time
        self.answers: list[Answer | BaseException] = []
        self.requests: list[Any] = []
        self.bodies: list[Body] = []

    def will(self, *answers: Answer | BaseException) -> None:
        self.answers.extend(answers)

    def streams(self, *script: tuple[float, Any], at: float = 10) -> None:
        self.will(Answer(200, at, list(script), {"content-type": "text/event-stream"}))

    def replies(self, data: Any, *, at: float = 300, status: int = 200, headers: dict[str, str] | None = None) -> None:
        content = {"content-type": "application/json", **(headers or {})}
        self.will(Answer(status, at, [(at, json.dumps(data).encode())], content))

    def handle_request(self, request: Any) -> Any:
        request.read()
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        self.time.to(max(answer.at, self.time.ms))
        self.bodies.append(Body(self.time, answer.body))
        return httpx2.Response(answer.status, headers=answer.headers, stream=self.bodies[-1])

    async def handle_async_request(self, request: Any) -> Any:
        await request.aread()
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        self.time.to(max(answer.at, self.time.ms))
        self.bodies.append(Body(self.time, answer.body))
        return httpx2.Response(answer.status, headers=answer.headers, stream=self.bodies[-1])


@pytest.fixture
def wire(time: Any) -> Wire:
    return Wire(time)


@pytest.fixture
def instrumented() -> Iterator[None]:
    hb.instrument()
    yield
    hb.uninstrument()


@pytest.fixture
def openai_client(wire: Wire, instrumented: None) -> Iterator[Any]:
    with openai.OpenAI(
        api_key="k", base_url="http://server:8399/v1", http_client=httpx2.Client(transport=wire)
    ) as client:
        yield client


@pytest.fixture
async def openai_async(wire: Wire, instrumented: None) -> AsyncIterator[Any]:
    async with openai.AsyncOpenAI(
        api_key="k", base_url="http://server:8399/v1", http_client=httpx2.AsyncClient(transport=wire)
    ) as client:
        yield client


@pytest.fixture
def anthropic_client(wire: Wire, instrumented: None) -> Iterator[Any]:
    with anthropic.Anthropic(
        api_key="k", base_url="http://server:8399", http_client=httpx2.Client(transport=wire)
    ) as client:
        yield client


@pytest.fixture
async def anthropic_async(wire: Wire, instrumented: None) -> AsyncIterator[Any]:
    async with anthropic.AsyncAnthropic(
        api_key="k", base_url="http://server:8399", http_client=httpx2.AsyncClient(transport=wire)
    ) as client:
        yield client


@pytest.fixture
def naps(time: Any, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clients sleep on the fake clock; what they slept, in seconds."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        time.to(time.ms + seconds * 1000)

    async def sleep_async(seconds: float) -> None:
        sleep(seconds)

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("anyio.sleep", sleep_async)
    return slept


# What goes over the wire, as the row "role 0.10 s, empty 0.20 s, first content 0.60 s" ------------------------------

USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
PIECES = ((600, "Hel"), (620, "lo"), (640, "!"))


def _chat() -> Script:
    def chunk(delta: dict[str, Any] | None, finish: str | None = None, usage: Any = None) -> bytes:
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
        return event({"id": "c1", "object": "chat.completion.chunk", "created": 0, "model": "m-1", "choices": choices,
                      "usage": usage})  # fmt: skip

    tokens = [(ms, chunk({"content": text})) for ms, text in PIECES]
    return [
        (100, chunk({"role": "assistant"})),
        (200, chunk({"content": ""})),
        *tokens,
        (641, chunk({}, "stop")),
        (642, chunk(None, usage=USAGE)),
        (643, event("[DONE]")),
    ]


def _completions() -> Script:
    def chunk(text: str, finish: str | None = None, usage: Any = None) -> bytes:
        return event({"id": "c1", "object": "text_completion", "created": 0, "model": "m-1",
                      "choices": [{"index": 0, "text": text, "finish_reason": finish, "logprobs": None}],
                      "usage": usage})  # fmt: skip

    tokens = [(ms, chunk(text)) for ms, text in PIECES]
    return [(200, chunk("")), *tokens, (641, chunk("", "stop", USAGE)), (643, event("[DONE]"))]


def response_object(status: str, text: str | None = None, usage: Any = None, **more: Any) -> dict[str, Any]:
    content = [] if text is None else [{"type": "output_text", "text": text, "annotations": []}]
    message = {"id": "msg1", "type": "message", "role": "assistant", "status": "completed", "content": content}
    return {
        "id": "r1", "object": "response", "created_at": 0, "model": "m-1", "status": status, "error": None,
        "incomplete_details": None, "output": [] if text is None else [message], "usage": usage, "tools": [],
        "parallel_tool_calls": True, "tool_choice": "auto", **more,
    }  # fmt: skip


RESPONSE_USAGE = {
    "input_tokens": 7, "output_tokens": 3, "total_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4}, "output_tokens_details": {"reasoning_tokens": 0},
}  # fmt: skip


def _responses() -> Script:
    number = iter(range(100))

    def at(ms: float, kind: str, **data: Any) -> tuple[float, bytes]:
        return ms, event({"type": kind, "sequence_number": next(number), **data}, kind)

    place = {"item_id": "msg1", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    item = response_object("completed", "")["output"][0] | {"content": []}
    return [
        at(100, "response.created", response=response_object("in_progress")),
        at(101, "response.output_item.added", output_index=0, item=item),
        at(102, "response.content_part.added", part=part, **place),
        at(200, "response.output_text.delta", delta="", logprobs=[], **place),
        *(at(ms, "response.output_text.delta", delta=text, logprobs=[], **place) for ms, text in PIECES),
        at(641, "response.completed", response=response_object("completed", "Hello!", RESPONSE_USAGE)),
    ]


def _messages() -> Script:
    def at(ms: float, kind: str, **data: Any) -> tuple[float, bytes]:
        return ms, event({"type": kind, **data}, kind)

    start = {"id": "a1", "type": "message", "role": "assistant", "model": "m-1", "content": [], "stop_reason": None,
             "stop_sequence": None, "usage": {"input_tokens": 3, "cache_read_input_tokens": 4,
                                              "cache_creation_input_tokens": 0, "output_tokens": 1}}  # fmt: skip
    return [
        at(100, "message_start", message=start),
        at(101, "content_block_start", index=0, content_block={"type": "text", "text": ""}),
        at(102, "ping"),
        at(200, "content_block_delta", index=0, delta={"type": "text_delta", "text": ""}),
        *(at(ms, "content_block_delta", index=0, delta={"type": "text_delta", "text": text}) for ms, text in PIECES),
        at(641, "content_block_stop", index=0),
        at(642, "message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage={"output_tokens": 3}),
        at(643, "message_stop"),
    ]


@pytest.fixture(scope="session")
def scripts() -> dict[str, Script]:
    """Row B in each format."""
    return {"chat": _chat(), "completions": _completions(), "responses": _responses(), "messages": _messages()}


@pytest.fixture(scope="session")
def replies() -> dict[str, dict[str, Any]]:
    """A whole reply in each format, of seven tokens in and three out."""
    message = {"role": "assistant", "content": "Hello!"}
    base = {"id": "c1", "created": 0, "model": "m-1", "usage": USAGE}
    return {
        "chat": base | {"object": "chat.completion",
                        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]},
        "completions": base | {"object": "text_completion",
                               "choices": [{"index": 0, "text": "Hello!", "finish_reason": "stop", "logprobs": None}]},
        "responses": response_object("completed", "Hello!", RESPONSE_USAGE),
        "messages": {"id": "a1", "type": "message", "role": "assistant", "model": "m-1", "stop_sequence": None,
                     "content": [{"type": "text", "text": "Hello!"}], "stop_reason": "end_turn",
                     "usage": {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 3}},
    }  # fmt: skip


@pytest.fixture(scope="session")
def arguments() -> dict[str, dict[str, Any]]:
    """What a call of each resource needs at least."""
    messages = [{"role": "user", "content": "hi"}]
    return {
        "chat": {"model": "m", "messages": messages},
        "completions": {"model": "m", "prompt": "hi"},
        "responses": {"model": "m", "input": "hi"},
        "messages": {"model": "m", "messages": messages, "max_tokens": 9},
    }


@pytest.fixture
def resource() -> Callable[[Any, str], Any]:
    """The client's resource of each format."""
    return lambda client, api: client.chat.completions if api == "chat" else getattr(client, api)
