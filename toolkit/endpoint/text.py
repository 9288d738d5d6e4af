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


def example_of(schema: dict[str, Any] | None) -> Any:
    """A value that fits the everyday part of a JSON schema: types, enums, defaults, required properties."""
    schema = schema or {}
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object":
        required = schema.get("required", [])
        return {name: example_of(part) for name, part in schema.get("properties", {}).items() if name in required}
    examples = {"array": [], "integer": 1, "number": 1.0, "boolean": True, "null": None}
    return examples.get(str(kind), "simulated")
