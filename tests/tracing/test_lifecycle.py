"""One span on every way out, with the right outcome and end, for every kind of callable."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import hopbudget as hb
from hopbudget.tracing import scope
from hopbudget.tracing.gaps import decode

OK = "chat m-1 0-242 ok"


class ProviderError(Exception):
    pass


class ConsumerError(Exception):
    pass


def until(script: Any, ms: float, then: Any) -> Any:
    """The script up to a time, then something else."""
    return [*(row for row in script if row[0] < ms), (ms, then)]


# --- generators -----------------------------------------------------------------------------------------------


@pytest.fixture
def generator(recorded: Any, open_stream: Any) -> Any:
    """A decorated generator that passes a stream on."""

    def make(script: Any) -> Iterator[Any]:
        @hb.hop("answer")
        def answer() -> Iterator[Any]:
            yield from open_stream(script)

        return answer()

    return make


def test_generator_read_to_the_end(recorded: Any, generator: Any, script: Any) -> None:
    assert list(generator(script)) == [item for _, item in script]
    assert recorded.tree() == OK


def test_generator_left_by_break_and_collected(recorded: Any, generator: Any, script: Any, time: Any) -> None:
    stream = generator(script)
    for item in stream:
        if item is script[2][1]:
            break
    time.to(60_000)
    del stream
    assert recorded.tree() == "chat m-1 0-220 closed_by_consumer"
    assert recorded.attributes()["hopbudget.output_tokens"] == 2


def test_generator_closed(recorded: Any, generator: Any, script: Any, time: Any) -> None:
    stream = generator(script)
    next(stream)
    next(stream)
    time.to(5_000)
    stream.close()
    assert recorded.tree() == "chat m-1 0-200 closed_by_consumer"


def test_generator_whose_provider_fails(recorded: Any, generator: Any, script: Any) -> None:
    error = ProviderError("secret prompt")
    with pytest.raises(ProviderError) as caught:
        list(generator(until(script, 230, error)))
    assert caught.value is error
    assert recorded.tree() == "chat m-1 0-230 failed ProviderError"
    span = recorded.only()
    assert span.attributes["hopbudget.output_tokens"] == 2
    assert span.status.status_code.name == "ERROR"
    assert "secret" not in span.to_json()


def test_generator_whose_consumer_fails(recorded: Any, generator: Any, script: Any) -> None:
    with pytest.raises(ConsumerError):
        for item in generator(script):
            if item is script[2][1]:
                raise ConsumerError
    gc.collect()
    assert recorded.tree() == "chat m-1 0-220 closed_by_consumer"


def test_generator_that_the_consumer_throws_into(recorded: Any, generator: Any, script: Any) -> None:
    stream = generator(script)
    next(stream)
    error = ConsumerError()
    with pytest.raises(ConsumerError) as caught:
        stream.throw(error)
    assert caught.value is error
    assert recorded.tree() == "chat m-1 0-50 closed_by_consumer"


def test_generator_cancelled_by_the_keyboard(recorded: Any, generator: Any, script: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        list(generator(until(script, 230, KeyboardInterrupt())))
    assert recorded.tree() == "chat m-1 0-230 cancelled KeyboardInterrupt"


def test_generator_never_iterated_is_no_request_and_no_hop(recorded: Any, generator: Any, script: Any) -> None:
    generator(script)
    assert recorded.tree() == ""


def test_generator_cut_off(recorded: Any, generator: Any, script: Any) -> None:
    list(generator(script[:3]))
    assert recorded.tree() == "chat m-1 0-220 failed cut_off"


def test_generator_truncated(recorded: Any, generator: Any, script: Any, chunk: Any) -> None:
    list(generator(until(script, 241, chunk(finish="length"))))
    assert recorded.tree() == "chat m-1 0-241 truncated"


def test_generator_that_passes_only_its_tokens_on_is_not_cut_off(recorded: Any, open_stream: Any, script: Any) -> None:
    @hb.hop("answer")
    def answer() -> Iterator[Any]:
        for item in open_stream(script):
            if item["choices"] and item["choices"][0]["delta"].get("content"):
                yield item

    assert len(list(answer())) == 3
    assert recorded.only().attributes["hopbudget.outcome"] == "ok"


def test_generator_that_passes_its_text_on(recorded: Any, open_stream: Any, script: Any) -> None:
    @hb.hop("answer", final=True)
    def answer() -> Iterator[str]:
        for item in open_stream(script):
            if item["choices"]:
                yield item["choices"][0]["delta"].get("content") or ""

    assert "".join(answer()) == "abc"
    found = recorded.attributes()
    assert (found["hopbudget.ttft"], found["hopbudget.output_tokens.source"]) == (0.2, "chunks")
    assert found["hopbudget.final"] is True


def test_generator_that_watches_the_stream_is_timed_at_the_transport(
    recorded: Any, open_stream: Any, script: Any, time: Any
) -> None:
    @hb.hop("answer")
    def answer() -> Iterator[str]:
        for _ in hb.watch(open_stream(script)):
            time.ms += 0.5  # its own work on a chunk
            yield "piece"

    assert len(list(answer())) == 6
    found = recorded.attributes()
    assert (found["hopbudget.ttft"], found["hopbudget.output_tokens"], found["hopbudget.chunks"]) == (0.2, 3, 3)


# --- async generators -----------------------------------------------------------------------------------------


@pytest.fixture
def async_generator(recorded: Any, open_async_stream: Any) -> Any:
    def make(script: Any) -> AsyncIterator[Any]:
        @hb.hop("answer")
        async def answer() -> AsyncIterator[Any]:
            async for item in open_async_stream(script):
                yield item

        return answer()

    return make


async def test_async_generator_read_to_the_end(recorded: Any, async_generator: Any, script: Any) -> None:
    assert [item async for item in async_generator(script)] == [item for _, item in script]
    assert recorded.tree() == OK


async def test_async_generator_closed(recorded: Any, async_generator: Any, script: Any, time: Any) -> None:
    stream = async_generator(script)
    await anext(stream)
    await anext(stream)
    time.to(5_000)
    await stream.aclose()
    assert recorded.tree() == "chat m-1 0-200 closed_by_consumer"


async def test_async_generator_left_by_break_and_collected(
    recorded: Any, async_generator: Any, script: Any, time: Any
) -> None:
    stream = async_generator(script)
    async for item in stream:
        if item is script[2][1]:
            break
    time.to(60_000)
    del stream
    gc.collect()
    await settle()
    assert recorded.tree() == "chat m-1 0-220 closed_by_consumer"


async def test_async_generator_whose_provider_fails(recorded: Any, async_generator: Any, script: Any) -> None:
    error = ProviderError()
    with pytest.raises(ProviderError) as caught:
        async for _ in async_generator(until(script, 230, error)):
            pass
    assert caught.value is error
    assert recorded.tree() == "chat m-1 0-230 failed ProviderError"


async def test_async_generator_whose_consumer_fails(recorded: Any, async_generator: Any, script: Any) -> None:
    with pytest.raises(ConsumerError):
        async for item in async_generator(script):
            if item is script[2][1]:
                raise ConsumerError
    gc.collect()
    await settle()
    assert recorded.tree() == "chat m-1 0-220 closed_by_consumer"


async def test_async_generator_cancelled_while_it_waits_for_a_token(
    recorded: Any, async_generator: Any, script: Any, time: Any
) -> None:
    waiting = asyncio.Event()

    async def stall() -> None:
        waiting.set()
        await asyncio.Event().wait()

    async def consume() -> None:
        async for _ in async_generator(until(script, 230, stall)):
            pass

    task = asyncio.create_task(consume())
    await waiting.wait()
    time.to(1_220)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert recorded.tree() == "chat m-1 0-1220 cancelled CancelledError"
    gaps = decode(recorded.attributes()["hopbudget.itl"])
    assert gaps is not None
    assert (gaps.us, gaps.censored) == ([20_000, 1_000_000], True)


async def test_async_generator_whose_reader_is_cancelled_at_work_on_a_chunk(
    recorded: Any, async_generator: Any, script: Any, time: Any
) -> None:
    working = asyncio.Event()

    async def consume() -> None:
        async for item in async_generator(script):
            if item is script[2][1]:
                working.set()
                await asyncio.Event().wait()

    task = asyncio.create_task(consume())
    await working.wait()
    time.to(9_000)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await settle()
    assert recorded.tree() == "chat m-1 0-220 cancelled CancelledError"
    gaps = decode(recorded.attributes()["hopbudget.itl"])
    assert gaps is not None
    assert not gaps.censored  # nobody waited for a token


async def test_a_task_that_reads_many_streams_keeps_nothing_of_them(
    recorded: Any, async_generator: Any, script: Any
) -> None:
    task = asyncio.current_task()
    for _ in range(3):
        stream = async_generator([(0, item) for _, item in script])
        async for _ in stream:
            pass
    assert "done" not in repr(task)
    assert len(recorded.spans) == 3


async def test_async_generator_under_somebody_elses_time_out(recorded: Any, async_generator: Any, script: Any) -> None:
    async def stall() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            async for _ in async_generator(until(script, 230, stall)):
                pass
    assert recorded.only().attributes["hopbudget.outcome"] == "cancelled"


async def test_async_generator_never_iterated_is_no_hop(recorded: Any, async_generator: Any, script: Any) -> None:
    async_generator(script)
    assert recorded.tree() == ""


async def test_async_generator_closed_by_another_task(
    recorded: Any, async_generator: Any, script: Any, caplog: Any
) -> None:
    stream = async_generator(script)
    await anext(stream)
    await asyncio.create_task(stream.aclose())
    assert recorded.tree() == "chat m-1 0-50 closed_by_consumer"
    assert not caplog.records


# --- plain functions and coroutines ---------------------------------------------------------------------------


def test_function_that_returns_a_reply(recorded: Any, time: Any) -> None:
    reply = {"model": "m-1", "choices": [{"message": {}, "finish_reason": "stop"}], "usage": {"completion_tokens": 4}}

    @hb.hop("plan", model="m")
    def plan() -> Any:
        time.to(300)
        return reply

    assert plan() is reply
    assert recorded.tree() == "chat m 0-300 ok"
    found = recorded.attributes()
    assert (found["hopbudget.output_tokens"], found["hopbudget.output_tokens.source"]) == (4, "usage")
    assert "hopbudget.ttft" not in found
    assert "gen_ai.request.stream" not in found


def test_function_that_returns_something_else_is_a_hop_as_long_as_it_runs(recorded: Any, time: Any) -> None:
    @hb.hop("plan")
    def plan() -> str:
        time.to(300)
        return "text"

    assert plan() == "text"
    assert recorded.tree() == "chat 0-300 ok"
    assert "hopbudget.output_tokens" not in recorded.attributes()


def test_function_that_watches_its_reply_ends_with_the_reply(recorded: Any, time: Any) -> None:
    @hb.hop("plan")
    def plan() -> str:
        time.to(300)
        reply = hb.watch({"model": "m-1", "choices": [{"message": {"content": "x"}, "finish_reason": "length"}]})
        time.to(400)
        return str(reply["choices"])

    plan()
    assert recorded.tree() == "chat m-1 0-300 truncated"


def test_function_that_fails(recorded: Any, time: Any) -> None:
    @hb.hop("plan")
    def plan() -> None:
        time.to(300)
        raise ProviderError

    with pytest.raises(ProviderError):
        plan()
    assert recorded.tree() == "chat 0-300 failed ProviderError"


def test_function_that_returns_a_stream_is_a_hop_until_it_is_read(recorded: Any, open_stream: Any, script: Any) -> None:
    @hb.hop("answer")
    def answer() -> Any:
        return open_stream(script)

    stream = answer()
    assert recorded.tree() == ""
    assert list(stream) == [item for _, item in script]
    assert recorded.tree() == OK
    assert recorded.attributes()["gen_ai.request.stream"] is True


def test_function_whose_stream_is_opened_and_never_read(
    recorded: Any, open_stream: Any, script: Any, time: Any
) -> None:
    @hb.hop("answer")
    def answer() -> Any:
        time.to(40)
        return open_stream(script)

    stream = answer()
    time.to(9_000)
    del stream
    gc.collect()
    assert recorded.tree() == "chat 0-40 closed_by_consumer"


def test_function_whose_stream_is_closed(recorded: Any, open_stream: Any, script: Any, time: Any) -> None:
    @hb.hop("answer")
    def answer() -> Any:
        return open_stream(script)

    with answer() as stream:
        next(stream)
        next(stream)
        time.to(9_000)
    assert stream.closed
    assert recorded.tree() == "chat m-1 0-200 closed_by_consumer"


async def test_coroutine_whose_stream_is_closed_by_a_cancel(recorded: Any, open_async_stream: Any, script: Any) -> None:
    @hb.hop("answer")
    async def answer() -> Any:
        return open_async_stream(script)

    with pytest.raises(asyncio.CancelledError):
        async with await answer() as stream:
            await anext(stream)
            raise asyncio.CancelledError
    assert recorded.tree() == "chat m-1 0-50 cancelled CancelledError"


def test_function_that_reads_a_part_of_its_stream(recorded: Any, open_stream: Any, script: Any, time: Any) -> None:
    @hb.hop("answer")
    def answer() -> str:
        for item in hb.watch(open_stream(script)):
            if item is script[2][1]:
                break
        time.to(900)
        return "enough"

    answer()
    assert recorded.tree() == "chat m-1 0-220 closed_by_consumer"


async def test_coroutine_that_reads_a_part_of_its_stream(
    recorded: Any, open_async_stream: Any, script: Any, time: Any
) -> None:
    @hb.hop("answer")
    async def answer() -> str:
        async for item in hb.watch(open_async_stream(script)):
            if item is script[2][1]:
                break
        time.to(900)
        return "enough"

    await answer()
    assert recorded.tree() == "chat m-1 0-220 closed_by_consumer"


async def test_coroutine_that_returns_a_stream(recorded: Any, open_async_stream: Any, script: Any) -> None:
    @hb.hop("answer")
    async def answer() -> Any:
        return open_async_stream(script)

    assert [item async for item in await answer()] == [item for _, item in script]
    assert recorded.tree() == OK


async def test_coroutine_cancelled_before_its_headers(recorded: Any, time: Any) -> None:
    waiting = asyncio.Event()

    @hb.hop("plan")
    async def plan() -> None:
        waiting.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(plan())
    await waiting.wait()
    time.to(700)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert recorded.tree() == "chat 0-700 cancelled CancelledError"


async def test_coroutine_cancelled_while_it_works_on_a_chunk(
    recorded: Any, open_async_stream: Any, script: Any, time: Any
) -> None:
    working = asyncio.Event()

    @hb.hop("answer")
    async def answer() -> None:
        async for item in hb.watch(open_async_stream(script)):
            if item is script[2][1]:
                working.set()
                await asyncio.Event().wait()

    task = asyncio.create_task(answer())
    await working.wait()
    time.to(700)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert recorded.tree() == "chat m-1 0-220 cancelled CancelledError"


async def test_coroutine_under_its_own_time_out_is_cancelled(recorded: Any) -> None:
    @hb.hop("plan")
    async def plan() -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await plan()
    assert recorded.only().attributes["hopbudget.outcome"] == "cancelled"


async def test_coroutine_dropped_while_it_waits(recorded: Any) -> None:
    @hb.hop("plan")
    async def plan() -> None:
        await asyncio.sleep(0)

    running = plan()
    running.send(None)
    running.close()
    assert recorded.tree() == "chat 0-0 closed_by_consumer"


def test_a_time_out_of_the_socket_is_the_providers_failure(recorded: Any) -> None:
    @hb.hop("plan")
    def plan() -> None:
        raise TimeoutError("timed out")

    with pytest.raises(TimeoutError):
        plan()
    assert recorded.tree() == "chat 0-0 failed TimeoutError"


# --- context managers -----------------------------------------------------------------------------------------


def test_block_that_reads_its_stream_to_the_end(recorded: Any, open_stream: Any, script: Any, time: Any) -> None:
    with hb.hop("answer"):
        for _ in hb.watch(open_stream(script)):
            pass
        time.to(900)
    assert recorded.tree() == OK


def test_block_left_by_break(recorded: Any, open_stream: Any, script: Any) -> None:
    stream = open_stream(script)
    with hb.hop("answer"):
        for item in hb.watch(stream):
            if item is script[2][1]:
                break
    assert recorded.tree() == "chat m-1 0-220 closed_by_consumer"


def test_block_whose_consumer_fails(recorded: Any, open_stream: Any, script: Any) -> None:
    stream = open_stream(script)
    with pytest.raises(ConsumerError), hb.hop("answer"):
        next(hb.watch(stream))
        raise ConsumerError
    assert recorded.tree() == "chat m-1 0-50 closed_by_consumer"


def test_block_that_fails_after_its_stream_was_read_was_a_good_call(
    recorded: Any, open_stream: Any, script: Any
) -> None:
    with pytest.raises(ConsumerError), hb.hop("answer"):
        list(hb.watch(open_stream(script)))
        raise ConsumerError
    assert recorded.tree() == OK


def test_block_that_hands_its_stream_on(recorded: Any, open_stream: Any, script: Any) -> None:
    with hb.hop("answer"):
        stream = hb.watch(open_stream(script))
    assert recorded.tree() == ""
    list(stream)
    assert recorded.tree() == OK


async def test_async_block_that_reads_its_stream_to_the_end(recorded: Any, open_async_stream: Any, script: Any) -> None:
    async with hb.hop("answer"):
        async for _ in hb.watch(open_async_stream(script)):
            pass
    assert recorded.tree() == OK


def test_a_watched_generator_that_is_dropped_unread(recorded: Any, time: Any) -> None:
    def tokens() -> Iterator[str]:
        yield "a"

    with hb.hop("answer"):
        stream = hb.watch(tokens())
        time.to(10)
    time.to(5_000)
    del stream
    assert recorded.tree() == "chat 0-0 closed_by_consumer"


# --- several calls in one hop -----------------------------------------------------------------------------------


def test_two_calls_in_a_row_are_two_visits(recorded: Any, open_stream: Any, script: Any, chunk: Any) -> None:
    later = [(ms + 1_000, item) for ms, item in script]
    with hb.hop("answer"):
        list(hb.watch(open_stream(script)))
        list(hb.watch(open_stream(later)))
    assert recorded.tree() == "chat m-1 0-242 ok\nchat m-1 242-1242 ok"
    assert [span.attributes["hopbudget.hop"] for span in recorded.spans] == ["answer", "answer"]


def test_a_call_after_a_failed_one_is_its_second_attempt(recorded: Any, open_stream: Any, script: Any) -> None:
    later = [(ms + 1_000, item) for ms, item in script]
    with hb.hop("answer"):
        with pytest.raises(ProviderError):
            list(hb.watch(open_stream(until(script, 230, ProviderError()))))
        list(hb.watch(open_stream(later)))
    assert recorded.tree() == "chat m-1 0-1242 ok"
    found = recorded.attributes()
    assert found["hopbudget.attempts"] == 2
    assert found["hopbudget.ttft"] == 1.2
    assert found["hopbudget.attempt_ttft"] == pytest.approx(0.97)
    assert found["hopbudget.output_tokens"] == 3


# --- the stream is the consumer's ------------------------------------------------------------------------------


@pytest.mark.parametrize("watched", [True, False])
def test_nothing_is_read_ahead(recorded: Any, watched: bool) -> None:
    pulled: list[int] = []

    def tokens() -> Iterator[str]:
        for number in range(5):
            pulled.append(number)
            yield str(number)

    @hb.hop("answer")
    def answer() -> Iterator[str]:
        yield from hb.watch(tokens()) if watched else tokens()

    for number, item in enumerate(answer()):
        assert item == str(number)
        assert pulled == list(range(number + 1))


# --- nobody left to end it --------------------------------------------------------------------------------------


def test_what_is_open_when_the_process_ends_is_ended_at_the_last_thing_seen(
    recorded: Any, open_stream: Any, script: Any, time: Any
) -> None:
    @hb.hop("answer")
    def answer() -> Any:
        return open_stream(script)

    stream = answer()
    next(stream)
    time.to(70_000)
    assert scope.end_open() == 1
    assert recorded.tree() == "chat m-1 0-50 closed_by_consumer"
    stream.close()
    assert len(recorded.spans) == 1


def test_ten_thousand_abandoned_streams_leave_ten_thousand_spans_and_nothing_else(
    recorded: Any, open_stream: Any, script: Any, time: Any
) -> None:
    @hb.hop("answer")
    def answer() -> Any:
        return iter([script[0][1], script[1][1]])

    for _ in range(10_000):
        next(answer())
    assert len(recorded.exporter.get_finished_spans()) == 10_000
    assert not scope.open_blocks


async def settle() -> None:
    """Let the loop finalize what was collected."""
    for _ in range(5):
        await asyncio.sleep(0)
