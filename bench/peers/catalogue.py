"""Which libraries are asked, and what each environment has installed."""

from dataclasses import dataclass
from typing import Final

OPENAI: Final = "openai==3.57.0"
OPENAI_2: Final = "openai==2.54.0"
SDK: Final = "opentelemetry-sdk==1.45.2"


@dataclass(frozen=True, slots=True)
class Peer:
    """One library. `packages` are pip requirements; `package` is the one whose version stands in the table."""

    name: str
    title: str
    package: str
    packages: tuple[str, ...]
    remark: str = ""
    """What its set-up here differs in from its documentation, for the page."""
    metrics: bool = False
    """It also records metrics where a MeterProvider is set."""


OURS: Final = Peer("hopbudget", "hopbudget", "hopbudget", ("-e", ".", SDK, OPENAI), metrics=True)

PEERS: Final[tuple[Peer, ...]] = (
    OURS,
    Peer(
        "otel_genai",
        "OpenTelemetry genai-openai",
        "opentelemetry-instrumentation-genai-openai",
        ("opentelemetry-instrumentation-genai-openai==1.3b0", SDK, OPENAI),
        metrics=True,
    ),
    Peer(
        "otel_v2",
        "OpenTelemetry openai-v2",
        "opentelemetry-instrumentation-openai-v2",
        ("opentelemetry-instrumentation-openai-v2==2.4b0", "opentelemetry-util-genai==0.4b0", SDK, OPENAI_2),
        "the predecessor of genai-openai; it imports httpx, which openai 3 no longer brings",
        metrics=True,
    ),
    Peer(
        "openllmetry",
        "OpenLLMetry",
        "opentelemetry-instrumentation-openai",
        ("opentelemetry-instrumentation-openai==0.62.4", SDK, OPENAI),
        metrics=True,
    ),
    Peer(
        "openinference",
        "OpenInference",
        "openinference-instrumentation-openai",
        ("openinference-instrumentation-openai==0.1.66", SDK, OPENAI),
    ),
    Peer("langfuse", "Langfuse", "langfuse", ("langfuse==5.0.4", OPENAI), "its span exporter keeps spans in memory"),
    Peer("logfire", "Logfire", "logfire", ("logfire==5.4.0", OPENAI), "nothing is sent; a span processor reads along"),
    Peer(
        "openlit",
        "OpenLIT",
        "openlit",
        ("openlit==1.45.0", "opentelemetry-sdk==1.45.1", OPENAI_2),
        "it asks for openai below 3; prices come from an empty local file; its HTTP client spans are not counted",
        metrics=True,
    ),
    Peer(
        "mlflow",
        "MLflow",
        "mlflow-tracing",
        ("mlflow-tracing==3.17.2", OPENAI),
        "its OTLP exporter is replaced by one that keeps spans in memory",
    ),
    Peer("sentry", "Sentry", "sentry-sdk", ("sentry-sdk==2.75.0", OPENAI), "its transport keeps envelopes in memory"),
    Peer(
        "agentops",
        "AgentOps",
        "agentops",
        ("agentops==0.4.21", OPENAI),
        "its OTLP exporters are replaced by ones that keep spans and metrics in memory",
    ),
)

SILENT: Final[dict[str, str]] = {
    "DO_NOT_TRACK": "1",
    "TRACELOOP_TELEMETRY": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "LOGFIRE_SEND_TO_LOGFIRE": "false",
    "LOGFIRE_IGNORE_NO_CONFIG": "1",
    "AGENTOPS_LOG_LEVEL": "CRITICAL",
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_LOGS_EXPORTER": "none",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
    "LANGFUSE_BASE_URL": "http://127.0.0.1:9",
    "MLFLOW_TRACKING_URI": "http://127.0.0.1:9",
    "OPENAI_API_KEY": "simulated",
    "PYTHONHASHSEED": "0",
}
"""Opt-outs of the libraries' own telemetry, and addresses that nothing listens on, should one of them send."""
