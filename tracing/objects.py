"""Following stream objects of client libraries in place.

The object keeps its identity, attributes and protocols: its class is exchanged for a subclass of the same name that
looks on. Where Python forbids that (C iterators, slots) a stand-in delegates, and passes `isinstance`.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from types import FunctionType
from typing import Any, Final

from hopbudget.tracing.handle import BUSY, IDLE, UNREAD, Follower, Handle
from hopbudget.tracing.limits_steps import aclose, close, entered, failed, over
from hopbudget.tracing.look_alike import look_alike
from hopbudget.tracing.scope import recorder_failed
from hopbudget.tracing.stream import NOTES, StreamClock

HANDLE: Final = "_hopbudget_handle"
_subclasses: Final[dict[type, type]] = {}


def look_on(stream: Any, follower: Follower) -> Any:
    """The stream itself, followed; or a stand-in."""
    own = getattr(stream, "__dict__", None)
    known: Handle | None = own.get(HANDLE) if own is not None else None
    if known is not None and not known.ended:
        known.add(follower)
        return stream
    handle = Handle(follower)
    try:
        if known is None:
            stream.__class__ = _subclass(type(stream))
        stream.__dict__[HANDLE] = handle
    except (TypeError, AttributeError):
        return StandIn(stream, handle)
    return stream


def _subclass(cls: type) -> type:
    if cls not in _subclasses:
        makers = {
            "__iter__": _iter,
            "__next__": _next,
            "__aiter__": _aiter,
            "__anext__": _anext,
            "close": _closing,
            "aclose": _closing,
        }
        _subclasses[cls] = look_alike(cls, makers)
    return _subclasses[cls]


def _handing_on(stream: Any) -> Iterator[Any]:
    for item in stream._iterator:  # noqa: UP028 - a loop, as clients write it
        yield item


def _same_code(one: Any, other: Any) -> bool:
    """Whether two functions do the same: a generator that only hands on another's items need not run."""
    # What another instrumentation put around one shows the code, and the class, of what it wraps.
    codes = [function.__code__ for function in (one, other) if type(function) is FunctionType]
    told = [(code.co_code, code.co_names, code.co_flags & inspect.CO_GENERATOR) for code in codes]
    return len(told) == 2 and told[0] == told[1]


# Each of these makes one looking-on method out of the class's own.


