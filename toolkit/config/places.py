"""Where things are unless a person says otherwise."""

import os
from pathlib import Path

DEFAULT_STORE = "traces.duckdb"


def store_path(given: str | None = None) -> Path:
    """The store that a command means: the option, else HOPBUDGET_STORE, else ./traces.duckdb."""
    return Path(given or os.environ.get("HOPBUDGET_STORE") or DEFAULT_STORE)
