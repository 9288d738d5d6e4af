"""A class that stands in for another one in all but a few methods, so that an object keeps its type to whoever asks."""

from collections.abc import Callable, Mapping
from typing import Any


def look_alike(cls: Any, makers: Mapping[str, Callable[[Any], Any]]) -> type:
    """A subclass with the class's name, module and docstring; of these methods it has those that the class has.

    Each is made by its maker out of the class's own. It has no slots, so an object of the class can become one of it.
    """
    members: dict[str, Any] = {
        "__slots__": (),
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
    }
    members |= {name: make(getattr(cls, name)) for name, make in makers.items() if hasattr(cls, name)}
    made: type = type(cls)(cls.__name__, (cls,), members)
    return made
