"""Modules that only some programs need: loaded when something of them is first asked for."""

from importlib import import_module
from typing import Any


class Later:
    """Stands for a module of this package until then, and hands on what it has after."""

    def __init__(self, name: str) -> None:
        self._module = f"{__package__}.{name}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(import_module(self._module), name)
        # Kept, because hops pass here.
        setattr(self, name, found)
        return found
