"""What runs now, and what the recorder was set up with.

The place in the trajectory travels inside OpenTelemetry's own context, so whatever carries that over to a task or a
thread carries ours too.
"""

import atexit
import os
from _thread import get_ident
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from opentelemetry import trace
from opentelemetry.context import Context, set_value
from opentelemetry.trace import (
    NonRecordingSpan,
    NoOpTracer,
    ProxyTracerProvider,
    Span,
    SpanContext,
    Tracer,
    TracerProvider,
    get_current_span,
    get_tracer_provider,
    set_span_in_context,
)

from hopbudget.tracing import garbage
from hopbudget.tracing.clock import Clock
from hopbudget.tracing.vocabulary import SCOPE_NAME

if TYPE_CHECKING:
    from hopbudget.tracing.blocks import Block, TrajectoryBlock
    from hopbudget.tracing.deadline import Deadline

_HAS_VARIABLE: Final = hasattr(trace, "_TRACER_PROVIDER")
"""Whether the API's own variable can be read: its function reads the environment each time nothing is set."""
PLACE: Final = "hopbudget-place"
"""Key, in OpenTelemetry's context, of the innermost open trajectory or hop."""
DEADLINE: Final = "hopbudget-deadline"
"""Key, in OpenTelemetry's context, of the innermost deadline."""


def _homeless() -> None:
    return None


class _Setup:
    """What `configure` sets; one per process."""

    __slots__ = ("clock", "errors", "home", "home_deadline", "known", "limited", "provider", "tokenizer", "tracer")

    def __init__(self) -> None:
        self.clock = Clock()
        self.tokenizer: Callable[[str], int] | None = None
        self.provider: TracerProvider | None = None
        self.known: TracerProvider | None = None
        self.tracer: Tracer | None = None
        self.home: Callable[[], SpanContext | None] = _homeless
        self.home_deadline: Callable[[], Deadline | None] | None = None
        """Finds the deadline of what nothing encloses in this process."""
        self.errors = 0
        self.limited = False
        """Whether a deadline or a limit was ever given in this process. While none was, nobody looks for one."""


setup: Final = _Setup()

open_blocks: Final[dict[int, "Block"]] = {}
"""Everything begun and not yet ended, so that the process's exit can end it. What a forked child inherits is its
parent's to end."""
open_trajectories: Final[dict[int, "TrajectoryBlock"]] = {}
"""The trajectories among them."""


def forget_open() -> None:
    """Let go of what is open: it goes on as it was, and leaves no span of its own."""
    for block in open_blocks.values():
        for known in (block, *getattr(block, "visits", ())):
            known.span = NonRecordingSpan(known.span.get_span_context())
    open_blocks.clear()
    open_trajectories.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_open)


def configure(
    *,
    clock: Clock | None = None,
    tokenizer: Callable[[str], int] | None = None,
    provider: TracerProvider | None = None,
) -> None:
    """Set the recorder up: its clocks, the user's tokenizer, and a TracerProvider in place of the global one."""
    setup.clock = clock or Clock()
    setup.tokenizer = tokenizer
    setup.provider = provider
    setup.home = _homeless


def tracer() -> Tracer | None:
    """Where spans are started; None while nobody set a TracerProvider, or it is disabled: then nothing is recorded."""
    provider = setup.provider or getattr(trace, "_TRACER_PROVIDER", None)
    if provider is None:
        if _HAS_VARIABLE and isinstance(setup.known, ProxyTracerProvider):
            return None
        provider = get_tracer_provider()
    if provider is not setup.known:
        found = None if isinstance(provider, ProxyTracerProvider) else provider.get_tracer(SCOPE_NAME)
        setup.tracer = None if isinstance(found, NoOpTracer) else found
        setup.known = provider
        _begin_to_record()
    return setup.tracer


def _span_key() -> str | None:
    span = NonRecordingSpan(SpanContext(1, 1, is_remote=False))
    made = set_span_in_context(span, Context())
    return next((key for key, value in made.items() if value is span and len(made) == 1), None)


_SPAN: Final = _span_key()
"""Key, in OpenTelemetry's context, of the current span; None if that is kept in another way."""


def with_span(span: Span, parent: Context) -> Context:
    """The context with this span as the current one; nobody else's yet.

    The API's own function makes two copies.
    """
    if _SPAN is None:
        return set_span_in_context(span, parent)
    context = Context(parent)
    dict.__setitem__(context, _SPAN, span)
    return context


def _begin_to_record() -> None:
    garbage.listen()
    # Later than the provider's own, so it runs before that. Once is enough, and it is not kept twice.
    atexit.unregister(end_open)
    atexit.register(end_open)


def sheltered(context: Context) -> Context:
    """The context, or, where nothing is open in it, one in the trajectory that what starts now can belong to.

    Threads inherit no context; what another thread begins belongs to the trajectory that is open, if it is the only
    one. Else there may be one around the whole process.
    """
    if not open_trajectories and setup.home is _homeless:
        return context
    if get_current_span(context).get_span_context().is_valid:
        return context
    if len(open_trajectories) == 1:
        only = next(iter(tuple(open_trajectories.values())), None)
        if only is not None and only.thread != get_ident():
            inside = set_value(PLACE, only, set_span_in_context(only.span, context))
            return inside if only.deadline is None else set_value(DEADLINE, only.deadline, inside)
    home = setup.home()
    return context if home is None else set_span_in_context(NonRecordingSpan(home), context)


def recorder_failed() -> None:
    """Count a failure of the recorder itself; the application must not see it."""
    setup.errors += 1


def recorder_errors() -> int:
    """How often the recorder failed in this process. Each is a bug of ours, or of a tokenizer or span processor."""
    garbage.settle()
    return setup.errors


def end_open() -> int:
    """End every open span, at the last thing seen of it, because the process ends; returns how many there were."""
    blocks = list(open_blocks.values())
    for block in reversed(blocks):
        try:
            block.dropped()
        except Exception:
            recorder_failed()
    garbage.settle(garbage.EXIT_S)
    return len(blocks)
