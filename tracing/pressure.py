"""Telling an agent once that its time gets short, so that it wraps up."""

import inspect
import logging
import math
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from hopbudget.tracing.asking import chance_of, running
from hopbudget.tracing.deadline import Deadline
from hopbudget.tracing.scope import recorder_failed

Of = Literal["chance", "seconds"]
_logger: Final = logging.getLogger("hopbudget")


class _Wait(NamedTuple):
    threshold: float
    of: Of
    callback: Callable[[], object]


class Pressure:
    """Who waits to be told in one trajectory."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: list[_Wait] = []

    def __call__(self, deadline: Deadline) -> None:
        """Tell those whose time has come, each once. What a callback raises is logged and counted, never raised."""
        for wait in tuple(self.waiting):
            try:
                if _level(deadline, wait.of) < wait.threshold and self._claim(wait):
                    deadline.intervene("pressure")
                    wait.callback()
            except Exception:
                recorder_failed()
                _logger.exception("an on_pressure callback failed")

    def _claim(self, wait: _Wait) -> bool:
        """Whether it is this call's to tell: a callback that asks comes here again, and so do other threads."""
        try:
            self.waiting.remove(wait)
        except ValueError:
            return False
        return True


def _level(deadline: Deadline, of: Of) -> float:
    left_s = deadline.remaining_s()
    if of == "seconds" or left_s == math.inf:
        return left_s
    known = chance_of(deadline)
    return left_s / max(left_s + deadline.elapsed_s(), 1e-9) if known is None else known


def on_pressure(threshold: float, callback: Callable[[], object], *, of: Of = "chance") -> None:
    """Call `callback`, without arguments and once, when it gets tight in the trajectory that runs now.

    That is when the chance of its deadline falls below `threshold`, between 0 and 1; where no plan tells the chance,
    when the share of the deadline that is left does. `of="seconds"`: when fewer seconds than that are left. It is
    looked at now, at the begin and end of each hop, and whenever something is asked, and the callback runs right there,
    so it should set a flag and return. What it raises is logged and counted. Without a deadline it is never called.

    Raises TypeError or ValueError for wrong arguments; a coroutine function is one, because nobody could await it.
    """
    if not callable(callback) or inspect.iscoroutinefunction(callback):
        raise TypeError(f"the callback is a plain function that takes no arguments, not {callback!r}")
    if of not in {"chance", "seconds"}:
        raise ValueError(f'of is "chance" or "seconds", not {of!r}')
    if not isinstance(threshold, (int, float)) or isinstance(threshold, bool):
        raise TypeError(f"threshold is a number, not {threshold!r}")
    if not threshold > 0 or (of == "chance" and threshold > 1):
        raise ValueError(f'threshold is a chance above 0 and up to 1, or seconds with of="seconds", not {threshold!r}')
    found = running()
    if found is None:
        return
    if not isinstance(found.pressure, Pressure):
        found.pressure = Pressure()
    found.pressure.waiting.append(_Wait(threshold, of, callback))
    found.pressure(found)
