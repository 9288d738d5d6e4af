"""Generators around generators: followed step by step, in the right context; `send`, `throw`, `close` passed on.

Each step runs in the OpenTelemetry context of its own generator, and that context never outlasts the step: what is
attached across a `yield` would leak into the consumer. Contexts are put back by `attach`, not `detach`: a token can be
used in the context it came from only, and a generator may be closed from anywhere.
"""

import sys
import weakref
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from opentelemetry.context import Context, attach, get_current

from hopbudget.tracing.handle import Handle
from hopbudget.tracing.scope import recorder_failed


def driver(
    start: Callable[..., tuple[Generator[Any, Any, Any], Handle, Context | None]],
) -> Callable[..., Generator[Any, Any, Any]]:
    """A generator function that drives the generator which `start` makes of its arguments."""

    def drive(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator, handle, context = start(*args, **kwargs)
        sent: Any = None
        thrown: BaseException | None = None
        while True:
            by_consumer = thrown is not None
            outside = get_current() if context is None else _enter(context)
            try:
                if thrown is not None:
                    item = generator.throw(thrown)
                elif sent is None:
                    item = next(generator)
                else:
                    item = generator.send(sent)
            except StopIteration as stop:
                handle.end(None, by_consumer=by_consumer)
                return stop.value
            except BaseException as error:
                handle.end(error, by_consumer=by_consumer)
                raise
            finally:
                thrown = None
                if context is not None:
                    context = _leave(outside)
            try:
                handle.chunk(item)
            except Exception:
                recorder_failed()
            try:
                sent = yield item
            except BaseException as error:
                thrown = error

    return drive


def driver_async(
    start: Callable[..., tuple[AsyncGenerator[Any, Any], Handle, Context | None]],
) -> Callable[..., AsyncGenerator[Any, Any]]:
    """An async generator function that drives the async generator which `start` makes of its arguments."""

    async def drive(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        generator, handle, context = start(*args, **kwargs)
        sent: Any = None
        thrown: BaseException | None = None
        forget = _hear_of_cancel(handle)
        try:
            while True:
                by_consumer = thrown is not None
                outside = get_current() if context is None else _enter(context)
                try:
                    if thrown is not None:
                        item = await generator.athrow(thrown)
                    elif sent is None:
                        item = await anext(generator)
                    else:
                        item = await generator.asend(sent)
                except StopAsyncIteration:
                    handle.end(None, by_consumer=by_consumer)
                    return
                except BaseException as error:
                    if isinstance(error, GeneratorExit) and not by_consumer and get_current() is not context:
                        # Collected in the middle of a step: this is somebody else's context.
                        context = None
                    handle.end(error, by_consumer=by_consumer)
                    raise
                finally:
                    thrown = None
                    if context is not None:
                        context = _leave(outside)
                try:
                    handle.chunk(item)
                except Exception:
                    recorder_failed()
                try:
                    sent = yield item
                except BaseException as error:
                    thrown = error
        finally:
            forget()

    return drive


def _hear_of_cancel(handle: Handle) -> Callable[[], None]:
    """End the stream as cancelled when the task that reads it is, though it may have been at work on a chunk.

    The generator itself is only told that it is collected, later and by the loop. Returns how to stop listening.
    """
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or handle.ended:
        return _nothing
    try:
        task = asyncio.current_task()
    except RuntimeError:  # another event loop's library
        return _nothing
    if task is None:
        return _nothing
    # Weak, because the task keeps its last exception, and with that the frames that hold the generator.
    reader = weakref.ref(task)

    def done(task: Any) -> None:
        if task.cancelled():
            handle.end(asyncio.CancelledError(), by_consumer=True)

    def forget() -> None:
        task = reader()
        if task is not None:
            task.remove_done_callback(done)

    task.add_done_callback(done)
    return forget


def _nothing() -> None:
    pass


def _enter(context: Context) -> Context:
    outside = get_current()
    attach(context)
    return outside


def _leave(outside: Context) -> Context:
    """Put the consumer's context back; returns what the body left attached, which is for its own next step."""
    inside = get_current()
    attach(outside)
    return inside
