"""Recording into a local store: `init` and `flush`."""

import atexit
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from hopbudget.errors import Exit, UserError
from hopbudget.tracing import garbage, home, scope

try:
    from opentelemetry import trace
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider

    from hopbudget.recording.adopting import AdoptingProcessor
    from hopbudget.recording.export import EXIT_WAIT_S, SpoolProcessor
except ImportError as error:
    raise UserError(
        f"hopbudget.init needs {error.name}, which is missing. Install it: pip install 'hopbudget[local]'",
        Exit.ENVIRONMENT,
    ) from error

from hopbudget.store.magic import is_duckdb
from hopbudget.store.spool import spool_folder

_processor: SpoolProcessor | None = None
_private: TracerProvider | None = None
_lock = threading.RLock()


def init(
    store: str | os.PathLike[str] = "traces.duckdb",
    *,
    tokenizer: Callable[[str], int] | None = None,
    service: str | None = None,
) -> None:
    """Record trajectories of this process into a local store.

    A TracerProvider that is already set goes on as it was and feeds the store too; otherwise one is set. `tokenizer`
    counts the tokens of a text, for streams whose provider states no usage; the text is not kept. `service` names the
    process in the store, if no TracerProvider was set. Calling it again moves on to the store then given. Raises
    UserError if the TracerProvider in use takes no span processors. A file in the store's place that is no DuckDB file
    is told in the log `hopbudget`: spans are kept in the spool beside it, until a store can be there.
    """
    folder = spool_folder(Path(store).absolute())
    _warn_of_another_file(Path(store).absolute(), folder)
    with _lock:
        scope.setup.tokenizer = tokenizer
        home.settle(os.environ)
        if _private is not None:
            _go_public(_private)
        if _processor is None:
            processor = SpoolProcessor(folder)
            _add(processor, service)
            _keep(processor)
        elif _processor.spool.folder != folder:
            _processor.move(folder)


def begin_private(store: Path, service: str | None) -> None:
    """As `init`, but with a TracerProvider that only capture of ours knows, so that the program may still set one."""
    global _private  # noqa: PLW0603
    with _lock:
        if _processor is not None:
            return
        processor = SpoolProcessor(spool_folder(store.absolute()))
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            _private = TracerProvider(resource=_resource(service), shutdown_on_exit=False)
            _private.add_span_processor(AdoptingProcessor())
            _private.add_span_processor(processor)
            scope.setup.provider = _private
        else:
            _add(processor, None)
        _keep(processor)


def leave_private(provider: trace.TracerProvider) -> None:
    """The program set this TracerProvider: from now on it feeds the store, where `begin_private` had to do."""
    global _private  # noqa: PLW0603
    with _lock:
        add: Any = getattr(provider, "add_span_processor", None)
        if _private is None or _processor is None or add is None or trace.get_tracer_provider() is not provider:
            return
        if provider is not _private:
            add(AdoptingProcessor())
            add(_processor)
        _private = scope.setup.provider = None


def _warn_of_another_file(store: Path, folder: Path) -> None:
    """Say at the start what would else be found out when the store is read."""
    try:
        other = store.exists() and not is_duckdb(store)
    except OSError:
        return  # not ours to read; whoever reads the store will see
    if other:
        logging.getLogger("hopbudget").warning(
            "%s is no DuckDB file, so it can't be the store. Spans are kept in %s meanwhile: name another store, or "
            "move that file away, and they are read from there.",
            store,
            folder,
        )


def _go_public(private: TracerProvider) -> None:
    """The program asks for the local store itself, and with it for a TracerProvider that everybody knows."""
    global _private  # noqa: PLW0603
    _private = scope.setup.provider = None
    trace.set_tracer_provider(private)


def _keep(processor: SpoolProcessor) -> None:
    global _processor  # noqa: PLW0603 - one spool a process
    _processor = processor
    atexit.register(_at_exit)
    _flush_on_sigterm()
    _flush_in_workers()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_flush_in_workers)


def processor() -> AdoptingProcessor:
    """A span processor for a TracerProvider of your own, which `init` adds by itself.

    It takes the model calls that other GenAI instrumentations record inside a trajectory as its hops.
    """
    return AdoptingProcessor()


def flush() -> int:
    """Write every span that has ended, and return how many were written since the last flush; 0 before `init`."""
    garbage.settle()
    return 0 if _processor is None else _processor.flush()


def _resource(service: str | None) -> Resource:
    return Resource.create({SERVICE_NAME: service} if service else None)


def _add(processor: SpoolProcessor, service: str | None) -> None:
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider):
        provider = TracerProvider(resource=_resource(service))
        provider.add_span_processor(AdoptingProcessor())
        provider.add_span_processor(processor)
        trace.set_tracer_provider(provider)
        return
    add: Any = getattr(provider, "add_span_processor", None)
    if add is None:
        raise UserError(
            f"the TracerProvider in use ({type(provider).__qualname__}) takes no span processors; "
            "set the SDK's, or call hopbudget.init before it is set",
            Exit.ENVIRONMENT,
        )
    add(AdoptingProcessor())
    add(processor)


def _at_exit() -> None:
    if _processor is not None:
        scope.end_open()
        _processor.flush(EXIT_WAIT_S)


def _flush_on_sigterm() -> None:
    """Flush when the process is told to end, then let happen what would have happened."""
    if threading.current_thread() is not threading.main_thread():
        return
    before = signal.getsignal(signal.SIGTERM)
    if before is not signal.SIG_DFL and not callable(before):
        return  # ignored, or set by something that is not Python

    def handle(number: int, frame: FrameType | None) -> None:
        if callable(before):
            # It may end the process at once, or let it finish its work first; the exit ends what is open.
            flush_in_time()
            before(number, frame)
            return
        # This thread may hold any lock, so another one writes, and then sends the signal again.
        signal.signal(number, signal.SIG_DFL)
        threading.Thread(target=finish, args=(number,), name="hopbudget-sigterm", daemon=True).start()

    def finish(number: int) -> None:
        try:
            _at_exit()
        finally:
            os.kill(os.getpid(), number)

    def flush_in_time() -> None:
        if _processor is not None:
            _processor.flush(EXIT_WAIT_S)

    signal.signal(signal.SIGTERM, handle)


def _flush_in_workers() -> None:
    """Have workers of multiprocessing flush: they end without atexit, and only its own finalizers run."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None and _processor is not None:
        util.register_after_fork(_processor, lambda _: util.Finalize(None, _at_exit, exitpriority=0))
