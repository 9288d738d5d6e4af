"""Which objects are streams, and how each kind is followed."""

from functools import lru_cache
from types import AsyncGeneratorType, GeneratorType
from typing import Any

from hopbudget.tracing.drive import driver, driver_async
from hopbudget.tracing.handle import Follower, Handle
from hopbudget.tracing.objects import look_on


def is_stream(thing: object) -> bool:
    """Whether the object is something that is pulled piece by piece: an iterator, or closable and iterable."""
    cls: type = type(thing)
    return _is_stream_class(cls)


@lru_cache(maxsize=256)
def _is_stream_class(cls: type) -> bool:
    if issubclass(cls, (GeneratorType, AsyncGeneratorType)):
        return True
    if hasattr(cls, "__next__") or hasattr(cls, "__anext__"):
        return not hasattr(cls, "readline")
    return hasattr(cls, "__aiter__") or (hasattr(cls, "__iter__") and hasattr(cls, "close"))


def is_async(stream: object) -> bool:
    """Whether a stream is pulled by awaiting."""
    cls = type(stream)
    return hasattr(cls, "__anext__") or hasattr(cls, "__aiter__")


def follow(stream: Any, follower: Follower) -> Any:
    """The stream, followed: a generator around a generator, the very object otherwise."""
    if isinstance(stream, GeneratorType):
        handle = Handle(follower)
        return driver(lambda: (stream, handle, None))()
    if isinstance(stream, AsyncGeneratorType):
        handle = Handle(follower)
        return driver_async(lambda: (stream, handle, None))()
    return look_on(stream, follower)
