"""Attempts inside of a hop, and calls in a row inside of one."""

import asyncio
import contextlib
from typing import Any

import pytest

import hopbudget as hb

openai = pytest.importorskip("openai", minversion="3")
httpx2 = pytest.importorskip("httpx2")

BUSY = {"error": {"message": "busy", "type": "server_error"}}


def busy(wire: Any, at: float, after_s: float) -> None:
    wire.replies(BUSY, status=503, at=at, headers={"retry-after-ms": str(after_s * 1000)})


def later(script: Any, by_ms: float) -> Any:
    return [(ms + by_ms, item) for ms, item in script]


def test_a_hop_with_the_clients_retries_is_one_hop(
    recorded: Any, wire: Any, openai_client: Any, scripts: Any, arguments: Any, naps: list[float]
) -> None:
    busy(wire, 50, 1.0)
    busy(wire, 1_100, 2.0)
    wire.streams(*later(scripts["chat"], 3_100), at=3_110)
    for _ in openai_client.chat.completions.create(**arguments["chat"], stream=True):
        pass
    assert naps == [1.0, 2.0]
    assert recorded.tree() == "chat m 0-3743 ok"
    found = recorded.attributes()
    assert found["hopbudget.attempts"] == 3
    assert found["hopbudget.backoff"] == pytest.approx(3.0)
    assert found["hopbudget.ttft"] == pytest.approx(3.7)
    assert found["hopbudget.attempt_ttft"] == pytest.approx(0.6)


async def test_a_connection_that_fails_is_an_attempt(
    recorded: Any, wire: Any, anthropic_async: Any, scripts: Any, arguments: Any, naps: list[float]
) -> None:
    wire.will(httpx2.ConnectError("refused"))
    script = later(scripts["messages"], 5_000)
    wire.streams(*script, at=5_010)
    async for _ in await anthropic_async.messages.create(**arguments["messages"], stream=True):
        pass
    found = recorded.attributes()
    assert found["hopbudget.attempts"] == 2
    assert found["hopbudget.backoff"] == pytest.approx(sum(naps), abs=1e-6)
    assert found["hopbudget.ttft"] == pytest.approx(5.6)
    assert found["hopbudget.attempt_ttft"] == pytest.approx(5.6 - sum(naps), abs=1e-6)


def test_a_hop_that_gives_up_failed_and_has_its_attempts(
    recorded: Any, wire: Any, openai_client: Any, arguments: Any, naps: list[float]
) -> None:
    for at in (50, 1_100, 2_200):
        busy(wire, at, 1.0)
    with pytest.raises(openai.InternalServerError):
        openai_client.chat.completions.create(**arguments["chat"])
    assert recorded.tree() == "chat m 0-2200 failed InternalServerError"
    assert recorded.attributes()["hopbudget.attempts"] == 3


def test_each_attempt_carries_the_hops_trace_context(
    recorded: Any, wire: Any, openai_client: Any, replies: Any, arguments: Any, naps: list[float]
) -> None:
    busy(wire, 50, 1.0)
    wire.replies(replies["chat"], at=2_000)
    openai_client.chat.completions.create(**arguments["chat"])
    first, second = (request.headers["traceparent"] for request in wire.requests)
    assert first == second


def test_the_call_inside_of_a_hop_is_that_hop(
    recorded: Any, time: Any, wire: Any, openai_client: Any, scripts: Any, arguments: Any
) -> None:
    @hb.hop("answer", final=True)
    def answer() -> str:
        time.to(100)
        text = ""
        for chunk in openai_client.chat.completions.create(**arguments["chat"], stream=True):
            text += chunk.choices[0].delta.content or "" if chunk.choices else ""
        time.to(2_000)
        return text

    wire.streams(*later(scripts["chat"], 100), at=110)
    assert answer() == "Hello!"
    assert recorded.tree() == "chat m 0-743 ok"
    found = recorded.attributes()
    assert (found["hopbudget.hop"], found["hopbudget.final"]) == ("answer", True)
    assert found["gen_ai.provider.name"] == "openai"
    # The time before the request left is none of the hop's.
    assert found["hopbudget.issued"] == pytest.approx(0.1)
    assert found["hopbudget.ttft"] == pytest.approx(0.6)


def test_what_the_body_makes_of_its_call_is_no_second_one(
    recorded: Any, wire: Any, openai_client: Any, scripts: Any, replies: Any, arguments: Any
) -> None:
    completions = openai_client.chat.completions

    @hb.hop("stream")
    def stream() -> Any:
        return hb.watch(chunk for chunk in hb.watch(completions.create(**arguments["chat"], stream=True)))

    @hb.hop("raw")
    def raw() -> Any:
        return hb.watch(completions.with_raw_response.create(**arguments["chat"]).parse())

    @hb.hop("yielding")
    def yielding() -> Any:
        for chunk in completions.create(**arguments["chat"], stream=True):
            if chunk.choices:
                yield chunk.choices[0].delta.content

    wire.streams(*scripts["chat"])
    list(stream())
    wire.replies(replies["chat"], at=1_000)
    raw()
    wire.streams(*later(scripts["chat"], 1_000), at=1_010)
    list(yielding())
    assert recorded.tree().split("\n") == ["chat m 0-643 ok", "chat m 643-1000 ok", "chat m 1000-1643 ok"]


