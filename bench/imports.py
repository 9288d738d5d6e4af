"""What `import hopbudget.tracing` costs, as a ratio to `import opentelemetry.trace`, which it can't do without.

Each import runs in a fresh interpreter that times it itself, the two turn about, so that both see the same machine.
Both are compiled beforehand, as installed packages are.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from typing import NamedTuple

LIMIT = 1.3
_TIMED = "import time; began = time.perf_counter(); import {module}; print(time.perf_counter() - began)"


class Imports(NamedTuple):
    """Medians, in seconds, of one interleaved run."""

    opentelemetry_s: float
    hopbudget_s: float
    rounds: int

    @property
    def ratio(self) -> float:
        return self.hopbudget_s / self.opentelemetry_s


def once(module: str, compiled: str) -> float:
    """Seconds that one import takes in a fresh interpreter; `compiled` is a folder for compiled modules."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", _TIMED.format(module=module)]
    done = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        env={**environment, "PYTHONPYCACHEPREFIX": compiled},
    )
    return float(done.stdout)


def measure(rounds: int = 41) -> Imports:
    """Import both, turn about."""
    with tempfile.TemporaryDirectory() as compiled:
        once("hopbudget.tracing, opentelemetry.trace", compiled)
        pairs = [(once("opentelemetry.trace", compiled), once("hopbudget.tracing", compiled)) for _ in range(rounds)]
    return Imports(
        statistics.median(first for first, _ in pairs), statistics.median(second for _, second in pairs), rounds
    )


def table(found: Imports) -> str:
    """The result as a Markdown table."""
    return "\n".join(
        [
            "| import | median |",
            "|---|---|",
            f"| `opentelemetry.trace` | {found.opentelemetry_s * 1e3:.1f} ms |",
            f"| `hopbudget.tracing` | {found.hopbudget_s * 1e3:.1f} ms |",
            f"| ratio (limit {LIMIT}) | {found.ratio:.2f} |",
        ]
    )


def run() -> str:
    """Measure, and return a Markdown section."""
    return f"## Import time\n\n{table(measure())}\n"


if __name__ == "__main__":
    result = measure()
    print(table(result))
    sys.exit(result.ratio > LIMIT)
