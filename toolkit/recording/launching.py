"""`hopbudget trace`: run a program unchanged, and record its model calls into the local store.

The program runs as a child with one folder in front of its search path, whose `sitecustomize` begins the recording in
it and in every Python process it starts. The run of the whole program is one span of this process: what nothing else
encloses belongs to it.
"""

import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from hopbudget.children import exit_code
from hopbudget.errors import Exit, UserError
from hopbudget.recording.export import SpoolProcessor
from hopbudget.store import queries
from hopbudget.store.duck import Store
from hopbudget.store.narrow import Where
from hopbudget.store.open import check_fillable
from hopbudget.store.spool import spool_folder
from hopbudget.tracing import propagate
from hopbudget.tracing import vocabulary as v
from hopbudget.tracing.terms import terms
from hopbudget.units import plural

SHIM: Final = Path(__file__).resolve().parents[1] / "launch"
_STORE: Final = "HOPBUDGET_TRACE_STORE"
_NAME: Final = "HOPBUDGET_TRACE_NAME"
_TRAJECTORY: Final = "HOPBUDGET_TRACE_TRAJECTORY"
_FORWARDED: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
_ENDED_BY_SOMEBODY: Final = frozenset(128 + number for number in (signal.SIGINT, *_FORWARDED))
"""Exit codes of a program that the keyboard, or somebody's signal, ended."""


def trace_command(command: Sequence[str], store: Path, trajectory: str | None) -> int:
    """Run the command and return its exit code (128 + n where signal n ended it), as a shell would.

    Raises UserError for a command that can't be run, and for a trajectory that is not `module:function`.
    """
    if trajectory is not None and not all(trajectory.partition(":")):
        raise UserError(f"--trajectory wants module:function, not {trajectory!r}", Exit.USAGE)
    program = list(command)
    found = shutil.which(program[0])
    if found is None:
        raise UserError(f"no command {program[0]!r} here; give the program as you start it: -- python agent.py")
    store = store.absolute()
    check_fillable(store)
    if trajectory is not None:
        program = with_trajectory(program, trajectory)
    name = name_of(command)
    began_s = time.time()
    with _whole_run(name, store) as span:
        code = _run(program, environment(os.environ, name, store, trajectory))
        if code in _ENDED_BY_SOMEBODY:
            span.set_attributes({v.OUTCOME: "cancelled", v.ERROR_TYPE: f"exit {code}"})
            span.set_status(Status(StatusCode.ERROR))
        elif code:
            span.set_attributes({v.OUTCOME: "failed", v.ERROR_TYPE: f"exit {code}"})
            span.set_status(Status(StatusCode.ERROR))
        else:
            span.set_attribute(v.OUTCOME, "ok")
    run = format(span.get_span_context().trace_id, "032x")
    recorded = summary(store, began_s)
    for line in (recorded, *never_ran(store, trajectory, began_s), *not_held(store, trajectory, name, run)):
        print(line, file=sys.stderr)  # noqa: T201
    return code


def environment(base: Mapping[str, str], name: str, store: Path, trajectory: str | None) -> dict[str, str]:
    """The environment the program runs in: as it is, and what the shim reads."""
    variables = propagate.environment(base)
    path = variables.get("PYTHONPATH")
    variables["PYTHONPATH"] = f"{SHIM}{os.pathsep}{path}" if path else str(SHIM)
    variables[_STORE] = str(store)
    variables[_NAME] = name
    if trajectory is not None:
        variables[_TRAJECTORY] = trajectory
    return variables


def name_of(command: Sequence[str]) -> str:
    """What a run of the command is called: its script's or module's name, else the command's."""
    what = _python(command)[1]
    if not what:
        return Path(command[0]).stem
    if what[0] == "-m":
        return what[-1] if len(what) == 1 else what[1]
    return Path(what[min(what[0] == "-c", len(what) - 1)]).stem


def with_trajectory(command: Sequence[str], trajectory: str) -> list[str]:
    """The command, run by `hopbudget.recording.scripts` if the function is in the very script or module that it names.

    What is run so is no module that could be waited for: it is `__main__`, and runs at once.
    """
    module = trajectory.partition(":")[0]
    python, what = _python(command)
    names: set[str] = set()
    if len(what) > 1 and what[0] == "-m":
        names = {what[1], f"{what[1]}.__main__", "__main__"}
    elif what and what[0].endswith(".py"):
        names = {Path(what[0]).stem, "__main__"}
    return [*python, "-m", "hopbudget.recording.scripts", *what] if module in names else list(command)


