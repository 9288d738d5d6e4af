"""Python imports this at its start where `hopbudget trace` put this folder on PYTHONPATH: it begins to record.

The program must not notice: the folder leaves the search path again, the program's own sitecustomize runs as it would
have, and whatever goes wrong here is said in one line.
"""

import importlib
import importlib.util
import sys
from pathlib import Path


def _own_sitecustomize() -> None:
    """Run the sitecustomize that this one stands before, if there is one."""
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != here]
    mine = sys.modules.pop("sitecustomize", None)
    spec = importlib.util.find_spec("sitecustomize")
    if spec is None:
        if mine is not None:
            sys.modules["sitecustomize"] = mine
        return
    importlib.import_module("sitecustomize")


def _begin() -> None:
    try:
        from hopbudget.recording.launched import begin
    except ImportError as error:
        print(f"hopbudget trace: nothing is recorded in {sys.executable}: {error}", file=sys.stderr)  # noqa: T201
        return
    begin()


try:
    _own_sitecustomize()
finally:
    _begin()
