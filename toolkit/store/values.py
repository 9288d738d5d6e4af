"""Attribute values as what they mean: senders write numbers, truths and times in many ways."""

import math
import re
from datetime import UTC, datetime
from typing import Final

import msgspec

from hopbudget.store.spans import Attributes, Value

_LONGEST_NUMBER: Final = 32
_DEEPEST_TIME: Final = 2
_ISO: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9})\d*)?\s*(Z|[+-]\d\d:?\d\d|)", re.IGNORECASE
)
_MOST_NS: Final = (1 << 63) - 1
_UNITS: Final = ((1e17, 1), (1e14, 1_000), (1e11, 1_000_000), (1e8, 1_000_000_000))
"""From this many on, an instant is counted in units of so many nanoseconds: years 1973 to 5138 are told apart."""


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
    """A number that is not negative, as a float, or None. Some senders write numbers as text."""
    found = signed(value)
    return found if found is not None and found >= 0 else None


def signed(value: Value | None) -> float | None:
    """A finite number, as a float, or None."""
    if type(value) is float or type(value) is int:
        return float(value)
    if type(value) is not str or len(value) > _LONGEST_NUMBER:
        return None
    try:
        found = float(value)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def true(value: Value | None) -> bool:
    """Whether it says yes."""
    return value is True or (type(value) is str and value.lower() == "true")


def json_map(value: Value | None) -> Attributes:
    """A map, or the map that a JSON text holds; empty if it is neither."""
    if type(value) is str and value[:1] == "{":
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}
    return value if type(value) is dict else {}


def instant(value: object) -> int | None:
    """Nanoseconds since the Unix epoch, of an ISO text (also in quotes), a pair [s, ns], or a number; None if none.

    A number is taken for ns, us, ms or s by its size.
    """
    if isinstance(value, str):
        return _of_text(value.strip().strip('"'))
    if isinstance(value, list | tuple) and len(value) == _DEEPEST_TIME:
        seconds, nanoseconds = value
        if type(seconds) is int and type(nanoseconds) is int and nanoseconds >= 0:
            return _within(seconds * 1_000_000_000 + nanoseconds)
        return None
    if type(value) is int or type(value) is float:
        return _of_number(value)
    return None


def _of_text(value: str) -> int | None:
    match = _ISO.fullmatch(value)
    if match is None:
        if len(value) > _LONGEST_NUMBER:
            return None
        if value.isdecimal():
            return _of_number(int(value))
        found = signed(value)
        return _of_number(found) if found is not None else None
    *parts, fraction, zone = match.groups()
    year, month, day, hour, minute, second = map(int, parts)
    try:
        at = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    seconds = int(at.timestamp()) - _offset_s(zone)
    return _within(seconds * 1_000_000_000 + int((fraction or "0").ljust(9, "0")))


def _offset_s(zone: str) -> int:
    if not zone or zone in "Zz":
        return 0
    digits = zone[1:].replace(":", "")
    size = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -size if zone[0] == "-" else size


def _of_number(value: float) -> int | None:
    if not math.isfinite(value):
        return None
    for least, unit in _UNITS:
        if value >= least:
            whole_part = int(value)
            return _within(whole_part * unit + round((value - whole_part) * unit))
    return None


def _within(at_ns: int) -> int | None:
    return at_ns if 0 < at_ns <= _MOST_NS else None
