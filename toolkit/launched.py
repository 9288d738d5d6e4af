"""Inside a program that `hopbudget trace` runs: recording begins before its first line.

The program's TracerProvider is its own. Until it sets one, recording has a private one; from then on, its.
"""

import functools
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.trace import SpanContext, TracerProvider, get_current_span

from hopbudget import local
from hopbudget.tracing import propagate, scope, trajectory
from hopbudget.tracing.clients import instrument
from hopbudget.tracing.imports import Hooks

STORE: Final = "HOPBUDGET_TRACE_STORE"
TRAJECTORY: Final = "HOPBUDGET_TRACE_TRAJECTORY"

SERVERS: Final = frozenset(
    {"uvicorn", "gunicorn", "hypercorn", "granian", "daphne", "waitress", "werkzeug", "streamlit"}
)
"""A process whose main thread runs one of these serves many requests, which are no one trajectory."""

_hooks: Final = Hooks()


def begin() -> None:
    """Record this process into the store that `hopbudget trace` names in the environment; never raises."""
    try:
        _begin(os.environ)
    except Exception as error:
        print(f"hopbudget trace: nothing is recorded: {error}", file=sys.stderr)  # noqa: T201


def _begin(variables: Any) -> None:
    if STORE not in variables:
        return
    local.begin_private(Path(variables[STORE]))
    _follow_provider()
    _find_home(variables)
    instrument()
    named = variables.get(TRAJECTORY)
    if named:
        module, _, path = named.partition(":")
        _hooks.install({module: functools.partial(wrap, path=path)})


def wrap(module: ModuleType, path: str) -> None:
    """Make the function that `path` leads to in the module a trajectory."""
    *holders, name = path.split(".")
    owner: Any = module
    for holder in holders:
        owner = getattr(owner, holder)
    plain = vars(owner)[name]
    setattr(owner, name, trajectory(path)(plain))


def _follow_provider() -> None:
    """Have whichever TracerProvider the program sets feed the store, as its own and the only one."""
    plain = trace.set_tracer_provider

    @functools.wraps(plain)
    def set_tracer_provider(tracer_provider: TracerProvider) -> None:
        plain(tracer_provider)
        local.leave_private(tracer_provider)

    trace.set_tracer_provider = set_tracer_provider


def _find_home(variables: Any) -> None:
    """What nothing encloses belongs to the run of the whole program, unless that is a server."""
    context = propagate.from_environment(variables)
    if context is None:
        return
    home = get_current_span(context).get_span_context()
    serving = _server_check()

    def find() -> SpanContext | None:
        return None if serving() else home

    scope.setup.home = find


def _server_check() -> Callable[[], bool]:
    """Tells whether the main thread is in a server's loop; once it was, it is one."""
    main = threading.main_thread().ident
    found = False

    def serving() -> bool:
        nonlocal found
        frame = None if found or main is None else sys._current_frames().get(main)
        while frame is not None and not found:
            found = frame.f_globals.get("__name__", "").partition(".")[0] in SERVERS
            frame = frame.f_back
        return found

    return serving
