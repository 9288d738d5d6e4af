"""What every demo stands on: a place for its spans, a client of nobody's, titles, and an end that leaves nothing."""

import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

import hopbudget as hb
from hopbudget.errors import Exit, UserError
from hopbudget.render import base
from hopbudget.tracing import scope

if TYPE_CHECKING:
    from openai import AsyncOpenAI


def client(address: str, **options: Any) -> "AsyncOpenAI":
    """A client as anybody's, except that no proxy and no key of the user's has a part in it."""
    import openai

    http: Any = options.pop("http_client", None) or openai.DefaultAsyncHttpxClient(trust_env=False)
    return openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="simulated", max_retries=0, http_client=http, **options)


def flushed() -> int:
    """How many spans were written. UserError where recording is switched off from outside."""
    written = hb.flush()
    if not written:
        raise UserError(
            "No span was recorded. Is OpenTelemetry switched off (OTEL_SDK_DISABLED, OTEL_TRACES_SAMPLER)?",
            Exit.ENVIRONMENT,
        )
    return written


def title(out: Console, words: str) -> None:
    """A rule with words, and an empty line before it."""
    out.print()
    out.print(Rule(Text(words, style="bold"), align="left", style=base.QUIET))


def program() -> str:
    """What to type for `hopbudget`: its path where it is not on the search path."""
    if shutil.which("hopbudget") or not sys.argv[0].endswith("hopbudget"):
        return "hopbudget"
    found = Path(sys.argv[0])
    return str(found.relative_to(Path.cwd()) if found.is_relative_to(Path.cwd()) else found)


@contextmanager
def place(store: Path | None) -> Iterator[Path]:
    """The store to record into: the user's, or one that goes with the block."""
    if store is not None:
        yield store
        return
    with TemporaryDirectory(prefix="hopbudget-demo-", ignore_cleanup_errors=True) as folder:
        try:
            yield Path(folder) / "traces.duckdb"
        finally:
            # What is still open or queued would be written at exit, and bring the folder back.
            scope.end_open()
            hb.flush()


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Let a signal that ends the process unwind the demo, so that its child process and its folder go with it."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
