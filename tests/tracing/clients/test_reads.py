"""What came in one read from the transport, and what lay ready when asked for, however slow the client parses."""

from typing import Any

import pytest

import hopbudget as hb

APIS = ["chat", "completions", "responses", "messages"]


def at_once(script: Any, ms: float) -> Any:
    """The whole stream in one piece."""
    return [(ms, b"".join(piece for _, piece in script))]


def told(recorded: Any) -> dict[str, Any]:
    return {key: recorded.attributes()[f"hopbudget.{key}"] for key in ("chunks", "coalesced", "held")}


def read(stream: Any, time: Any, takes_ms: float) -> None:
    for _ in stream:
        time.to(time.ms + takes_ms)


async def read_async(stream: Any, time: Any, takes_ms: float) -> None:
    async for _ in stream:
        time.to(time.ms + takes_ms)


@pytest.fixture
def client(request: Any, api: str) -> Any:
    return request.getfixturevalue("anthropic_client" if api == "messages" else "openai_client")


@pytest.mark.parametrize("api", APIS)
def test_chunks_of_one_read_are_coalesced(
    recorded: Any, wire: Any, time: Any, client: Any, scripts: Any, arguments: Any, resource: Any, api: str
) -> None:
    wire.streams(*at_once(scripts[api], 600))
    with hb.hop("answer"):
        read(resource(client, api).create(**arguments[api], stream=True), time, takes_ms=1)
    assert told(recorded) == {"chunks": 3, "coalesced": 2, "held": 0}


@pytest.mark.parametrize("takes_ms", [1, 100])
async def test_chunks_of_one_read_are_coalesced_in_async_code(
    recorded: Any, wire: Any, time: Any, openai_async: Any, scripts: Any, arguments: Any, takes_ms: float
) -> None:
    wire.streams(*at_once(scripts["chat"], 600))
    with hb.hop("answer"):
        stream = await openai_async.chat.completions.create(**arguments["chat"], stream=True)
        await read_async(stream, time, takes_ms)
    assert told(recorded) == {"chunks": 3, "coalesced": 2, "held": 0}


@pytest.mark.parametrize(("waits_ms", "held"), [(0, 2), (1, 2), (5, 0)])
def test_a_chunk_that_reading_takes_next_to_nothing_of_its_gap_was_there(
    recorded: Any, wire: Any, time: Any, openai_client: Any, scripts: Any, arguments: Any, waits_ms: float, held: int
) -> None:
    script = [(1000 + (100 + waits_ms) * number, piece) for number, (_, piece) in enumerate(scripts["chat"])]
    wire.streams(*script)
    with hb.hop("answer"):
        read(openai_client.chat.completions.create(**arguments["chat"], stream=True), time, takes_ms=100)
    assert told(recorded) == {"chunks": 3, "coalesced": 0, "held": held}


async def test_a_response_that_is_left_lets_go_of_its_bytes(
    recorded: Any, wire: Any, openai_async: Any, scripts: Any, arguments: Any
) -> None:
    wire.streams(*scripts["chat"])
    with hb.hop("answer"):
        stream = await openai_async.chat.completions.create(**arguments["chat"], stream=True)
        async for _ in stream:
            break
        await stream.close()
    assert wire.bodies[0].closed
    assert recorded.attributes()["hopbudget.outcome"] == "closed_by_consumer"
