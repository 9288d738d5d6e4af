"""Carrying the trajectory to where Python's own contexts don't: the server's headers, a sub-process's environment."""

import os
from collections.abc import Mapping, MutableMapping
from typing import Final

from opentelemetry.context import Context
from opentelemetry.propagate import extract, inject
from opentelemetry.trace import get_current_span

from hopbudget.tracing.remaining import VARIABLE, for_process

PARENT: Final = "traceparent"
_HEADERS: Final = (PARENT, "tracestate")
_OURS: Final = "HOPBUDGET_"
"""Before the names of the variables that a process of ours reads. Others have their own reasons to set TRACEPARENT."""
_BAGGAGE: Final = "baggage"


def add_headers(headers: MutableMapping[str, str]) -> None:
    """Add the current trace context to a request's headers, unless its sender set one.

    What the application keeps in its baggage is its own, and not sent to whoever serves its models.
    """
    if PARENT in headers or not get_current_span().is_recording():
        return
    carrier: dict[str, str] = {}
    inject(carrier)
    for name, value in carrier.items():
        if name.lower() != _BAGGAGE and name not in headers:
            headers[name] = value


def environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a sub-process that is to go on with this trajectory: `base`, else this process's own.

    What nothing encloses there belongs to the trajectory, once `hopbudget.init` has run, and keeps its deadline.
    """
    found = dict(os.environ if base is None else base)
    # A deadline that this process was started with is no longer the one.
    found.pop(VARIABLE, None)
    left = for_process()
    if left is not None:
        found[VARIABLE] = left
    carrier: dict[str, str] = {}
    inject(carrier)
    for name in _HEADERS:
        if name in carrier:
            found[name.upper()] = found[f"{_OURS}{name.upper()}"] = carrier[name]
    return found


def from_environment(variables: Mapping[str, str]) -> Context | None:
    """The trace context that `environment` put there; None if there is none."""
    given = {name: variables.get(f"{_OURS}{name.upper()}") for name in _HEADERS}
    carrier = {name: value for name, value in given.items() if value}
    context = extract(carrier, Context())
    return context if get_current_span(context).get_span_context().is_valid else None
