"""Kinds of value in `hopbudget.toml`: how each is read, and how JSON Schema describes it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hopbudget.budgets.attainment.objectives import METRICS
from hopbudget.store.narrow import nearest

Json = dict[str, Any]

_UNITS: Final = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_LONG_UNITS: Final = _UNITS | {"d": 86_400.0, "w": 604_800.0}
_NUMBER: Final = r"(?:\d+(?:\.\d+)?|\.\d+)"
_ABOVE_ZERO: Final = r"(?=[^a-z%]*[1-9])"
_MEANT: Final = {
    "sec": "s",
    "secs": "s",
    "second": "s",
    "seconds": "s",
    "msec": "ms",
    "millis": "ms",
    "milliseconds": "ms",
    "mins": "min",
    "minute": "min",
    "minutes": "min",
    "hr": "h",
    "hrs": "h",
    "hour": "h",
    "hours": "h",
    "day": "d",
    "days": "d",
    "week": "w",
    "weeks": "w",
}
_ABBREVIATED: Final = {"e2e": "trajectory_duration", "latency": "hop_duration", "duration": "trajectory_duration"}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value: `read` returns it as Python holds it, or raises ValueError with the end of a sentence."""

    read: Callable[[Any], Any]
    schema: Json
    about: str = ""

    def named(self, about: str) -> "Kind":
        """The same, described."""
        return Kind(self.read, self.schema, about)


def _duration(units: Mapping[str, float]) -> Kind:
    pattern = re.compile(rf"\s*({_NUMBER})\s*([A-Za-z]*)\s*", re.ASCII)

    def read(value: Any) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise ValueError(f'{value!r} has no unit: write "{value}s" or "{value}ms"')
        match = pattern.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise ValueError(f'{value!r} is not a duration: write it like "12s", "800ms" or "2m"')
        number, unit = float(match[1]), match[2]
        if not unit:
            raise ValueError(f'"{value}" has no unit: write "{match[1]}s" or "{match[1]}ms"')
        if unit not in units:
            meant = _MEANT.get(unit.lower(), unit.lower())
            hint = f". Did you mean {meant}?" if meant in units else f"; there are {', '.join(units)}."
            raise ValueError(f'"{value}": unknown unit {unit!r}{hint}')
        if not number > 0:
            raise ValueError(f'"{value}" is not more than nothing')
        return number / 1e3 if unit == "ms" else number * units[unit]

    spelled = "|".join(sorted(units, key=len, reverse=True))
    return Kind(read, {"type": "string", "pattern": rf"^\s*{_ABOVE_ZERO}{_NUMBER}\s*({spelled})\s*$"})


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not a text")
    return value


def _word(*words: str) -> Kind:
    def read(value: Any) -> str:
        if value not in words or not isinstance(value, str):
            listed = ", ".join(words)
            hint = nearest(str(value), words) if isinstance(value, str) else ""
            end = hint if "Did you mean" in hint else f"; it is one of {listed}."
            raise ValueError(f"unknown {value!r}{end}")
        return value

    return Kind(read, {"enum": list(words)})


def _metric(value: Any) -> str:
    if isinstance(value, str) and value.lower() in _ABBREVIATED:
        raise ValueError(f"unknown metric {value!r}. Did you mean {_ABBREVIATED[value.lower()]}?")
    if value not in METRICS or not isinstance(value, str):
        hint = nearest(value, METRICS) if isinstance(value, str) else ""
        end = hint if "Did you mean" in hint else f"; there are {', '.join(METRICS)}."
        raise ValueError(f"unknown metric {value!r}{end}")
    return value


def _number(low: float, high: float, what: str, *, whole: bool = False) -> Kind:
    def read(value: Any) -> float:
        right = isinstance(value, int) if whole else isinstance(value, int | float)
        if not right or isinstance(value, bool) or not low < value < high:
            raise ValueError(f"{value!r} is not {what}")
        return int(value) if whole else float(value)

    bounds: Json = {"exclusiveMinimum": low} | ({"exclusiveMaximum": high} if high < float("inf") else {})
    return Kind(read, {"type": "integer" if whole else "number", **bounds})


def _percentile(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1:
        raise ValueError(f"a percentile is out of 100: write {value * 100:g}, not {value}")
    if not isinstance(value, int | float) or isinstance(value, bool) or not 1 <= value < 100:
        raise ValueError(f"{value!r} is not a percentile: a number from 1 to below 100")
    return float(value)


def _share(value: Any) -> float:
    match = re.fullmatch(rf"\s*({_NUMBER})\s*%\s*", value, re.ASCII) if isinstance(value, str) else None
    number = float(match[1]) / 100 if match else value
    if not isinstance(number, int | float) or isinstance(number, bool) or not 0 < number < 1:
        raise ValueError(f'{value!r} is not a share: write it like "1%" or 0.01')
    return float(number)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is not true or false")
    return value


def _price(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < float("inf"):
        raise ValueError(f"{value!r} is not a price of a million tokens")
    return float(value)


def _trace_url(value: Any) -> str:
    if not isinstance(value, str) or not re.match(r"https?://", value):
        raise ValueError(f"{value!r} is not a URL")
    if "{trace_id}" not in value:
        raise ValueError("a trace_url holds {trace_id}, where the id of the trace goes")
    return value


def _hosts(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise ValueError(f'{value!r} is not a list of hosts: write it like ["api.internal"]')
    return [_text(host) for host in value]


def _match(value: Any, before: str = "") -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not a table of attributes and their values")
    flat: dict[str, str] = {}
    for key, of_key in value.items():
        if isinstance(of_key, dict):
            flat |= _match(of_key, f"{before}{key}.")  # tau2.run = "42" means the attribute `tau2.run`
        elif not isinstance(of_key, str) or not of_key:
            raise ValueError(f'{before}{key} = {of_key!r} is not a text: write it like "eu"')
        else:
            flat[before + key] = of_key
    return flat


DURATION: Final = _duration(_UNITS)
WINDOW: Final = _duration(_LONG_UNITS)
TEXT: Final = Kind(_text, {"type": "string", "minLength": 1})
TRUTH: Final = Kind(_truth, {"type": "boolean"})
COUNT: Final = _number(0, float("inf"), "a whole number of at least 1", whole=True)
PACE: Final = _number(0, float("inf"), "a number of tokens a second")
PRICE: Final = Kind(_price, {"type": "number", "minimum": 0})
SHARE: Final = Kind(
    _share,
    {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
            {"type": "string", "pattern": rf"^\s*{_ABOVE_ZERO}(?:\d{{1,2}}(?:\.\d+)?|\.\d+)\s*%\s*$"},
        ]
    },
)
PERCENTILE: Final = Kind(_percentile, {"type": "number", "minimum": 1, "exclusiveMaximum": 100})
METRIC: Final = Kind(_metric, {"enum": list(METRICS)})
MODE: Final = _word("observe", "deadline", "abort")
TRACE_URL: Final = Kind(_trace_url, {"type": "string", "pattern": r"^https?://.*\{trace_id\}"})
HOSTS: Final = Kind(_hosts, {"type": "array", "items": {"type": "string", "minLength": 1}})
MATCH: Final = Kind(_match, {"$ref": "#/$defs/match"})
DEFINITIONS: Final[Json] = {
    "match": {"type": "object", "additionalProperties": {"anyOf": [TEXT.schema, {"$ref": "#/$defs/match"}]}}
}
ANYTHING: Final = Kind(lambda value: value, {})
