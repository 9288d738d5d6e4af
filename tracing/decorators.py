"""The public decorators and context managers: `trajectory`, `hop`, `work`, `pause`."""

import contextlib
import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from opentelemetry.context import Context, attach, get_current

from hopbudget.tracing import scope
from hopbudget.tracing.blocks import Block, begin_pause, begin_trajectory, begin_work
from hopbudget.tracing.hops import begin_hop
from hopbudget.tracing.later import Later
from hopbudget.tracing.limits_errors import DeadlineExceeded
from hopbudget.tracing.scope import recorder_failed

if TYPE_CHECKING:
    from hopbudget.tracing import drive, limits_steps
    from hopbudget.tracing import handle as handles
    from hopbudget.tracing import limits_asked as asking
    from hopbudget.tracing import limits_trajectory as limits
    from hopbudget.tracing import terms as _terms
    from hopbudget.tracing.handle import Handle
    from hopbudget.tracing.limits_asked import Asked
    from hopbudget.tracing.limits_waits import Wait
    from hopbudget.tracing.modes import Mode
    from hopbudget.tracing.plan import Plan
else:
    drive, handles, limits_steps = Later("drive"), Later("handle"), Later("limits_steps")
    asking, limits, _terms = Later("limits_asked"), Later("limits_trajectory"), Later("terms")

F = TypeVar("F")
Attribute = str | bool | int | float | Sequence[str] | Sequence[bool] | Sequence[int] | Sequence[float]


_NOT_GIVEN: Final = (None,) * 6


class Span:
    """What `trajectory`, `hop`, `work` and `pause` return: a decorator, and a context manager, sync and async.

    A decorated function keeps its kind (plain, coroutine, generator, async generator), signature and type, which is why
    the type is one variable and not a `ParamSpec`: overloads and type parameters are kept as well.
    """

    __slots__ = ("_arguments", "_begin", "_entered")

    def __init__(self, begin: Callable[..., Block | None], *arguments: Any) -> None:
        """`begin`, called with the arguments, opens one."""
        self._begin = begin
        self._arguments = arguments
        self._entered: list[tuple[Block, Context, Context]] = []

    def begin(self) -> Block | None:
        """Open one; None if nothing is recorded. Raises DeadlineExceeded for a hop that must not be sent."""
        try:
            return self._begin(*self._arguments)
        except DeadlineExceeded:
            raise
        except Exception:
            recorder_failed()
            return None

    def __call__(self, function: F) -> F:
        """The function, each call of it recorded. Raises TypeError for a class or what can't be called."""
        decorated: F = _decorate(function, self.begin)
        return decorated

    def __enter__(self) -> None:
        block = self.begin()
        if block is not None:
            if block.guard is not None:
                _hold(block, looped=not _in_generator(sys._getframe(1)))
            inside = block.context
            self._entered.append((block, inside, get_current()))
            attach(inside)

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        entered = self._entered
        if not entered:
            return
        current = get_current()
        # One object may be entered more than once, nested or from several tasks and threads. Each takes its own.
        mine = entered[-1]
        if mine[1] is not current:
            mine = next((entry for entry in tuple(entered) if entry[1] is current), mine)
        entered.remove(mine)
        block, inside, outside = mine
        if inside is current:
            attach(outside)
        reached = None if block.wait is None else _reached(block.wait, exc)
        _left(block, reached or exc)
        if reached is not None:
            raise reached from exc

    async def __aenter__(self) -> None:
        self.__enter__()
        if self._entered:
            _awaits(self._entered[-1][0])

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(kind, exc, traceback)


def _awaits(block: Block) -> None:
    try:
        block.awaits()
    except Exception:
        recorder_failed()


def _left(block: Block, exc: BaseException | None) -> None:
    try:
        block.left(exc)
    except Exception:
        recorder_failed()


def _returned(block: Block, result: Any) -> Any:
    try:
        return block.returned(result)
    except Exception:
        recorder_failed()
        return result


def _hold(block: Block, *, looped: bool) -> None:
    """The body begins. Raises the limit that is reached already."""
    try:
        due = None if block.guard is None else block.guard.hold(looped=looped)
    except Exception:
        recorder_failed()
        return
    if due is not None:
        _left(block, due)
        raise due


