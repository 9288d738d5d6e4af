"""Runs a script, or `-m MODULE`, one of its own functions made a trajectory.

`python -m hopbudget.recording.scripts SCRIPT` is `python SCRIPT`, and with `-m MODULE` it is `python -m MODULE`.

The function gets its decorator where it is defined, so that everything the script does with it, at its end too, has
the decorated one. Lines and file names stay what they are.
"""

import ast
import os
import runpy
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from hopbudget.tracing import trajectory

_TRAJECTORY: Final = "HOPBUDGET_TRACE_TRAJECTORY"
_DECORATOR: Final = "__hopbudget_trajectory__"


def main(arguments: list[str]) -> None:
    """Run what the first argument names, a script or after `-m` a module, the others being its own."""
    name = os.environ.get(_TRAJECTORY, "").partition(":")[2]
    if arguments[0] == "-m":
        _run_module(arguments[1], arguments[2:], name)
    else:
        _run_script(arguments, name)


def _run_script(arguments: list[str], name: str) -> None:
    path = str(Path(arguments[0]).absolute())
    code = decorated(Path(path).read_bytes(), path, name)
    sys.argv[:] = arguments
    sys.path[0] = str(Path(path).resolve().parent)
    _run(code, name, {"__file__": path})


def _run_module(module: str, arguments: list[str], name: str) -> None:
    """As `python -m` does; a package is run by its `__main__`."""
    spec = find_spec(module)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = find_spec(f"{module}.__main__")
    source = _source(spec)
    sys.argv[1:] = arguments
    if spec is None or spec.origin is None or source is None:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return
    sys.argv[0] = spec.origin
    own = {"__file__": spec.origin, "__cached__": spec.cached, "__loader__": spec.loader}
    _run(decorated(source, spec.origin, name), name, {**own, "__package__": spec.parent, "__spec__": spec})


def _source(spec: ModuleSpec | None) -> str | None:
    get_source: Any = getattr(spec.loader, "get_source", None) if spec else None
    source: str | None = get_source(spec.name) if spec and get_source else None
    return source


def _run(code: CodeType, name: str, own: dict[str, Any]) -> None:
    module = ModuleType("__main__")
    module.__dict__.update({**own, "__builtins__": __builtins__, _DECORATOR: trajectory(name)})
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


def decorated(source: bytes | str, path: str, name: str) -> CodeType:
    """The script's code, with the decorator on the function of this name: `function` or `Class.method`."""
    tree = ast.parse(source, path)
    *holders, function = name.split(".")
    body = tree.body
    for holder in holders:
        body = next((node.body for node in body if isinstance(node, ast.ClassDef) and node.name == holder), [])
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == function:
            place = ast.copy_location(ast.Name(_DECORATOR, ast.Load()), node)
            # Outermost, as a decorator applied from outside would be, but inside of what makes it no function.
            at = sum(
                isinstance(each, ast.Name) and each.id in {"staticmethod", "classmethod"}
                for each in node.decorator_list
            )
            node.decorator_list.insert(at, place)
    return compile(tree, path, "exec")


if __name__ == "__main__":
    main(sys.argv[1:])
