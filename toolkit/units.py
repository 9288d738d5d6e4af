"""Durations as people write and read them."""

import math
import re

from hopbudget.errors import UserError

LONGEST_S = 10 * 365 * 86_400.0
"""Ten years: a longer duration is a slip of the pen."""
_UNIT_S = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_WRITTEN = (
    (0.9995, 0.001, "ms"),
    (120.0, 1.0, "s"),
    (7200.0, 60.0, "min"),
    (172_800.0, 3600.0, "h"),
    (math.inf, 86_400.0, "d"),
)
"""Below how many seconds, the seconds in a unit, and the unit."""
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*(ms|s|min|m|h|d|)\s*", re.IGNORECASE)
_PERCENTILE = re.compile(r"\s*p(\d+(?:\.\d+)?)\s*", re.IGNORECASE)


def parse_duration(text: str, what: str) -> float:
    """Seconds of `12s`, `1500ms`, `2min`, `1h`, `7d` or a bare number of seconds; raises UserError."""
    match = _DURATION.fullmatch(text)
    seconds = float(match[1]) * _UNIT_S[match[2].lower()] if match else math.nan
    if not seconds > 0:
        raise UserError(f"{what} {text!r} is not a positive duration; write it like 12s, 1500ms or 2min.")
    if seconds > LONGEST_S:
        raise UserError(f"{what} {text!r} is longer than ten years; write it like 12s, 1500ms or 2min.")
    return seconds


def parse_percentile(text: str) -> float | None:
    """The percentile of `p90` (as 90.0), None when the text is not of that form; raises UserError out of range."""
    match = _PERCENTILE.fullmatch(text)
    if match is None:
        return None
    percentile = float(match[1])
    if not 0 < percentile < 100:
        raise UserError(f"p{match[1]} is not a percentile between 0 and 100, both excluded.")
    return percentile


def seconds(value: float | None, *, signed: bool = False, beside: float | None = None) -> str:
    """A duration in the unit a person would use, three significant figures; "-" when it was not observed.

    `beside` is a duration in the same line, whose unit is taken.
    """
    if value is None or math.isnan(value):
        return "-"
    sign = "+" if signed and value >= 0 else "-" if value < 0 else ""
    size = abs(value)
    if math.isinf(size):
        return "never"
    if size == 0:
        return f"{sign}0 s"
    like = size if beside is None or not math.isfinite(beside) or beside == 0 else abs(beside)
    unit_s, unit = next((unit_s, unit) for below_s, unit_s, unit in _WRITTEN if like < below_s)
    return f"{sign}{_three(size / unit_s)} {unit}"


def share(value: float | None) -> str:
    """A share as a percentage; "-" when it was not observed, and never rounded up to 100% or down to 0%."""
    if value is None or math.isnan(value):
        return "-"
    if 0 < value < 0.001:
        return "<0.1%"
    if 0.999 < value < 1:
        return ">99.9%"
    return f"{value * 100:.1f}%"


def count(value: int) -> str:
    """A count with thousands apart."""
    return f"{value:,}"


def plural(n: int, one: str, many: str) -> str:
    """A count with its noun."""
    return f"{count(n)} {one if n == 1 else many}"


def _three(size: float) -> str:
    if size >= 99.95:
        return f"{size:,.0f}"
    if size >= 9.995:
        return f"{size:.1f}"
    return f"{size:.2f}" if size >= 0.0995 else f"{size:.2g}"