def test_a_helper_watched_or_handed_on_is_the_call_it_reads(
    recorded: Any, wire: Any, openai_client: Any, scripts: Any, arguments: Any
) -> None:
    @hb.hop("answer")
    def answer() -> Any:
        with openai_client.chat.completions.stream(**arguments["chat"]) as stream:
            return hb.watch(stream).get_final_completion()

    wire.streams(*scripts["chat"])
    answer()
    assert recorded.tree() == "chat m 0-643 ok"


def test_two_calls_in_a_row_are_two_visits(
    recorded: Any, time: Any, wire: Any, openai_client: Any, replies: Any, arguments: Any
) -> None:
    @hb.hop("plan")
    def plan() -> None:
        openai_client.chat.completions.create(**arguments["chat"])
        time.to(500)
        openai_client.chat.completions.create(**arguments["chat"])

    wire.replies(replies["chat"], at=300)
    wire.replies(replies["chat"], at=900)
    plan()
    assert recorded.tree().split("\n") == ["chat m 0-300 ok", "chat m 500-900 ok"]
    assert {span.attributes["hopbudget.hop"] for span in recorded.spans} == {"plan"}
    contexts = [span.context.span_id for span in recorded.spans]
    assert [int(request.headers["traceparent"].split("-")[2], 16) for request in wire.requests] == contexts


def test_a_call_after_one_that_failed_is_its_next_attempt(
    recorded: Any, time: Any, wire: Any, openai_client: Any, scripts: Any, arguments: Any
) -> None:
    @hb.hop("plan")
    def plan() -> None:
        once = openai_client.with_options(max_retries=0)
        with contextlib.suppress(openai.InternalServerError):
            once.chat.completions.create(**arguments["chat"])
        time.to(1_000)
        for _ in once.chat.completions.create(**arguments["chat"], stream=True):
            pass

    busy(wire, 50, 9.0)
    wire.streams(*later(scripts["chat"], 1_000), at=1_010)
    plan()
    assert recorded.tree() == "chat m 0-1643 ok"
    found = recorded.attributes()
    assert found["hopbudget.attempts"] == 2
    assert found["hopbudget.backoff"] == pytest.approx(0.95)
    assert found["hopbudget.ttft"] == pytest.approx(1.6)
    assert found["hopbudget.attempt_ttft"] == pytest.approx(0.6)


def test_a_stream_cut_and_asked_for_again_is_the_next_attempt(
    recorded: Any, wire: Any, openai_client: Any, scripts: Any, arguments: Any
) -> None:
    @hb.hop("answer")
    def answer() -> None:
        for _ in range(2):
            with contextlib.suppress(openai.APIConnectionError):
                for _ in openai_client.chat.completions.create(**arguments["chat"], stream=True):
                    pass

    wire.streams(*scripts["chat"][:4], (630, httpx2.ReadError("cut")))
    wire.streams(*later(scripts["chat"], 1_000), at=1_010)
    answer()
    assert recorded.tree() == "chat m 0-1643 ok"
    found = recorded.attributes()
    assert (found["hopbudget.attempts"], found["hopbudget.chunks"]) == (2, 3)


async def test_calls_at_the_same_time_are_visits_of_their_own(
    recorded: Any, wire: Any, openai_async: Any, replies: Any, arguments: Any
) -> None:
    @hb.hop("vote")
    async def vote() -> None:
        ask = openai_async.chat.completions.create
        await asyncio.gather(ask(**arguments["chat"]), ask(**arguments["chat"]))

    wire.replies(replies["chat"], at=300)
    wire.replies(replies["chat"], at=400)
    await vote()
    assert len(recorded.spans) == 2
    assert {span.attributes["hopbudget.hop"] for span in recorded.spans} == {"vote"}


def test_a_call_of_a_trajectory_without_a_hop_is_a_hop_that_the_records_reader_names(
    recorded: Any, wire: Any, openai_client: Any, replies: Any, arguments: Any
) -> None:
    @hb.trajectory("agent")
    def agent() -> None:
        openai_client.chat.completions.create(**arguments["chat"])

    wire.replies(replies["chat"])
    agent()
    assert recorded.tree() == "invoke_agent agent 0-300 ok\n  chat m 0-300 ok"
    assert "hopbudget.hop" not in recorded.spans[1].attributes


async def test_a_request_cancelled_before_its_answer_is_cancelled(
    recorded: Any, time: Any, wire: Any, openai_async: Any, arguments: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = asyncio.Event()

    async def never(request: Any) -> Any:
        waiting.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(wire, "handle_async_request", never)
    task = asyncio.create_task(openai_async.chat.completions.create(**arguments["chat"]))
    await waiting.wait()
    time.to(700)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert recorded.tree() == "chat m 0-700 cancelled CancelledError"


async def test_a_stream_cancelled_between_tokens_is_cancelled(
    recorded: Any, time: Any, wire: Any, openai_async: Any, scripts: Any, arguments: Any
) -> None:
    waiting = asyncio.Event()

    async def stall() -> None:
        waiting.set()
        await asyncio.Event().wait()

    async def read() -> None:
        async with openai_async.chat.completions.stream(**arguments["chat"]) as stream:
            async for _ in stream:
                pass

    wire.streams(*scripts["chat"][:4], (630, stall))
    task = asyncio.create_task(read())
    await waiting.wait()
    time.to(2_000)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert recorded.tree() == "chat m 0-2000 cancelled CancelledError"
