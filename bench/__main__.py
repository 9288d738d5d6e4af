"""Run every benchmark and write `docs/benchmarks.md`: ratios against a named baseline, both measured in this run."""

import datetime
import os
import platform
import re
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from bench import app_speed, budgets_speed, capture_cost, import_speed, imports, limits_cost, receiver

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"

_PEERS = re.compile(r"<!-- peers -->.*<!-- /peers -->\n?", re.DOTALL)
"""What `make bench-peers` wrote; it takes long, and stays until it is run again."""

SECTIONS: dict[str, Callable[[], str]] = {
    "imports": imports.run,
    "capture_cost": capture_cost.run,
    "limits": limits_cost.run,
    "import_speed": import_speed.run,
    "budgets": budgets_speed.run,
    "receiver": receiver.run,
    "app": app_speed.run,
}


def head() -> str:
    """What was run, on what."""
    libraries = ", ".join(f"{name} {version(name)}" for name in ("duckdb", "msgspec", "numpy", "opentelemetry-sdk"))
    return (
        "# Benchmarks\n\n"
        "Written by `make bench`. Each figure is a ratio against a baseline measured in the same run, because machines "
        "differ and drift; absolute times are beside it for orientation only.\n\n"
        f"{datetime.date.today()}, Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}; "
        f"{libraries}.\n"
    )


def main(wanted: list[str]) -> None:
    """Run the wanted sections, all of them unless named; the page is written only when all ran."""
    parts = []
    for name, run in SECTIONS.items():
        if not wanted or name in wanted:
            print(f"bench: {name} ...", file=sys.stderr, flush=True)
            parts.append(run())
            print(parts[-1])
    if not wanted:
        kept = _PEERS.search(PAGE.read_text()) if PAGE.exists() else None
        PAGE.write_text("\n".join([head(), *parts, kept[0] if kept else ""]).rstrip() + "\n")
        print(f"wrote {PAGE.relative_to(Path.cwd())}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
