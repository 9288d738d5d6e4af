"""What runs now, and what the recorder was set up with.

The place in the trajectory travels inside OpenTelemetry's own context, so whatever carries that over to a task or a
thread carries ours too.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from opentelemetry.trace import NoOpTracer, ProxyTracerProvider, Tracer, TracerProvider, get_tracer_provider

from hopbudget.tracing.clock import Clock
from hopbudget.tracing.vocabulary import SCOPE_NAME

if TYPE_CHECKING:
    from hopbudget.tracing.blocks import Block

PLACE: Final = "hopbudget-place"
"""Key, in OpenTelemetry's context, of the innermost open trajectory or hop."""


class _Setup:
    """What `configure` sets; one per process."""

    __slots__ = ("clock", "errors", "known", "provider", "tokenizer", "tracer")

    def __init__(self) -> None:
        self.clock = Clock()
        self.tokenizer: Callable[[str], int] | None = None
        self.provider: TracerProvider | None = None
        self.known: TracerProvider | None = None
        self.tracer: Tracer | None = None
        self.errors = 0


setup: Final = _Setup()

open_blocks: Final[dict[int, "Block"]] = {}
"""Everything begun and not yet ended, so that the process's exit can end it. What a forked child inherits is its
parent's to end."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=open_blocks.clear)


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


def tracer() -> Tracer | None:
    """Where spans are started; None while nobody set a TracerProvider, or it is disabled: then nothing is recorded."""
    provider = setup.provider or get_tracer_provider()
    if provider is not setup.known:
        found = None if isinstance(provider, ProxyTracerProvider) else provider.get_tracer(SCOPE_NAME)
        setup.tracer = None if isinstance(found, NoOpTracer) else found
        setup.known = provider
    return setup.tracer


def recorder_failed() -> None:
    """Count a failure of the recorder itself; the application must not see it."""
    setup.errors += 1


def recorder_errors() -> int:
    """How often the recorder failed in this process. Each is a bug of ours, or of a tokenizer or span processor."""
    return setup.errors


def end_open() -> int:
    """End every open span, at the last thing seen of it, because the process ends; returns how many there were."""
    blocks = list(open_blocks.values())
    for block in reversed(blocks):
        try:
            block.dropped()
        except Exception:
            recorder_failed()
    return len(blocks)
