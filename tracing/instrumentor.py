"""For `opentelemetry-instrument`: the class it looks for under an entry point, without its base class's package.

It is what `opentelemetry.instrumentation.instrumentor.BaseInstrumentor` asks of its subclasses: one object, and
`instrument`, `uninstrument` and `instrumentation_dependencies` of it.
"""

from collections.abc import Collection
from typing import Any

from opentelemetry.trace import TracerProvider

from hopbudget.tracing import clients, scope


class HopbudgetInstrumentor:
    """Makes every model call of the known clients a hop; `tracer_provider` is used in place of the global one."""

    _only: "HopbudgetInstrumentor | None" = None

    def __new__(cls) -> "HopbudgetInstrumentor":  # noqa: D102
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    @property
    def is_instrumented_by_opentelemetry(self) -> bool:
        """Whether the clients are instrumented."""
        return clients.is_instrumented()

    def instrumentation_dependencies(self) -> Collection[str]:
        """None: a client that is not installed, or of a version that is not known, is let be."""
        return ()

    def instrument(
        self, *, tracer_provider: TracerProvider | None = None, include_usage: bool | None = None, **_: Any
    ) -> None:
        """As `hopbudget.instrument`."""
        if tracer_provider is not None:
            scope.setup.provider = tracer_provider
        clients.instrument(include_usage=include_usage)

    def uninstrument(self, **_: Any) -> None:
        """As `hopbudget.uninstrument`."""
        clients.uninstrument()
