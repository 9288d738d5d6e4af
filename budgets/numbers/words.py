"""Numbers as a person reads them."""

import math
from typing import Final

_WRITTEN: Final = (
    (0.9995, 0.001, "ms"),
    (120.0, 1.0, "s"),
    (7200.0, 60.0, "min"),
    (172_800.0, 3600.0, "h"),
    (math.inf, 86_400.0, "d"),
)
"""Below how many seconds, the seconds in a unit, and the unit: as screens write durations (`hopbudget.units`)."""


def seconds(value_s: float) -> str:
    """Three figures and the unit that a person would use, such as "320 ms", "5.79 s" or "26.6 min"."""
    if not math.isfinite(value_s):
        return "longer than anything observed"
    if value_s == 0:
        return "0 s"
    size = abs(value_s)
    unit_s, unit = next((unit_s, unit) for below_s, unit_s, unit in _WRITTEN if size < below_s)
    return f"{'-' if value_s < 0 else ''}{_three(size / unit_s)} {unit}"


def _three(size: float) -> str:
    if size >= 99.95:
        return f"{size:,.0f}"
    if size >= 9.995:
        return f"{size:.1f}"
    return f"{size:.2f}" if size >= 0.0995 else f"{size:.2g}"


def trajectories(count: int) -> str:
    """So many of them, such as "1 trajectory" or "1,250 trajectories"."""
    return f"{count:,} trajector" + ("y" if count == 1 else "ies")


def tokens(count: float) -> str:
    """So many of them, such as "1 token" or "250 tokens"."""
    return f"{count:,.0f} token" + ("" if round(count) == 1 else "s")


def by_chance(intervals: int) -> str:
    """How many of so many 95% intervals miss what they are of by chance alone, such as "about 2" or "fewer than 1"."""
    missed = 0.05 * intervals
    return f"about {round(missed)}" if missed >= 1 else "fewer than 1"
