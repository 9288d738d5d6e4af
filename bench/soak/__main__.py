"""Run every soak, or those named; exit code 1 if something did not hold."""

import sys
from collections.abc import Callable

from bench.soak import limits, receiver

PARTS: dict[str, tuple[Callable[[float], list[str]], float]] = {
    "limits": (limits.run, 120.0),
    "receiver": (receiver.run, 60.0),
}
"""What each does for so many seconds; it returns sentences about what did not hold."""


def main(wanted: list[str]) -> int:
    """Run them in turn."""
    broken = []
    for name, (run, seconds) in PARTS.items():
        if not wanted or name in wanted:
            print(f"soak: {name}, {seconds:.0f} s ...", flush=True)
            broken += [f"{name}: {sentence}" for sentence in run(seconds)]
    print("\n".join(broken) or "soak: everything held")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
