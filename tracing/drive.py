"""Generators around generators: followed step by step, in the right context; `send`, `throw`, `close` passed on.

Each step runs in the OpenTelemetry context of its own generator, and that context never outlasts the step: what is
attached across a `yield` would leak into the consumer. Contexts are put back by `attach`, not `detach`: a token can be
used in the context it came from only, and a generator may be closed from anywhere.
"""

from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from opentelemetry.context import Context, attach, get_current

from hopbudget.tracing import garbage
from hopbudget.tracing.handle import Handle
from hopbudget.tracing.limits_steps import failed, over, steps
from hopbudget.tracing.scope import recorder_failed


def driver(
    start: Callable[..., tuple[Generator[Any, Any, Any], Handle, Context | None]], *, first_only: bool = False
) -> Callable[..., Generator[Any, Any, Any]]:
    """A generator function that drives the generator which `start` makes of its arguments.

    `first_only`: the first step alone runs in its context, the others in their consumer's.
    """

    def drive(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator, handle, context = start(*args, **kwargs)
        handle.begin()
        now_ns = handle.now_ns
        wait = handle.wait
        outside = Context()
        sent: Any = None
        thrown: BaseException | None = None
        while True:
            by_consumer = thrown is not None
            asked_ns = now_ns()
            if wait is not None and thrown is None:
                thrown = steps(wait, asked_ns, looped=False)
            if context is not None:
                outside = _enter(context)
            try:
                item = generator.send(sent) if thrown is None else generator.throw(thrown)
            except StopIteration as stop:
                handle.end(None, by_consumer=by_consumer)
                return stop.value
            except BaseException as error:
                failed(handle, error, by_consumer=by_consumer)
                raise
            finally:
                thrown = None
                if context is not None:
                    inside = _leave(outside)
                    context = None if first_only else inside
            chunk = handle.chunk
            try:
                chunk(item, asked_ns, now_ns())
            except Exception:
                recorder_failed()
            try:
                sent = yield item
            except BaseException as error:
                thrown = error
                if context is not None and garbage.collecting():
                    context = None  # the variable may be in the middle of a change

    return drive


def driver_async(
    start: Callable[..., tuple[AsyncGenerator[Any, Any], Handle, Context | None]], *, first_only: bool = False
) -> Callable[..., AsyncGenerator[Any, Any]]:
    """An async generator function that drives the async generator which `start` makes of its arguments.

    `first_only`: as with `driver`.
    """

    async def drive(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        generator, handle, context = start(*args, **kwargs)
        handle.begin()
        now_ns = handle.now_ns
        wait = handle.wait
        outside = Context()
        sent: Any = None
        thrown: BaseException | None = None
        while True:
            by_consumer = thrown is not None
            asked_ns = now_ns()
            if wait is not None and thrown is None:
                thrown = steps(wait, asked_ns, looped=True)
            if context is not None:
                outside = _enter(context)
            try:
                item = await (generator.asend(sent) if thrown is None else generator.athrow(thrown))
            except StopAsyncIteration:
                handle.end(None, by_consumer=by_consumer)
                return
            except BaseException as error:
                if isinstance(error, GeneratorExit) and not by_consumer and get_current() is not context:
                    # Collected in the middle of a step: this is somebody else's context.
                    context = None
                failed(handle, error, by_consumer=by_consumer)
                raise
            finally:
                thrown = None
                if context is not None:
                    inside = _leave(outside)
                    context = None if first_only else inside
                if wait is not None:
                    over(wait)
            chunk = handle.chunk
            try:
                chunk(item, asked_ns, now_ns())
            except Exception:
                recorder_failed()
            try:
                sent = yield item
            except BaseException as error:
                thrown = error

    return drive


async def awaited_in(inside: Context, call: Callable[[Any], Any], owner: Any) -> Any:
    """What the owner's method returns, awaited in this context."""
    outside = get_current()
    attach(inside)
    try:
        result = await call(owner)
    except BaseException as exc:
        # A coroutine collected while it waits is closed in somebody else's context.
        if not isinstance(exc, GeneratorExit) or get_current() is inside:
            attach(outside)
        raise
    attach(outside)
    return result


def _enter(context: Context) -> Context:
    outside = get_current()
    attach(context)
    return outside


def _leave(outside: Context) -> Context:
    """Put the consumer's context back; returns what the body left attached, which is for its own next step."""
    inside = get_current()
    attach(outside)
    return inside
