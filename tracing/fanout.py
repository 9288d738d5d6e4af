"""Several things at once inside of a trajectory (asyncio): whatever was started is over when the call returns."""

import asyncio
import math
from collections.abc import Awaitable, Sequence
from typing import Any, Final, TypeVar

from hopbudget.tracing.asking import running
from hopbudget.tracing.deadline import Deadline
from hopbudget.tracing.limits_errors import CompletionTimeout, DeadlineExceeded

T = TypeVar("T")
_LEAST_S: Final = 0.001
_HOPS_S: Final = 0.02
"""How long hops that are waited for get to end by the deadline themselves: they know more of it."""


async def all_of(*awaitables: Awaitable[T]) -> list[T]:
    """Every result, in the order of the arguments.

    The first to fail ends the rest: they are cancelled, awaited, and its exception is raised. So does the trajectory's
    deadline, where it is enforced: `DeadlineExceeded`, of a hop that it fell in if there is one.
    """
    tasks = _started(awaitables)
    try:
        await _wait(tasks, asyncio.FIRST_EXCEPTION)
        for task in tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error
        return [task.result() for task in tasks]
    finally:
        await _end(tasks)


async def first_of(*awaitables: Awaitable[T]) -> T:
    """The first result: the others are cancelled and awaited. One that fails leaves it to the rest.

    Where all fail, an only one's exception is raised, else an ExceptionGroup of them; the last `DeadlineExceeded`,
    where all are that. The trajectory's deadline, where it is enforced, ends them with `DeadlineExceeded`. Raises
    ValueError without arguments.
    """
    if not awaitables:
        raise ValueError("first_of needs something to wait for")
    tasks = _started(awaitables)
    try:
        waiting: Sequence[asyncio.Future[T]] = tasks
        while waiting:
            await _wait(waiting, asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done() and not task.cancelled() and task.exception() is None:
                    return task.result()
            waiting = [task for task in tasks if not task.done()]
        raise _failure(tasks)
    finally:
        await _end(tasks)


def _started(awaitables: Sequence[Awaitable[T]]) -> list[asyncio.Future[T]]:
    return [asyncio.ensure_future(awaitable) for awaitable in awaitables]


async def _wait(tasks: Sequence[asyncio.Future[Any]], until: str) -> None:
    """Wait for tasks, no longer than the deadline where it is enforced. Raises CompletionTimeout at that."""
    if not tasks:
        return
    deadline = _enforced()
    if deadline is not None and deadline.open_guards is None:
        deadline.watch_hops()
    while True:
        left_s = None if deadline is None else max(deadline.remaining_s(), 0.0)
        done, pending = await asyncio.wait(tasks, timeout=left_s, return_when=until)
        if deadline is None or not pending or (done and until == asyncio.FIRST_COMPLETED):
            return
        if any(not task.cancelled() and task.exception() is not None for task in done):
            return
        # A pause may have moved it.
        if deadline.remaining_s() <= _LEAST_S:
            if deadline.hop_waits():
                await asyncio.wait(tasks, timeout=_HOPS_S)
            # Whoever holds the trajectory's body need not end it too.
            deadline.fell()
            await _end(tasks)
            _raise_cut_off(tasks, deadline)


def _enforced() -> Deadline | None:
    deadline = running()
    if deadline is None or deadline.terms is None or deadline.terms.mode == "observe":
        return None
    return None if deadline.remaining_s() == math.inf else deadline


def _raise_cut_off(tasks: Sequence[asyncio.Future[Any]], deadline: Deadline) -> None:
    """Raises the exception of a hop that it fell in, else one for the trajectory, which is marked."""
    for task in tasks:
        if not task.cancelled() and isinstance(error := task.exception(), DeadlineExceeded):
            raise error
    elapsed_s = deadline.elapsed_s()
    deadline.intervene("deadline")
    raise CompletionTimeout(
        "completion",
        None,
        elapsed_s,
        elapsed_s + deadline.remaining_s(),
        cause_so_far=deadline.cause_so_far(),
        capped=True,
    )


def _failure(tasks: Sequence[asyncio.Future[Any]]) -> BaseException:
    errors = [error for task in tasks if not task.cancelled() and (error := task.exception()) is not None]
    if not errors:
        return asyncio.CancelledError()
    if len(errors) == 1 or all(isinstance(error, DeadlineExceeded) for error in errors):
        return errors[-1]
    return BaseExceptionGroup(f"none of {len(tasks)} succeeded", errors)


async def _end(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel what still runs, and wait until it has ended, also when cancelled oneself meanwhile."""
    pending = {task for task in tasks if not task.done()}
    for task in pending:
        task.cancel()
    interrupted: asyncio.CancelledError | None = None
    while pending:
        try:
            _, pending = await asyncio.wait(pending)
        except asyncio.CancelledError as error:
            interrupted = error
    for task in tasks:
        if not task.cancelled():
            # Asked for, so that asyncio does not report it as never looked at.
            task.exception()
    if interrupted is not None:
        raise interrupted
