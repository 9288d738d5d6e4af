"""End-to-end deadlines for LLM agents: record every hop, allot the time, name the cause of each breach."""

import sys
from typing import TYPE_CHECKING, Any

from hopbudget.tracing import hop, pause, trajectory, watch, work

if TYPE_CHECKING:
    from hopbudget.local import flush, init, processor
    from hopbudget.tracing import (
        BrokenStreamError,
        Cap,
        CompletionTimeout,
        DeadlineExceeded,
        FirstTokenTimeout,
        HopRefused,
        Reading,
        StallTimeout,
        TrajectoryAborted,
        all_of,
        base_rate,
        carry,
        chance,
        deadline_status,
        disable,
        enable,
        environment,
        failover,
        first_of,
        hint,
        instrument,
        max_tokens,
        on_pressure,
        options,
        propagate_to,
        propagating,
        recovering,
        remaining_prompt,
        remaining_s,
        steps_left,
        uninstrument,
    )

__all__ = [
    "BrokenStreamError",
    "Cap",
    "CompletionTimeout",
    "DeadlineExceeded",
    "FirstTokenTimeout",
    "HopRefused",
    "Reading",
    "StallTimeout",
    "TrajectoryAborted",
    "all_of",
    "base_rate",
    "carry",
    "chance",
    "deadline_status",
    "disable",
    "enable",
    "environment",
    "failover",
    "first_of",
    "flush",
    "hint",
    "hop",
    "init",
    "instrument",
    "max_tokens",
    "on_pressure",
    "options",
    "pause",
    "processor",
    "propagate_to",
    "propagating",
    "recovering",
    "remaining_prompt",
    "remaining_s",
    "steps_left",
    "trajectory",
    "uninstrument",
    "watch",
    "work",
]


def _nothing_to_flush() -> int:
    """Nothing was recorded by `init` yet."""
    return 0


def __getattr__(name: str) -> Any:
    # The local store needs the SDK, which the decorators must not load.
    if name == "flush" and "hopbudget.local" not in sys.modules:
        return _nothing_to_flush
    if name in {"flush", "init", "processor"}:
        from hopbudget import local

        return getattr(local, name)
    if name in __all__:
        from hopbudget import tracing

        return getattr(tracing, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
