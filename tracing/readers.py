"""The wire formats that are read, in one table: a new format is a new row."""

from collections.abc import Callable
from typing import Any, Final

from hopbudget.tracing.readers_anthropic import MESSAGES
from hopbudget.tracing.readers_gemini import GEMINI
from hopbudget.tracing.readers_openai import CHAT, COMPLETIONS, RESPONSES, quick_chat_chunk, read_chat_chunk
from hopbudget.tracing.reading import Format, Reading, Usage, get

__all__ = [
    "CHAT",
    "COMPLETIONS",
    "FORMATS",
    "GEMINI",
    "MESSAGES",
    "RESPONSES",
    "TEXT",
    "Format",
    "Reader",
    "Reading",
    "Usage",
    "chosen",
    "format_of",
    "get",
    "quick_chat_chunk",
    "read_chat_chunk",
    "read_reply",
]

Reader = str | Callable[[Any], "Reading | str | None"]
"""How a stream is read: the name of a format, or a function of a chunk that gives the text generated in it (None or
empty for none), or a whole `Reading`."""


def read_text(piece: Any) -> Reading:
    """A piece of plain text, all of it answer."""
    text = piece if isinstance(piece, str) else ""
    return Reading(text=text, answer=text, generated=bool(text))


def _quick_text(piece: Any) -> str | None:
    return piece if piece and isinstance(piece, str) else None


TEXT: Final = Format(
    "text",
    is_chunk=lambda thing: isinstance(thing, str) and bool(thing),
    read=read_text,
    quick=_quick_text,
    end_mark=False,
    by_value=True,
)
FORMATS: Final = (TEXT, RESPONSES, MESSAGES, COMPLETIONS, CHAT, GEMINI)


def format_of(chunk: object) -> Format | None:
    """The format of a stream by one of its chunks; None while that can't be told."""
    for row in FORMATS:
        if row.is_chunk(chunk):
            return row
    return None


def chosen(reader: Reader) -> Format:
    """The format that a user chose. Raises ValueError for a name that is none."""
    if callable(reader):
        return _by_function(reader)
    for row in FORMATS:
        if row.name == reader:
            return row
    raise ValueError(f"no format {reader!r}; there are {', '.join(row.name for row in FORMATS)}")


def _by_function(function: Callable[[Any], "Reading | str | None"]) -> Format:
    def read(chunk: Any) -> Reading:
        found = function(chunk)
        return found if isinstance(found, Reading) else read_text(found)

    return Format("user", is_chunk=lambda _: True, read=read, end_mark=False, by_value=True)


_REPLIES: Final[dict[type, Format]] = {}
"""The format that a class of replies was found to be in: asked first the next time."""
_REPLIES_LIMIT: Final = 64


def read_reply(reply: object) -> Reading | None:
    """A model's whole reply; None if the object is none."""
    if reply is None or isinstance(reply, (str, bytes, int, float)):
        return None
    known = _REPLIES.get(type(reply))
    reading = known.reply(reply) if known is not None else None
    return reading or _read_any_reply(reply)


def _read_any_reply(reply: object) -> Reading | None:
    for row in FORMATS:
        reading = row.reply(reply)
        if reading is not None:
            if type(reply) is not dict and len(_REPLIES) < _REPLIES_LIMIT:
                _REPLIES[type(reply)] = row
            return reading
    return None
