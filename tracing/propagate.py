"""Carrying the trajectory to where Python's own contexts don't: the server's headers, a sub-process's environment."""

import os
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.propagate import extract, inject
from opentelemetry.trace import get_current_span

PARENT: Final = "traceparent"
_VARIABLES: Final = (PARENT, "tracestate")
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
    """The environment for a sub-process that is to go on with this trajectory: `base`, else this process's own."""
    found = dict(os.environ if base is None else base)
    carrier: dict[str, str] = {}
    inject(carrier)
    for name in _VARIABLES:
        if name in carrier:
            found[name.upper()] = carrier[name]
    return found


def from_environment(variables: Mapping[str, str]) -> Context | None:
    """The trace context that a process was started with; None if there is none."""
    carrier: dict[str, Any] = {name: variables[name.upper()] for name in _VARIABLES if name.upper() in variables}
    context = extract(carrier, Context())
    return context if get_current_span(context).get_span_context().is_valid else None
