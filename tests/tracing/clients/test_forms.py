"""Every form of a call, of every client: one hop, with the times of the tokens that it really got."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

APIS = ["chat", "completions", "responses", "messages"]
HELPED = ["chat", "responses", "messages"]


def drain(iterable: Any) -> None:
    for _ in iterable:
        pass


async def adrain(iterable: Any) -> None:
    async for _ in iterable:
        pass


@contextmanager
def streaming(resource: Any, arguments: Any) -> Iterator[Any]:
    with resource.with_streaming_response.create(**arguments, stream=True) as response:
        yield response


def by_helper(resource: Any, arguments: Any) -> None:
    with resource.stream(**arguments) as stream:
        stream.until_done()


def by_helpers_events(resource: Any, arguments: Any) -> None:
    with resource.stream(**arguments) as stream:
        drain(stream)


def by_context(resource: Any, arguments: Any) -> None:
    with resource.create(**arguments, stream=True) as stream:
        drain(stream)


def read_whole(resource: Any, arguments: Any) -> None:
    with streaming(resource, arguments) as response:
        response.read()


def read_as(how: str) -> Any:
    def read(resource: Any, arguments: Any) -> None:
        with streaming(resource, arguments) as response:
            drain(getattr(response, how)())

    return read


STREAM_FORMS = {
    "create": lambda resource, arguments: drain(resource.create(**arguments, stream=True)),
    "create in with": by_context,
    "raw": lambda resource, arguments: drain(resource.with_raw_response.create(**arguments, stream=True).parse()),
    "streaming parse": read_as("parse"),
    "streaming bytes": read_as("iter_bytes"),
    "streaming lines": read_as("iter_lines"),
    "streaming text": read_as("iter_text"),
    "streaming read": read_whole,
    "helper": by_helper,
    "helper's events": by_helpers_events,
}


@asynccontextmanager
async def astreaming(resource: Any, arguments: Any) -> AsyncIterator[Any]:
    async with resource.with_streaming_response.create(**arguments, stream=True) as response:
        yield response


async def acreate(resource: Any, arguments: Any) -> None:
    await adrain(await resource.create(**arguments, stream=True))


async def acreate_in_with(resource: Any, arguments: Any) -> None:
    async with await resource.create(**arguments, stream=True) as stream:
        await adrain(stream)


async def araw(resource: Any, arguments: Any) -> None:
    response = await resource.with_raw_response.create(**arguments, stream=True)
    parsed = response.parse()
    await adrain(await parsed if hasattr(parsed, "__await__") else parsed)


async def aparse(resource: Any, arguments: Any) -> None:
    async with astreaming(resource, arguments) as response:
        await adrain(await response.parse())


async def alines(resource: Any, arguments: Any) -> None:
    async with astreaming(resource, arguments) as response:
        await adrain(response.iter_lines())


async def abytes(resource: Any, arguments: Any) -> None:
    async with astreaming(resource, arguments) as response:
        await adrain(response.iter_bytes())


async def aread(resource: Any, arguments: Any) -> None:
    async with astreaming(resource, arguments) as response:
        await response.read()


async def ahelper(resource: Any, arguments: Any) -> None:
    async with resource.stream(**arguments) as stream:
        await stream.until_done()


ASYNC_FORMS = {
    "create": acreate,
    "create in with": acreate_in_with,
    "raw": araw,
    "streaming parse": aparse,
    "streaming lines": alines,
    "streaming bytes": abytes,
    "streaming read": aread,
    "helper": ahelper,
}


def cells(forms: dict[str, Any]) -> list[Any]:
    return [
        pytest.param(api, form, id=f"{api}, {form}")
        for api in APIS
        for form in forms
        if api in HELPED or not form.startswith("helper")
    ]


def holds(found: dict[str, Any], api: str) -> None:
    assert found["hopbudget.outcome"] == "ok"
    assert found["gen_ai.request.stream"] is True
    assert found["hopbudget.ttft"] == pytest.approx(0.6)
    assert found["hopbudget.ttfa"] == pytest.approx(0.6)
    assert found["hopbudget.e2e"] == pytest.approx(0.64)
    assert found["hopbudget.tpot"] == pytest.approx(0.02)
    assert (found["hopbudget.output_tokens"], found["hopbudget.output_tokens.source"]) == (3, "usage")
    assert (found["hopbudget.chunks"], found["gen_ai.usage.input_tokens"]) == (3, 7)
    assert found["gen_ai.request.model"] == "m"
    assert found["gen_ai.response.model"] == "m-1"
    assert (found["server.address"], found["server.port"]) == ("server", 8399)
    assert found["gen_ai.provider.name"] == ("anthropic" if api == "messages" else "openai")
    assert "hopbudget.hop" not in found


@pytest.mark.parametrize(("api", "form"), cells(STREAM_FORMS))
def test_the_first_token_of_a_stream_is_its_first_content(
    recorded: Any, wire: Any, openai_client: Any, anthropic_client: Any, scripts: Any, arguments: Any, resource: Any,
    api: str, form: str,
) -> None:  # fmt: skip
    wire.streams(*scripts[api])
    client = anthropic_client if api == "messages" else openai_client
    STREAM_FORMS[form](resource(client, api), arguments[api])
    holds(recorded.attributes(), api)
    operation = "text_completion" if api == "completions" else "chat"
    assert recorded.tree().startswith(f"{operation} m 0-64")
    assert wire.bodies[0].closed


@pytest.mark.parametrize(("api", "form"), cells(ASYNC_FORMS))
async def test_the_first_token_of_an_async_stream_is_its_first_content(
    recorded: Any, wire: Any, openai_async: Any, anthropic_async: Any, scripts: Any, arguments: Any, resource: Any,
    api: str, form: str,
) -> None:  # fmt: skip
    wire.streams(*scripts[api])
    client = anthropic_async if api == "messages" else openai_async
    await ASYNC_FORMS[form](resource(client, api), arguments[api])
    holds(recorded.attributes(), api)


def parse_streaming(resource: Any, arguments: Any) -> Any:
    with resource.with_streaming_response.create(**arguments) as response:
        return response.parse()


REPLY_FORMS = {
    "create": lambda resource, arguments: resource.create(**arguments),
    "raw": lambda resource, arguments: resource.with_raw_response.create(**arguments).parse(),
    "raw, never parsed": lambda resource, arguments: resource.with_raw_response.create(**arguments).headers,
    "streaming": parse_streaming,
}


def whole(found: dict[str, Any]) -> None:
    assert found["hopbudget.outcome"] == "ok"
    assert "gen_ai.request.stream" not in found
    assert "hopbudget.ttft" not in found
    assert (found["hopbudget.output_tokens"], found["hopbudget.output_tokens.source"]) == (3, "usage")
    assert found["gen_ai.usage.input_tokens"] == 7
    assert found["gen_ai.response.model"] == "m-1"


@pytest.mark.parametrize("form", REPLY_FORMS)
@pytest.mark.parametrize("api", APIS)
def test_a_whole_reply_is_a_hop_from_the_request_to_the_reply(
    recorded: Any, wire: Any, openai_client: Any, anthropic_client: Any, replies: Any, arguments: Any, resource: Any,
    api: str, form: str,
) -> None:  # fmt: skip
    wire.replies(replies[api])
    client = anthropic_client if api == "messages" else openai_client
    REPLY_FORMS[form](resource(client, api), arguments[api])
    whole(recorded.attributes())
    operation = "text_completion" if api == "completions" else "chat"
    assert recorded.tree() == f"{operation} m 0-300 ok"


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("form", ["create", "raw", "streaming"])
async def test_a_whole_reply_of_an_async_client(
    recorded: Any, wire: Any, openai_async: Any, anthropic_async: Any, replies: Any, arguments: Any, resource: Any,
    api: str, form: str,
) -> None:  # fmt: skip
    wire.replies(replies[api])
    which = resource(anthropic_async if api == "messages" else openai_async, api)
    if form == "create":
        await which.create(**arguments[api])
    elif form == "raw":
        await which.with_raw_response.create(**arguments[api])
    else:
        async with which.with_streaming_response.create(**arguments[api]) as response:
            await response.parse()
    whole(recorded.attributes())


def test_a_parsed_completion_is_one_hop(recorded: Any, wire: Any, openai_client: Any, replies: Any) -> None:
    pydantic = pytest.importorskip("pydantic")

    class Word(pydantic.BaseModel):
        word: str

    reply = replies["chat"]
    reply = reply | {"choices": [reply["choices"][0] | {"message": {"role": "assistant", "content": '{"word": "hi"}'}}]}
    wire.replies(reply)
    messages: Any = [{"role": "user", "content": "hi"}]
    parsed = openai_client.chat.completions.parse(model="m", messages=messages, response_format=Word)
    assert parsed.choices[0].message.parsed == Word(word="hi")
    assert recorded.tree() == "chat m 0-300 ok"


def test_a_stream_closed_before_its_end_ends_at_the_last_thing_seen(
    recorded: Any, time: Any, wire: Any, openai_client: Any, scripts: Any, arguments: Any
) -> None:
    wire.streams(*scripts["chat"])
    with openai_client.chat.completions.create(**arguments["chat"], stream=True) as stream:
        for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        time.to(5_000)
    assert recorded.tree() == "chat m 0-600 closed_by_consumer"


@pytest.mark.parametrize("api", HELPED)
def test_a_helper_left_before_its_end_closes_the_hop_at_once(
    recorded: Any, time: Any, wire: Any, openai_client: Any, anthropic_client: Any, scripts: Any, arguments: Any,
    resource: Any, api: str,
) -> None:  # fmt: skip
    wire.streams(*scripts[api])
    client = anthropic_client if api == "messages" else openai_client
    with resource(client, api).stream(**arguments[api]) as stream:
        next(iter(stream))
        time.to(5_000)
    assert recorded.tree() == "chat m 0-100 closed_by_consumer"


def test_bytes_given_up_before_the_end_are_a_stream_closed_by_its_consumer(
    recorded: Any, time: Any, wire: Any, openai_client: Any, scripts: Any, arguments: Any
) -> None:
    wire.streams(*scripts["chat"])
    with streaming(openai_client.chat.completions, arguments["chat"]) as response:
        lines = response.iter_lines()
        while '"Hel"' not in next(lines):
            pass
        time.to(5_000)
    assert recorded.tree() == "chat m 0-600 closed_by_consumer"
