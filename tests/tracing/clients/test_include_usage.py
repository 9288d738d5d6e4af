"""Asking for usage on the recorder's own account: opt in, unseen by the application, and taken back where refused."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

import hopbudget as hb
from hopbudget.tracing import include_usage

openai = pytest.importorskip("openai", minversion="3")

REFUSED = {"error": {"message": "Unrecognized request argument supplied: stream_options", "type": "invalid_request"}}


@pytest.fixture(autouse=True)
def asking(instrumented: None) -> Iterator[None]:
    hb.instrument(include_usage=True)
    yield
    hb.instrument(include_usage=False)
    include_usage.forget()


def sent(wire: Any) -> list[dict[str, Any]]:
    return [json.loads(request.content) for request in wire.requests]


def create(client: Any, arguments: Any, **more: Any) -> Any:
    return client.chat.completions.create(**arguments["chat"], stream=True, **more)


def test_usage_is_asked_for_and_its_chunk_not_shown(
    recorded: Any, wire: Any, openai_client: Any, scripts: Any, arguments: Any
) -> None:
    wire.streams(*scripts["chat"])
    chunks = list(create(openai_client, arguments))
    assert [body["stream_options"] for body in sent(wire)] == [{"include_usage": True}]
    assert len(chunks) == 6
    assert all(chunk.choices for chunk in chunks)
    found = recorded.attributes()
    assert (found["hopbudget.output_tokens"], found["hopbudget.output_tokens.source"]) == (3, "usage")
    assert (found["hopbudget.outcome"], found.get("hopbudget.attempts")) == ("ok", None)


def test_pulled_one_by_one_it_is_not_shown_either(
    recorded: Any, wire: Any, openai_client: Any, scripts: Any, arguments: Any
) -> None:
    wire.streams(*scripts["chat"])
    stream = create(openai_client, arguments)
    assert [bool(next(stream).choices) for _ in range(6)] == [True] * 6
    with pytest.raises(StopIteration):
        next(stream)
    assert recorded.attributes()["hopbudget.output_tokens.source"] == "usage"


@pytest.mark.parametrize("by_hand", [False, True])
async def test_the_same_where_it_is_awaited(
    by_hand: bool, recorded: Any, wire: Any, openai_async: Any, scripts: Any, arguments: Any
) -> None:
    wire.streams(*scripts["chat"])
    stream = await create(openai_async, arguments)
    if by_hand:
        assert [bool((await anext(stream)).choices) for _ in range(6)] == [True] * 6
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
    else:
        assert [bool(chunk.choices) async for chunk in stream] == [True] * 6
    assert recorded.attributes()["hopbudget.output_tokens.source"] == "usage"


def test_a_helper_of_the_client_sees_no_usage_that_nobody_asked_for(
    recorded: Any, wire: Any, openai_client: Any, scripts: Any, arguments: Any
) -> None:
    wire.streams(*scripts["chat"])
    with openai_client.chat.completions.stream(**arguments["chat"]) as stream:
        assert stream.get_final_completion().usage is None
    assert recorded.attributes()["hopbudget.output_tokens.source"] == "usage"


@pytest.mark.parametrize(
    "own",
    [
        {"stream_options": {"include_usage": False}},
        {"stream_options": {"include_usage": True}},
        {"stream_options": None},
        {"extra_body": {"stream_options": {"include_usage": False}}},
    ],
)
def test_a_request_that_says_something_of_it_is_let_be(
    own: Any, recorded: Any, wire: Any, openai_client: Any, scripts: Any, arguments: Any
) -> None:
    wire.streams(*scripts["chat"])
    assert len(list(create(openai_client, arguments, **own))) == 7
    (body,) = sent(wire)
    assert body["stream_options"] == own.get("extra_body", own)["stream_options"]


def test_raw_responses_whole_replies_and_other_formats_are_let_be(
    recorded: Any, wire: Any, openai_client: Any, scripts: Any, replies: Any, arguments: Any
) -> None:
    wire.streams(*scripts["chat"])
    completions = openai_client.chat.completions
    assert len(list(completions.with_raw_response.create(**arguments["chat"], stream=True).parse())) == 7
    wire.replies(replies["chat"], at=1_000)
    completions.create(**arguments["chat"])
    wire.streams(*[(ms + 1_000, item) for ms, item in scripts["responses"]], at=1_010)
    list(openai_client.responses.create(**arguments["responses"], stream=True))
    assert not [body for body in sent(wire) if "stream_options" in body]


def test_the_users_own_arguments_are_not_written_to(
    recorded: Any, wire: Any, openai_client: Any, scripts: Any, arguments: Any
) -> None:
    before = json.dumps(arguments["chat"])
    wire.streams(*scripts["chat"])
    list(create(openai_client, arguments))
    assert json.dumps(arguments["chat"]) == before


@pytest.mark.parametrize("status", [400, 422])
def test_a_server_that_refuses_gets_it_as_the_user_wrote_it_and_is_not_asked_again(
    status: int, recorded: Any, wire: Any, openai_client: Any, scripts: Any, arguments: Any
) -> None:
    wire.replies(REFUSED, status=status, at=5)
    for _ in range(2):
        wire.streams(*scripts["chat"])
        assert len(list(create(openai_client, arguments))) == 7
    assert ["stream_options" in body for body in sent(wire)] == [True, False, False]
    first, second = recorded.spans
    assert (first.attributes["hopbudget.outcome"], first.attributes["hopbudget.attempts"]) == ("ok", 2)
    assert "hopbudget.attempts" not in second.attributes


async def test_a_refusal_is_survived_where_it_is_awaited(
    recorded: Any, wire: Any, openai_async: Any, scripts: Any, arguments: Any
) -> None:
    wire.replies(REFUSED, status=400, at=5)
    wire.streams(*scripts["chat"])
    assert len([chunk async for chunk in await create(openai_async, arguments)]) == 7
    assert ["stream_options" in body for body in sent(wire)] == [True, False]


def test_an_error_that_is_the_users_own_is_the_one_that_the_application_gets(
    recorded: Any, wire: Any, openai_client: Any, arguments: Any
) -> None:
    wire.replies(REFUSED, status=400, at=5)
    wire.replies({"error": {"message": "no such model"}}, status=400, at=10)
    with pytest.raises(openai.BadRequestError, match="no such model") as caught:
        create(openai_client, arguments)
    assert caught.value.__context__ is None or not isinstance(caught.value.__context__, openai.BadRequestError)
    assert recorded.attributes()["hopbudget.outcome"] == "failed"


def test_a_server_that_took_it_once_is_not_asked_twice_when_it_refuses(
    recorded: Any, wire: Any, openai_client: Any, scripts: Any, arguments: Any
) -> None:
    wire.streams(*scripts["chat"])
    list(create(openai_client, arguments))
    wire.replies({"error": {"message": "too long"}}, status=400, at=1_000)
    with pytest.raises(openai.BadRequestError, match="too long"):
        create(openai_client, arguments)
    assert len(wire.requests) == 2


@pytest.mark.parametrize("again", [{"include_usage": False}, {}])
def test_it_is_not_asked_for_unless_it_was_asked_for(
    again: Any, recorded: Any, wire: Any, openai_client: Any, scripts: Any, arguments: Any
) -> None:
    hb.instrument(**again)
    wire.streams(*scripts["chat"])
    assert len(list(create(openai_client, arguments))) == 7
    assert "stream_options" not in sent(wire)[0]


@pytest.mark.parametrize(("value", "asked"), [("1", True), ("true", True), ("0", False), ("", False)])
def test_the_environment_may_ask(
    value: str, asked: bool, monkeypatch: pytest.MonkeyPatch,
    recorded: Any, wire: Any, openai_client: Any, scripts: Any, arguments: Any,
) -> None:  # fmt: skip
    monkeypatch.setenv("HOPBUDGET_INCLUDE_USAGE", value)
    hb.instrument()
    wire.streams(*scripts["chat"])
    list(create(openai_client, arguments))
    assert ("stream_options" in sent(wire)[0]) is asked
