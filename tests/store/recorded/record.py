"""How the spans in this folder were recorded: real instrumentations, real clients, our simulated endpoint.

    hopbudget endpoint &
    python record.py NAME FILE.pb      in an environment with the packages that NAME needs

    python strip.py FILE.pb NAME.jsonl     where hopbudget is installed

Most recordings are a span `script` with one answer streamed, one not, and one refused. `vercel_ai` and `langgraph` are
the programs of docs/sources/vercel-ai.md and langgraph.md, received by `hopbudget serve`.
"""

import sys
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from openai import OpenAI
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

ENDPOINT = "http://127.0.0.1:8399/v1"
WAIT_S = 30.0
SCRIPT = {"x-hopbudget-ttft": "0.2", "x-hopbudget-tpot": "0.02", "x-hopbudget-tokens": "10"}
ASK: dict[str, Any] = {"model": "sim-small", "messages": [{"role": "user", "content": "Hello"}]}

exporter = InMemorySpanExporter()
provider = TracerProvider(resource=Resource.create({"service.name": "recording"}))
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)


def client() -> OpenAI:
    """A client of the endpoint that does not try again."""
    return OpenAI(base_url=ENDPOINT, api_key="any", max_retries=0)


def stream(tokens: int = 10) -> None:
    """One answer, streamed with its usage and read to the end."""
    headers = SCRIPT | {"x-hopbudget-tokens": str(tokens)} | ({"x-hopbudget-tpot": "0.002"} if tokens > 10 else {})
    for _ in client().chat.completions.create(
        **ASK, stream=True, stream_options={"include_usage": True}, extra_headers=headers
    ):
        pass


def calls() -> None:
    """One answer streamed, one not, one refused."""
    with trace.get_tracer("script").start_as_current_span("script"):
        stream()
        client().chat.completions.create(**ASK, extra_headers=SCRIPT)
        try:
            client().chat.completions.create(**ASK, extra_headers={"x-hopbudget-row": "503"})
        except Exception as error:
            sys.stderr.write(f"refused: {type(error).__name__}\n")


def genai() -> None:
    """opentelemetry-instrumentation-genai-openai."""
    from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument(tracer_provider=provider)
    calls()


def openinference() -> None:
    """openinference-instrumentation-openai."""
    from openinference.instrumentation.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument(tracer_provider=provider)
    calls()


def openllmetry() -> None:
    """opentelemetry-instrumentation-openai; the second trace holds a stream of 300 chunks."""
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument(tracer_provider=provider)
    calls()
    with trace.get_tracer("script").start_as_current_span("script"):
        stream(300)


def stacked() -> None:
    """All three at once."""
    from openinference.instrumentation.openai import OpenAIInstrumentor as Inference
    from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor as GenAI
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor as Traceloop

    for instrumentor in (Inference(), GenAI(), Traceloop()):
        instrumentor.instrument(tracer_provider=provider)
    calls()


def logfire() -> None:
    """logfire.instrument_openai."""
    import logfire as lf

    lf.configure(send_to_logfire=False, console=False, additional_span_processors=[SimpleSpanProcessor(exporter)])
    lf.instrument_openai()
    with lf.span("script"):
        stream()
        client().chat.completions.create(**ASK, extra_headers=SCRIPT)


def pydantic_ai() -> None:
    """pydantic-ai's own spans: an agent that calls a tool and streams its answer."""
    import asyncio

    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    def weather(city: str) -> str:
        """The weather in a city."""
        return "sunny"

    model = OpenAIChatModel("sim-small", provider=OpenAIProvider(base_url=ENDPOINT, api_key="any"))
    agent = Agent(model, tools=[weather], name="day_trips")
    Agent.instrument_all()

    async def run() -> None:
        async with agent.run_stream("Where to go?") as result:
            async for _ in result.stream_text():
                pass

    asyncio.run(run())


