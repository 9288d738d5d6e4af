"""Where the deadline goes by itself, and where one line carries it."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import hopbudget as hb
from hopbudget.tracing.deadline import Deadline

Run = Callable[..., Deadline]


def left() -> float:
    return hb.remaining_s()


@pytest.fixture(autouse=True)
def ten_seconds(run: Run) -> None:
    run(10.0)


def test_an_executor_keeps_it_through_carry_also_in_many_threads_at_once() -> None:
    together = threading.Barrier(3)

    def ask(_: int) -> float:
        together.wait(60)
        return left()

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(hb.carry(ask), range(3))) == [10.0] * 3


def test_a_thread_keeps_it_through_carry() -> None:
    found: list[float] = []
    thread = threading.Thread(target=hb.carry(lambda: found.append(left())))
    thread.start()
    thread.join()
    assert found == [10.0]


def test_a_carried_function_is_the_same_to_its_callers() -> None:
    def add(a: int, b: int = 2) -> int:
        """Adds."""
        if a < 0:
            raise KeyError(a)
        return a + b

    carried = hb.carry(add)
    assert carried(1) == 3
    assert carried(1, b=5) == 6
    assert (carried.__name__, carried.__doc__) == ("add", "Adds.")
    with pytest.raises(KeyError):
        carried(-1)


async def test_tasks_groups_and_to_thread_keep_it_by_themselves() -> None:
    async def ask() -> float:
        return left()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(ask())
    assert task.result() == 10.0
    assert await asyncio.to_thread(left) == 10.0
    assert await asyncio.get_running_loop().run_in_executor(None, hb.carry(left)) == 10.0


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_anyios_task_groups_keep_it_on_both_loops(backend: str) -> None:
    anyio = pytest.importorskip("anyio")
    if backend == "trio":
        pytest.importorskip("trio")
    found: list[Any] = []

    async def ask() -> None:
        found.append(left())

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            group.start_soon(ask)
        found.append(await anyio.to_thread.run_sync(left))

    anyio.run(main, backend=backend)
    assert found == [10.0] * 3
