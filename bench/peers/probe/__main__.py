"""`python -m bench.peers.probe checks NAME URL FILE`, or `... cost NAME traces|metrics`, in a library's environment."""

import json
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.peers.probe.adapters import ADAPTERS


def checks(name: str, base_url: str, target: Path) -> None:
    """First token, ways out and contract, into a JSON file; each part is written as soon as it is known."""
    from bench.peers.probe import contract, first_token, ways_out

    before = contract.facts()
    adapter = ADAPTERS[name](metrics=True)
    found: dict[str, Any] = {"variant": adapter.variant, "openai": version("openai")}
    parts: dict[str, Callable[[], Any]] = {
        "first_token": lambda: first_token.run(adapter, base_url),
        "ways_out": lambda: ways_out.run(adapter, base_url),
        "contract": lambda: contract.run(adapter, before),
    }
    for part, run in parts.items():
        try:
            found[part] = run()
        except Exception as error:
            found[part] = {"failed": f"{type(error).__name__}: {error}"}
        target.write_text(json.dumps(found, indent=1, default=str))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1] == "checks":
        checks(sys.argv[2], sys.argv[3], Path(sys.argv[4]))
    else:
        from bench.peers.probe import cost

        cost.main(sys.argv[2], metrics=sys.argv[3] == "metrics")