def openai_agents() -> None:
    """The OpenAI Agents SDK with the official GenAI instrumentation of its client."""
    import asyncio

    from agents import Agent, Runner, function_tool, set_default_openai_client, set_tracing_disabled
    from openai import AsyncOpenAI
    from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument(tracer_provider=provider)
    set_tracing_disabled(True)
    set_default_openai_client(AsyncOpenAI(base_url=ENDPOINT, api_key="any"))

    @function_tool
    def weather(city: str) -> str:
        """The weather in a city."""
        return "sunny"

    async def run() -> None:
        with trace.get_tracer("script").start_as_current_span("script"):
            result = Runner.run_streamed(Agent(name="day trips", model="sim-small", tools=[weather]), "Where to go?")
            async for _ in result.stream_events():
                pass

    asyncio.run(run())


def openai_agents_genai() -> None:
    """The OpenAI Agents SDK with the official instrumentations of itself and of its client."""
    import asyncio

    from agents import Agent, Runner, function_tool, set_default_openai_client
    from openai import AsyncOpenAI
    from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
    from opentelemetry.instrumentation.genai.openai_agents import OpenAIAgentsInstrumentor

    OpenAIInstrumentor().instrument(tracer_provider=provider)
    OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)
    set_default_openai_client(AsyncOpenAI(base_url=ENDPOINT, api_key="any"), use_for_tracing=False)

    @function_tool
    def weather(city: str) -> str:
        """The weather in a city."""
        return "sunny"

    async def run() -> None:
        result = Runner.run_streamed(Agent(name="day trips", model="sim-small", tools=[weather]), "Where to go?")
        async for _ in result.stream_events():
            pass

    asyncio.run(run())


def strands() -> None:
    """Strands Agents."""
    from strands import Agent, tool
    from strands.models.openai import OpenAIModel
    from strands.telemetry import StrandsTelemetry

    StrandsTelemetry(tracer_provider=provider)

    @tool
    def weather(city: str) -> str:
        """The weather in a city."""
        return "sunny"

    model = OpenAIModel(client_args={"base_url": ENDPOINT, "api_key": "any"}, model_id="sim-small")
    Agent(model=model, tools=[weather], name="day trips", callback_handler=None)("Where to go?")


def langfuse() -> None:
    """Langfuse's own wrapper of the OpenAI client, and its decorator."""
    from langfuse import Langfuse, observe
    from langfuse.openai import OpenAI as Wrapped

    Langfuse(public_key="pk", secret_key="sk", host="http://127.0.0.1:9", tracer_provider=provider)

    @observe(name="script")
    def script() -> None:
        wrapped = Wrapped(base_url=ENDPOINT, api_key="any", max_retries=0)
        stream = wrapped.chat.completions.create(
            **ASK, stream=True, stream_options={"include_usage": True}, extra_headers=SCRIPT
        )
        for _ in stream:
            pass
        wrapped.chat.completions.create(**ASK, extra_headers=SCRIPT)

    script()


class Ended(SpanProcessor):
    """The spans that end, as they do."""

    def __init__(self) -> None:
        self.spans: SimpleQueue[ReadableSpan] = SimpleQueue()

    def on_end(self, span: ReadableSpan) -> None:
        """Tell whoever waits for it."""
        self.spans.put(span)


def litellm() -> None:
    """litellm's OpenTelemetry callback, which runs in a thread."""
    import litellm as lite
    from litellm.integrations.opentelemetry import OpenTelemetry, OpenTelemetryConfig

    ended = Ended()
    provider.add_span_processor(ended)
    lite.callbacks = [OpenTelemetry(config=OpenTelemetryConfig(exporter=exporter), tracer_provider=provider)]
    with trace.get_tracer("script").start_as_current_span("script"):
        given = {"api_base": ENDPOINT, "api_key": "any", "extra_headers": SCRIPT}
        messages = ASK["messages"]
        for _ in lite.completion("openai/sim-small", messages, stream=True, **given):
            pass
        lite.completion("openai/sim-small", messages, **given)
        raw = 0
        while raw < 2:  # one a call, and the last that is made of it
            raw += ended.spans.get(timeout=WAIT_S).name == "raw_gen_ai_request"


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    provider.force_flush()
    spans = exporter.get_finished_spans()
    Path(sys.argv[2]).write_bytes(encode_spans(spans).SerializeToString())
    for span in spans:
        scope = span.instrumentation_scope.name if span.instrumentation_scope else ""
        sys.stdout.write(f"{scope} | {span.name} | {((span.end_time or 0) - (span.start_time or 0)) / 1e9:.3f} s\n")
