"""What a span is, and where it keeps what we want to know: one table, a row for each way of saying it.

A dialect is told by its marker attribute. `KINDS` gives the kind for each value of it; `FIELDS` gives, newest first,
the attribute names of each fact.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

import msgspec

from hopbudget.store.spans import CLIENT, Attributes, Span, Value
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
MESSAGE: Final = "asgi.event.type"
"""Carried by the spans of a web server's single messages to and from its client, one for each chunk of an answer."""
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


FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "model": (v.RESPONSE_MODEL, v.REQUEST_MODEL),
    "input_tokens": (v.INPUT_TOKENS, "gen_ai.usage.prompt_tokens"),
    "output_tokens": (v.OUTPUT_TOKENS, "gen_ai.usage.completion_tokens"),
    "cached_tokens": (v.CACHED_TOKENS, "gen_ai.usage.cache_read_input_tokens"),
    "reasoning_tokens": (
        v.REASONING_TOKENS,
        "gen_ai.usage.reasoning_tokens",
        "gen_ai.usage.details.reasoning_tokens",
    ),
    "first_chunk_s": (v.TIME_TO_FIRST_CHUNK, "gen_ai.client.operation.time_to_first_chunk"),
    "stream": (v.REQUEST_STREAM, "gen_ai.is_streaming", "llm.is_streaming"),
    "finish_reasons": (
        v.FINISH_REASONS,
        "gen_ai.completion.0.finish_reason",
        "llm.response.finish_reason",
    ),
    "session": (v.CONVERSATION_ID, "session.id"),
    "agent": (v.AGENT_NAME, "gen_ai.workflow.name"),
    "tool": (v.TOOL_NAME,),
}
"""The names under which each fact is found, newest first. Times are in seconds."""

_CALL_MARKS: Final = ("gen_ai.system", v.PROVIDER)
_MODEL_MARKS: Final = (v.REQUEST_MODEL, v.RESPONSE_MODEL)
_SHAPES_MOST: Final = 4_096


class Shape(msgspec.Struct, gc=False, frozen=True):
    """What follows from the names of a span's attributes alone: where each of `FIELDS` is found, if it is.

    A program makes few shapes and many spans, so this is worked out once a shape.
    """

    dialect: Dialect | None
    looks_like_a_call: bool
    ours: bool
    """A hop that capture of ours made and its program named."""
    measured: bool
    """Something that capture of ours timed, named or not."""
    says_outcome: bool
    """It holds something that an outcome other than `ok` could come from, whatever its status."""
    model: str | None
    input_tokens: str | None
    output_tokens: str | None
    cached_tokens: str | None
    reasoning_tokens: str | None
    first_chunk_s: str | None
    stream: str | None
    finish_reasons: str | None
    session: str | None
    agent: str | None
    tool: str | None


_shapes: dict[tuple[str, ...], Shape] = {}


def shape_of(attributes: Attributes) -> Shape:
    """The shape of a span's attributes."""
    names = tuple(attributes)
    shape = _shapes.get(names)
    if shape is None:
        if len(_shapes) >= _SHAPES_MOST:  # names may come from outside without end
            _shapes.clear()
        shape = _shapes[names] = _find_shape(attributes)
    return shape


def _find_shape(names: Attributes) -> Shape:
    found = {field: next((name for name in known if name in names), None) for field, known in FIELDS.items()}
    return Shape(
        dialect=next((dialect for dialect in DIALECTS if dialect.marker in names), None),
        looks_like_a_call=_any(names, _CALL_MARKS) and _any(names, _MODEL_MARKS),
        ours=v.HOP in names and v.ADOPTED not in names,
        measured=_any(names, (v.OUTCOME, v.HOP)) and v.ADOPTED not in names,
        says_outcome=_any(names, (v.OUTCOME, v.ERROR_TYPE)) or found["finish_reasons"] is not None,
        **found,
    )


def kind_of(span: Span, shape: Shape) -> Kind:
    """What a span is to us."""
    dialect = shape.dialect
    if dialect is not None:
        value = span.attributes[dialect.marker]
        return dialect.kinds.get(value, dialect.default) if type(value) is str else dialect.default
    # An attribute limit drops the oldest first, so a model call may have lost the name of its operation.
    return Kind.HOP if shape.looks_like_a_call and span.kind == CLIENT else Kind.OTHER


def text(attributes: Attributes, name: str | None) -> str | None:
    """The attribute's value, if it is a text that is not empty."""
    value = attributes.get(name) if name is not None else None
    return value if type(value) is str and value else None


def count(attributes: Attributes, name: str | None) -> int | None:
    """The attribute's value, if it is a whole number that is not negative."""
    return whole(attributes.get(name)) if name is not None else None


def whole(value: Value | None) -> int | None:
    """A whole number that is not negative, or None. Some senders write counts as text or as floats."""
    if type(value) is int:
        return value if value >= 0 else None
    if type(value) is float and value >= 0 and value.is_integer():
        return int(value)
    return int(value) if type(value) is str and value.isdecimal() and len(value) < 16 else None


def number(value: Value | None) -> float | None:
    """A number that is not negative, as a float, or None."""
    if type(value) is float or type(value) is int:
        return float(value) if value >= 0 else None
    return None


def finish_reasons(attributes: Attributes, shape: Shape) -> list[str]:
    """Why the model stopped, in lower case; empty if it did not say."""
    value = attributes[shape.finish_reasons] if shape.finish_reasons is not None else None
    values = value if isinstance(value, list) else [value]
    return [item.strip('[]"').lower() for item in values if isinstance(item, str)]


def operation(attributes: Attributes) -> str:
    """The operation's name; `chat` where none is said."""
    value = attributes.get(v.OPERATION)
    return value if isinstance(value, str) and value else v.CHAT


def stage_name(span: Span, shape: Shape) -> str:
    """What an agent or chain span is called. The `plan` of an agent carries that agent's name, so it goes first."""
    said = operation(span.attributes)
    if said == PLAN:
        return said
    return text(span.attributes, shape.agent) or span.name or said


def _any(attributes: Attributes, names: tuple[str, ...]) -> bool:
    return any(name in attributes for name in names)
