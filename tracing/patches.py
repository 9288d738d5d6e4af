"""Functions of other libraries that are exchanged for ours, and put back."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

_LAYERS: Final = 64
"""Functions that are looked at in search of the one that a wrapper is around."""


class Patch:
    """One exchanged function; `undo` puts the original back, unless somebody else has wrapped ours since."""

    def __init__(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        self.owner = owner
        self.name = name
        self.original = vars(owner)[name]
        self.ours = make(self.original)
        self.ours._hopbudget_active = True
        setattr(owner, name, self.ours)

    def undo(self) -> None:
        """Put the original back; ours, where it stays, does nothing any more."""
        self.ours._hopbudget_active = False
        if vars(self.owner).get(self.name) is self.ours:
            setattr(self.owner, self.name, self.original)


_patches: Final[list[Patch]] = []


def undo_all() -> None:
    """Put everything back."""
    while _patches:
        _patches.pop().undo()


def patch(owner: Any, name: str, make: Callable[[Any], Any]) -> Patch | None:
    """Exchange the owner's own function of this name for what `make` makes of it; None if it has none of its own."""
    if name not in vars(owner):
        return None
    _patches.append(Patch(owner, name, make))
    return _patches[-1]


def patch_around(base: Patch, make: Callable[[Any], Any]) -> None:
    """Patch too what others, in classes below, have put around the function as it was before."""
    for cls in _below(base.owner):
        found = vars(cls).get(base.name)
        if found is not None and hasattr(found, "__get__") and goes_past(found, base):
            patch(cls, base.name, lambda wrapper: make(_bound(wrapper, base.original)))


def goes_past(wrapper: Any, base: Patch) -> bool:
    """Whether a wrapper, or one inside of it, calls the original past our function, which is around that."""
    todo, seen = [wrapper], [base.ours]
    while todo and len(seen) < _LAYERS:
        function = todo.pop()
        function = _shown(function, "__func__") or function
        if function is base.original:
            return True
        if not isinstance(function, type) and not any(function is one for one in seen):
            seen.append(function)
            cells = _shown(function, "__closure__") or ()
            todo += filter(callable, (_shown(function, "__wrapped__"), *map(_content, cells)))
    return False


def _shown(function: Any, name: str) -> Any:
    """What it shows under this name; None where a stand-in for something else, say, can't be asked."""
    try:
        return getattr(function, name, None)
    except Exception:
        return None


def _below(cls: type) -> list[type]:
    """The classes that derive from this one."""
    found: list[type] = [cls]
    for below in found:
        direct: list[type] = below.__subclasses__()
        found += [deeper for deeper in direct if deeper not in found]
    return found[1:]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # empty


def _bound(wrapper: Any, plain: Any) -> Any:
    """The wrapper as a function of `plain`'s kind: some tell by being bound whose method they are."""
    if inspect.iscoroutinefunction(plain):

        @functools.wraps(wrapper)
        async def call_async(client: Any, *args: Any, **kwargs: Any) -> Any:
            return await wrapper.__get__(client, type(client))(*args, **kwargs)

        return call_async

    @functools.wraps(wrapper)
    def call(client: Any, *args: Any, **kwargs: Any) -> Any:
        return wrapper.__get__(client, type(client))(*args, **kwargs)

    return call
