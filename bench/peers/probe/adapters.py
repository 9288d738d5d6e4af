"""How each library is set up, called, and asked what it recorded: its documented way, exports kept in memory."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC
from pathlib import Path
from typing import Any, Final

from bench.peers.probe.records import Record, first_attributes, first_metrics, holds_text, of_span, output_tokens

_HTTP: Final = "instrumentation.httpx"
"""Scope of spans of the HTTP client, which some libraries instrument as well."""


class Adapter:
    """A library in this process. `metrics`: also give it a MeterProvider, where it takes the global one."""

    variant = ""
    """Which of several ways of use was taken."""

    def __init__(self, *, metrics: bool) -> None:
        self.spans: list[Any] = []
        self.reader: Any = None
        self.flush: Callable[[], Any] = lambda: None
        self.metrics = metrics
        self.start()

    def start(self) -> None:
        """Set the library up."""

    def open(self, create: Callable[..., Any], **asked: Any) -> Any:
        """Make one call as the application would; `create` is a method of the client, sync or async."""
        return create(**asked)

    def isolated(self) -> AbstractContextManager[Any]:
        """A scope for one request, where the library's own context is more than context variables."""
        return nullcontext()

    def take(self) -> list[Record]:
        """What was recorded since the last time, and forget it."""
        self.flush()
        taken = [of_span(span) for span in self.spans if _HTTP not in span.instrumentation_scope.name]
        self.spans.clear()
        return taken

    def first_metrics(self) -> dict[str, float]:
        """First-token metrics, by name."""
        return first_metrics(self.reader) if self.reader is not None else {}

    def keep_global(self) -> Any:
        """Set the global providers: spans, and metrics if wanted, are kept in memory."""
        from opentelemetry import metrics, trace
        from opentelemetry.sdk.trace import TracerProvider

        provider = TracerProvider()
        provider.add_span_processor(keeper(self.spans))
        trace.set_tracer_provider(provider)
        if self.metrics:
            from opentelemetry.sdk.metrics import MeterProvider

            self.reader = delta_reader()
            metrics.set_meter_provider(MeterProvider([self.reader]))
        return provider

    def left_attached(self) -> bool:
        """Whether a span begun now, outside of any call, would become the child of one of the library's."""
        from opentelemetry import trace

        return bool(trace.get_current_span().get_span_context().is_valid)


def keeper(kept: list[Any]) -> Any:
    """A span processor that keeps ended spans in a list, on the thread that ends them."""
    from opentelemetry.sdk.trace import SpanProcessor

    class Keep(SpanProcessor):
        def on_end(self, span: Any) -> None:
            kept.append(span)

    return Keep()


def delta_reader() -> Any:
    """A metric reader that gives what was recorded since it was read last."""
    from opentelemetry.sdk.metrics import Histogram
    from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader

    return InMemoryMetricReader(preferred_temporality={Histogram: AggregationTemporality.DELTA})


def exporter(kept: list[Any]) -> Any:
    """A span exporter that keeps spans in a list."""
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class KeepExporter(SpanExporter):
        def __init__(self, *_: Any, **__: Any) -> None:
            super().__init__()

        def export(self, spans: Any) -> Any:
            kept.extend(spans)
            return SpanExportResult.SUCCESS

        def shutdown(self) -> None:
            pass

    return KeepExporter()


class Bare(Adapter):
    """No library: the client alone."""

    def left_attached(self) -> bool:
        return False


class Hopbudget(Adapter):
    """Ours: `instrument()` where it exists, else one decorated function."""

    def start(self) -> None:
        import hopbudget as hb

        self.keep_global()
        if hasattr(hb, "instrument"):
            self.variant = "set up by `hopbudget.instrument()`"
            hb.instrument()
            return
        self.variant = "set up by `@hopbudget.hop`"

        @hb.hop("probe")
        def call(create: Callable[..., Any], **asked: Any) -> Any:
            return create(**asked)

        self.open = call  # type: ignore[method-assign]


class OtelGenai(Adapter):
    def start(self) -> None:
        from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor

        self.keep_global()
        OpenAIInstrumentor().instrument()


class OtelV2(Adapter):
    def start(self) -> None:
        from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor

        self.keep_global()
        OpenAIInstrumentor().instrument()


class OpenLLMetry(Adapter):
    def start(self) -> None:
        from opentelemetry.instrumentation.openai import OpenAIInstrumentor

        self.keep_global()
        OpenAIInstrumentor().instrument()


class OpenInference(Adapter):
    def start(self) -> None:
        from openinference.instrumentation.openai import OpenAIInstrumentor

        self.keep_global()
        OpenAIInstrumentor().instrument()


