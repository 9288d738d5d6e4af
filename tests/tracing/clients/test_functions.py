"""A library of libraries: wrapped at its functions, whether its request goes through a client of ours or its own."""

import gc
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from types import GeneratorType, ModuleType
from typing import Any

import pytest
from opentelemetry.context import attach, detach, get_value, set_value

import hopbudget as hb

openai = pytest.importorskip("openai", minversion="3")


@pytest.fixture
def library(openai_client: Any, open_stream: Any, script: Any, time: Any) -> Iterator[Any]:
    """A stand-in for litellm: some models through the openai client, others through a transport of its own."""
    litellm = ModuleType("litellm")

    def completion(model: str, messages: Any, **more: Any) -> Any:
        provider, _, name = model.partition("/")
        if provider == "openai":
            raw = openai_client.chat.completions.with_raw_response.create(model=name, messages=messages, **more)
            return raw.parse()
        if more.get("stream"):
            return open_stream(script)
        time.to(300)
        return {
            "choices": [{"message": {}, "finish_reason": "stop"}],
            "model": "m-1",
            "usage": {"completion_tokens": 3},
        }

    async def acompletion(model: str, messages: Any, **more: Any) -> Any:
        return litellm.completion(model, messages, **more)

    litellm.completion, litellm.acompletion = completion, acompletion  # type: ignore[attr-defined]
    hb.uninstrument()
    sys.modules["litellm"] = litellm
    hb.instrument()
    yield litellm
    hb.uninstrument()
    assert (litellm.completion, litellm.acompletion) == (completion, acompletion)
    del sys.modules["litellm"]


MESSAGES = [{"role": "user", "content": "hi"}]


def test_its_own_transports_reply_is_a_hop(recorded: Any, library: Any) -> None:
    library.completion("anthropic/m", MESSAGES)
    found = recorded.attributes()
    assert recorded.tree() == "chat m 0-300 ok"
    assert (found["gen_ai.provider.name"], found["hopbudget.output_tokens"]) == ("anthropic", 3)


def test_its_own_transports_stream_is_a_hop(recorded: Any, library: Any, script: Any) -> None:
    assert len(list(library.completion("anthropic/m", MESSAGES, stream=True))) == len(script)
    assert recorded.tree() == "chat m 0-242 ok"
    assert recorded.attributes()["hopbudget.ttft"] == pytest.approx(0.2)


async def test_a_request_through_a_client_of_ours_is_one_hop(
    recorded: Any, library: Any, wire: Any, replies: Any, scripts: Any
) -> None:
    wire.replies(replies["chat"], at=300)
    await library.acompletion("openai/m", MESSAGES)
    wire.streams(*[(ms + 1_000, item) for ms, item in scripts["chat"]], at=1_000)
    list(await library.acompletion("openai/m", MESSAGES, stream=True))
    assert recorded.tree().split("\n") == ["chat m 0-300 ok", "chat m 300-1643 ok"]
    assert recorded.spans[1].attributes["hopbudget.ttft"] == pytest.approx(1.3)


def test_inside_of_a_hop_it_is_that_hops_call(recorded: Any, library: Any, wire: Any, replies: Any) -> None:
    @hb.hop("plan")
    def plan() -> None:
        library.completion("openai/m", MESSAGES)

    @hb.hop("search")
    def search() -> None:
        library.completion("anthropic/m", MESSAGES)

    search()
    wire.replies(replies["chat"], at=500)
    plan()
    assert recorded.tree().split("\n") == ["chat m 0-300 ok", "chat m 300-500 ok"]
    assert [span.attributes["hopbudget.hop"] for span in recorded.spans] == ["search", "plan"]


def test_its_failure_is_one_failed_hop_with_the_clients_attempts(
    recorded: Any, library: Any, wire: Any, naps: list[float]
) -> None:
    for at in (10, 2_000, 4_000):
        wire.replies({"error": {"message": "busy"}}, status=503, at=at, headers={"retry-after-ms": "1000"})
    with pytest.raises(openai.InternalServerError):
        library.completion("openai/m", MESSAGES)
    assert recorded.tree() == "chat m 0-4000 failed InternalServerError"
    assert recorded.attributes()["hopbudget.attempts"] == 3


FAILURE = (650, b'data: {"error": {"type": "server_error", "message": "gone"}}\n\n')


@pytest.mark.parametrize("in_hop", [False, True])
def test_an_error_inside_the_stream_is_a_failure_though_its_reader_closes_the_response(
    in_hop: bool, recorded: Any, library: Any, wire: Any, scripts: Any
) -> None:
    wire.streams(*[piece for piece in scripts["chat"] if piece[0] <= 640], FAILURE)
    with pytest.raises(openai.APIError), hb.hop("answer") if in_hop else nullcontext():
        list(library.completion("openai/m", MESSAGES, stream=True))
    found = recorded.attributes()
    assert recorded.tree() == "chat m 0-650 failed server_error"
    assert (found["hopbudget.ttft"], found["hopbudget.output_tokens"]) == (pytest.approx(0.6), 3)


