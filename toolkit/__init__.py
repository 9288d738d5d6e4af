"""End-to-end deadlines for LLM agents: record every hop, allot the time, name the cause of each breach."""

import sys
from typing import TYPE_CHECKING

from hopbudget.tracing import Reading, hop, pause, trajectory, watch, work

if TYPE_CHECKING:
    from hopbudget.local import flush, init, processor
    from hopbudget.tracing import environment, instrument, uninstrument

__all__ = [
    "Reading",
    "environment",
    "flush",
    "hop",
    "init",
    "instrument",
    "pause",
    "processor",
    "trajectory",
    "uninstrument",
    "watch",
    "work",
]


def _nothing_to_flush() -> int:
    """Nothing was recorded by `init` yet."""
    return 0


def __getattr__(name: str) -> object:
    # The local store needs the SDK, which the decorators must not load.
    if name == "flush" and "hopbudget.local" not in sys.modules:
        return _nothing_to_flush
    if name in {"flush", "init", "processor"}:
        from hopbudget import local

        return getattr(local, name)
    if name in {"environment", "instrument", "uninstrument"}:
        from hopbudget import tracing

        return getattr(tracing, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
