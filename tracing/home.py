"""The trajectory around a whole process: the one its parent process was in, or the run of a program under `trace`."""

import sys
import threading
from collections.abc import Callable, Mapping
from typing import Final

from opentelemetry.trace import SpanContext, get_current_span

from hopbudget.tracing import propagate, scope

SERVERS: Final = frozenset(
    {"uvicorn", "gunicorn", "hypercorn", "granian", "daphne", "waitress", "werkzeug", "streamlit"}
)
"""A process whose main thread runs one of these serves many requests, which are no one trajectory."""


def settle(variables: Mapping[str, str]) -> None:
    """What nothing encloses in this process belongs to what the environment names, unless the process is a server."""
    context = propagate.from_environment(variables)
    if context is None:
        return
    home = get_current_span(context).get_span_context()
    serving = server_check()

    def find() -> SpanContext | None:
        return None if serving() else home

    scope.setup.home = find


def server_check() -> Callable[[], bool]:
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