async def test_the_same_where_it_is_awaited(
    recorded: Any, instrumented: None, openai_async: Any, wire: Any, scripts: Any, arguments: Any
) -> None:
    wire.streams(*scripts["chat"][:3], FAILURE)
    raw = await openai_async.chat.completions.with_raw_response.create(**arguments["chat"], stream=True)
    with pytest.raises(openai.APIError):
        async for _ in raw.parse():
            pass
    assert recorded.tree() == "chat m 0-650 failed server_error"


# A stream that sends its request when it is read --------------------------------------------------------------------


class Unsent:
    """A stand-in for litellm's stream of text completions."""

    def __init__(self, chunks: Any) -> None:
        self.chunks = chunks

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return next(self.chunks)

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        return await anext(self.chunks)


@pytest.fixture(params=["stream", "generator"])
def late(request: Any, library: Any, openai_client: Any, openai_async: Any) -> Any:
    """The stand-in for litellm, whose text completions send nothing before they are read."""
    made = Unsent if request.param == "stream" else lambda chunks: chunks

    def text_completion(model: str, prompt: str, **more: Any) -> Any:
        def chunks() -> Iterator[Any]:
            yield from openai_client.completions.with_raw_response.create(model="m", prompt=prompt, stream=True).parse()

        return made(chunks())

    async def atext_completion(model: str, prompt: str, **more: Any) -> Any:
        async def chunks() -> Any:
            raw = await openai_async.completions.with_raw_response.create(model="m", prompt=prompt, stream=True)
            async for chunk in raw.parse():
                yield chunk

        return made(chunks())

    hb.uninstrument()
    library.text_completion, library.atext_completion = text_completion, atext_completion
    hb.instrument()
    return library


LATE = {"model": "text-completion-openai/m", "prompt": "hi", "stream": True}


def told(recorded: Any) -> tuple[Any, ...]:
    found = recorded.attributes()
    return tuple(found.get(f"hopbudget.{key}") for key in ("ttft", "issued", "output_tokens", "output_tokens.source"))


@pytest.mark.parametrize("in_hop", [False, True])
def test_the_request_it_sends_is_its_own_and_is_timed_from_there(
    in_hop: bool, recorded: Any, late: Any, time: Any, wire: Any, scripts: Any
) -> None:
    wire.streams(*[(ms + 1_000, item) for ms, item in scripts["completions"]], at=1_010)
    with hb.hop("named") if in_hop else nullcontext():
        stream = late.text_completion(**LATE)
        assert isinstance(stream, (Unsent, GeneratorType))
        time.to(1_000)
        assert len(list(stream)) == 5
    assert recorded.tree() == "text_completion m 0-1643 ok"
    assert told(recorded) == (pytest.approx(0.6), pytest.approx(1.0), 3, "usage")


@pytest.mark.parametrize("in_hop", [False, True])
async def test_the_same_of_an_async_one(
    in_hop: bool, recorded: Any, late: Any, time: Any, wire: Any, scripts: Any
) -> None:
    wire.streams(*[(ms + 1_000, item) for ms, item in scripts["completions"]], at=1_010)
    with hb.hop("named") if in_hop else nullcontext():
        stream = await late.atext_completion(**LATE)
        time.to(1_000)
        assert len([chunk async for chunk in stream]) == 5
    assert recorded.tree() == "text_completion m 0-1643 ok"
    assert told(recorded) == (pytest.approx(0.6), pytest.approx(1.0), 3, "usage")


def test_the_server_is_told_of_the_same_span(recorded: Any, late: Any, wire: Any, scripts: Any) -> None:
    wire.streams(*scripts["completions"])
    with hb.trajectory("agent"):
        stream = late.text_completion(**LATE)
    list(stream)
    span = next(span for span in recorded.spans if span.name == "text_completion m")
    assert wire.requests[0].headers["traceparent"].split("-")[2] == format(span.context.span_id, "016x")


def test_a_request_that_fails_then_is_one_failed_hop(recorded: Any, late: Any, time: Any, wire: Any) -> None:
    wire.replies({"error": {"message": "no"}}, status=400, at=50)
    stream = late.text_completion(**LATE)
    time.to(20)
    with pytest.raises(openai.BadRequestError):
        next(stream)
    assert recorded.tree() == "text_completion m 0-50 failed BadRequestError"


