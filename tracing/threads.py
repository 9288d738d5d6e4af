"""Carrying the trajectory and its deadline to a thread, which inherits nothing by itself."""

import functools
from collections.abc import Callable
from contextvars import copy_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def carry(function: Callable[P, T]) -> Callable[P, T]:
    """The function, which runs in the trajectory that is open now, on whatever thread it is called.

    For executors, `loop.run_in_executor` and `threading.Thread`; tasks, task groups and `asyncio.to_thread` carry it by
    themselves. It may be called many times, and from several threads at once.
    """
    here = copy_context()

    @functools.wraps(function)
    def carried(*args: P.args, **kwargs: P.kwargs) -> T:
        # One context can be entered once at a time.
        return here.copy().run(function, *args, **kwargs)

    return carried
