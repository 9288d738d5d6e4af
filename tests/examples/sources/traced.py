"""`python traced.py SOURCE AGENT`: an agent of `examples`, traced by somebody else's instrumentation over OTLP.

Exporters are set by OpenTelemetry's variables, as in anybody's program. Each function is what a user of that source
writes. `examples` is on the path.
"""

import os
import runpy
import sys
from collections.abc import Callable
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


def provider() -> TracerProvider:
    """One that sends what it gets, as protobuf."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return _sending(OTLPSpanExporter())


def _sending(exporter: Any) -> TracerProvider:
    made = TracerProvider()
    made.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(made)
    return made


def run(agent: str) -> None:
    """Run an agent whose framework makes a span around the whole."""
    runpy.run_module(agent, run_name="__main__")


def run_in_span(agent: str) -> None:
    """Run an agent that has no framework, in a span of its own."""
    with trace.get_tracer("trips").start_as_current_span("day trip"):
        run(agent)


def openinference(agent: str) -> None:
    """OpenInference's instrumentation of the OpenAI client."""
    from openinference.instrumentation.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument(tracer_provider=provider())
    run_in_span(agent)


def json_exporter(agent: str) -> None:
    """The same, exported as JSON."""
    from openinference.instrumentation.openai import OpenAIInstrumentor
    from opentelemetry.exporter.otlp.json.http.trace_exporter import OTLPSpanExporter

    OpenAIInstrumentor().instrument(tracer_provider=_sending(OTLPSpanExporter()))
    run_in_span(agent)


def phoenix(agent: str) -> None:
    """Phoenix's set-up of the same."""
    from phoenix.otel import register

    endpoint = f"{os.environ['OTEL_EXPORTER_OTLP_ENDPOINT']}/v1/traces"
    register(endpoint=endpoint, protocol="http/protobuf", batch=True, auto_instrument=True, verbose=False)
    run_in_span(agent)


def openllmetry(agent: str) -> None:
    """OpenLLMetry's instrumentation of the OpenAI client."""
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument(tracer_provider=provider())
    run_in_span(agent)


def genai(agent: str) -> None:
    """OpenTelemetry's own instrumentation of the OpenAI client."""
    from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument(tracer_provider=provider())
    run_in_span(agent)


def stacked(agent: str) -> None:
    """All three of them on one client."""
    from openinference.instrumentation.openai import OpenAIInstrumentor as OpenInference
    from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor as GenAI
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor as OpenLLMetry

    made = provider()
    for instrumentor in (OpenInference(), GenAI(), OpenLLMetry()):
        instrumentor.instrument(tracer_provider=made)
    run_in_span(agent)


def stacked_pair(agent: str) -> None:
    """OpenLLMetry and OpenInference, only one of which states the response's id."""
    from openinference.instrumentation.openai import OpenAIInstrumentor as OpenInference
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor as OpenLLMetry

    made = provider()
    for instrumentor in (OpenInference(), OpenLLMetry()):
        instrumentor.instrument(tracer_provider=made)
    run_in_span(agent)


def logfire(agent: str) -> None:
    """Logfire, which sends where OpenTelemetry's variables say."""
    import logfire as lf

    lf.configure(send_to_logfire=False, console=False)
    lf.instrument_openai()
    with lf.span("day trip"):
        run(agent)


def langfuse(agent: str) -> None:
    """Langfuse's wrapper of the OpenAI client."""
    from langfuse import Langfuse, observe

    Langfuse(public_key="pk", secret_key="sk", host="http://127.0.0.1:9", tracer_provider=provider())
    import langfuse.openai  # noqa: F401

    observe(name="day trip")(run)(agent)


def pydantic_ai(agent: str) -> None:
    """pydantic-ai's own spans."""
    from pydantic_ai import Agent

    provider()
    Agent.instrument_all()
    run(agent)


def langgraph(agent: str) -> None:
    """OpenInference's instrumentation of LangChain."""
    from openinference.instrumentation.langchain import LangChainInstrumentor

    LangChainInstrumentor().instrument(tracer_provider=provider())
    run(agent)


def openai_agents(agent: str) -> None:
    """OpenInference's instrumentation of the OpenAI Agents SDK."""
    from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

    OpenAIAgentsInstrumentor().instrument(tracer_provider=provider())
    run(agent)


def openai_agents_genai(agent: str) -> None:
    """OpenTelemetry's own instrumentations of the OpenAI Agents SDK and of its client."""
    from agents import set_trace_processors
    from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
    from opentelemetry.instrumentation.genai.openai_agents import OpenAIAgentsInstrumentor

    set_trace_processors([])  # else the SDK sends its own traces to OpenAI
    made = provider()
    OpenAIInstrumentor().instrument(tracer_provider=made)
    OpenAIAgentsInstrumentor().instrument(tracer_provider=made)
    run(agent)


def smolagents(agent: str) -> None:
    """OpenInference's instrumentation of smolagents."""
    from openinference.instrumentation.smolagents import SmolagentsInstrumentor

    SmolagentsInstrumentor().instrument(tracer_provider=provider())
    run(agent)


def litellm(agent: str) -> None:
    """LiteLLM's callback, told which span the calls belong to: it writes from a thread of its own."""
    import litellm as lite

    provider()
    lite.callbacks = ["otel"]
    plain: Callable[..., Any] = lite.completion
    with trace.get_tracer("trips").start_as_current_span("day trip") as span:
        lite.completion = lambda **asked: plain(**asked, metadata={"litellm_parent_otel_span": span})
        run(agent)


def anthropic_client(agent: str) -> None:
    """Spans that Anthropic's client makes itself."""
    provider()
    run_in_span(agent)


def framework(agent: str) -> None:
    """A framework that makes spans of its own with whatever provider is set: ADK, any-agent, LangSmith, Strands."""
    provider()
    run(agent)


adk = any_agent = langsmith = strands = framework


def openai_v2(agent: str) -> None:
    """OpenTelemetry's instrumentation of the OpenAI client under its earlier name."""
    from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor

    OpenAIInstrumentor().instrument(tracer_provider=provider())
    run_in_span(agent)


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2])
