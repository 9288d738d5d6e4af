"""A stream that breaks while its tokens are being read: raised, truncated with a marker, retried whole, or resumed."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from hopbudget.tracing.broken import POLICIES, Policy, Recovery, Ways
from hopbudget.tracing.hops import open_hop, watch
from hopbudget.tracing.limits_steps import aclose, close
from hopbudget.tracing.readers import Reader, chosen
from hopbudget.tracing.terms import off


def recovering(
    open: Callable[[], Any],
    *,
    on_failure: Policy,
    marker: Any = None,
    again: Callable[[], Any] | None = None,
    resume: Callable[[str], Any] | None = None,
    take_back: Callable[[str], object] | None = None,
    attempts: int = 1,
    reader: Reader | None = None,
) -> Any:
    """The stream that `open` opens, and what it is to do when it breaks; an awaitable of it where `open` returns one.

    It breaks when reading it raises, a stall limit included, when it ends without its end mark, or when it tells of an
    error inside. `on_failure`, then:

    - `raise`: the client's exception, or `BrokenStreamError` where it raises none.
    - `truncate`: it ends with `marker`, a chunk that says so, or a function of the delivered text that makes it.
    - `retry`: all of it once more by `again`, else by `open`. Only while no token was delivered, or where
      `take_back(delivered)` takes back what was; it returns False where it can't.
    - `resume`: it goes on by `resume(delivered)`, which opens a stream of what follows the delivered text, on an
      endpoint that can do that. What was delivered is what the reader got; an application that showed less asks for
      what follows that.

    Where that can't be done, in `attempts` times, or with no time left, it ends with `marker` if there is one, and
    raises the last failure if not. Use it in a hop's body, so that each stream is part of the hop and held to its
    limits. Switched off (`disable`), the stream is as without it. Raises TypeError or ValueError for wrong arguments.
    """
    _check(open, on_failure, marker, resume, attempts)
    for name, given in (("again", again), ("resume", resume), ("take_back", take_back)):
        if given is not None and not callable(given):
            raise TypeError(f"{name} is a function, not {given!r}")
    format = None if reader is None else chosen(reader)
    ways = Ways("off" if off() else on_failure, marker, again or open, resume, take_back, format)
    recovery = Recovery(ways, attempts, open_hop())
    opened = open()
    if inspect.isawaitable(opened):
        return _awaited(opened, recovery, reader)
    if hasattr(opened, "__aiter__"):
        return AsyncRecovering(watch(opened, reader), recovery, reader)
    return Recovering(watch(opened, reader), recovery, reader)


async def _awaited(opened: Any, recovery: Recovery, reader: Reader | None) -> "AsyncRecovering":
    return AsyncRecovering(watch(await opened, reader), recovery, reader)


class _Stream:
    """What both kinds have: `stream`, the client's own that is read now; `error`, the last failure; `done`, what was
    done about it: None, `truncated`, `retried`, `resumed` or `raised`.
    """

    def __init__(self, stream: Any, recovery: Recovery, reader: Reader | None) -> None:
        self.stream = stream
        self._recovery = recovery
        self._reader = reader
        self._over = False

    def __getattr__(self, name: str) -> Any:
        if name == "stream":
            raise AttributeError(name)
        return getattr(self.stream, name)

    @property
    def error(self) -> Exception | None:
        """The last failure."""
        return self._recovery.error

    @property
    def done(self) -> str | None:
        """What was done about it."""
        return self._recovery.done

    @property
    def delivered(self) -> str:
        """The answer's text so far."""
        return self._recovery.delivered

    def _ended(self, error: Exception) -> Any:
        """The marker, or the failure raised."""
        self._over = True
        if self._recovery.end():
            return self._recovery.marker()
        raise error


class Recovering(_Stream):
    """A stream that is read with `for`."""

    def __init__(self, stream: Any, recovery: Recovery, reader: Reader | None) -> None:
        super().__init__(stream, recovery, reader)
        self._iterator: Iterator[Any] = iter(stream)

    def __iter__(self) -> "Recovering":
        return self

    def __next__(self) -> Any:
        while not self._over:
            asked_ns = self._recovery.now_ns()
            try:
                chunk = next(self._iterator)
            except StopIteration:
                broke = self._recovery.cut()
                if broke is None:
                    break
            except Exception as exc:
                broke = exc
            else:
                self._recovery.came(chunk, asked_ns)
                return chunk
            failure = self._go_on(broke)
            if failure is not None:
                return self._ended(failure)
        self._over = True
        raise StopIteration

    def _go_on(self, error: Exception) -> Exception | None:
        """Open what goes on; returns the last failure where nothing does."""
        close(self._iterator, self.stream)
        while (opens := self._recovery.broke(error)) is not None:
            try:
                self.stream = watch(opens(), self._reader)
                self._iterator = iter(self.stream)
            except Exception as exc:
                error = exc
            else:
                return None
        return error

    def close(self) -> None:
        """Close the stream."""
        self._over = True
        close(self._iterator, self.stream)

    def __enter__(self) -> "Recovering":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncRecovering(_Stream):
    """A stream that is read with `async for`."""

    def __init__(self, stream: Any, recovery: Recovery, reader: Reader | None) -> None:
        super().__init__(stream, recovery, reader)
        self._iterator: AsyncIterator[Any] = aiter(stream)

    def __aiter__(self) -> "AsyncRecovering":
        return self

    async def __anext__(self) -> Any:
        while not self._over:
            asked_ns = self._recovery.now_ns()
            try:
                chunk = await anext(self._iterator)
            except StopAsyncIteration:
                broke = self._recovery.cut()
                if broke is None:
                    break
            except Exception as exc:
                broke = exc
            else:
                self._recovery.came(chunk, asked_ns)
                return chunk
            failure = await self._go_on(broke)
            if failure is not None:
                return self._ended(failure)
        self._over = True
        raise StopAsyncIteration

    async def _go_on(self, error: Exception) -> Exception | None:
        """Open what goes on; returns the last failure where nothing does."""
        await aclose(self._iterator, self.stream)
        while (opens := self._recovery.broke(error)) is not None:
            try:
                opened = opens()
                self.stream = watch(await opened if inspect.isawaitable(opened) else opened, self._reader)
                self._iterator = aiter(self.stream)
            except Exception as exc:
                error = exc
            else:
                return None
        return error

    async def aclose(self) -> None:
        """Close the stream."""
        self._over = True
        await aclose(self._iterator, self.stream)

    close = aclose

    async def __aenter__(self) -> "AsyncRecovering":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _check(open: object, on_failure: object, marker: object, resume: object, attempts: object) -> None:
    if not callable(open):
        raise TypeError(f"recovering needs a function that opens a stream, not {open!r}")
    if on_failure not in POLICIES:
        raise ValueError(f"on_failure is one of {', '.join(POLICIES)}, not {on_failure!r}")
    if on_failure == "truncate" and marker is None:
        raise TypeError('on_failure="truncate" needs a marker: the chunk that tells the reader of it')
    if on_failure == "resume" and resume is None:
        raise TypeError('on_failure="resume" needs resume: a function of the delivered text that opens what follows')
    if on_failure == "raise" and marker is not None:
        raise TypeError('a marker is never shown with on_failure="raise"')
    if not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1:
        raise ValueError(f"attempts is a whole number of at least 1, not {attempts!r}")
