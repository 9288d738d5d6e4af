"""Inside a program that `hopbudget trace` runs: recording begins before its first line.

The program's TracerProvider is its own. Until it sets one, recording has a private one; from then on, its.
"""

import functools
import logging
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.trace import TracerProvider

from hopbudget import local
from hopbudget.tracing import home, trajectory
from hopbudget.tracing.clients import instrument
from hopbudget.tracing.imports import Hooks

STORE: Final = "HOPBUDGET_TRACE_STORE"
NAME: Final = "HOPBUDGET_TRACE_NAME"
TRAJECTORY: Final = "HOPBUDGET_TRACE_TRAJECTORY"

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
    store = Path(variables[STORE]).absolute()
    local.begin_private(store, variables.get("OTEL_SERVICE_NAME") or variables.get(NAME))
    _follow_provider()
    _stay_with(store)
    home.settle(variables)
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


def _stay_with(kept: Path) -> None:
    """Record on into this store where the program names another: the run's root and its other processes are here."""
    plain = local.init

    @functools.wraps(plain)
    def init(store: str | os.PathLike[str] = kept, **settings: Any) -> None:
        if Path(store).absolute() != kept:
            logging.getLogger("hopbudget").warning(
                "recorded into %s, as hopbudget trace was told, and not into %s, which the program's init names",
                kept,
                store,
            )
        plain(kept, **settings)

    ours: Any = init
    local.init = ours


def _follow_provider() -> None:
    """Have whichever TracerProvider the program sets feed the store, as its own and the only one."""
    plain = trace.set_tracer_provider

    @functools.wraps(plain)
    def set_tracer_provider(tracer_provider: TracerProvider) -> None:
        plain(tracer_provider)
        local.leave_private(tracer_provider)

    trace.set_tracer_provider = set_tracer_provider
