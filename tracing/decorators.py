"""The public decorators and context managers: `trajectory`, `hop`, `work`, `pause`."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from opentelemetry.context import Context, attach, get_current

from hopbudget.tracing.blocks import Block, begin_pause, begin_trajectory, begin_work
from hopbudget.tracing.drive import driver, driver_async
from hopbudget.tracing.handle import Handle
from hopbudget.tracing.hops import begin_hop
from hopbudget.tracing.scope import recorder_failed

F = TypeVar("F")
Attribute = str | bool | int | float | Sequence[str] | Sequence[bool] | Sequence[int] | Sequence[float]


class Span:
    """What `trajectory`, `hop`, `work` and `pause` return: a decorator, and a context manager, sync and async.

    A decorated function keeps its kind (plain, coroutine, generator, async generator), signature and type, which is why
    the type is one variable and not a `ParamSpec`: overloads and type parameters are kept as well.
    """

    __slots__ = ("_begin", "_entered")

    def __init__(self, begin: Callable[[], Block | None]) -> None:
        self._begin = begin
        self._entered: list[tuple[Block, Context, Context]] = []

    def begin(self) -> Block | None:
        """Open one; None if nothing is recorded."""
        try:
            return self._begin()
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
            inside = block.context
            self._entered.append((block, inside, get_current()))
            attach(inside)

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._entered:
            return
        current = get_current()
        # One object may be entered more than once, nested or from several tasks.
        block, inside, outside = self._entered.pop()
        if inside is not current:
            self._entered.append((block, inside, outside))
            mine = next((i for i, entry in enumerate(self._entered) if entry[1] is current), -1)
            block, inside, outside = self._entered.pop(mine)
        if inside is current:
            attach(outside)
        _left(block, exc)

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


def _decorate(function: Any, begin: Callable[[], Block | None]) -> Any:
    if isinstance(function, (classmethod, staticmethod)):
        return type(function)(_decorate(function.__func__, begin))
    if isinstance(function, type) or not callable(function):
        raise TypeError(f"decorate a function or method, not {function!r}")
    if inspect.isasyncgenfunction(function):
        wrapper: Any = driver_async(_starter(function, begin, awaits=True))
    elif inspect.isgeneratorfunction(function):
        wrapper = driver(_starter(function, begin))
    elif inspect.iscoroutinefunction(function):
        wrapper = _coroutine(function, begin)
    else:
        wrapper = _plain(function, begin)
    return functools.wraps(function)(wrapper)


def _starter(
    function: Callable[..., Any], begin: Callable[[], Block | None], *, awaits: bool = False
) -> Callable[..., Any]:
    def start(*args: Any, **kwargs: Any) -> tuple[Any, Handle, Context | None]:
        generator = function(*args, **kwargs)
        block = begin()
        if block is None:
            return generator, Handle(), None
        if awaits:
            _awaits(block)
        return generator, Handle(block), block.context

    return start


def _plain(function: Callable[..., Any], begin: Callable[[], Block | None]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        block = begin()
        if block is None:
            return function(*args, **kwargs)
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
        block = begin()
        return await (coroutine if block is None else _awaited(coroutine, block))

    return wrapper


async def _awaited(coroutine: Any, block: Block) -> Any:
    _awaits(block)
    outside, inside = get_current(), block.context
    attach(inside)
    try:
        result = await coroutine
    except BaseException as exc:
        # A coroutine collected while it waits is closed in somebody else's context.
        if not isinstance(exc, GeneratorExit) or get_current() is inside:
            attach(outside)
        _left(block, exc)
        raise
    attach(outside)
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
) -> Span:
    """One agent run that serves one request: decorate the function that does it, or open it around the code.

    `workload` is the class of trajectories it is accounted in, else `name`; `run` the configuration it belongs to;
    `session` the conversation. `attributes` go on its span and can filter and group reports.
    """
    _named(name, "trajectory")
    return Span(functools.partial(begin_trajectory, name, workload, run, session, attributes))


def hop(name: str, *, final: bool = False, model: str | None = None) -> Span:
    """One model call, or a stream of one: decorate the function that makes it, or open it around the call.

    A stream or a reply that the function returns or yields is read for its tokens and timed; one that it consumes
    itself is passed through `watch`. `final`: its tokens go to the user as they come. `model`: the model asked for.
    """
    _named(name, "hop")
    return Span(functools.partial(begin_hop, name, model, final))


def work(name: str) -> Span:
    """A tool, a retrieval, anything a trajectory does that is no model call."""
    _named(name, "work")
    return Span(functools.partial(begin_work, name))


def pause(name: str) -> Span:
    """Waiting for a person, to think or to approve: time that is in nobody's deadline."""
    _named(name, "pause")
    return Span(functools.partial(begin_pause, name))
