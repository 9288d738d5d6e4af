"""What a span is, and where it keeps what we want to know: one table, a row for each way of saying it.

A dialect is told by its marker attribute. `KINDS` gives the kind for each value of it; `FIELDS` gives, newest first,
the attribute names of each fact, with what to multiply a number by to get seconds.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from hopbudget.store.otlp import CLIENT, Attributes, Span, Value
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
    OTHER = auto()


class Dialect(NamedTuple):
    """One way of saying what a span is."""

    name: str
    marker: str
    kinds: Mapping[str, Kind]
    """By the marker's value."""
    default: Kind = Kind.OTHER
    """For a value that is not in `kinds`."""


PLAN: Final = "plan"
_OPERATIONS: Final = {
    v.CHAT: Kind.HOP,
    "generate_content": Kind.HOP,
    "text_completion": Kind.HOP,
    v.INVOKE_AGENT: Kind.AGENT,
    v.INVOKE_WORKFLOW: Kind.AGENT,
    PLAN: Kind.CHAIN,
    "invoke_node": Kind.CHAIN,
    v.EXECUTE_TOOL: Kind.TOOL,
    "embeddings": Kind.TOOL,
    "retrieval": Kind.TOOL,
}

DIALECTS: Final = (
    Dialect("hopbudget pause", v.PAUSE, {}, Kind.PAUSE),
    Dialect("hopbudget hop", v.HOP, {}, Kind.HOP),
    Dialect("GenAI conventions", v.OPERATION, _OPERATIONS),
    Dialect("GenAI, before operation names", "llm.request.type", {"chat": Kind.HOP, "completion": Kind.HOP}),
)
"""The first one whose marker a span carries says what it is."""


class Source(NamedTuple):
    """An attribute that holds a fact."""

    attribute: str
    seconds: float = 1.0


FIELDS: Final[dict[str, tuple[Source, ...]]] = {
    "model": (Source(v.RESPONSE_MODEL), Source(v.REQUEST_MODEL)),
    "input_tokens": (Source(v.INPUT_TOKENS), Source("gen_ai.usage.prompt_tokens")),
    "output_tokens": (Source(v.OUTPUT_TOKENS), Source("gen_ai.usage.completion_tokens")),
    "cached_tokens": (Source(v.CACHED_TOKENS), Source("gen_ai.usage.cache_read_input_tokens")),
    "reasoning_tokens": (
        Source(v.REASONING_TOKENS),
        Source("gen_ai.usage.reasoning_tokens"),
        Source("gen_ai.usage.details.reasoning_tokens"),
    ),
    "first_chunk_s": (
        Source(v.TIME_TO_FIRST_CHUNK),
        Source("gen_ai.client.operation.time_to_first_chunk"),
    ),
    "stream": (Source(v.REQUEST_STREAM), Source("gen_ai.is_streaming"), Source("llm.is_streaming")),
    "finish_reasons": (
        Source(v.FINISH_REASONS),
        Source("gen_ai.completion.0.finish_reason"),
        Source("llm.response.finish_reason"),
    ),
    "session": (Source(v.CONVERSATION_ID), Source("session.id")),
    "agent": (Source(v.AGENT_NAME), Source("gen_ai.workflow.name")),
}
"""Where each fact is found, newest name first."""

_CALL_MARKS: Final = ("gen_ai.system", v.PROVIDER)
_MODEL_MARKS: Final = (v.REQUEST_MODEL, v.RESPONSE_MODEL)


def kind_of(span: Span) -> Kind:
    """What a span is to us."""
    attributes = span.attributes
    for dialect in DIALECTS:
        value = attributes.get(dialect.marker)
        if value is not None:
            return dialect.kinds.get(value, dialect.default) if isinstance(value, str) else dialect.default
    # An attribute limit drops the oldest first, so a model call may have lost the name of its operation.
    if span.kind == CLIENT and _any(attributes, _CALL_MARKS) and _any(attributes, _MODEL_MARKS):
        return Kind.HOP
    return Kind.OTHER


def find(attributes: Attributes, field: str) -> Value | None:
    """The value of one of `FIELDS`, or None."""
    for source in FIELDS[field]:
        value = attributes.get(source.attribute)
        if value is not None:
            return value
    return None


def text(attributes: Attributes, field: str) -> str | None:
    """The same, if it is a text that is not empty."""
    value = find(attributes, field)
    return value if isinstance(value, str) and value else None


def count(attributes: Attributes, field: str) -> int | None:
    """The same, if it is a whole number that is not negative."""
    return whole(find(attributes, field))


def whole(value: Value | None) -> int | None:
    """A whole number that is not negative, or None. Some senders write counts as text or as floats."""
    if type(value) is int:
        return value if value >= 0 else None
    if type(value) is float and value >= 0 and value.is_integer():
        return int(value)
    return int(value) if type(value) is str and value.isdecimal() and len(value) < 16 else None


def seconds(attributes: Attributes, field: str) -> float | None:
    """A field that holds a time, in seconds; None if absent or negative."""
    for source in FIELDS[field]:
        value = number(attributes.get(source.attribute))
        if value is not None:
            return value * source.seconds
    return None


def number(value: Value | None) -> float | None:
    """A number that is not negative, as a float, or None."""
    if type(value) is float or type(value) is int:
        return float(value) if value >= 0 else None
    return None


def finish_reasons(attributes: Attributes) -> list[str]:
    """Why the model stopped, in lower case; empty if it did not say."""
    value = find(attributes, "finish_reasons")
    values = value if isinstance(value, list) else [value]
    return [item.strip('[]"').lower() for item in values if isinstance(item, str)]


def operation(attributes: Attributes) -> str:
    """The operation's name; `chat` where none is said."""
    value = attributes.get(v.OPERATION)
    return value if isinstance(value, str) and value else v.CHAT


def stage_name(span: Span) -> str:
    """What an agent or chain span is called. The `plan` of an agent carries that agent's name, so it goes first."""
    said = operation(span.attributes)
    if said == PLAN:
        return said
    return text(span.attributes, "agent") or span.name or said


def _any(attributes: Attributes, names: tuple[str, ...]) -> bool:
    return any(name in attributes for name in names)
