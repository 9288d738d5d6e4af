"""What each source of spans calls things: one table, a row a source.

A source is told by its instrumentation scope, else by an attribute that only it writes. Its row says which spans are
model calls, tools, agents and stages, where the time to the first chunk stands and in which unit, and the names that
it has besides those of the GenAI conventions, which every source may use. `shapes` reads the table.
"""

import re
from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final, NamedTuple

from hopbudget.tracing import vocabulary as v


class Kind(Enum):
    """What a span is to us."""

    AGENT = auto()
    """An agent or workflow run: the topmost one is the trajectory."""
    CHAIN = auto()
    """A named stage around hops: it gives foreign hops their name."""
    HOP = auto()
    TOOL = auto()
    PAUSE = auto()
    ENGINE = auto()
    """The inference server's own account of a call: a part of the hop that asked for it."""
    TAIL = auto()
    """A record of how a stream ended, beside the span of its call."""
    ASIDE = auto()
    """Neither a call nor work: a copy of another span, or a server's message to its client."""
    OTHER = auto()


class Tell(NamedTuple):
    """An attribute that says what a span is, by its value."""

    marker: str
    kinds: Mapping[str, Kind]
    default: Kind | None = None
    """For other values than false; None leaves it to the next one."""


class Unit(Enum):
    """How a time to the first chunk is written."""

    S = auto()
    MS = auto()
    US = auto()
    NS = auto()
    FITTING = auto()
    """The largest of s, ms and us with which it lies within the span: sources of this name disagree."""
    INSTANT = auto()
    """The moment itself; the span's start comes off."""
    EVENT = auto()
    """The first event of this name; not where events were dropped, for those are the first ones."""


class First(NamedTuple):
    """Where the time to the first chunk stands."""

    name: str
    unit: Unit


class Dialect(NamedTuple):
    """One source."""

    name: str
    scopes: tuple[str, ...] = ()
    """Names of instrumentation scopes; one that ends with `*` is the beginning of several."""
    marks: tuple[str, ...] = ()
    """Attributes that tell it where the scope doesn't."""
    tells: tuple[Tell, ...] = ()
    """Asked before those of all sources."""
    names: tuple[tuple[re.Pattern[str], Kind], ...] = ()
    """What a span is by its own name; asked before the attributes."""
    plumbing: re.Pattern[str] | None = None
    """Names of stages that are the framework's own: they give no hop its name."""
    first: tuple[First, ...] = ()
    """Looked at before those of all sources."""
    fields: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """Names for `FIELDS` that come before the common ones."""
    input_besides: tuple[str, ...] = ()
    """Input tokens that its input count leaves out."""
    usage: str | None = None
    """An attribute with a JSON object of token counts."""
    parameters: str | None = None
    """An attribute with a JSON object of the request's parameters."""
    endless: re.Pattern[str] | None = None
    """Names of spans that begin with a call and end with the whole run."""
    streams: tuple[str, str] | None = None
    """An attribute and the end of its value that say that a call streamed."""
    verified: str | None = None
    """What the row was checked against; None if nothing recorded was at hand."""


