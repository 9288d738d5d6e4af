"""On an event loop a limit fires at its time, wherever the call is blocked."""

import asyncio
import sys
from collections.abc import AsyncIterator
from types import ModuleType
from typing import Any

import pytest

import hopbudget as hb


async def forever(*_: Any) -> None:
    await asyncio.Event().wait()


def held_hop(**limits: Any) -> Any:
    return hb.hop("answer", enforce="deadline", **limits)


def test_a_coroutine_is_ended_when_it_is_not_complete_in_time(held: Any) -> None:
    error, ms = held(held_hop(completion_s=0.4)(forever)())
    assert (type(error), ms) == (hb.CompletionTimeout, 400)


def test_the_first_token_of_an_async_generator_is_awaited_no_longer(held: Any, chunk: Any, stream: Any) -> None:
    @held_hop(first_token_s=0.3)
    async def answer() -> AsyncIterator[Any]:
        async for piece in stream((50, chunk(role="assistant", content="")), (5000, chunk("late"))):
            yield piece

    async def read() -> None:
        async for _ in answer():
            pass

    error, ms = held(read())
    assert (type(error), ms) == (hb.FirstTokenTimeout, 300)


def test_the_first_token_disarms_the_limit(jumping: Any, chunk: Any, stream: Any) -> None:
    @held_hop(first_token_s=0.3)
    async def answer() -> AsyncIterator[Any]:
        async for piece in stream((200, chunk("a")), (5000, chunk("b")), (1, chunk(finish="stop"))):
            yield piece

    async def read() -> int:
        return len([piece async for piece in answer()])

    assert jumping.run(read()) == 3


def test_a_stall_fires_from_the_last_token_whatever_else_comes(held: Any, chunk: Any, stream: Any) -> None:
    empties = [(400, chunk(content="")) for _ in range(20)]
    got: list[Any] = []

    async def read() -> None:
        with held_hop(stall_s=1.0):
            async for piece in hb.watch(stream((200, chunk("a")), (300, chunk("b")), *empties)):
                got.append(piece)

    error, ms = held(read())
    assert (type(error), ms) == (hb.StallTimeout, 1500)
    assert len(got) == 4, "what had come is the consumer's"


def test_what_the_consumer_takes_between_chunks_is_no_stall(jumping: Any, chunk: Any, stream: Any) -> None:
    async def read() -> None:
        with held_hop(stall_s=0.5):
            async for _ in hb.watch(stream((1, chunk("a")), (1, chunk("b")), (400, chunk("c")))):
                await asyncio.sleep(3)

    jumping.run(read())


def test_reasoning_tokens_feed_the_stall(jumping: Any, chunk: Any, stream: Any) -> None:
    thought = [(400, chunk(reasoning_content="hm")) for _ in range(5)]

    async def read() -> int:
        with held_hop(stall_s=0.5):
            return len([piece async for piece in hb.watch(stream((1, chunk("a")), *thought))])

    assert jumping.run(read()) == 6


def test_completion_ends_a_stream_that_goes_on(held: Any, chunk: Any, stream: Any, recorded: Any) -> None:
    got: list[Any] = []

    async def read() -> None:
        with held_hop(completion_s=2.0):
            async for piece in hb.watch(stream(*[(400, chunk("a"))] * 100)):
                got.append(piece)

    error, ms = held(read())
    assert (type(error), ms, len(got)) == (hb.CompletionTimeout, 2000, 4)
    found = recorded.attributes()
    assert (found["hopbudget.outcome"], found["hopbudget.limit_hit"]) == ("timed_out", "completion")
    assert found["hopbudget.output_tokens"] == 4


def test_a_stream_handed_on_is_held_after_the_body(held: Any, chunk: Any, stream: Any) -> None:
    @held_hop(stall_s=0.5)
    async def answer() -> AsyncIterator[Any]:
        return stream((100, chunk("a")), (9000, chunk("b")))  # type: ignore[no-any-return]

    async def read() -> None:
        async for _ in await answer():
            pass

    error, ms = held(read())
    assert (type(error), ms) == (hb.StallTimeout, 600)


def test_a_consumer_that_comes_too_late_is_told_at_its_pull_and_the_stream_is_closed(held: Any, chunk: Any) -> None:
    closed: list[bool] = []

    async def source() -> AsyncIterator[Any]:
        try:
            while True:
                yield chunk("a")
        finally:
            closed.append(True)

    async def read() -> None:
        @held_hop(completion_s=1.0)
        async def answer() -> Any:
            return source()

        async for _ in await answer():
            await asyncio.sleep(3)

    error, ms = held(read())
    assert (type(error), ms) == (hb.CompletionTimeout, 3000)
    assert closed == [True]


def test_a_body_may_catch_it_and_go_on(jumping: Any, chunk: Any, stream: Any, recorded: Any) -> None:
    async def read() -> str:
        with held_hop(first_token_s=0.2):
            try:
                async for _ in hb.watch(stream((9000, chunk("a")))):
                    pass
            except hb.FirstTokenTimeout:
                await asyncio.sleep(1)
                return "another way"
        return ""

    assert jumping.run(read()) == "another way"
    assert recorded.attributes()["hopbudget.outcome"] == "timed_out"