def _reached(wait: "Wait", exc: BaseException | None) -> DeadlineExceeded | None:
    """The body ended: the limit that is to be raised, if one was why."""
    if exc is None:
        limits_steps.over(wait)
        return None
    return limits_steps.left(wait, exc)


def _in_generator(frame: FrameType | None) -> bool:
    """Whether the frame is a generator's, which hands control to its consumer in the middle of a block.

    A task is not cancelled there: it would be the consumer's work that is cut short.
    """
    while frame is not None and frame.f_code.co_filename in _TRANSPARENT:
        frame = frame.f_back
    return frame is not None and bool(frame.f_code.co_flags & _GENERATOR)


_TRANSPARENT: Final = frozenset({__file__, contextlib.__file__})
_GENERATOR: Final = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


def _decorate(function: Any, begin: Callable[[], Block | None]) -> Any:
    if isinstance(function, (classmethod, staticmethod)):
        return type(function)(_decorate(function.__func__, begin))
    if isinstance(function, type) or not callable(function):
        raise TypeError(f"decorate a function or method, not {function!r}")
    if inspect.isasyncgenfunction(function):
        wrapper: Any = drive.driver_async(_starter(function, begin, awaits=True))
    elif inspect.isgeneratorfunction(function):
        wrapper = drive.driver(_starter(function, begin))
    elif inspect.iscoroutinefunction(function):
        wrapper = _coroutine(function, begin)
    else:
        wrapper = _plain(function, begin)
    return functools.wraps(function)(wrapper)


def _starter(
    function: Callable[..., Any], begin: Callable[[], Block | None], *, awaits: bool = False
) -> Callable[..., Any]:
    def start(*args: Any, **kwargs: Any) -> "tuple[Any, Handle, Context | None]":
        generator = function(*args, **kwargs)
        try:
            block = begin()
        except BaseException:
            if not awaits:
                generator.close()
            raise
        if block is None:
            return generator, handles.Handle(), None
        if block.guard is not None:
            block.guard.steps()
        if awaits:
            _awaits(block)
        return generator, handles.Handle(block), block.context

    return start


