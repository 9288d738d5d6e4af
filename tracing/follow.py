"""Which objects are streams, and how each kind is followed."""

from functools import lru_cache
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, Any

from hopbudget.tracing.later import Later

if TYPE_CHECKING:
    from hopbudget.tracing import drive, objects
    from hopbudget.tracing import handle as handles
    from hopbudget.tracing.handle import Follower
else:
    drive, handles, objects = Later("drive"), Later("handle"), Later("objects")


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


def follow(stream: Any, follower: "Follower") -> Any:
    """The stream, followed: a generator around a generator, the very object otherwise."""
    if isinstance(stream, GeneratorType):
        handle = handles.Handle(follower)
        return drive.driver(lambda: (stream, handle, None))()
    if isinstance(stream, AsyncGeneratorType):
        handle = handles.Handle(follower)
        return drive.driver_async(lambda: (stream, handle, None))()
    return objects.look_on(stream, follower)
