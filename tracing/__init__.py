"""Capture: trajectories, hops and their streams, recorded as OpenTelemetry spans."""

from typing import TYPE_CHECKING

from hopbudget.tracing.decorators import hop, pause, trajectory, work
from hopbudget.tracing.hops import watch
from hopbudget.tracing.reading import Reading, Usage

if TYPE_CHECKING:
    from hopbudget.tracing.clients import instrument, uninstrument
    from hopbudget.tracing.propagate import environment

__all__ = [
    "Reading",
    "Usage",
    "environment",
    "hop",
    "instrument",
    "pause",
    "trajectory",
    "uninstrument",
    "watch",
    "work",
]


def __getattr__(name: str) -> object:
    # What only some programs call, and what loads more than a decorator may.
    if name in {"instrument", "uninstrument"}:
        from hopbudget.tracing import clients

        return getattr(clients, name)
    if name == "environment":
        from hopbudget.tracing import propagate

        return propagate.environment
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
