"""Capture: trajectories, hops and their streams, recorded as OpenTelemetry spans, and their deadlines, held."""

import importlib
import os
from typing import TYPE_CHECKING, Any, Final

from hopbudget.tracing.decorators import hop, pause, trajectory, work
from hopbudget.tracing.hops import watch

if TYPE_CHECKING:
    from hopbudget.tracing.asking import (
        base_rate,
        chance,
        hint,
        max_tokens,
        options,
        remaining_prompt,
        remaining_s,
        steps_left,
    )
    from hopbudget.tracing.attempts import Cap
    from hopbudget.tracing.broken import BrokenStreamError
    from hopbudget.tracing.clients import instrument, uninstrument
    from hopbudget.tracing.fail_over import failover
    from hopbudget.tracing.fanout import all_of, first_of
    from hopbudget.tracing.http_hooks import propagating
    from hopbudget.tracing.limits_errors import (
        CompletionTimeout,
        DeadlineExceeded,
        FirstTokenTimeout,
        HopRefused,
        StallTimeout,
        TrajectoryAborted,
    )
    from hopbudget.tracing.midstream import recovering
    from hopbudget.tracing.pressure import on_pressure
    from hopbudget.tracing.propagate import environment
    from hopbudget.tracing.reading import Reading, Usage
    from hopbudget.tracing.remaining import propagate_to
    from hopbudget.tracing.terms import deadline_status, disable, enable
    from hopbudget.tracing.threads import carry

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
    "Usage",
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
    "hint",
    "hop",
    "instrument",
    "max_tokens",
    "on_pressure",
    "options",
    "pause",
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

_LATER: Final = {
    "asking": (
        "base_rate",
        "chance",
        "hint",
        "max_tokens",
        "options",
        "remaining_prompt",
        "remaining_s",
        "steps_left",
    ),
    "attempts": ("Cap",),
    "broken": ("BrokenStreamError",),
    "clients": ("instrument", "uninstrument"),
    "fail_over": ("failover",),
    "fanout": ("all_of", "first_of"),
    "http_hooks": ("propagating",),
    "limits_errors": (
        "CompletionTimeout",
        "DeadlineExceeded",
        "FirstTokenTimeout",
        "HopRefused",
        "StallTimeout",
        "TrajectoryAborted",
    ),
    "midstream": ("recovering",),
    "pressure": ("on_pressure",),
    "propagate": ("environment",),
    "reading": ("Reading", "Usage"),
    "remaining": ("propagate_to",),
    "terms": ("deadline_status", "disable", "enable"),
    "threads": ("carry",),
}
"""What only some programs call, and what loads more than a decorator may, by the module that has it."""


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names:
            found = getattr(importlib.import_module(f"{__name__}.{module}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if "HOPBUDGET_REMAINING" in os.environ:
    from hopbudget.tracing import remaining

    remaining.settle(os.environ)