def _iter(plain: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
    hands_on = _same_code(plain, _handing_on)

    def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807
        iterator = self._iterator if hands_on and hasattr(self, "_iterator") else plain(self)
        return iterator if iterator is self else steps(iterator, self.__dict__[HANDLE], self)

    return __iter__


def _next(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def __next__(self: Any) -> Any:  # noqa: N807
        return step(plain, self, self.__dict__[HANDLE])

    return __next__


def _aiter(plain: Callable[[Any], AsyncIterator[Any]]) -> Callable[[Any], AsyncIterator[Any]]:
    def __aiter__(self: Any) -> AsyncIterator[Any]:  # noqa: N807
        iterator = plain(self)
        return iterator if iterator is self else async_steps(iterator, self.__dict__[HANDLE], self)

    return __aiter__


def _anext(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    async def __anext__(self: Any) -> Any:  # noqa: N807
        return await step_async(plain, self, self.__dict__[HANDLE])

    return __anext__


def _closing(plain: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(plain):

        async def close_async(self: Any, *args: Any, **kwargs: Any) -> Any:
            self.__dict__[HANDLE].closing()
            return await plain(self, *args, **kwargs)

        return close_async

    def close(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.__dict__[HANDLE].closing()
        return plain(self, *args, **kwargs)

    return close


def step(pull: Callable[[Any], Any], source: Any, handle: Handle) -> Any:
    """One step of an iterator, followed."""
    if handle.state:
        if handle.state == BUSY:
            return pull(source)
        handle.begin()
    now_ns = handle.now_ns
    handle.state = BUSY
    asked_ns = now_ns()
    wait = handle.wait
    try:
        if wait is not None:
            if asked_ns >= wait.next_ns:
                _asks(handle, asked_ns, source)
            wait.asked_ns = asked_ns
        item = pull(source)
    except StopIteration:
        handle.end(None)
        raise
    except BaseException as exc:
        failed(handle, exc)
        raise
    finally:
        handle.state = IDLE
        if wait is not None:
            wait.asked_ns = 0
    chunk = handle.chunk
    try:
        chunk(item, asked_ns, now_ns())
    except Exception:
        recorder_failed()
    return item if handle.hides is None or not handle.hides(item) else step(pull, source, handle)


async def step_async(pull: Callable[[Any], Any], source: Any, handle: Handle) -> Any:
    """One step of an async iterator, followed."""
    if handle.state:
        if handle.state == BUSY:
            return await pull(source)
        handle.begin()
    now_ns = handle.now_ns
    handle.state = BUSY
    asked_ns = now_ns()
    wait = handle.wait
    try:
        if wait is not None:
            if asked_ns >= wait.next_ns or wait.current(wait.loop) is not wait.task:
                await _asks_async(handle, asked_ns, source)
            wait.asked_ns = asked_ns
        item = await pull(source)
    except StopAsyncIteration:
        handle.end(None)
        raise
    except BaseException as exc:
        failed(handle, exc)
        raise
    finally:
        handle.state = IDLE
        if wait is not None:
            wait.asked_ns = 0
            if wait.fired is not None:
                over(wait)
    chunk = handle.chunk
    try:
        chunk(item, asked_ns, now_ns())
    except Exception:
        recorder_failed()
    return item if handle.hides is None or not handle.hides(item) else await step_async(pull, source, handle)


# The loops over an iterator that its owner made are `step` again and again, written out, because every chunk passes
# here; so is the clock's look at a chunk of chat completions, as calling it costs a tenth of all there is to do.
# Leaving the loop is not the end of the owner's stream, which may be read on.


_STOPPED: Final = StreamClock()
"""Stands where nobody, or more than one, wants the notes of a stream: no chunk is plain to it."""


def steps(iterator: Iterator[Any], handle: Handle, owner: Any) -> Iterator[Any]:  # noqa: PLR0912, PLR0915
    """The steps of an iterator that its owner, the followed object, made."""
    if handle.state == UNREAD:
        handle.begin()
    now_ns = handle.now_ns
    wait, hides = handle.wait, handle.hides
    clock = handle.clock or _STOPPED
    notes = clock.notes
    if len(notes) % 2:
        notes.pop()  # an interrupt came between the two times, and the stream is read on
    try:
        handle.state = BUSY
        asked_ns = now_ns()
        if wait is not None:
            _asks(handle, asked_ns, iterator, owner)
        for item in iterator:
            came_ns = now_ns()
            handle.state = IDLE
            text: str | None = None
            if clock.plain:
                try:
                    own = item.__dict__
                    (choice,) = own["choices"]
                    said = choice.__dict__
                    if own["usage"] is None and said["finish_reason"] is None:
                        text = said["delta"].content
                except Exception:
                    pass
            try:
                if text and type(text) is str and "<" not in text:
                    notes.append(asked_ns)
                    notes.append(came_ns)
                    if len(notes) >= NOTES:
                        clock.take_in()
                else:
                    own = choice = said = text = None  # of the chunk before, else kept
                    handle.chunk(item, asked_ns, came_ns)
            except Exception:
                recorder_failed()
            if hides is None or not hides(item):
                yield item
            handle.state = BUSY
            asked_ns = now_ns()
            if wait is not None:
                if asked_ns >= wait.next_ns:
                    _asks(handle, asked_ns, iterator, owner)
                wait.asked_ns = asked_ns
    except BaseException as exc:
        if handle.state == BUSY:
            failed(handle, exc)
        raise
    else:
        handle.end(None)
    finally:
        handle.state = IDLE
        del owner


async def async_steps(  # noqa: PLR0912 - every chunk passes here
    iterator: AsyncIterator[Any], handle: Handle, owner: Any
) -> AsyncIterator[Any]:
    """The steps of an async iterator that its owner, the followed object, made."""
    if handle.state == UNREAD:
        handle.begin()
    now_ns = handle.now_ns
    wait, hides = handle.wait, handle.hides
    task: Any = None
    loop: Any = None
    current: Callable[[Any], Any] = type
    try:
        handle.state = BUSY
        asked_ns = now_ns()
        if wait is not None:
            await _asks_async(handle, asked_ns, iterator, owner)
            task, loop, current = wait.task, wait.loop, wait.current
        async for item in iterator:
            came_ns = now_ns()
            handle.state = IDLE
            if wait is not None:
                wait.asked_ns = 0
            chunk = handle.chunk
            try:
                chunk(item, asked_ns, came_ns)
            except Exception:
                recorder_failed()
            if hides is None or not hides(item):
                yield item
            handle.state = BUSY
            asked_ns = now_ns()
            if wait is not None:
                if asked_ns >= wait.next_ns or current(loop) is not task:
                    await _asks_async(handle, asked_ns, iterator, owner)
                    task, loop, current = wait.task, wait.loop, wait.current
                wait.asked_ns = asked_ns
    except BaseException as exc:
        if handle.state == BUSY:
            failed(handle, exc)
        raise
    else:
        handle.end(None)
    finally:
        handle.state = IDLE
        if wait is not None:
            over(wait)
        del owner


def _asks(handle: Handle, asked_ns: int, *sources: Any) -> None:
    """The next chunk is asked for. Raises the limit that is reached already, the stream ended and closed."""
    due = None if handle.wait is None else entered(handle.wait, asked_ns, looped=False)
    if due is not None:
        handle.end(due)
        close(*sources)
        raise due


async def _asks_async(handle: Handle, asked_ns: int, *sources: Any) -> None:
    """The same where it is awaited."""
    due = None if handle.wait is None else entered(handle.wait, asked_ns, looped=True)
    if due is not None:
        handle.end(due)
        await aclose(*sources)
        raise due


class StandIn:
    """Stands for a stream whose class can't be exchanged."""

    def __init__(self, stream: Any, handle: Handle) -> None:
        self._hopbudget_stream = stream
        self._hopbudget_handle = handle

    @property  # type: ignore[misc]  # isinstance asks it
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        return type(self._hopbudget_stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hopbudget_stream, name)

    def __iter__(self) -> Iterator[Any]:
        return steps(iter(self._hopbudget_stream), self._hopbudget_handle, self)

    def __next__(self) -> Any:
        return step(next, self._hopbudget_stream, self._hopbudget_handle)

    def __aiter__(self) -> AsyncIterator[Any]:
        return async_steps(aiter(self._hopbudget_stream), self._hopbudget_handle, self)

    async def __anext__(self) -> Any:
        return await step_async(anext, self._hopbudget_stream, self._hopbudget_handle)
