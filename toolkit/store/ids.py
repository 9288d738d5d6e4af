"""Ids of any spelling to lower hex of the length that OpenTelemetry has.

Hex with or without `0x` or dashes, integers, decimal digits. Anything else is a name that somebody made up: it becomes
the same hex each time, so spans still find their parents.
"""

import hashlib
import string
from typing import Final

TRACE_DIGITS: Final = 32
SPAN_DIGITS: Final = 16
_HEX: Final = frozenset(string.hexdigits)
_LONGEST: Final = 1_024


def to_hex(value: object, digits: int) -> str | None:
    """The id, or None if there is none (also one of zeros)."""
    if type(value) is int:
        return _of_number(value, digits)
    if type(value) is not str or not value or len(value) > _LONGEST:
        return None
    plain = value.strip().removeprefix("0x").removeprefix("0X")
    if len(plain) == 36 and plain.count("-") == 4:  # a UUID
        plain = plain.replace("-", "")
    if plain.isdecimal() and plain.isascii() and len(plain) > digits:
        found = _of_number(int(plain), digits)
        if found is not None:
            return found
    if plain and len(plain) <= digits and _HEX.issuperset(plain):
        plain = plain.lower().rjust(digits, "0")
        return plain if plain.strip("0") else None
    if not plain.strip("0-"):
        return None
    return hashlib.blake2b(value.encode("utf-8", "replace"), digest_size=digits // 2).hexdigest()


def _of_number(value: int, digits: int) -> str | None:
    return f"{value:0{digits}x}" if 0 < value < 1 << (4 * digits) else None
