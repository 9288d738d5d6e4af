"""A client's manager that a hop hands on unentered: what it sends when it is entered is that hop."""

import gc
from typing import Any

import pytest

import hopbudget as hb

pytest.importorskip("openai", minversion="3")

FORMS = {
    "helper": lambda resource, arguments: resource.stream(**arguments),
    "streaming response": lambda resource, arguments: resource.with_streaming_response.create(**arguments, stream=True),
}


def lines(stream: Any) -> Any:
    return stream.iter_lines() if hasattr(stream, "iter_lines") else stream


@pytest.fixture(params=["chat", "messages"])
def api(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def resource(api: str, openai_client: Any, anthropic_client: Any) -> Any:
    return openai_client.chat.completions if api == "chat" else anthropic_client.messages


@pytest.fixture
def resource_async(api: str, openai_async: Any, anthropic_async: Any) -> Any:
    return openai_async.chat.completions if api == "chat" else anthropic_async.messages


def told(recorded: Any) -> tuple[Any, ...]:
    found = recorded.attributes()
    return tuple(found.get(f"hopbudget.{key}") for key in ("hop", "final", "outcome", "ttft", "issued"))


@pytest.mark.parametrize("form", FORMS)
def test_the_hop_ends_with_the_stream(
    form: str, api: str, recorded: Any, time: Any, wire: Any, resource: Any, scripts: Any, arguments: Any
) -> None:
    @hb.hop("answer", final=True)
    def answer() -> Any:
        return FORMS[form](resource, arguments[api])

    wire.streams(*[(ms + 50, item) for ms, item in scripts[api]], at=60)
    manager = answer()
    assert type(manager).__name__.endswith("Manager")
    time.to(50)
    with manager as stream:
        for _ in lines(stream):
            pass
    assert told(recorded) == ("answer", True, "ok", pytest.approx(0.6), pytest.approx(0.05))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("plain", [False, True])
async def test_the_same_where_it_is_awaited(
    form: str, plain: bool, api: str,
    recorded: Any, time: Any, wire: Any, resource_async: Any, scripts: Any, arguments: Any,
) -> None:  # fmt: skip
    def make() -> Any:
        return FORMS[form](resource_async, arguments[api])

    async def make_async() -> Any:
        return make()

    wire.streams(*[(ms + 50, item) for ms, item in scripts[api]], at=60)
    hop = hb.hop("answer", final=True)
    manager = hop(make)() if plain else await hop(make_async)()
    time.to(50)
    async with manager as stream:
        async for _ in lines(stream):
            pass
    assert told(recorded) == ("answer", True, "ok", pytest.approx(0.6), pytest.approx(0.05))


def test_one_that_nobody_enters_ends_where_it_was_returned(
    api: str, recorded: Any, time: Any, resource: Any, arguments: Any
) -> None:
    time.to(20)
    manager = hb.hop("answer")(lambda: resource.stream(**arguments[api]))()
    time.to(5_000)
    del manager
    gc.collect()
    assert recorded.tree() == "chat 20-20 closed_by_consumer"


def test_what_fails_while_it_is_entered_is_the_hops(
    api: str, recorded: Any, wire: Any, resource: Any, arguments: Any
) -> None:
    wire.replies({"error": {"type": "invalid", "message": "no"}}, status=400, at=30)
    manager = hb.hop("answer")(lambda: resource.stream(**arguments[api]))()
    with pytest.raises(Exception, match="no"), manager:
        pass
    assert told(recorded)[:3] == ("answer", None, "failed")


def test_a_break_inside_of_it_is_closed_by_the_consumer(
    api: str, recorded: Any, wire: Any, resource: Any, scripts: Any, arguments: Any
) -> None:
    wire.streams(*scripts[api])
    with hb.hop("answer")(lambda: resource.stream(**arguments[api]))() as stream:
        next(iter(stream))
    assert told(recorded)[2] == "closed_by_consumer"


def test_it_belongs_to_the_trajectory_that_its_hop_was_in(
    recorded: Any, wire: Any, openai_client: Any, scripts: Any, arguments: Any
) -> None:
    wire.streams(*scripts["chat"])
    with hb.trajectory("agent"):
        manager = hb.hop("answer")(lambda: openai_client.chat.completions.stream(**arguments["chat"]))()
    with manager as stream:
        stream.until_done()
    assert recorded.tree().split("\n") == ["invoke_agent agent 0-0", "  chat m 0-643 ok"]


def test_a_client_that_is_not_instrumented_is_timed_all_the_same(
    recorded: Any, time: Any, wire: Any, openai_client: Any, scripts: Any, arguments: Any
) -> None:
    hb.uninstrument()
    wire.streams(*scripts["chat"])
    with hb.hop("answer")(lambda: openai_client.chat.completions.stream(**arguments["chat"]))() as stream:
        stream.until_done()
    assert told(recorded)[:4] == ("answer", None, "ok", pytest.approx(0.6))
