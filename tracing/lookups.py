"""The tables of a plan, and how they are read while an agent runs: lists and logarithms, no arrays.

Each answers as its namesake in `hopbudget.budgets` does (`suffix`, `logit`, `fits`, `tokens`, `first_tokens`,
`aborting`), where the mathematics stands; a test holds them equal.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Final

Row = Mapping[str, Any]

LEAST_LEFT: Final = 1e-3
LEAST_HINT: Final = 0.5
MOST_TOKENS: Final = 10_000_000
CLOSE: Final = 1e-9


class Chance:
    """P(the deadline is met) at the start of a visit."""

    __slots__ = (
        "_deadline_s",
        "_hint",
        "_known",
        "_known_hint",
        "_logit",
        "_mean_hop_s",
        "_ranges",
        "_rows",
        "_visits",
    )

    def __init__(self, table: Row, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._ranges = _floats(table["ranges"])
        self._known, self._known_hint = list(table["known"]), list(table["known_hint"])
        self._visits = _floats(table["visits"])
        self._rows = [(_floats(times), float(reach)) for times, reach in _pairs(table["remaining_s"], table["reach"])]
        self._logit, self._hint = _coefficients(table.get("logit")), _coefficients(table.get("hint"))
        self._mean_hop_s = float(table.get("mean_hop_s", 1.0))
        _same_length(self._ranges, self._known, self._known_hint)
        _same_length(self._visits, self._rows)

    def said(self, visit: int, elapsed_s: float, steps_left: float | None) -> float | None:
        """The chance where it says more than the base rate; None elsewhere."""
        known = self._known if steps_left is None else self._known_hint
        if not known[_at(self._ranges, visit)]:
            return None
        return self.any(visit, elapsed_s, steps_left)

    def any(self, visit: int, elapsed_s: float, steps_left: float | None) -> float | None:
        """The chance, said or not; None where there is no model of it."""
        left_s = self._deadline_s - elapsed_s
        if steps_left is not None:
            return None if self._hint is None else self._p(self._hint, visit, elapsed_s, left_s, steps_left)
        share = self._share(visit, left_s)
        if self._logit is None:
            return share
        return (share + self._p(self._logit, visit, elapsed_s, left_s, 1.0)) / 2

    def _share(self, visit: int, left_s: float) -> float:
        times, reach = self._rows[_at(self._visits, visit)]
        above = bisect_right(times, left_s)
        if left_s <= 0 or not above:
            return 0.0
        if above == len(times):
            return reach
        before, after = times[above - 1], times[above]
        return reach * (above - 1 + (left_s - before) / (after - before)) / (len(times) - 1)

    def _p(self, coefficients: Sequence[float], visit: int, elapsed_s: float, left_s: float, hops: float) -> float:
        if left_s <= 0:
            return 0.0
        c0, c1, c2, c3, c4, c5 = coefficients
        deadline_s, mean_s = self._deadline_s, self._mean_hop_s
        hops = max(hops, LEAST_HINT)
        left_s = max(left_s, LEAST_LEFT * deadline_s)
        z = c0 + c1 * left_s / deadline_s + c3 * math.log(left_s / (mean_s * hops)) + c5 * math.log(hops)
        if visit > 1:
            z += c2 * math.log(visit) + c4 * math.log(max(elapsed_s / mean_s, LEAST_LEFT) / (visit - 1))
        return 1.0 / (1.0 + math.exp(-min(max(z, -30.0), 30.0)))


class Steps:
    """How many more hops fit."""

    __slots__ = ("_at", "_hops", "_within_s")

    def __init__(self, table: Row) -> None:
        self._at, self._hops = _floats(table["at"]), [int(count) for count in table["hops"]]
        self._within_s = [_floats(row) for row in table["within_s"]]
        _same_length(self._at, self._within_s)
        if any(len(row) > len(self._hops) for row in self._within_s):
            raise ValueError("`within_s` has more columns than `hops`")

    def left(self, left_s: float, at: float) -> int | None:
        """The most hops that fit in `left_s`, `at` of the time."""
        level = bisect_left(self._at, at - CLOSE)
        if level == len(self._at):
            return None
        fit = bisect_right(self._within_s[level], left_s)
        return self._hops[fit - 1] if fit else 0


class Pace:
    """How many output tokens of one model fit."""

    __slots__ = ("_at", "_first_token_s", "_per_token_s")

    def __init__(self, row: Row) -> None:
        self._at = _floats(row["at"])
        self._first_token_s, self._per_token_s = _floats(row["first_token_s"]), _floats(row["per_token_s"])
        _same_length(self._at, self._first_token_s, self._per_token_s)

    def left(self, left_s: float, at: float) -> int | None:
        """The most output tokens that come within `left_s`, `at` of the time."""
        level = bisect_left(self._at, at - CLOSE)
        if level == len(self._at):
            return None
        spare_s, pace = left_s - self._first_token_s[level], self._per_token_s[level]
        if spare_s < 0:
            return 0
        return MOST_TOKENS if spare_s >= MOST_TOKENS * pace else 1 + math.floor(spare_s / pace)


class FirstTokens:
    """How long to wait for a first token of one model."""

    __slots__ = ("_any_size", "_sizes")

    def __init__(self, rows: Sequence[Row]) -> None:
        self._any_size: Row = next((row for row in rows if row.get("sizes") == "all"), {})
        self._sizes = [row for row in rows if row.get("sizes") != "all"]
        for row in self._sizes:
            _floats([row["from_tokens"], row["at_tokens"], row.get("per_token", 0.0)])

    def after_s(self, prompt_tokens: float | None, q: float) -> float | None:
        """The q-quantile for a prompt of this size; q is rounded up to 0.95 or 0.99."""
        key = "q95_s" if q <= 0.95 + 1e-12 else "q99_s" if q <= 0.99 + 1e-12 else None
        if key is None:
            return None
        if prompt_tokens is None:
            return self._any_size.get(key)
        for row in self._sizes:
            if prompt_tokens <= row.get("up_to_tokens", math.inf):
                seconds = row.get(key)
                more = max(prompt_tokens, row["from_tokens"]) - row["at_tokens"]
                return None if seconds is None else float(seconds * (1.0 + row.get("per_token", 0.0) * more))
        return None


class Abort:
    """When to give up."""

    __slots__ = ("_hint_below", "_latest_s", "_visits", "pays")

    def __init__(self, table: Row) -> None:
        self.pays = bool(table.get("pays", False))
        self._visits, self._latest_s = _floats(table.get("visits", [])), _floats(table.get("latest_s", []))
        _same_length(self._visits, self._latest_s)
        below = table.get("hint_below")
        self._hint_below = None if below is None else float(below)

    def gives_up(self, chance: Chance | None, visit: int, elapsed_s: float, steps_left: float | None) -> bool:
        """Whether the rule gives up here: the one with a hint where there is one, else the other."""
        if not self.pays:
            return False
        if steps_left is not None and self._hint_below is not None and chance is not None:
            p = chance.any(visit, elapsed_s, steps_left)
            return p is not None and p < self._hint_below
        return bool(self._latest_s) and elapsed_s > self._latest_s[_at(self._visits, visit)]


def _at(firsts: Sequence[float], visit: int) -> int:
    return max(bisect_right(firsts, visit) - 1, 0)


def _floats(values: Any) -> list[float]:
    if not isinstance(values, list) or not all(isinstance(v, int | float) for v in values):
        raise TypeError(f"expected a list of numbers, not {values!r:.40}")
    return values


def _coefficients(values: Any) -> tuple[float, ...] | None:
    if values is None:
        return None
    if len(_floats(values)) != 6:
        raise ValueError("a logit has six coefficients")
    return tuple(values)


def _pairs(rows: Any, reach: Any) -> list[tuple[Any, float]]:
    return list(zip(rows, _floats(reach), strict=True))


def _same_length(*lists: Sequence[Any]) -> None:
    if len({len(values) for values in lists}) > 1:
        raise ValueError("lists that belong together differ in length")
