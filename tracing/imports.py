"""Doing something with a module as soon as it is imported, and at once with those that are."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from hopbudget.tracing.scope import recorder_failed

Hook = Callable[[ModuleType], None]


class Hooks:
    """Functions that wait for modules. In `sys.meta_path` it stands first and finds nothing of its own."""

    def __init__(self) -> None:
        self._hooks: dict[str, Hook] = {}
        self._finding: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def install(self, hooks: Mapping[str, Hook]) -> None:
        """Call each function with its module, now or once it is imported; those that are there already stay."""
        for name, hook in hooks.items():
            if name in self._hooks:
                continue
            self._hooks[name] = hook
            module = sys.modules.get(name)
            if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
                self._call(name, module)
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Wait no longer."""
        self._hooks.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the others find, with a loader that calls the hook when it is done."""
        if name not in self._hooks or name in self._finding:
            return None
        self._finding.add(name)
        try:
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                spec: ModuleSpec | None = find(name, path, target) if finder is not self and find else None
                if spec is not None:
                    if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                        loader: Any = _Loader(spec.loader, lambda module: self._call(name, module))
                        spec.loader = loader
                    return spec
        finally:
            self._finding.discard(name)
        return None

    def _call(self, name: str, module: ModuleType) -> None:
        hook = self._hooks.get(name)
        if hook is None:
            return
        try:
            hook(module)
        except Exception:
            # A version whose insides are different: the library works, and is not seen.
            recorder_failed()


class _Loader:
    """A module's loader, which gives its place back before it loads."""

    def __init__(self, plain: Any, done: Hook) -> None:
        self._plain = plain
        self._done = done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._plain.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._plain
        module.__loader__ = self._plain
        self._plain.exec_module(module)
        self._done(module)
