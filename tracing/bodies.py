"""Following the HTTP response under a client's answer: who reads its bytes, and who closes it.

Works for httpx and httpx2 alike. As with streams the class is exchanged for a subclass of the same name, here until
the response is closed, which every response that is read to its end is.
"""

import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

from hopbudget.tracing.handle import BUSY, Follower, Handle
from hopbudget.tracing.objects import HANDLE, async_steps, steps

_UNDER: Final = "_hopbudget_under"
_subclasses: Final[dict[tuple[type, bool], type]] = {}


def follow_body(response: Any, follower: Follower) -> bool:
    """Follow whoever reads the response's bytes, whole or in pieces; False if it can't be followed."""
    handle = Handle(follower)
    if _exchange(response, HANDLE, handle, reading=True):
        return True
    handle.ended = True  # it has nothing to tell
    return False


def hear_close(response: Any, handle: Handle) -> None:
    """Tell the handle of a stream when the response under it is closed, which helpers do past the stream.

    Its clock is told of every read from the transport.
    """
    _exchange(response, _UNDER, weakref.ref(handle), reading=False)


def is_read(response: Any) -> bool:
    """Whether the response's body is in memory already."""
    return hasattr(response, "_content")


def _exchange(response: Any, key: str, value: Any, *, reading: bool) -> bool:
    cls = type(response)
    if not hasattr(cls, "iter_bytes") or not hasattr(cls, "aiter_bytes"):
        return False
    try:
        response.__dict__[key] = value
        response.__class__ = _subclass(cls, reading)
    except (TypeError, AttributeError):
        getattr(response, "__dict__", {}).pop(key, None)
        return False
    return True


def _subclass(cls: Any, reading: bool) -> type:
    if (cls, reading) not in _subclasses:
        members: dict[str, Any] = {
            "__slots__": (),
            "__module__": cls.__module__,
            "__qualname__": cls.__qualname__,
            "__doc__": cls.__doc__,
        }

        def restore(response: Any) -> None:
            if type(response) is exchanged:
                response.__class__ = cls

        members["close"] = _close(cls.close, restore)
        members["aclose"] = _aclose(cls.aclose, restore)
        if reading:
            for what in ("bytes", "raw"):
                members[f"iter_{what}"] = _pieces(getattr(cls, f"iter_{what}"))
                members[f"aiter_{what}"] = _apieces(getattr(cls, f"aiter_{what}"))
        else:
            members["iter_raw"] = _reads(cls.iter_raw)
            members["aiter_raw"] = _areads(cls.aiter_raw)
        exchanged = type(cls)(cls.__name__, (cls,), members)
        _subclasses[cls, reading] = exchanged
    return _subclasses[cls, reading]


def _handle(response: Any) -> Handle | None:
    """Who is to be told of what is read; nobody while the response reads from itself, or once all is told."""
    handle: Handle | None = response.__dict__.get(HANDLE)
    return None if handle is None or handle.ended or handle.state == BUSY else handle


def _pieces(plain: Callable[..., Iterator[bytes]]) -> Callable[..., Iterator[bytes]]:
    def pieces(self: Any, *args: Any, **kwargs: Any) -> Iterator[bytes]:
        handle = _handle(self)
        iterator = plain(self, *args, **kwargs)
        return iterator if handle is None else steps(iterator, handle, self)

    return pieces


def _apieces(plain: Callable[..., AsyncIterator[bytes]]) -> Callable[..., AsyncIterator[bytes]]:
    def pieces(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[bytes]:
        handle = _handle(self)
        iterator = plain(self, *args, **kwargs)
        return iterator if handle is None else async_steps(iterator, handle, self)

    return pieces


def _noted_by(response: Any) -> "tuple[Callable[[int, int], None], Callable[[], int]] | None":
    """Who notes reads from the transport, and the clock for it; None if nobody wants to know."""
    under = response.__dict__.get(_UNDER)
    handle: Handle | None = None if under is None else under()
    if handle is None or handle.clock is None:
        return None
    handle.clock.reads = []
    return handle.clock.was_read, handle.now_ns


def _reads(plain: Callable[..., Iterator[bytes]]) -> Callable[..., Iterator[bytes]]:
    def noted(
        iterator: Iterator[bytes], note: Callable[[int, int], None], now_ns: Callable[[], int]
    ) -> Iterator[bytes]:
        began_ns = now_ns()
        for piece in iterator:
            note(began_ns, now_ns())
            yield piece
            began_ns = now_ns()

    def iter_raw(self: Any, *args: Any, **kwargs: Any) -> Iterator[bytes]:
        place, iterator = _noted_by(self), plain(self, *args, **kwargs)
        return iterator if place is None else noted(iterator, *place)

    return iter_raw


def _areads(plain: Callable[..., AsyncIterator[bytes]]) -> Callable[..., AsyncIterator[bytes]]:
    async def noted(iterator: Any, note: Callable[[int, int], None], now_ns: Callable[[], int]) -> AsyncIterator[bytes]:
        try:
            began_ns = now_ns()
            async for piece in iterator:
                note(began_ns, now_ns())
                yield piece
                began_ns = now_ns()
        finally:
            await iterator.aclose()

    def aiter_raw(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[bytes]:
        place, iterator = _noted_by(self), plain(self, *args, **kwargs)
        return iterator if place is None else noted(iterator, *place)

    return aiter_raw


def _closing(response: Any, restore: Callable[[Any], None]) -> None:
    own = response.__dict__
    handle: Handle | None = own.pop(HANDLE, None)
    if handle is None and _UNDER in own:
        handle = own.pop(_UNDER)()
    restore(response)
    if handle is not None:
        handle.closing()


def _close(plain: Callable[[Any], None], restore: Callable[[Any], None]) -> Callable[[Any], None]:
    def close(self: Any) -> None:
        _closing(self, restore)
        plain(self)

    return close


def _aclose(plain: Callable[[Any], Any], restore: Callable[[Any], None]) -> Callable[[Any], Any]:
    async def aclose(self: Any) -> None:
        _closing(self, restore)
        await plain(self)

    return aclose