def _python(command: Sequence[str]) -> tuple[list[str], list[str]]:
    """Python with its own options, and what it runs, with arguments: a script, `-m` and a module, or `-c` and code.

    Of a command that is not Python the second is empty.
    """
    words = list(command)
    if not Path(words[0]).name.startswith("python"):
        return words, []
    at = 1
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        # One word may hold several options: `-um pkg` is `-u -m pkg`, and `-mpkg` is `-m pkg`.
        took = None if word.startswith("--") else next((i for i, letter in enumerate(word) if letter in "mcWX"), None)
        if took is not None and word[took] in "mc":
            flags, value = word[:took], word[took + 1 :]
            before = [*words[:at], *([flags] if flags != "-" else [])]
            return before, [f"-{word[took]}", *([value] if value else []), *words[at + 1 :]]
        at += 2 if took == len(word) - 1 or word == "--check-hash-based-pycs" else 1
    return words[:at], words[at:]


def summary(store: Path, since_s: float) -> str:
    """How much was recorded since then, and what to type next. Reading it brings the store up to date."""
    Store(store).drain()
    count = hop_count = 0
    if store.exists():  # whoever looked meanwhile has drained a part of it
        with Store(store).reading() as con:
            count, hop_count = queries.counted(con, Where(since_s=since_s))
    if not hop_count:
        return (
            "hopbudget: no model call was recorded (those of openai, anthropic and litellm clients are); "
            "see hopbudget trace --help"
        )
    where = "" if store == Path("traces.duckdb").absolute() else f" {_short(store)}"
    trajectories = plural(count, "trajectory", "trajectories")
    hops = plural(hop_count, "hop", "hops")
    return f"hopbudget: {trajectories}, {hops} recorded; next: hopbudget report{where}"


def never_ran(store: Path, trajectory: str | None, since_s: float) -> list[str]:
    """What to say where a function was named as the trajectory and none of it was recorded since then."""
    if trajectory is None:
        return []
    module, _, function = trajectory.partition(":")
    if store.exists():
        with Store(store).reading() as con:
            if queries.workloads(con, Where(workload=function, since_s=since_s)):
                return []
    return [
        f"hopbudget: no trajectory of {trajectory} was recorded: {function} never ran, or the program knows its module "
        f"by another name than {module!r}."
    ]


def not_held(store: Path, trajectory: str | None, name: str, run: str) -> list[str]:
    """What to say where the whole run, the trace `run`, was a trajectory and settings give it deadlines or limits.

    What is wrong in the settings is said too, by the logger.
    """
    if trajectory is not None or not store.exists():
        return []
    with Store(store).reading() as con:
        if not queries.workloads(con, Where(trace_ids=[run])):
            return []
    found = terms(name)
    if found.deadline_s == math.inf and not found.hops:
        return []
    return [
        f"hopbudget: the whole run of {name} is not held to the deadline or limits that its settings give it. Name the "
        "function that is one agent run: --trajectory MODULE:FUNCTION."
    ]


def _short(path: Path) -> str:
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


@contextmanager
def _whole_run(name: str, store: Path) -> Iterator[Span]:
    """A span for as long as the program runs, written to the store's spool at its end."""
    processor = SpoolProcessor(spool_folder(store))
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: name}), shutdown_on_exit=False)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer(v.SCOPE_NAME)
    with tracer.start_as_current_span(
        name,
        kind=SpanKind.INTERNAL,
        attributes={v.WORKLOAD: name},
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        yield span
    processor.flush()


def _run(command: list[str], variables: dict[str, str]) -> int:
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:
        if child is None:
            early.append(number)
        else:
            child.send_signal(number)

    # What we are to ignore (`nohup`), the child ignores as well, unless it inherits a handler in its place.
    heard = [number for number in _FORWARDED if signal.getsignal(number) is not signal.SIG_IGN]
    before: dict[int, Any] = {number: signal.signal(number, forward) for number in heard}
    try:
        child = subprocess.Popen(command, env=variables)
        # What is typed at the keyboard reaches the child by itself.
        before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in early:
            child.send_signal(number)
        code = exit_code(child)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 128 - code if code < 0 else code