def test_two_streams_of_one_hop_have_limits_of_their_own(jumping: Any, chunk: Any, stream: Any) -> None:
    async def drain(source: Any) -> str:
        try:
            async for _ in source:
                pass
        except hb.StallTimeout:
            return f"stalled at {jumping.ms:g}"
        return "read"

    async def read() -> list[str]:
        async with held_hop(stall_s=0.5):
            quick, slow = hb.watch(stream(*[(300, chunk("a"))] * 5)), hb.watch(stream((100, chunk("a")), (2000, "b")))
            return list(await asyncio.gather(drain(quick), drain(slow)))

    assert jumping.run(read()) == ["read", "stalled at 600"]


def test_it_says_so_when_the_loop_was_blocked(held: Any, jumping: Any) -> None:
    async def blocked() -> None:
        with held_hop(completion_s=0.2):
            await asyncio.sleep(0.1)
            jumping.block(700)
            await asyncio.sleep(5)

    error, ms = held(blocked())
    assert ms == 800
    assert error.client_lag
    assert error.late_s == pytest.approx(0.6)
    assert "0.60 s late, because the event loop was blocked" in str(error)


def test_it_says_so_too_where_the_deadline_passed_in_front_of_a_hop(held: Any, jumping: Any) -> None:
    @hb.trajectory("agent", deadline_s=1.0, enforce="deadline")
    async def blocked() -> None:
        jumping.block(1600)
        async with hb.hop("late"):
            pass

    error, _ = held(blocked())
    assert (error.hop, error.client_lag, error.late_s) == ("late", True, pytest.approx(0.6))


def test_the_exception_says_which_limit_how_long_and_what_had_come(held: Any, chunk: Any, stream: Any) -> None:
    async def read() -> None:
        with held_hop(stall_s=1.0):
            async for _ in hb.watch(stream((200, chunk("a")), (9000, chunk("b")))):
                pass

    error, _ = held(read())
    assert (error.limit, error.hop, error.elapsed_s, error.budget_s) == ("stall", "answer", 1.0, 1.0)
    assert str(error).startswith("hop 'answer': no further token within 1.00 s; ")
    assert "1 chunks with tokens had come, the last 1.00 s before" in str(error)
    assert isinstance(error, TimeoutError)
    assert isinstance(error.__cause__, asyncio.CancelledError), "where it was cancelled is the cause"


def test_without_an_sdk_limits_hold_all_the_same(held: Any, chunk: Any, stream: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("hopbudget.tracing.scope.tracer", lambda: None)

    async def read() -> None:
        with hb.trajectory("agent", deadline_s=3.0, enforce="deadline"), hb.hop("answer", stall_s=0.5):
            async for _ in hb.watch(stream((200, chunk("a")), (9000, chunk("b")))):
                pass

    error, ms = held(read())
    assert (type(error), ms) == (hb.StallTimeout, 700)


def test_a_limit_reached_at_a_pull_is_told_once_though_closing_takes_its_time(
    held: Any, chunk: Any, recorded: Any
) -> None:
    class Source:
        def __aiter__(self) -> "Source":
            return self

        async def __anext__(self) -> Any:
            return chunk("a")

        async def aclose(self) -> None:
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def main() -> None:
        async with hb.trajectory("agent", deadline_s=9.0, enforce="deadline"), held_hop(completion_s=1.0):
            async for _ in hb.watch(Source()):
                await asyncio.sleep(0.9)

    error, _ = held(main())
    assert isinstance(error, hb.CompletionTimeout)
    root, hop = (dict(span.attributes or {}) for span in recorded.spans)
    assert root["hopbudget.decisions"] == ("answer: completion",)
    assert [found["hopbudget.outcome"] for found in (root, hop)] == ["timed_out", "timed_out"]


def test_a_library_around_a_client_that_makes_its_own_of_the_limit_is_seen_through(
    held: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    openai = pytest.importorskip("openai", minversion="3")
    httpx2 = pytest.importorskip("httpx2")
    library = ModuleType("litellm")

    class Silent(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: Any) -> Any:
            await forever()

    async def acompletion(model: str, messages: Any) -> Any:
        http = httpx2.AsyncClient(transport=Silent())
        async with openai.AsyncOpenAI(api_key="k", base_url="http://server/v1", http_client=http) as client:
            try:
                return await client.chat.completions.create(model=model, messages=messages)
            except Exception as error:
                raise RuntimeError("the library's own") from error

    library.acompletion = acompletion  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "litellm", library)
    hb.instrument()

    async def main() -> None:
        async with held_hop(completion_s=0.5):
            await library.acompletion("m", [])

    error, _ = held(main())
    assert (type(error), error.elapsed_s) == (hb.CompletionTimeout, 0.5)
