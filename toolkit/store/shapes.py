"""What a span is, and where it keeps what we want to know, by the table in `dialects`.

Most of it follows from the names of a span's attributes and its scope alone. A program makes few of these shapes and
many spans, so it is worked out once a shape.
"""

import re
from typing import Final

import msgspec

from hopbudget.store.dialects import (
    ALL_FIRST,
    ALL_TELLS,
    DIALECTS,
    FIELDS,
    LITELLM_CALL,
    OURS,
    Dialect,
    First,
    Kind,
    Tell,
    Unit,
)
from hopbudget.store.spans import CLIENT, Attributes, Span
from hopbudget.store.values import text, true
from hopbudget.tracing import vocabulary as v

MESSAGE: Final = "asgi.event.type"
"""Carried by the spans of a web server's single messages to and from its client, one for each chunk of an answer."""
_PLAN: Final = "plan"
_CALL_MARKS: Final = ("gen_ai.system", v.PROVIDER)
_MODEL_MARKS: Final = (v.REQUEST_MODEL, v.RESPONSE_MODEL)
_SHAPES_MOST: Final = 4_096
_NAMES_MOST: Final = 64
_SCOPES_MOST: Final = 512
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_UUID_LENGTH: Final = 36


class Shape(msgspec.Struct, gc=False, frozen=True):
    """What follows from a span's scope and the names of its attributes: where each of `FIELDS` is found, if it is."""

    dialect: Dialect | None
    source: str | None
    """The dialect's name."""
    special: bool
    """The dialect says tokens, model or streams in a way of its own."""
    marker: str | None
    """The attribute that most likely says what it is, unless its name is asked first."""
    kinds: dict[str, Kind]
    """By the marker's value."""
    tells: tuple[Tell, ...]
    """Those whose marker it carries, in order."""
    first: tuple[First, ...]
    """The attributes that it carries in which a time to the first chunk may stand."""
    first_events: tuple[str, ...]
    """The events that may stand for the first chunk."""
    looks_like_a_call: bool
    ours: bool
    """A hop that capture of ours made and its program named."""
    measured: bool
    """Something that capture of ours timed, named or not."""
    speaks_of_ours: bool
    """It holds an attribute of capture of ours that names a hop or says how it came out."""
    says_outcome: bool
    """It holds something that an outcome other than `ok` could come from, whatever its status."""
    samples: bool
    """It may state the share of traces that was kept."""
    model: str | None
    input_tokens: str | None
    output_tokens: str | None
    cached_tokens: str | None
    reasoning_tokens: str | None
    stream: str | None
    finish_reasons: str | None
    session: str | None
    agent: str | None
    workload: str | None
    tool: str | None
    level: str | None
    hop: str | None


_shapes: dict[str, dict[tuple[str, ...], Shape]] = {}
"""By scope, then by the attributes' names."""


def shape_of(scope: str, attributes: Attributes) -> Shape:
    """The shape of a span with this scope and these attributes."""
    of_scope = _shapes.get(scope)
    if of_scope is None:
        if len(_shapes) >= _SCOPES_MOST:  # scopes and names may come from outside without end
            _shapes.clear()
        of_scope = _shapes[scope] = {}
    names = tuple(attributes)
    shape = of_scope.get(names)
    if shape is None:
        shape = _find_shape(scope, attributes)
        if len(names) <= _NAMES_MOST:
            if sum(map(len, _shapes.values())) >= _SHAPES_MOST:
                _shapes.clear()
            of_scope[names] = shape
    return shape


def _find_shape(scope: str, names: Attributes) -> Shape:
    dialect = _dialect(scope, names)
    own = dialect.fields if dialect else {}
    found = {
        field: next((name for name in (*own.get(field, ()), *known) if name in names), None)
        for field, known in FIELDS.items()
    }
    tells = (*OURS, *(dialect.tells if dialect else ()), *ALL_TELLS)
    first = {place.name: place for place in reversed((*(dialect.first if dialect else ()), *ALL_FIRST))}
    places = [place for place in reversed(first.values()) if place.unit is Unit.EVENT or place.name in names]
    in_names = tuple(place for place in places if place.unit is not Unit.EVENT)
    carried = tuple(tell for tell in tells if tell.marker in names)
    by_name = dialect is not None and bool(dialect.names)
    special = dialect is not None and bool(
        dialect.usage or dialect.parameters or dialect.input_besides or dialect.streams
    )
    return Shape(
        dialect=dialect,
        source=dialect.name if dialect else None,
        special=special,
        marker=carried[0].marker if carried and not by_name else None,
        kinds=dict(carried[0].kinds) if carried and not by_name else {},
        tells=carried,
        first=in_names,
        first_events=tuple(place.name for place in places if place.unit is Unit.EVENT),
        looks_like_a_call=_any(names, _CALL_MARKS) and _any(names, _MODEL_MARKS),
        ours=v.HOP in names and v.ADOPTED not in names,
        measured=_any(names, (v.OUTCOME, v.HOP)) and v.ADOPTED not in names,
        speaks_of_ours=_any(names, (v.OUTCOME, v.HOP)),
        says_outcome=_any(names, (v.OUTCOME, v.ERROR_TYPE))
        or found["finish_reasons"] is not None
        or found["level"] is not None,
        samples=_any(names, ("sampling.probability", "sampler.type", "SampleRate", "sample_rate")),
        **found,
    )


