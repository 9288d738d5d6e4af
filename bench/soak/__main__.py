"""Run every soak, or those named; exit code 1 if something did not hold."""

import sys
from collections.abc import Callable

from bench.soak import receiver

PARTS: dict[str, Callable[[float], list[str]]] = {"receiver": receiver.run}
"""What each does for so many seconds, and the sentences about what did not hold."""
SECONDS = 60.0


def main(wanted: list[str]) -> int:
    """Run them in turn."""
    broken = []
    for name, run in PARTS.items():
        if not wanted or name in wanted:
            print(f"soak: {name}, {SECONDS:.0f} s ...", flush=True)
            broken += [f"{name}: {sentence}" for sentence in run(SECONDS)]
    print("\n".join(broken) or "soak: everything held")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
