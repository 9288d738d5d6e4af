"""What the simulation writes: words about waiting, one word a token, for as long as it is asked."""

import itertools
from collections.abc import Iterator
from typing import Any, Final

SENTENCES: Final = (
    "Two answers can take the same time and feel nothing alike.",
    "One begins at once and flows at the speed of reading.",
    "The other keeps you looking at an empty line, and then arrives all together.",
    "So the wait for the first token and the pace of the rest are two numbers, not one.",
    "An agent makes many such calls before it says a word to you.",
    "Each of them spends part of the time that you were promised.",
    "A slow request has mostly taken more steps; a slow step has mostly written more.",
    "The provider is blamed first and is seldom the cause.",
    "Give every step its share of the deadline and keep some back for the last one.",
    "Then lateness has a name, a place and a size.",
)
THOUGHTS: Final = (
    "The question asks for a comparison, so I need both sides first.",
    "I should check the dates before I trust the second source.",
    "Two of these agree and one does not; the odd one out is older.",
    "That is enough to answer, and time is short.",
)


def words(sentences: tuple[str, ...], start: int) -> Iterator[str]:
    """Tokens without end, from sentence number `start` on: each a word, all but the first led by a space."""
    turn = start % len(sentences)
    ordered = itertools.cycle(sentences[turn:] + sentences[:turn])
    space = ""
    for sentence in ordered:
        for word in sentence.split():
            yield space + word
            space = " "


def example_of(schema: dict[str, Any] | None, definitions: dict[str, Any] | None = None) -> Any:
    """A value that fits the everyday part of a JSON schema: types, enums, defaults, required properties, references.

    `definitions` are those that references may name; the outermost schema brings its own.
    """
    schema = schema or {}
    known: dict[str, Any] = {**schema.get("$defs", {}), **(definitions or {})}
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        # A definition is taken out once entered, so that one which names itself comes to an end.
        return example_of(known.get(name), {other: value for other, value in known.items() if other != name})
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return example_of(schema[key][0], known)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object":
        required = schema.get("required", [])
        properties = schema.get("properties", {})
        return {name: example_of(part, known) for name, part in properties.items() if name in required}
    if kind == "array":
        return [example_of(schema.get("items"), known)] * int(schema.get("minItems", 0))
    examples = {"integer": 1, "number": 1.0, "boolean": True, "null": None}
    return examples.get(str(kind), "simulated")
