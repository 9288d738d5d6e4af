"""The gaps between token-bearing chunks, in bounded memory and one compact text.

The first 4,096 gaps are kept one by one; later ones go into a sparse histogram whose bins are log-spaced, so that
every gap is known to 1 % (bins as in DDSketch, Masson et al., VLDB 2019, with alpha = 0.01). A gap still open when
the stream was cut short is kept apart: it is right-censored.

Text: `g1:{exact}:{bins}:{open}:{base64}`, the base64 holding little-endian int32: the exact gaps in microseconds,
then (bin, count) pairs, then the open gap if there is one. The three counts give the length the rest must have, so
that a text cut by an attribute limit is noticed.
"""

import math
import sys
from array import array
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from typing import Final

EXACT_LIMIT: Final = 4096
BLOCK: Final = 64
"""So many gaps are put away at a time."""
INT32_MAX: Final = 2**31 - 1
DECODE_LIMIT: Final = 10_000_000
"""More gaps than this in one text are no stream of ours; they are not expanded."""

_ACCURACY: Final = 0.01
_BASE: Final = (1 + _ACCURACY) / (1 - _ACCURACY)
_LOG_BASE: Final = math.log(_BASE)
_VERSION: Final = "g1"


def bin_of(us: int) -> int:
    """The histogram bin of a gap in microseconds; 0 holds gaps of no length."""
    return 0 if us <= 0 else 1 + math.ceil(math.log(us) / _LOG_BASE)


def representative(bin_index: int) -> int:
    """The gap in microseconds that stands for a bin, within 1 % of every gap in it."""
    return 0 if bin_index <= 0 else round(2 * _BASE ** (bin_index - 1) / (_BASE + 1))


class Gaps:
    """Decoded gaps: `us` in microseconds, the first `exact` of them exact; if `censored` the last one is still open."""

    __slots__ = ("censored", "exact", "us")

    def __init__(self, us: list[int], exact: int, censored: bool) -> None:
        self.us = us
        self.exact = exact
        self.censored = censored

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Gaps):
            return NotImplemented
        return (self.us, self.exact, self.censored) == (other.us, other.exact, other.censored)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Gaps(us={self.us!r}, exact={self.exact}, censored={self.censored})"


class GapRecorder:
    """Takes gaps one by one; at most 16 KB and some thousand bins, however long the stream."""

    __slots__ = ("_exact", "_later", "_open_us", "put", "recent")

    def __init__(self) -> None:
        self.recent: list[int] = []
        """The last gaps, in microseconds, which wait to be put away."""
        self.put = 0
        """Gaps that were put away."""
        self._exact = array("i")
        self._later: dict[int, int] | None = None
        self._open_us: int | None = None

    def add(self, us: int) -> None:
        """One gap between two token-bearing chunks, in microseconds."""
        self.recent.append(us)
        if len(self.recent) >= BLOCK:
            self.put_away()

    def add_all(self, us: list[int]) -> None:
        """Gaps in a row."""
        self.recent += us
        if len(self.recent) >= BLOCK:
            self.put_away()

    def put_away(self) -> None:
        """Take the recent gaps in."""
        recent, exact = self.recent, self._exact
        try:
            exact.fromlist(recent)
        except OverflowError:
            exact.extend(min(us, INT32_MAX) for us in recent)
        self.put += len(recent)
        recent.clear()
        if len(exact) > EXACT_LIMIT:
            later = self._later = self._later or {}
            for us in exact[EXACT_LIMIT:]:
                index = bin_of(us)
                later[index] = later.get(index, 0) + 1
            del exact[EXACT_LIMIT:]

    @property
    def exact(self) -> "array[int]":
        """The first `EXACT_LIMIT` gaps, in microseconds."""
        self.put_away()
        return self._exact

    @property
    def taken(self) -> int:
        """Gaps so far, an open one apart."""
        return self.put + len(self.recent)

    def leave_open(self, us: int) -> None:
        """The gap that was still open, after this many microseconds, when the stream was cut short."""
        self._open_us = min(us, INT32_MAX)

    def __len__(self) -> int:
        return self.taken + (self._open_us is not None)

    def encode(self) -> str:
        """The text that `decode` reads."""
        exact = self.exact
        numbers = array("i", exact)
        later = sorted(self._later.items()) if self._later else []
        for index, count in later:
            numbers.append(index)
            numbers.append(min(count, INT32_MAX))
        if self._open_us is not None:
            numbers.append(self._open_us)
        if sys.byteorder == "big":
            numbers.byteswap()
        payload = b2a_base64(numbers.tobytes(), newline=False).decode("ascii")
        return f"{_VERSION}:{len(exact)}:{len(later)}:{int(self._open_us is not None)}:{payload}"


def decode(text: str) -> Gaps | None:
    """What `GapRecorder.encode` wrote; None for anything else, a text cut short included."""
    parts = text.split(":")
    if len(parts) != 5 or parts[0] != _VERSION:
        return None
    try:
        exact, bins, open_gaps = (int(part) for part in parts[1:4])
        raw = a2b_base64(parts[4].encode("ascii"), strict_mode=True) if parts[4] else b""
    except (ValueError, Base64Error):
        return None
    if min(exact, bins, open_gaps) < 0 or open_gaps > 1 or len(raw) != 4 * (exact + 2 * bins + open_gaps):
        return None
    numbers = array("i")
    numbers.frombytes(raw)
    if sys.byteorder == "big":
        numbers.byteswap()
    return _expand(numbers, exact, bins, bool(open_gaps))


def _expand(numbers: "array[int]", exact: int, bins: int, censored: bool) -> Gaps | None:
    us = numbers[:exact].tolist()
    counts = numbers[exact : exact + 2 * bins]
    if (
        min(numbers, default=0) < 0
        or exact + sum(counts[1::2]) > DECODE_LIMIT
        or max(counts[::2], default=0) > bin_of(INT32_MAX)
    ):
        return None
    for index, count in zip(counts[::2], counts[1::2], strict=True):
        us.extend([representative(index)] * count)
    if censored:
        us.append(numbers[-1])
    return Gaps(us, exact, censored)
