"""The `x-hopbudget-*` headers: what they may fix of an answer, read and checked."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from hopbudget.endpoint.breaks import BREAKS
from hopbudget.endpoint.faults import ROWS
from hopbudget.endpoint.request import MAX_TOKENS, ApiError
from hopbudget.endpoint.script import ReasoningField

WITHOUT_A_STREAM: Final = {"reset", "headers-never"}
"""Rows that befall plain requests too, beside statuses."""
ONLY_FOR: Final = {"A11": ("chat", "responses", "messages"), "failed": ("responses",)}
"""Rows that are not for every API: legacy completions call no tools, and only responses can say that they failed."""


@dataclass(frozen=True, slots=True)
class Row:
    """One fault, and for how many requests in a row; None is for all from here on."""

    name: str
    times: int | None = None

    @property
    def status(self) -> int | None:
        """The HTTP status that the row answers with, if that is what it does."""
        return int(self.name) if self.name.isdecimal() else None


@dataclass(frozen=True, slots=True)
class Knobs:
    """What the headers fix; None leaves it to the GPU model or the request. Fixed times are exact."""

    rows: tuple[Row, ...] = ()
    key: str | None = None
    retry_after: str = "0"
    ttft_s: float | None = None
    tpot_s: float | None = None
    tokens: int | None = None
    reasoning_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    per_chunk: int = 1
    reasoning: Literal["shown", "hidden"] | None = None
    reasoning_field: ReasoningField = "reasoning_content"


def read_knobs(headers: Mapping[str, str], *, api: str, streamed: bool) -> Knobs:
    """The knobs among the request's headers (names in lower case).

    Raises ApiError for a value out of range, an unknown row or knob, or a row that this request can't have.
    """
    fixed: dict[str, Any] = {}
    for header, value in headers.items():
        name = header.removeprefix("x-hopbudget-")
        if name == header:
            continue
        if name not in _READERS:
            have = ", ".join(f"x-hopbudget-{known}" for known in _READERS)
            raise ApiError(f"Unknown header {header}. The simulation knows: {have}.", param=header)
        field, read = _READERS[name]
        try:
            fixed[field] = read(value)
        except ValueError as error:
            raise ApiError(f"Header {header}: {error}.", param=header) from None
    knobs = Knobs(**fixed)
    _check_rows(knobs, api, streamed=streamed)
    return knobs


def row_for(rows: Sequence[Row], number: int) -> Row | None:
    """The row that request `number` (from 0) of a sequence gets; None is an answer without a fault."""
    for row in rows:
        if row.times is None or number < row.times:
            return row
        number -= row.times
    return None


def _check_rows(knobs: Knobs, api: str, *, streamed: bool) -> None:
    for row in knobs.rows:
        if not streamed and row.status is None and row.name not in WITHOUT_A_STREAM:
            raise ApiError(f"Row {row.name} is a fault of streams; set `stream` to true.", param="stream")
        if api not in ONLY_FOR.get(row.name, (api,)):
            apis = ", ".join(ONLY_FOR[row.name])
            raise ApiError(f"Row {row.name} is for {apis}; {api} has no such thing.", param="x-hopbudget-row")
    if knobs.key is None and any(row.times is not None for row in knobs.rows):
        message = "A row that is counted needs x-hopbudget-key: requests with the same key are counted together."
        raise ApiError(message, param="x-hopbudget-key")


def _rows(value: str) -> tuple[Row, ...]:
    return tuple(_row(part.strip()) for part in value.split(","))


def _row(value: str) -> Row:
    counted = re.fullmatch(r"(.+?)x([1-9]\d{0,4})", value)
    name, times = (counted[1], int(counted[2])) if counted else (value, None)
    if re.fullmatch(r"[45]\d\d", name):
        return Row(name, times)
    known = {row.lower(): row for row in (*ROWS, *BREAKS)}
    if name.lower() not in known:
        raise ValueError(f"no row {name!r}; there are {', '.join(known.values())} and statuses from 400 to 599")
    return Row(known[name.lower()], times)


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0.0 <= seconds <= 3600.0:
        raise ValueError(f"{value!r} is not a time in seconds between 0 and 3600")
    return seconds


def _retry_after(value: str) -> str:
    _seconds(value)
    return value


def _key(value: str) -> str:
    if not 0 < len(value) <= 200:
        raise ValueError("a key has 1 to 200 characters")
    return value


def _count(value: str) -> int:
    if not value.isdecimal() or int(value) > MAX_TOKENS:
        raise ValueError(f"{value!r} is not a whole number up to {MAX_TOKENS}")
    return int(value)


def _positive(value: str) -> int:
    if (count := _count(value)) < 1:
        raise ValueError("must be at least 1")
    return count


def _one_of(*values: str) -> Any:
    def read(value: str) -> str:
        if value not in values:
            raise ValueError(f"must be {', '.join(values[:-1])} or {values[-1]}")
        return value

    return read


_READERS: Final[dict[str, tuple[str, Any]]] = {
    "row": ("rows", _rows),
    "key": ("key", _key),
    "retry-after": ("retry_after", _retry_after),
    "ttft": ("ttft_s", _seconds),
    "tpot": ("tpot_s", _seconds),
    "tokens": ("tokens", _positive),
    "reasoning-tokens": ("reasoning_tokens", _count),
    "prompt-tokens": ("prompt_tokens", _count),
    "cached-tokens": ("cached_tokens", _count),
    "per-chunk": ("per_chunk", _positive),
    "reasoning": ("reasoning", _one_of("shown", "hidden")),
    "reasoning-field": ("reasoning_field", _one_of("reasoning_content", "reasoning", "content")),
}
