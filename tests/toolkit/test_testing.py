"""The test kit, as a user's own tests use it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import hopbudget as hb
from hopbudget.testing import AsyncScriptedStream, FakeClock, ScriptedStream, Stall, chat_chunk, recording
from hopbudget.tracing import scope

HELLO = [(0.2, chat_chunk("Hel")), (0.22, chat_chunk("lo")), (0.23, chat_chunk(finish="stop"))]


def test_a_scripted_stream_is_a_hop_with_the_times_of_its_script() -> None:
    with recording() as recorded:

        @hb.hop("answer", final=True)
        def answer() -> ScriptedStream:
            return ScriptedStream(recorded.clock, HELLO)

        @hb.trajectory("agent")
        def agent() -> str:
            with hb.work("search"):
                recorded.clock.sleep(0.5)
            return "".join(item["choices"][0]["delta"].get("content", "") for item in answer())

        assert agent() == "Hello"
    (hop,) = recorded.hops
    assert (hop.name, hop.model, hop.outcome, hop.final, hop.attempts) == ("answer", "scripted", "ok", True, 1)
    assert (hop.began_s, hop.ttft_s, hop.ttfa_s, hop.e2e_s) == (0.5, 0.2, 0.2, 0.22)
    assert (hop.output_tokens, hop.output_tokens_source, hop.gaps_s) == (2, "chunks", (0.02,))
    assert hop.duration_s == pytest.approx(0.23)
    assert recorded.tree() == "\n".join(
        [
            "invoke_agent agent 0-0.73 ok",
            "  execute_tool search 0-0.5 ok",
            "  hop answer 0.5-0.73 ok",
        ]
    )


@pytest.mark.parametrize(
    ("script", "outcome", "error"),
    [
        (HELLO[:2], "failed", "cut_off"),
        ([*HELLO[:1], (0.3, ConnectionError())], "failed", "ConnectionError"),
        ([*HELLO[:2], (0.3, chat_chunk(finish="length"))], "truncated", None),
    ],
)
def test_a_script_may_end_badly(script: Any, outcome: str, error: str | None) -> None:
    with recording() as recorded:
        try:
            with hb.hop("answer"):
                list(hb.watch(ScriptedStream(recorded.clock, script)))
        except ConnectionError:
            pass
    (hop,) = recorded.hops
    assert (hop.outcome, hop.error) == (outcome, error)


async def test_an_async_script_may_stall_until_it_is_cancelled() -> None:
    with recording() as recorded:

        @hb.hop("answer")
        async def answer() -> AsyncIterator[Any]:
            async for item in AsyncScriptedStream(recorded.clock, [*HELLO[:2], (0.3, Stall())]):
                yield item

        async def read() -> None:
            async for _ in answer():
                pass

        task = asyncio.create_task(read())
        while recorded.clock.s < 0.3:
            await asyncio.sleep(0)
        recorded.clock.to(5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    (hop,) = recorded.hops
    assert (hop.outcome, hop.ended_s, hop.gaps_s) == ("cancelled", 5, (0.02, 4.78))


def test_a_sync_script_that_stalls_is_told_apart_from_a_test_that_hangs() -> None:
    with recording() as recorded, pytest.raises(RuntimeError, match="stall for ever"):
        list(ScriptedStream(recorded.clock, [(0.1, Stall())]))


async def test_streams_close_and_are_context_managers() -> None:
    clock = FakeClock()
    with ScriptedStream(clock, HELLO) as stream:
        next(stream)
    assert stream.closed
    assert list(stream) == []
    async with AsyncScriptedStream(clock, HELLO) as async_stream:
        await anext(async_stream)
    assert async_stream.closed
    assert [item async for item in async_stream] == []


async def test_time_passes_when_told_to_and_never_back() -> None:
    clock = FakeClock()
    clock.sleep(1.5)
    await clock.asleep(0.5)
    assert clock.s == 2
    with pytest.raises(ValueError, match="does not go back"):
        clock.to(1)


def test_afterwards_everything_is_as_it_was() -> None:
    before = (scope.setup.clock, scope.setup.tokenizer, scope.setup.provider)
    with pytest.raises(KeyError), recording():
        raise KeyError
    assert (scope.setup.clock, scope.setup.tokenizer, scope.setup.provider) == before
    assert scope.tracer() is None
