"""The caller's own cancellation and time-outs are as they would be without us; so is everything around the hop."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

import hopbudget as hb

anyio = pytest.importorskip("anyio")


async def forever() -> None:
    await asyncio.Event().wait()


def hop(**limits: Any) -> Any:
    return hb.hop("answer", enforce="deadline", **limits)


def body(limit_s: float) -> Callable[[], Coroutine[Any, Any, None]]:
    return hop(completion_s=limit_s)(forever)  # type: ignore[no-any-return]


def pulling(limit_s: float) -> Callable[[], Coroutine[Any, Any, None]]:
    async def source() -> AsyncIterator[str]:
        yield "a"
        await forever()

    async def read() -> None:
        async with hop(stall_s=limit_s):
            async for _ in hb.watch(source()):
                pass

    return read


def generating(limit_s: float) -> Callable[[], Coroutine[Any, Any, None]]:
    @hop(stall_s=limit_s)
    async def answer() -> AsyncIterator[str]:
        yield "a"
        await forever()

    async def read() -> None:
        async for _ in answer():
            pass

    return read


each_place = pytest.mark.parametrize("place", [body, pulling, generating])


@each_place
def test_a_time_out_around_it_is_the_callers(jumping: Any, place: Any) -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError) as raised:
            async with asyncio.timeout(0.5):
                await place(2.0)()
        assert not isinstance(raised.value, hb.DeadlineExceeded)
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
        return float(jumping.ms)

    assert jumping.run(main()) == 500


@each_place
def test_a_time_out_around_it_that_is_longer_does_not_matter(held: Any, place: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(2.0):
            await place(0.5)()

    assert held(main())[1] == 500


@each_place
def test_a_limit_that_fired_leaves_the_task_as_it_was(jumping: Any, place: Any) -> None:
    async def main() -> float:
        with pytest.raises(hb.DeadlineExceeded):
            await place(0.5)()
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
        await asyncio.sleep(1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await forever()
        return float(jumping.ms)

    assert jumping.run(main()) == 2000


@each_place
def test_a_cancelled_task_is_cancelled(jumping: Any, place: Any, recorded: Any) -> None:
    async def main() -> bool:
        task = asyncio.ensure_future(place(2.0)())
        await asyncio.sleep(0.3)
        task.cancel("enough")
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await task
        return task.cancelled()

    assert jumping.run(main())
    assert recorded.attributes()["hopbudget.outcome"] == "cancelled"


@each_place
def test_both_in_the_same_moment_is_the_callers(jumping: Any, place: Any) -> None:
    async def main() -> bool:
        task = asyncio.ensure_future(place(0.5)())
        asyncio.get_running_loop().call_later(0.5, task.cancel)
        await asyncio.wait([task])
        return task.cancelled()

    assert jumping.run(main())


@each_place
def test_a_time_out_due_in_the_same_moment_stays_a_time_out(jumping: Any, place: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(0.5):
            await place(0.5)()

    with pytest.raises(TimeoutError):
        jumping.run(main())


def test_a_cancellation_that_was_swallowed_before_does_not_keep_a_limit_from_firing(held: Any) -> None:
    async def source() -> AsyncIterator[str]:
        yield "a"
        yield "b"
        await forever()

    async def read() -> None:
        task = asyncio.current_task()
        assert task is not None
        async with hop(stall_s=0.5):
            async for _ in hb.watch(source()):
                if task.cancelling() == 0:
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):  # and never takes it back
                        await asyncio.sleep(0)

    error, ms = held(read())
    assert (type(error), ms) == (hb.StallTimeout, 500)


def test_in_a_task_group_it_is_one_exception_of_the_group(jumping: Any) -> None:
    others: list[str] = []

    async def other() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            others.append("cancelled")
            raise

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(body(0.5)())
            group.create_task(other())

    with pytest.raises(ExceptionGroup) as raised:
        jumping.run(main())
    assert [type(error) for error in raised.value.exceptions] == [hb.CompletionTimeout]
    assert others == ["cancelled"]


def test_in_an_anyio_task_group_it_is_the_same(jumping: Any) -> None:
    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(body(0.5))
            group.start_soon(forever)

    with pytest.raises(ExceptionGroup) as raised:
        jumping.run(main())
    assert [type(error) for error in raised.value.exceptions] == [hb.CompletionTimeout]


def test_an_anyio_scope_around_it_is_the_callers(jumping: Any) -> None:
    async def main() -> tuple[bool, float]:
        with anyio.move_on_after(0.5) as scope:
            await pulling(2.0)()
        await asyncio.sleep(1)
        return scope.cancelled_caught, jumping.ms

    assert jumping.run(main()) == (True, 1500)


def test_an_anyio_scope_inside_of_it_does_not_matter(held: Any) -> None:
    async def main() -> None:
        async with hop(completion_s=0.5):
            with anyio.move_on_after(9):
                await forever()

    assert held(main())[1] == 500


def test_a_block_in_a_generator_cancels_nothing_of_its_consumers(jumping: Any, chunk: Any, stream: Any) -> None:
    async def answer() -> AsyncIterator[Any]:
        async with hop(completion_s=0.5):
            async for piece in hb.watch(stream((100, chunk("a")), (100, chunk("b")))):
                yield piece

    async def main() -> float:
        with pytest.raises(hb.CompletionTimeout):
            async for _ in answer():
                await asyncio.sleep(5)
        return float(jumping.ms)

    assert jumping.run(main()) == 5100


def test_a_task_that_ends_before_its_limit_is_not_touched(jumping: Any) -> None:
    @hop(completion_s=0.5)
    async def quick() -> str:
        await asyncio.sleep(0.1)
        return "done"

    async def main() -> str:
        found = await quick()
        await asyncio.sleep(3)
        return str(found)

    assert jumping.run(main()) == "done"


def test_a_stream_read_by_one_task_after_the_other_is_held_in_the_one_that_reads(jumping: Any, chunk: Any) -> None:
    async def source() -> AsyncIterator[Any]:
        yield chunk("a")
        yield chunk("b")
        await forever()

    async def main() -> str:
        @hop(stall_s=0.5)
        async def answer() -> Any:
            return source()

        stream = await answer()
        await asyncio.create_task(anext(stream))
        await anext(stream)
        reader = asyncio.create_task(anext(stream))
        with pytest.raises(hb.StallTimeout):
            await reader
        return "this task goes on"

    assert jumping.run(main()) == "this task goes on"


def test_the_bodys_own_exception_is_its_own(jumping: Any) -> None:
    own = KeyError("mine")

    @hop(completion_s=0.5)
    async def fails() -> None:
        try:
            await forever()
        finally:
            raise own

    with pytest.raises(KeyError) as raised:
        jumping.run(fails())
    assert raised.value is own