class Langfuse(Adapter):
    def start(self) -> None:
        from langfuse import Langfuse

        client = Langfuse(public_key="pk-simulated", secret_key="simulated", span_exporter=exporter(self.spans))
        import langfuse.openai  # noqa: F401 - patches the client

        self.flush = client.flush


class Logfire(Adapter):
    def start(self) -> None:
        import logfire

        logfire.configure(
            send_to_logfire=False,
            console=False,
            inspect_arguments=False,
            additional_span_processors=[keeper(self.spans)],
        )
        logfire.instrument_openai()

    def take(self) -> list[Record]:
        pending = "logfire.span_type"
        self.spans[:] = [span for span in self.spans if span.attributes.get(pending) != "pending_span"]
        return super().take()


class OpenLIT(Adapter):
    def start(self) -> None:
        import openlit

        prices = Path("prices.json")
        prices.write_text("{}")
        self.keep_global()
        openlit.init(pricing_json=str(prices), disable_metrics=not self.metrics, disable_events=True)


class Mlflow(Adapter):
    def start(self) -> None:
        import os

        os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = "http://127.0.0.1:9"
        os.environ.pop("OTEL_EXPORTER_OTLP_ENDPOINT", None)  # metrics would want an exporter as well
        import mlflow
        import mlflow.openai
        from mlflow.tracing import provider

        provider.get_otlp_exporter = lambda: exporter(self.spans)
        mlflow.openai.autolog()

        def flush() -> None:
            if (set_up := provider.provider.get()) is not None:  # it is, from the first span on
                set_up.force_flush()

        self.flush = flush


class Sentry(Adapter):
    def start(self) -> None:
        import sentry_sdk
        from sentry_sdk.integrations.openai import OpenAIIntegration
        from sentry_sdk.transport import Transport

        kept = self.spans

        class Keep(Transport):  # type: ignore[misc]
            def capture_envelope(self, envelope: Any) -> None:
                kept.extend(item.payload.json for item in envelope.items if item.type == "transaction")

        sentry_sdk.init(
            dsn="http://key@127.0.0.1:9/1",
            transport=Keep,
            traces_sample_rate=1.0,
            integrations=[OpenAIIntegration()],
            auto_enabling_integrations=False,
            send_default_pii=True,
        )
        self.flush = sentry_sdk.flush

    def isolated(self) -> AbstractContextManager[Any]:
        import sentry_sdk

        scope: AbstractContextManager[Any] = sentry_sdk.isolation_scope()
        return scope

    def left_attached(self) -> bool:
        import sentry_sdk

        return sentry_sdk.get_current_span() is not None

    def take(self) -> list[Record]:
        self.flush()
        taken = [record for event in self.spans for record in _of_transaction(event)]
        self.spans.clear()
        return taken


def _of_transaction(event: dict[str, Any]) -> list[Record]:
    root = {**event["contexts"]["trace"], "start_timestamp": event["start_timestamp"], "timestamp": event["timestamp"]}
    return [_of_sentry_span(span) for span in [root, *event.get("spans", [])]]


def _of_sentry_span(span: dict[str, Any]) -> Record:
    start_ns, end_ns = (_sentry_ns(span[key]) for key in ("start_timestamp", "timestamp"))
    data = span.get("data", {})
    status = span.get("status")
    bad = status not in {None, "ok"}
    return Record(
        name=str(span.get("description") or span.get("op")),
        start_ns=start_ns,
        end_ns=end_ns,
        status="error" if bad else status or "unset",
        error=status if bad else None,
        tokens=output_tokens(data),
        text_kept=holds_text(data),
        first_s=first_attributes(data, start_ns),
    )


def _sentry_ns(at: Any) -> int:
    from datetime import datetime

    if isinstance(at, (int, float)):
        return int(at * 1e9)
    moment = datetime.fromisoformat(str(at).replace("Z", "+00:00"))
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e9)


class AgentOps(Adapter):
    def start(self) -> None:
        import agentops
        from agentops.sdk import core

        core.AuthenticatedOTLPExporter = lambda *_, **__: exporter(self.spans)
        core.OTLPMetricExporter = lambda *_, **__: None
        self.reader = delta_reader()
        core.PeriodicExportingMetricReader = lambda *_, **__: self.reader
        agentops.init(auto_start_session=False, log_session_replay_url=False)
        self.flush = core.tracer.provider.force_flush


ADAPTERS: Final[dict[str, type[Adapter]]] = {
    "bare": Bare,
    "hopbudget": Hopbudget,
    "otel_genai": OtelGenai,
    "otel_v2": OtelV2,
    "openllmetry": OpenLLMetry,
    "openinference": OpenInference,
    "langfuse": Langfuse,
    "logfire": Logfire,
    "openlit": OpenLIT,
    "mlflow": Mlflow,
    "sentry": Sentry,
    "agentops": AgentOps,
}
