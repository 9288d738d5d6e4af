"""How many output tokens of a hop fit in what is left: by model, with first token and pace at one level.

    N = 1 + floor((left - first token) / seconds a token)

First token and pace are Q_l(TTFT | model) and Q_l(TPOT | model) at the one level l under which the wanted share of
hops ended within first token + (N - 1) * pace. Where most first tokens were not observed, both are the model's
expectation for a middling prompt, times the quantile of duration over expectation.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hopbudget.budgets.expectations import expected
from hopbudget.budgets.expectations.expected import Expectations, usable_hops
from hopbudget.budgets.expectations.table import Row
from hopbudget.budgets.expectations.waits import OTHERS
from hopbudget.budgets.numbers.quantiles import rank
from hopbudget.budgets.profile import Floats, Hops, Ints, Profile
from hopbudget.budgets.run_time.fits import LEVELS

LEAST: Final = 30
"""A model with fewer usable hops has no row."""
MOST_TOKENS: Final = 10_000_000
"""What is said of a model whose tokens take no time."""
SMALLEST_S: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Pace:
    """Of one model: the first token and the seconds of every further one, by level."""

    model: str
    at: tuple[float, ...]
    first_token_s: tuple[float, ...]
    per_token_s: tuple[float, ...]
    n: int

    def left(self, left_s: float, at: float = 0.9) -> int | None:
        """The most output tokens that come within `left_s`, `at` of the time; None for a level above those kept."""
        level = bisect_left(self.at, at - 1e-9)
        if level == len(self.at):
            return None
        spare_s = left_s - self.first_token_s[level]
        if spare_s < 0:
            return 0
        pace = self.per_token_s[level]
        return MOST_TOKENS if spare_s >= MOST_TOKENS * pace else 1 + math.floor(spare_s / pace)

    def to_plan(self) -> dict[str, Any]:
        """A row of the plan's `[[tokens]]`."""
        lists = {name: list(getattr(self, name)) for name in ("at", "first_token_s", "per_token_s")}
        return {"model": self.model, **lists, "n": self.n}


def from_plan(rows: Iterable[Mapping[str, Any]]) -> tuple[Pace, ...]:
    """The paces that `Pace.to_plan` wrote."""
    return tuple(
        Pace(row["model"], tuple(row["at"]), tuple(row["first_token_s"]), tuple(row["per_token_s"]), int(row["n"]))
        for row in rows
    )


def learn(profile: Profile, p: float = 0.9, expectations: Expectations | None = None) -> tuple[Pace, ...]:
    """A row for each model with enough hops whose output tokens are known, at the usual levels and at p.

    `expectations` of the same profile save the time of learning them again.
    """
    hops = profile.hops
    usable = usable_hops(hops)
    models = hops.model.astype(str)
    levels = tuple(sorted({*LEVELS, p}))
    known = expected.fit(hops, p) if expectations is None else expectations
    finish_s = expected.expect(hops, known).finish_s
    usable &= ~np.isnan(finish_s)
    rows = []
    for model in np.unique(models[usable]).tolist():
        mine = np.flatnonzero(usable & (models == model))
        if not model or len(mine) < LEAST:
            continue
        paced = (hops.output_tokens[mine] <= 1) | ~np.isnan(hops.tpot_s[mine])
        streamed = mine[paced & ~np.isnan(hops.ttft_s[mine])]
        if 2 * len(streamed) >= max(len(mine), 2 * LEAST):
            found = _streamed(hops, streamed, levels)
        else:
            over = hops.duration_s[mine] / np.maximum(finish_s[mine], SMALLEST_S)
            found = _scaled(_usual_row(known, model), np.sort(over), levels)
        first, per_token = (_kept(column) for column in zip(*found, strict=True))
        rows.append(Pace(model, levels, first, per_token, len(mine)))
    return tuple(rows)


def evaluate(train: Profile, test: Profile, p: float = 0.9) -> dict[str, Any]:
    """Whether hops of `test` were done in the time in which a plan learned on `train` says that their tokens fit.

    A row a hop whose N is known: `trajectory` (index into `test`), `model`, `right` (0 or 1; p of them should be).
    """
    hops = test.hops
    paces = {pace.model: pace for pace in learn(train, p)}
    rows = np.flatnonzero(usable_hops(hops) & np.isin(hops.model.astype(str), list(paces)))
    needed = np.array([_needed_s(paces[str(hops.model[i])], float(hops.output_tokens[i]), p) for i in rows])
    return {
        "trajectory": hops.trajectory[rows],
        "model": hops.model[rows].astype(str),
        "right": (hops.duration_s[rows] <= needed).astype(np.float64),
    }


def _needed_s(pace: Pace, tokens: float, p: float) -> float:
    level = bisect_left(pace.at, p - 1e-9)
    return pace.first_token_s[level] + max(tokens - 1.0, 0.0) * pace.per_token_s[level]


def _kept(column: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(f"{value:.6g}") for value in column)


def _streamed(hops: Hops, rows: Ints, levels: tuple[float, ...]) -> list[tuple[float, float]]:
    ttft = np.sort(hops.ttft_s[rows])
    paced = np.sort(hops.tpot_s[rows][hops.output_tokens[rows] > 1])
    more = np.maximum(hops.output_tokens[rows] - 1.0, 0.0)

    def at(level: float) -> tuple[float, float]:
        return _ranked(ttft, level), _ranked(paced, level) if len(paced) else 0.0

    def kept(level: float) -> float:
        first, pace = at(level)
        return float(np.mean(hops.duration_s[rows] <= first + more * pace))

    found = []
    for wanted in levels:
        low, high = 0, 1000
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if kept(middle / 1000) >= wanted else (middle, high)
        found.append(at(high / 1000))
    return found


def _usual_row(known: Expectations, model: str) -> Row:
    """The model's expectation for prompts of a middling size."""
    rows = [row for row in known.rows if row.model == model] or [row for row in known.rows if row.model == OTHERS]
    return rows[len(rows) // 2]


def _scaled(row: Row, over: Floats, levels: tuple[float, ...]) -> list[tuple[float, float]]:
    scales = [_ranked(over, level) for level in levels]
    return [(scale * row.first_token_s, scale * row.per_token_s) for scale in scales]


def _ranked(ordered: Floats, level: float) -> float:
    return float(ordered[rank(len(ordered), level) - 1])
