"""Axes of time: ticks where a person would put them, labels in the unit a person would use."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import altair as alt

LOG_FROM_SPREAD: Final = 20.0
"""An axis is logarithmic where its largest value is this many times its smallest."""

_ROOM: Final = 0.12

_STEPS: Final = (1.0, 2.0, 5.0)
_CLOCK_STEPS: Final = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0)
_UNITS: Final = ((172_800.0, 86_400.0, "d"), (7200.0, 3600.0, "h"), (120.0, 60.0, "min"), (0.0, 1.0, "s"))
"""From how many seconds on an axis is in which unit: seconds of one, and its word."""
_LOG_TICKS_S: Final = (10.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0, 10800.0, 36000.0, 86400.0, 259200.0, 864000.0)

# The same words as `units.seconds`, without figures that mean nothing on an axis.
_LABEL: Final = (
    "datum.value == 0 ? '0' : abs(datum.value) < 0.001 ? format(datum.value * 1e6, '~r') + ' µs'"
    " : abs(datum.value) < 1 ? format(datum.value * 1000, '.3~r') + ' ms'"
    " : abs(datum.value) < 120 ? format(datum.value, '.3~r') + ' s'"
    " : abs(datum.value) < 7200 && abs(datum.value) != 3600 ? format(datum.value / 60, '.3~r') + ' min'"
    " : abs(datum.value) < 172800 ? format(datum.value / 3600, '.3~r') + ' h'"
    " : format(datum.value / 86400, '.3~r') + ' d'"
)


def time_labels(top_s: float = math.nan) -> str:
    """The expression that turns an axis's seconds into words: in one unit where it is linear up to `top_s`."""
    for from_s, unit_s, word in _UNITS:
        if unit_s > 1 and top_s >= from_s:
            return f"datum.value == 0 ? '0' : format(datum.value / {unit_s:.0f}, '~r') + ' {word}'"
    return _LABEL


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """An axis over seconds from `low` to `high`."""

    low: float
    high: float
    log: bool
    title: str | None = None

    @property
    def ticks(self) -> list[float]:
        """Where its ticks stand."""
        return log_ticks(self.low, self.high) if self.log else linear_ticks(self.low, self.high)

    def encode(self, field: str) -> alt.X:
        """The x encoding of a field of seconds."""
        scale = alt.Scale(type="log" if self.log else "linear", domain=[self.low, self.high], nice=False, clamp=True)
        labels = time_labels(math.nan if self.log else max(-self.low, self.high))
        axis = alt.Axis(values=self.ticks, labelExpr=labels, title=self.title, grid=True)
        return alt.X(f"{field}:Q", scale=scale, axis=axis)


def time_axis(values: Iterable[float], title: str | None = None) -> TimeAxis:
    """An axis that holds all of these seconds: from zero, or logarithmic where they are far apart.

    It reaches past the largest, so that words beside it have room.
    """
    known = [value for value in values if math.isfinite(value) and value > 0]
    if not known:
        return TimeAxis(0.0, 1.0, False, title)
    low, high = min(known), max(known)
    if high / low >= LOG_FROM_SPREAD:
        room = (high / low) ** _ROOM
        return TimeAxis(low / room**0.4, high * room, True, title)
    return TimeAxis(0.0, high * (1 + _ROOM), False, title)


def linear_ticks(low: float, high: float, most: int = 7) -> list[float]:
    """At most `most` round values, or as many as that and the one at `low`: whole ones in the axis's unit."""
    least = (high - low) / most
    if not least > 0:
        return [low]
    step = _step(least, max(-low, high))
    first = math.ceil(low / step - 1e-9)
    return [round(step * index, 10) for index in range(first, math.floor(high / step + 1e-9) + 1)]


def _step(least_s: float, top_s: float) -> float:
    """The smallest round step of at least so many seconds, on an axis up to `top_s`."""
    unit_s, word = next((unit_s, word) for from_s, unit_s, word in _UNITS if top_s >= from_s)
    least = least_s / unit_s if word == "s" else max(least_s / unit_s, 1.0)
    if word == "min" or (word == "s" and least >= 5.0):
        for step in _CLOCK_STEPS:
            if step >= least * (1 - 1e-9):
                return step * unit_s
    scale = 10.0 ** math.floor(math.log10(least))
    return unit_s * next(scale * size for size in (*_STEPS, 10.0) if scale * size >= least * (1 - 1e-9))


def log_ticks(low: float, high: float, most: int = 7) -> list[float]:
    """Powers of ten below ten seconds (with 2 and 5 between where there is room), clock times above."""
    decades = range(math.floor(math.log10(low)), 1)
    for sizes in (_STEPS, (1.0, 3.0), (1.0,)):
        fine = [round(size * 10.0**decade, 10) for decade in decades for size in sizes]
        ticks = sorted({*fine, *_LOG_TICKS_S})
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= most:
            return ticks or [low, high]
    return ticks[:: math.ceil(len(ticks) / most)]


def deadlines(low_s: float, high_s: float) -> list[float]:
    """Round deadlines between two, a tenth to a fortieth apart, to choose from."""
    found = []
    for unit_s, from_s, to_s in ((1.0, 0.0, 120.0), (60.0, 120.0, 7200.0), (3600.0, 7200.0, math.inf)):
        lowest, highest = max(low_s, from_s), min(high_s, to_s)
        if lowest >= highest:
            continue
        for decade in range(math.floor(math.log10(lowest / unit_s)), math.ceil(math.log10(highest / unit_s)) + 1):
            for size in (*range(10, 40), *range(40, 100, 2)):
                value = round(size * 10.0 ** (decade - 1) * unit_s, 6)
                if lowest <= value < to_s and value <= highest:
                    found.append(value)
    return sorted(set(found))