def _dialect(scope: str, names: Attributes) -> Dialect | None:
    if scope:
        for dialect in DIALECTS:
            if any(_fits(scope, known) for known in dialect.scopes):
                return dialect
    # Ours stand on an adopted call too, which is still its own instrumentation's.
    told = set(names) - {v.OUTCOME, v.HOP} if v.ADOPTED in names else names
    return next((dialect for dialect in DIALECTS if any(mark in told for mark in dialect.marks)), None)


def _fits(scope: str, known: str) -> bool:
    return scope.startswith(known[:-1]) if known.endswith("*") else scope == known


def kind_of(span: Span, shape: Shape) -> Kind:
    """What a span is to us."""
    return kind_told(span.attributes, shape) or _ask_all(span, shape)


def kind_told(attributes: Attributes, shape: Shape) -> Kind | None:
    """What a span is, where these attributes say so whatever its name and kind are."""
    said = attributes[shape.marker] if shape.marker is not None else None
    return shape.kinds.get(said) if type(said) is str else None


def _ask_all(span: Span, shape: Shape) -> Kind:
    dialect = shape.dialect
    if dialect is not None and dialect.names:
        for pattern, kind in dialect.names:
            if pattern.fullmatch(span.name):
                return kind
    attributes = span.attributes
    for tell in shape.tells:
        value = attributes[tell.marker]
        found = tell.kinds.get(value, tell.default) if type(value) is str else tell.default if value else None
        if found is not None:
            return found
    if MESSAGE in attributes:
        return Kind.ASIDE
    # An attribute limit drops the oldest first, so a model call may have lost the name of its operation.
    lost_name = shape.looks_like_a_call and span.kind == CLIENT and v.OPERATION not in attributes
    return Kind.HOP if lost_name else Kind.OTHER


def is_borrowed(span: Span) -> bool:
    """Whether LiteLLM wrote a call's attributes on this span, which is not its own."""
    return LITELLM_CALL in span.attributes and not span.scope.startswith("litellm")


def streams(attributes: Attributes, shape: Shape) -> bool:
    """Whether the source says that a call streamed."""
    if shape.stream is not None and true(attributes[shape.stream]):
        return True
    said = shape.dialect.streams if shape.dialect else None
    value = attributes.get(said[0]) if said else None
    return said is not None and type(value) is str and value.endswith(said[1])


def finish_reasons(attributes: Attributes, shape: Shape) -> list[str]:
    """Why the model stopped, in lower case; empty if it did not say."""
    value = attributes[shape.finish_reasons] if shape.finish_reasons is not None else None
    values = value if isinstance(value, list) else [value]
    return [item.strip('[]"').lower() for item in values if isinstance(item, str)]


def operation(attributes: Attributes) -> str:
    """The operation's name; `chat` where none is said."""
    value = attributes.get(v.OPERATION)
    return value if isinstance(value, str) and value else v.CHAT


def hop_name(attributes: Attributes, shape: Shape, stage: str | None) -> str:
    """A hop's own name, else the nearest enclosing stage, else the operation."""
    own = text(attributes, v.HOP if shape.ours else shape.hop)
    return own or stage or operation(attributes)


def work_name(name: str, attributes: Attributes, shape: Shape) -> str:
    """The tool's name, else the span's."""
    return text(attributes, shape.tool) or name or "work"


def stage_name(span: Span, shape: Shape) -> str | None:
    """What an agent or chain span is called; None if it is the framework's own and names nothing.

    The `plan` of an agent carries that agent's name, so it goes first.
    """
    if shape.ours:
        return text(span.attributes, v.HOP)
    said = span.attributes.get(v.OPERATION)
    if said == _PLAN:
        return _PLAN
    plumbing = shape.dialect.plumbing if shape.dialect else None
    named = called(text(span.attributes, shape.agent))
    if named is None and plumbing is not None and plumbing.fullmatch(span.name):
        return None
    return named or called(span.name) or operation(span.attributes)


def called(name: str | None) -> str | None:
    """The name without ids in it, which differ from run to run; None if nothing is left."""
    if name is None or len(name) < _UUID_LENGTH:
        return name or None
    return _UUID.sub("", name).strip(" .:_-/") or None


def _any(attributes: Attributes, names: tuple[str, ...]) -> bool:
    return any(name in attributes for name in names)