def _plain(function: Callable[..., Any], begin: Callable[[], Block | None]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        block = begin()
        if block is None:
            return function(*args, **kwargs)
        guard = block.guard
        if guard is not None and guard.late:
            _hold(block, looped=False)
        outside = get_current()
        attach(block.context)
        try:
            result = function(*args, **kwargs)
        except BaseException as exc:
            _left(block, exc)
            raise
        finally:
            attach(outside)
        if inspect.iscoroutine(result):
            return _awaited(result, block)
        return _returned(block, result)

    return wrapper


def _coroutine(function: Callable[..., Any], begin: Callable[[], Block | None]) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        coroutine = function(*args, **kwargs)
        try:
            block = begin()
        except BaseException:
            coroutine.close()
            raise
        return await (coroutine if block is None else _awaited(coroutine, block))

    return wrapper


async def _awaited(coroutine: Any, block: Block) -> Any:
    _awaits(block)
    guard = block.guard
    if guard is not None and guard.enforced:
        try:
            due = guard.hold(looped=True)
        except Exception:
            recorder_failed()
            due = None
        if due is not None:
            coroutine.close()
            _left(block, due)
            raise due
    outside, inside = get_current(), block.context
    attach(inside)
    try:
        result = await coroutine
    except BaseException as exc:
        # A coroutine collected while it waits is closed in somebody else's context.
        if not isinstance(exc, GeneratorExit) or get_current() is inside:
            attach(outside)
        reached = None if block.wait is None else _reached(block.wait, exc)
        _left(block, reached or exc)
        if reached is not None:
            raise reached from exc
        raise
    attach(outside)
    wait = block.wait
    if wait is not None:
        if wait.fired is not None:
            limits_steps.over(wait)
        wait.asked_ns = 0
    return _returned(block, result)


def _named(name: object, what: str) -> None:
    """Raises TypeError for a decorator written without its parentheses."""
    if not isinstance(name, str):
        raise TypeError(f'{what} needs a name: write @{what}("name"), not @{what} above {name!r}')


def trajectory(
    name: str,
    *,
    workload: str | None = None,
    run: str | None = None,
    session: str | None = None,
    attributes: Mapping[str, Attribute] | None = None,
    deadline_s: float | None = None,
    plan: "str | os.PathLike[str] | Plan | None" = None,
    enforce: "Mode | None" = None,
    max_steps: int | None = None,
) -> Span:
    """One agent run that serves one request: decorate the function that does it, or open it around the code.

    `workload` is the class of trajectories it is accounted in, else `name`; `run` the configuration it belongs to;
    `session` the conversation. `attributes` go on its span and can filter and group reports.

    `deadline_s`: seconds it may take, pauses not counted; `plan`: the plan file that knows how its hops go. `enforce`:
    `observe` records, and interferes with nothing; `deadline` holds the deadline and the limits of the hops; `abort`
    also gives up where the plan says that it pays. `max_steps`: the most hops it makes, which is counted on and not
    held. What is not said here is taken from the environment, `hopbudget.toml` and the plan. Raises TypeError or
    ValueError for a value that is none.
    """
    _named(name, "trajectory")
    if (deadline_s, plan, enforce, max_steps) != (None, None, None, None):
        _terms.check_arguments(deadline_s=deadline_s, plan=plan, enforce=enforce, max_steps=max_steps)
        limits.load()
    accounted = name if workload is None else workload

    def begin() -> Block | None:
        return begin_trajectory(
            name,
            workload=workload,
            run=run,
            session=session,
            attributes=attributes,
            terms=_terms.terms(accounted, deadline_s=deadline_s, plan=plan, enforce=enforce),
            max_steps=max_steps,
        )

    return Span(begin)


def hop(
    name: str,
    *,
    final: bool = False,
    model: str | None = None,
    first_token_s: float | None = None,
    stall_s: float | None = None,
    completion_s: float | None = None,
    refuse: bool | float | None = None,
    enforce: "Mode | None" = None,
    retries: Literal["client", "ours"] | None = None,
) -> Span:
    """One model call, or a stream of one: decorate the function that makes it, or open it around the call.

    A stream or a reply that the function returns or yields is read for its tokens and timed; one that it consumes
    itself is passed through `watch`. `final`: its tokens go to the user as they come. `model`: the model asked for.

    Limits, in seconds: `first_token_s` from the issue of the request to the first generated token, `stall_s` from each
    token to the next, `completion_s` from the issue to the end, retries included. They are held as `enforce` says, else
    as the trajectory is. `refuse`: don't send it when less is left of the deadline than it needs: that many seconds,
    or for True its completion limit, else what the plan allots to it. `retries="ours"`: a client's wait between its
    retries ends when a limit is due, which on an event loop it always does.

    Raises TypeError or ValueError for a value that is none; the hop raises FirstTokenTimeout, StallTimeout,
    CompletionTimeout, HopRefused and TrajectoryAborted, which are DeadlineExceeded.
    """
    _named(name, "hop")
    if (first_token_s, stall_s, completion_s, refuse, enforce, retries) == _NOT_GIVEN:
        asked = None
    else:
        seconds = {"first_token_s": first_token_s, "stall_s": stall_s, "completion_s": completion_s}
        asked = _asked(seconds, refuse, enforce, retries)
    return Span(begin_hop, name, model, final, asked)


def _asked(seconds: dict[str, float | None], refuse: object, enforce: object, retries: object) -> "Asked":
    for what, value in seconds.items():
        if value is not None:
            _terms.positive(what, value)
    if refuse is not None and not isinstance(refuse, bool):
        _terms.positive("refuse", refuse)
    if retries not in {None, "client", "ours"}:
        raise ValueError(f'retries is "client" or "ours", not {retries!r}')
    mode = None if enforce is None else asking.read_mode(enforce)
    scope.setup.limited = True
    limits.load()
    return asking.Asked(asking.HopTerms(**seconds, mode=mode), refuse, retries)  # type: ignore[arg-type]


def work(name: str) -> Span:
    """A tool, a retrieval, anything a trajectory does that is no model call."""
    _named(name, "work")
    return Span(begin_work, name)


def pause(name: str) -> Span:
    """Waiting for a person, to think or to approve: time that is in nobody's deadline."""
    _named(name, "pause")
    return Span(begin_pause, name)
