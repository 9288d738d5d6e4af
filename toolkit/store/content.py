"""What is content: the texts that people and models wrote. It is dropped at the door, and counted.

Attributes are told by name, over all the ways that instrumentations spell them. An event that carries a message keeps
its name and time and loses its attributes.
"""

import re
from typing import Final

import msgspec

from hopbudget.store import caps
from hopbudget.store.spans import Value
from hopbudget.store.values import json_map

_NAMES: Final = frozenset(
    {
        # GenAI conventions, current and previous
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.system_instructions",
        "gen_ai.tool.definitions",
        "gen_ai.tool.description",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
        "gen_ai.prompt",
        "gen_ai.completion",
        "gen_ai.event.content",
        "gen_ai.input",
        "gen_ai.output",
        "gen_ai.tool.args",
        "gen_ai.tool.json_schema",
        "gen_ai.agent.description",
        "gen_ai.retrieval.documents",
        "gen_ai.retrieval.query.text",
        "gen_ai.evaluation.explanation",
        "exception.message",
        "exception.stacktrace",
        # other instrumentations
        "input.value",
        "output.value",
        "llm.prompts",
        "llm.completions",
        "traceloop.entity.input",
        "traceloop.entity.output",
        "tool.parameters",
        "tool.description",
        "tool.json_schema",
        "tool_arguments",
        "tool_response",
        "embedding.text",
        "all_messages_events",
        "pydantic_ai.all_messages",
        "final_result",
        "model_request_parameters",
        "events",
        "request_data",
        "response_data",
        "logfire.msg",
        "langfuse.observation.input",
        "langfuse.observation.output",
        "langfuse.trace.input",
        "langfuse.trace.output",
        "gcp.vertex.agent.llm_request",
        "gcp.vertex.agent.llm_response",
        "gcp.vertex.agent.tool_call_args",
        "gcp.vertex.agent.tool_response",
        "gcp.vertex.agent.data",
        "mlflow.spanInputs",
        "mlflow.spanOutputs",
        "mlflow.chat.messages",
        "ai.prompt",
        "ai.response.text",
        "ai.response.object",
        "ai.response.reasoning",
        "ai.response.toolCalls",
        "ai.toolCall.args",
        "ai.toolCall.result",
        "system_prompt",
        "user_prompt",
        "prompt",
        "completion",
        "history",
        "thought",
        "llm.tools",
        "crew_inputs",
        "crew_tasks",
        "crew_agents",
        "langfuse.observation.status_message",
        # what a request was sent with: keys may be among it
        "hidden_params",
        "gen_ai.headers",
        "llm.headers",
    }
)
_PREFIXES: Final = (
    "gen_ai.prompt.",
    "gen_ai.completion.",
    "llm.prompts.",
    "llm.completions.",
    "llm.input_messages.",
    "llm.output_messages.",
    "llm.prompt_template.",
    "llm.tools.",
    "llm.request.functions.",
    "retrieval.documents.",
    "reranker.",
    "embedding.embeddings.",
    "ai.prompt.",
    "ai.result.",
)
_NOT_CONTENT: Final = re.compile(r"gen_ai\.prompt\.(name|version)|.*\.finish_reason")
_WORDS: Final = re.compile(r"(^|\.)(messages|arguments|tool_calls|authorization|x-api-key|api_key|cookie)(\.|$)")
_EVENTS: Final = re.compile(
    r"gen_ai\.(system|user|assistant|tool)\.message|gen_ai\.choice|.*\.content\.(prompt|completion)(\..*)?"
    r"|gen_ai\.client\.inference\.operation\.details"
)
_PROVIDERS_OWN: Final = re.compile(
    r"llm\.(?!token_count)[a-z_0-9]+\.(choices|content|candidates|input|instructions|messages|output|prompt|response|system|text|tools|"
    r"extra_body|extra_headers)(\..*)?"
    r"|langfuse\.(observation|trace)\.metadata\.(instructions|tools|input|output|prompt|response|system|system_prompt|text)(\..*)?"
)
"""A provider's request or answer as LiteLLM writes it, or Langfuse of a streamed response."""
_CLASS_NAME: Final = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Timeout|Cancelled|Exit|Interrupt)\b")
PARAMETERS: Final = "llm.invocation_parameters"
"""A JSON object of all that a request was made with, instructions and tools among it; `safe_parameters` is kept."""
_SAFE_PARAMETERS: Final = frozenset(
    {"model", "stream", "temperature", "top_p", "n", "seed", "max_tokens", "max_completion_tokens", "max_output_tokens"}
)
_KNOWN_MOST: Final = 10_000

_verdicts: Final[dict[str, bool]] = {}


def is_content(name: str) -> bool:
    """Whether an attribute of this name holds what somebody wrote."""
    verdict = _verdicts.get(name)
    if verdict is None:
        verdict = _look(name)
        if len(_verdicts) < _KNOWN_MOST and len(name) <= caps.LONGEST_NAME:  # names may come without end
            _verdicts[name] = verdict
    return verdict


def is_content_event(name: str) -> bool:
    """Whether an event of this name carries a message."""
    return _EVENTS.fullmatch(name) is not None


def safe_status(message: str) -> str | None:
    """What may be kept of a status message: the error's class in front of it, or that a stream was abandoned."""
    if message == "abandoned stream":
        return message
    match = _CLASS_NAME.match(message)
    return match[0] if match else None


def safe_parameters(parameters: Value) -> Value | None:
    """What may be kept of a request's parameters: its model, whether it streams, and plain numbers."""
    found = json_map(parameters)
    kept = {
        name: value
        for name, value in found.items()
        if name in _SAFE_PARAMETERS and (isinstance(value, bool | int | float) or name == "model")
    }
    return msgspec.json.encode(kept).decode() if kept else None


def _look(name: str) -> bool:
    if _NOT_CONTENT.fullmatch(name):
        return False
    return (
        name in _NAMES
        or name.startswith(_PREFIXES)
        or _WORDS.search(name) is not None
        or _PROVIDERS_OWN.fullmatch(name) is not None
    )
