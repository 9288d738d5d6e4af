"""Runs a script, one of its own functions made a trajectory: `python -m hopbudget.recording.scripts SCRIPT`.

The function gets its decorator where it is defined, so that everything the script does with it, at its end too, has
the decorated one. Lines and file names stay what they are.
"""

import ast
import os
import sys
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

from hopbudget.tracing import trajectory

_TRAJECTORY: Final = "HOPBUDGET_TRACE_TRAJECTORY"
_DECORATOR: Final = "__hopbudget_trajectory__"


def main(arguments: list[str]) -> None:
    """Run the script that the first argument names, the others being its own."""
    path = str(Path(arguments[0]).absolute())
    name = os.environ.get(_TRAJECTORY, "").partition(":")[2]
    code = decorated(Path(path).read_bytes(), path, name)
    module = ModuleType("__main__")
    module.__dict__.update({"__file__": path, "__builtins__": __builtins__, _DECORATOR: trajectory(name)})
    sys.argv[:] = arguments
    sys.path[0] = str(Path(path).resolve().parent)
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


def decorated(source: bytes, path: str, name: str) -> CodeType:
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