def test_what_is_sent_after_its_first_chunk_is_another_hop(
    recorded: Any, late: Any, wire: Any, scripts: Any, replies: Any, openai_client: Any, arguments: Any
) -> None:
    wire.streams(*scripts["completions"])
    stream = late.text_completion(**LATE)
    next(stream)
    wire.replies(replies["chat"], at=300)
    openai_client.chat.completions.create(**arguments["chat"])
    list(stream)
    assert recorded.tree().split("\n") == ["text_completion m 0-643 ok", "chat m 200-300 ok"]


def test_its_other_steps_run_in_the_context_of_whoever_makes_them(recorded: Any, late: Any, library: Any) -> None:
    seen: list[Any] = []

    def text_completion(model: str, prompt: str, **more: Any) -> Any:
        for _ in range(3):
            seen.append(get_value("step"))
            yield {"choices": [{"text": "a", "finish_reason": None}]}

    hb.uninstrument()
    library.text_completion = text_completion
    hb.instrument()
    stream = library.text_completion(**LATE)
    for step in range(3):
        outside = attach(set_value("step", step))
        next(stream)
        detach(outside)
    stream.close()
    assert seen == [0, 1, 2]


def test_one_that_is_never_read_sent_nothing(recorded: Any, late: Any, time: Any) -> None:
    stream = late.text_completion(**LATE)
    time.to(5_000)
    del stream
    gc.collect()
    assert recorded.tree() == "text_completion m 0-0 closed_by_consumer"


# What its own transport sends ---------------------------------------------------------------------------------------


@pytest.fixture
def transport(openai_client: Any, time: Any) -> Iterator[Any]:
    """A stand-in for litellm whose own transport keeps the headers that it sends."""
    handlers = ModuleType("litellm.llms.custom_httpx.http_handler")
    litellm = ModuleType("litellm")
    litellm.sent = []  # type: ignore[attr-defined]
    litellm.headers = None  # type: ignore[attr-defined]

    class HTTPHandler:
        def post(self, url: str, data: Any = None, headers: Any = None, stream: bool = False) -> Any:
            litellm.sent.append(headers)  # type: ignore[attr-defined]
            return {"choices": [{"message": {}, "finish_reason": "stop"}], "usage": {"completion_tokens": 3}}

    class AsyncHTTPHandler:
        async def post(self, url: str, data: Any = None, headers: Any = None) -> Any:
            return HTTPHandler().post(url, data, headers)

    def completion(model: str, messages: Any, **more: Any) -> Any:
        return HTTPHandler().post("http://server:1/v1", messages, litellm.headers)  # type: ignore[attr-defined]

    async def acompletion(model: str, messages: Any, **more: Any) -> Any:
        return await AsyncHTTPHandler().post(url="http://server:1/v1", headers=litellm.headers)  # type: ignore[attr-defined]

    handlers.HTTPHandler, handlers.AsyncHTTPHandler = HTTPHandler, AsyncHTTPHandler  # type: ignore[attr-defined]
    litellm.completion, litellm.acompletion = completion, acompletion  # type: ignore[attr-defined]
    litellm.handler = HTTPHandler  # type: ignore[attr-defined]
    hb.uninstrument()
    modules = {"litellm": litellm, handlers.__name__: handlers}
    sys.modules.update(modules)
    plain = HTTPHandler.post
    hb.instrument()
    yield litellm
    hb.uninstrument()
    assert HTTPHandler.post is plain
    for name in modules:
        del sys.modules[name]


async def test_its_own_transport_tells_the_server_whose_work_it_does(recorded: Any, transport: Any) -> None:
    transport.completion("mistral/m", MESSAGES)
    await transport.acompletion("mistral/m", MESSAGES)
    told = {headers["traceparent"].split("-")[2] for headers in transport.sent}
    assert told == {format(span.context.span_id, "016x") for span in recorded.spans}
    assert len(told) == 2


@pytest.mark.parametrize("given", [{"Traceparent": "mine"}, [("a", "b")]])
def test_headers_of_the_senders_own_stay(given: Any, recorded: Any, transport: Any) -> None:
    transport.headers = given
    transport.completion("mistral/m", MESSAGES)
    assert transport.sent == [given]


def test_the_senders_headers_are_not_written_to(recorded: Any, transport: Any) -> None:
    transport.headers = {"a": "b"}
    transport.completion("mistral/m", MESSAGES)
    assert transport.headers == {"a": "b"}
    assert transport.sent[0]["a"] == "b"


def test_what_else_it_sends_is_no_request_to_a_model(recorded: Any, transport: Any) -> None:
    with hb.trajectory("agent"), hb.hop("plan"):
        transport.handler().post("http://elsewhere/")
    assert transport.sent == [None]