_PLAN: Final = "plan"
OPERATIONS: Final = {
    v.CHAT: Kind.HOP,
    "generate_content": Kind.HOP,
    "text_completion": Kind.HOP,
    "call_llm": Kind.HOP,
    v.INVOKE_AGENT: Kind.AGENT,
    v.INVOKE_WORKFLOW: Kind.AGENT,
    _PLAN: Kind.CHAIN,
    "invoke_node": Kind.CHAIN,
    v.EXECUTE_TOOL: Kind.TOOL,
    "embeddings": Kind.TOOL,
    "retrieval": Kind.TOOL,
}
"""By `gen_ai.operation.name`; a value that is not here leaves it to what else the span carries."""
_OPENINFERENCE: Final = {
    "LLM": Kind.HOP,
    "AGENT": Kind.AGENT,
    "CHAIN": Kind.CHAIN,
    "TOOL": Kind.TOOL,
    "RETRIEVER": Kind.TOOL,
    "EMBEDDING": Kind.TOOL,
    "RERANKER": Kind.TOOL,
}
_LANGFUSE: Final = {
    "generation": Kind.HOP,
    "agent": Kind.AGENT,
    "span": Kind.CHAIN,
    "chain": Kind.CHAIN,
    "tool": Kind.TOOL,
    "retriever": Kind.TOOL,
    "embedding": Kind.TOOL,
}
_LANGSMITH: Final = {
    "llm": Kind.HOP,
    "chain": Kind.CHAIN,
    "tool": Kind.TOOL,
    "retriever": Kind.TOOL,
    "embedding": Kind.TOOL,
}
_TRACELOOP: Final = {"workflow": Kind.AGENT, "agent": Kind.AGENT, "task": Kind.CHAIN, "tool": Kind.TOOL}
_REQUEST_TYPES: Final = {"chat": Kind.HOP, "completion": Kind.HOP, "embedding": Kind.TOOL, "rerank": Kind.TOOL}
_VERCEL: Final = {
    f"ai.{verb}{what}{inner}": Kind.HOP if inner else Kind.AGENT
    for verb, do in (("generate", ".doGenerate"), ("stream", ".doStream"))
    for what in ("Text", "Object")
    for inner in ("", do)
} | {"ai.toolCall": Kind.TOOL, "ai.embed": Kind.TOOL, "ai.embedMany": Kind.TOOL}
_CLAUDE_CODE: Final = {
    "interaction": Kind.AGENT,
    "llm_request": Kind.HOP,
    "tool": Kind.TOOL,
    "tool.execution": Kind.ASIDE,  # the part of a tool's span after its permission
    "tool.blocked_on_user": Kind.PAUSE,
}
_ENGINE_MARKS: Final = ("gen_ai.latency.e2e", "gen_ai.latency.time_in_queue", "gen_ai.latency.time_to_first_token")

ALL_TELLS: Final = (
    Tell(v.OPERATION, OPERATIONS),
    Tell("openinference.span.kind", _OPENINFERENCE),
    Tell(v.TOOL_NAME, {}, Kind.TOOL),
    Tell("langfuse.observation.type", _LANGFUSE),
    Tell("langsmith.span.kind", _LANGSMITH),
    Tell("ai.operationId", _VERCEL),
    Tell("llm.request.type", _REQUEST_TYPES),
    Tell("traceloop.span.kind", _TRACELOOP),
)
"""Asked of every span, whatever its source: the first that knows the value says what it is."""
OURS: Final = (Tell(v.PAUSE, {}, Kind.PAUSE), Tell(v.HOLDS_HOPS, {}, Kind.CHAIN), Tell(v.HOP, {}, Kind.HOP))
"""Asked before all others."""

ALL_FIRST: Final = (
    First(v.TIME_TO_FIRST_CHUNK, Unit.S),
    First("gen_ai.client.operation.time_to_first_chunk", Unit.S),
    First("gen_ai.server.time_to_first_token", Unit.FITTING),
    First("gen_ai.response.time_to_first_token", Unit.FITTING),
    First("llm.time_to_first_token", Unit.FITTING),
    First("langfuse.observation.completion_start_time", Unit.INSTANT),
    First("First Token Stream Event", Unit.EVENT),
    First("gen_ai.content.completion.chunk", Unit.EVENT),
    First("llm.content.completion.chunk", Unit.EVENT),
    First("gen_ai.content.chunk", Unit.EVENT),
    First("first_token", Unit.EVENT),
    First("llm.first_token", Unit.EVENT),
)
"""Looked at in every span, in this order."""

FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "model": (v.RESPONSE_MODEL, v.REQUEST_MODEL, "llm.model_name"),
    "input_tokens": (v.INPUT_TOKENS, "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
    "output_tokens": (v.OUTPUT_TOKENS, "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
    "cached_tokens": (
        v.CACHED_TOKENS,
        "gen_ai.usage.cache_read_input_tokens",
        "llm.token_count.prompt_details.cache_read",
    ),
    "reasoning_tokens": (
        v.REASONING_TOKENS,
        "gen_ai.usage.reasoning_tokens",
        "gen_ai.usage.details.reasoning_tokens",
        "llm.token_count.completion_details.reasoning",
    ),
    "stream": (v.REQUEST_STREAM, "gen_ai.is_streaming", "llm.is_streaming"),
    "finish_reasons": (
        *(v.FINISH_REASONS, "gen_ai.completion.0.finish_reason", "llm.response.finish_reason", "llm.finish_reason"),
    ),
    "session": (v.CONVERSATION_ID, "session.id"),
    "agent": (v.AGENT_NAME, "gen_ai.workflow.name", "agent.name", "traceloop.entity.name", "traceloop.workflow.name"),
    "workload": ("langfuse.trace.name", "ai.telemetry.functionId"),
    "tool": (v.TOOL_NAME, "tool.name", "ai.toolCall.name"),
    "level": ("langfuse.observation.level",),
    "hop": (),
}
"""The names under which each fact is found, newest first."""

_LANGCHAIN: Final = re.compile(
    r"Runnable\w*(<.*>)?|Channel(Write|Read)<.*|Branch<.*|LangGraph|__\w+__|\w*Prompt(Template|Value)?|prompt"
    r"|\w+Parser|\w+\.workflow"
)
_STEPS: Final = re.compile(r"turn|Step \d+|Agent [Ww]orkflow")
_BEEAI: Final = re.compile(r"agent\.\w+\.\w+-\d+|iteration-\d+")

LITELLM_CALL: Final = "litellm.call_id"
"""LiteLLM writes what it knows of a call on the span around it too, whosever that is."""

DIALECTS: Final = (
    Dialect("hopbudget", scopes=("hopbudget.*",), marks=(v.OUTCOME, v.HOP), verified="its own tests"),
    Dialect(
        "vLLM",
        scopes=("vllm.*",),
        tells=(Tell("gen_ai.latency.e2e", {}, Kind.ENGINE), Tell("gen_ai.latency.time_in_queue", {}, Kind.ENGINE)),
        names=((re.compile("llm_request"), Kind.ENGINE),),
    ),
    Dialect(
        "SGLang, TensorRT-LLM",
        scopes=("sglang*", "tensorrt_llm*"),
        marks=_ENGINE_MARKS,
        tells=tuple(Tell(mark, {}, Kind.ENGINE) for mark in _ENGINE_MARKS),
    ),
    Dialect(
        "smolagents (OpenInference)",
        scopes=("openinference.instrumentation.smolagents",),
        plumbing=_STEPS,
        parameters="llm.invocation_parameters",
        verified="strands-evals/smolagents_live_spans.json",
    ),
    Dialect(
        "OpenAI Agents (OpenInference)",
        scopes=("openinference.instrumentation.openai_agents",),
        plumbing=_STEPS,
        fields={"agent": ("graph.node.id",)},
        parameters="llm.invocation_parameters",
        verified="strands-evals/openai_agents_openinference_live_spans.json",
    ),
    Dialect(
        "BeeAI (OpenInference)",
        scopes=("openinference.instrumentation.beeai",),
        # Each event is a span: that of a call's start stands for the call.
        names=((re.compile(r"[\w.]+\.(success|finish|error|update|partial_update)-\d+"), Kind.ASIDE),),
        plumbing=_BEEAI,
        parameters="llm.invocation_parameters",
        endless=re.compile(r"[\w.]+\.start-\d+"),
        verified="langfuse/beeai-2025-08-01.trace.json",
    ),
    Dialect(
        "OpenInference",
        scopes=("openinference.*",),
        marks=("openinference.span.kind",),
        tells=(Tell("openinference.span.kind", _OPENINFERENCE),),
        plumbing=re.compile(f"{_LANGCHAIN.pattern}|{_BEEAI.pattern}"),
        first=(First("First Token Stream Event", Unit.EVENT),),
        parameters="llm.invocation_parameters",
        verified="recorded/openinference.jsonl, recorded/langgraph.jsonl",
    ),
    Dialect(
        "OpenAI Agents (OpenTelemetry)",
        scopes=(
            "opentelemetry.instrumentation.genai.openai_agents*",
            "opentelemetry.instrumentation.openai_agents_v2*",
        ),
        verified="recorded/openai_agents_genai.jsonl",
    ),
    Dialect(
        "OpenAI Agents (OpenLLMetry)",
        scopes=("opentelemetry.instrumentation.openai_agents",),
        plumbing=_STEPS,
        verified="strands-evals/openai_agents_genai_live_spans.json",
    ),
    Dialect(
        "OpenTelemetry GenAI",
        scopes=("opentelemetry.instrumentation.genai.*", "opentelemetry.util.genai*"),
        first=(
            First(v.TIME_TO_FIRST_CHUNK, Unit.S),
            First("gen_ai.response.time_to_first_token", Unit.NS),  # LoongSuite's, under this scope
        ),
        verified="recorded/genai.jsonl",
    ),
    Dialect(
        "OpenTelemetry GenAI, older names",
        scopes=(
            "opentelemetry.instrumentation.openai_v2*",
            "opentelemetry.instrumentation.google_genai*",
            "opentelemetry.instrumentation.botocore*",
        ),
        verified="recorded/trip_openai_v2_openai.jsonl",
    ),
    Dialect(
        "LiteLLM",
        scopes=("litellm*",),
        marks=(LITELLM_CALL,),
        names=((re.compile("litellm_request|raw_gen_ai_request"), Kind.HOP),),
        fields={"model": (v.RESPONSE_MODEL, v.REQUEST_MODEL, "llm.openai.model", "llm.anthropic.model")},
        verified="recorded/litellm.jsonl",
    ),
    Dialect(
        "OpenLLMetry",
        scopes=(
            *("opentelemetry.instrumentation.openai.*", "opentelemetry.instrumentation.anthropic*"),
            *("opentelemetry.instrumentation.langchain*", "opentelemetry.instrumentation.llamaindex*"),
            *("opentelemetry.instrumentation.bedrock*", "opentelemetry.instrumentation.cohere*"),
            *("opentelemetry.instrumentation.mistralai*", "opentelemetry.instrumentation.ollama*"),
            *("opentelemetry.instrumentation.groq*", "opentelemetry.instrumentation.google_generativeai*"),
            "traceloop.*",
        ),
        marks=("traceloop.span.kind", "traceloop.workflow.name", "traceloop.entity.name", "llm.request.type"),
        plumbing=_LANGCHAIN,
        first=(First("gen_ai.content.completion.chunk", Unit.EVENT), First("llm.content.completion.chunk", Unit.EVENT)),
        verified="recorded/openllmetry.jsonl",
    ),
    Dialect(
        "pydantic-ai",
        scopes=("pydantic-ai", "pydantic_ai*"),
        tells=(Tell(v.OPERATION, OPERATIONS), Tell(v.TOOL_NAME, {}, Kind.TOOL), Tell("agent_name", {}, Kind.AGENT)),
        names=((re.compile(r"running tools?: .*"), Kind.TOOL), (re.compile(r"running \d+ tools?"), Kind.OTHER)),
        fields={"agent": ("agent_name",)},
        verified="strands-evals/pydantic_ai_live_spans.json, recorded/pydantic_ai.jsonl",
    ),
    Dialect(
        "Logfire",
        scopes=("logfire*",),
        tells=(Tell("logfire.span_type", {"pending_span": Kind.ASIDE, "log": Kind.ASIDE}),),
        names=((re.compile(r"streaming response from .* took.*"), Kind.TAIL),),
        verified="recorded/logfire.jsonl",
    ),
    Dialect(
        "Vercel AI, legacy",
        scopes=("ai",),
        marks=("ai.operationId",),
        tells=(Tell("ai.operationId", _VERCEL),),
        first=(
            First("ai.response.msToFirstChunk", Unit.MS),
            First("ai.stream.msToFirstChunk", Unit.MS),
            First("ai.stream.firstChunk", Unit.EVENT),
        ),
        fields={
            "model": ("ai.response.model", "ai.model.id"),
            "input_tokens": ("ai.usage.inputTokens", "ai.usage.promptTokens"),
            "output_tokens": ("ai.usage.outputTokens", "ai.usage.completionTokens"),
            "cached_tokens": ("ai.usage.cachedInputTokens",),
            "reasoning_tokens": ("ai.usage.reasoningTokens",),
            "finish_reasons": ("ai.response.finishReason",),
            "session": ("ai.telemetry.metadata.sessionId",),
            "tool": ("ai.toolCall.name",),
        },
        streams=("ai.operationId", ".doStream"),
        verified="recorded/vercel_ai.jsonl, langfuse/vercel-aisdk-2025-11-17.trace.json",
    ),
    Dialect("Vercel AI", scopes=("gen_ai",), verified="recorded/trip_vercel_ai_vercel_ai.jsonl"),
    Dialect(
        "Google ADK",
        scopes=("gcp.vertex.agent",),
        names=(
            (re.compile("call_llm"), Kind.HOP),
            (re.compile("invocation"), Kind.AGENT),
        ),
        plumbing=re.compile(r"\(merged tools\)"),
        fields={"session": (v.CONVERSATION_ID, "gcp.vertex.agent.session_id")},
        verified="recorded/trip_adk_adk.jsonl, strands-evals/adk_live_spans.json",
    ),
    Dialect(
        "Strands",
        scopes=("strands*", "opentelemetry.instrumentation.strands*"),
        first=(First("gen_ai.server.time_to_first_token", Unit.MS),),
        verified="recorded/strands.jsonl",
    ),
    Dialect(
        "LangSmith",
        scopes=("langsmith",),
        marks=("langsmith.span.kind",),
        tells=(Tell("langsmith.span.kind", _LANGSMITH),),
        plumbing=_LANGCHAIN,
        fields={
            "session": (
                "langsmith.metadata.thread_id",
                "langsmith.metadata.conversation_id",
                "langsmith.metadata.session_id",
            ),
        },
        verified="recorded/trip_langsmith_langgraph.jsonl, langfuse/claude-agent-2025-12-22.trace.json",
    ),
    Dialect(
        "Claude Code",
        scopes=("com.anthropic.claude_code*", "claude_code*"),
        marks=("span.type",),
        tells=(Tell("span.type", _CLAUDE_CODE),),
        names=tuple((re.compile(rf"claude_code\.{re.escape(name)}"), kind) for name, kind in _CLAUDE_CODE.items()),
        first=(First("ttft_ms", Unit.MS),),
        fields={
            "model": ("model",),
            "input_tokens": ("input_tokens",),
            "output_tokens": ("output_tokens",),
            "cached_tokens": ("cache_read_tokens",),
            "tool": ("tool_name", "tool.name"),
        },
        input_besides=("cache_read_tokens", "cache_creation_tokens"),
        verified="recorded/trip_claude_code_claude_code.jsonl",
    ),
    Dialect(
        "Anthropic client",
        scopes=("com.anthropic.sdk.*",),
        # What else its API does carries a model and a provider too.
        names=(
            (
                re.compile(r"anthropic\.(messages\.(count_tokens|batches\.\w+)|(?!messages\.)\w+(\.\w+)+)"),
                Kind.OTHER,
            ),
        ),
        fields={"finish_reasons": ("anthropic.message.stop_reason",)},
        verified="recorded/trip_anthropic_client_anthropic.jsonl",
    ),
    Dialect(
        "any-agent",
        scopes=("any_agent*", "any-agent*"),
        marks=("any_agent.version",),
        verified="recorded/trip_any_agent_any_agent.jsonl, any-agent/OPENAI_trace.json",
    ),
    Dialect(
        "loongsuite",
        scopes=("loongsuite.*", "aliyun.*"),
        first=(First("gen_ai.response.time_to_first_token", Unit.US),),
    ),
    Dialect(
        "Langfuse",
        scopes=("langfuse*",),
        marks=("langfuse.observation.type",),
        tells=(
            Tell(
                "langfuse.observation.type", {name: kind for name, kind in _LANGFUSE.items() if kind is not Kind.CHAIN}
            ),
            Tell("langfuse.internal.is_app_root", {}, Kind.AGENT),
        ),
        plumbing=_LANGCHAIN,
        first=(First("langfuse.observation.completion_start_time", Unit.INSTANT),),
        fields={"model": ("langfuse.observation.model.name",)},
        usage="langfuse.observation.usage_details",
        verified="recorded/langfuse.jsonl, langfuse/langgraph-python-2025-08-22.trace.json",
    ),
    Dialect(
        "Parquet",
        scopes=("parquet",),
        first=(First("ttft", Unit.S),),
        fields={"hop": ("hop",)},
        verified="tests/store/test_parquet.py",
    ),
    Dialect("GenAI conventions", marks=(v.OPERATION, "gen_ai.system", v.PROVIDER), verified="tau2-retail-gpt41"),
)
"""A scope is looked for in this order; where none fits, the first one that a span carries a mark of."""
