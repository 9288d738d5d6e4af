"""Backtest, everything but the split: chance, steps that fit, giving up, expectations, first tokens, the stream.

Each part is learned and scored by its own module, whose `evaluate` returns equally long columns, one row a scored thing
with the `trajectory` it belongs to. Here they are pooled, and get their intervals.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hopbudget.budgets.allocation import Binds
from hopbudget.budgets.expectations import expected, first_tokens
from hopbudget.budgets.groups.folds import Clusters
from hopbudget.budgets.numbers.paired import Estimate, bootstrap, widened
from hopbudget.budgets.numbers.scoring import BINS, calibration_error
from hopbudget.budgets.profile import Floats, Ints, Profile
from hopbudget.budgets.run_time import aborting, chance, fits
from hopbudget.budgets.streams import stream

Rows = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """One part: its name, and how it is learned on one profile and scored on another (deadline, p, binds)."""

    name: str
    evaluate: Callable[[Profile, Profile, float, float, Binds], Rows]


PARTS: Final = (
    Part("chance", lambda train, test, d, p, binds: chance.evaluate(train, test, d, binds=binds)),
    Part("steps", lambda train, test, d, p, binds: fits.evaluate(train, test, d, p, binds=binds)),
    Part("abort", lambda train, test, d, p, binds: aborting.evaluate(train, test, d, binds=binds)),
    Part("expectation", lambda train, test, d, p, binds: expected.evaluate(train, test, p)),
    Part("first_tokens", lambda train, test, d, p, binds: first_tokens.evaluate(train, test, p)),
    Part("stream", lambda train, test, d, p, binds: stream.evaluate(train, test, p)),
)
"""In the order in which they run."""


def join(parts: Sequence[Rows]) -> Rows:
    """The rows of all folds, one after another."""
    filled = [rows for rows in parts if len(rows["trajectory"])]
    if not filled:
        return {"trajectory": np.zeros(0, dtype=np.int64)}
    return {name: np.concatenate([np.asarray(rows[name]) for rows in filled]) for name in filled[0]}


def measure(
    rows: Mapping[str, Rows], found: Clusters
) -> tuple[dict[str, Estimate], tuple[tuple[float, float, int], ...]]:
    """Every figure by name, with its interval; and the chances said beside what came of them."""
    figures: dict[str, Estimate] = {}
    reliability: tuple[tuple[float, float, int], ...] = ()
    for name, scored in rows.items():
        if not len(scored["trajectory"]):
            continue
        over = _Over(scored["trajectory"], found)
        figures |= _FIGURES[name](scored, over)
        if name == "chance":
            reliability = reliability_of(scored["p"], scored["met"])
    return {name: estimate for name, estimate in figures.items() if estimate.n}, reliability


@dataclass(frozen=True, slots=True)
class _Over:
    """Means and ratios of rows, with the clusters of their trajectories."""

    trajectory: Any
    found: Clusters

    def share(self, ones: Any) -> Estimate:
        """The share of ones among zeros and ones, where known; n counts rows."""
        return self.ratio(ones, is_share=True)

    def ratio(self, top: Any, bottom: Any = None, *, is_share: bool = False) -> Estimate:
        """sum top / sum bottom (or the mean of top) over the rows where both are known; n counts rows."""
        top = np.asarray(top, dtype=np.float64)
        known = ~np.isnan(top) if bottom is None else ~np.isnan(top) & ~np.isnan(bottom)
        below = known.astype(np.float64) if bottom is None else np.where(known, bottom, 0.0)
        size = len(self.found.code)
        tops, bottoms = (
            np.bincount(self.trajectory, weights=values, minlength=size).astype(np.float64)
            for values in (np.where(known, top, 0.0), below)
        )
        estimate = bootstrap(tops, bottoms, self.found, is_share=is_share)
        return Estimate(estimate.value, estimate.low, estimate.high, int(np.count_nonzero(known)), estimate.clusters)


def _chance(rows: Rows, over: _Over) -> dict[str, Estimate]:
    base, plain, hint = ((rows[name] - rows["met"]) ** 2 for name in ("base", "p", "p_hint"))
    count = over.ratio(plain)
    return {
        "chance.brier": over.ratio(plain),
        "chance.base": over.ratio(base),
        "chance.brier_hint": over.ratio(hint),
        "chance.brier_over_base": over.ratio(plain, base),
        "chance.brier_hint_over_base": over.ratio(hint, base),
        "chance.ece": Estimate(*_calibration(rows, over), count.n, count.clusters),
    }


def _calibration(rows: Rows, over: _Over, draws: int = 200) -> tuple[float, float, float]:
    """The calibration error and its basic bootstrap interval over clusters: drawing again only ever adds to it."""
    value = calibration_error(rows["p"], rows["met"])
    cluster = over.found.code[over.trajectory]
    place = np.minimum((rows["p"] * BINS).astype(np.int64), BINS - 1)
    gap = np.bincount(cluster * BINS + place, weights=rows["p"] - rows["met"], minlength=over.found.n * BINS)
    gap, n = gap.reshape(-1, BINS), np.bincount(cluster, minlength=over.found.n)
    gap, n = gap[n > 0], n[n > 0]
    random = np.random.default_rng(0)
    drawn = random.integers(0, len(n), (draws, len(n)))
    errors = np.array([np.abs(gap[one].sum(axis=0)).sum() / n[one].sum() for one in drawn])
    low, high = widened(value, *np.quantile(errors, [0.025, 0.975]), clusters=len(n))
    return value, max(2 * value - high, 0.0), max(2 * value - low, value)


def _steps(rows: Rows, over: _Over) -> dict[str, Estimate]:
    return {"steps.right": over.share(rows["right"])}


def _abort(rows: Rows, over: _Over) -> dict[str, Estimate]:
    return {
        "abort.saved": over.ratio(rows["saved_s"], rows["spent_s"]),
        "abort.false": over.share(rows["false"]),
        "abort.saved_hint": over.ratio(rows["saved_hint_s"], rows["spent_s"]),
        "abort.false_hint": over.share(rows["false_hint"]),
    }


def _expectation(rows: Rows, over: _Over) -> dict[str, Estimate]:
    figures = {
        "expectation.pinball_over_flat": over.ratio(rows["loss"], rows["flat_loss"]),
        "expectation.covered": over.share(rows["covered"]),
    }
    for quarter in range(4):
        inside = np.where(rows["quarter"] == quarter, rows["covered"], np.nan)
        figures[f"expectation.covered.quarter_{quarter + 1}"] = over.share(inside)
    for name in ("pace2", "first5", "answer3"):
        for kind in ("slow", "flat"):
            figures[f"expectation.{name}_{kind}"] = over.share(rows[f"{name}_{kind}"])
    return figures


def _first_tokens(rows: Rows, over: _Over) -> dict[str, Estimate]:
    figures = {
        "first_tokens.covered": over.share(rows["covered"]),
        "first_tokens.extra": over.share(rows["extra"]),
        "first_tokens.hang_extra": over.share(rows["hang_extra"]),
        "first_tokens.p99": _tail(rows["after_s"], rows["ttft_s"], over),
        "first_tokens.hang_p99": _tail(rows["hang_after_s"], rows["hang_ttft_s"], over),
    }
    worst = _worst(rows["covered"], rows["cell"], over, least=40)
    return {**figures, **({"first_tokens.worst_cell": worst} if worst else {})}


def _stream(rows: Rows, over: _Over) -> dict[str, Estimate]:
    worst = _worst(rows["joint"], rows["model"], over, least=100)
    return {"stream.joint": over.share(rows["joint"]), **({"stream.worst_model": worst} if worst else {})}


def _worst(values: Floats, group: Any, over: _Over, least: int) -> Estimate | None:
    """The smallest mean among the groups with enough rows."""
    words = np.asarray(group).astype(str)
    found = [
        over.share(np.where(words == word, values, np.nan))
        for word in sorted(set(words) - {""})
        if np.count_nonzero((words == word) & ~np.isnan(values)) >= least
    ]
    return min(found, key=lambda one: one.value) if found else None


def _tail(after_s: Floats, before_s: Floats, over: _Over, p: float = 0.99, draws: int = 200) -> Estimate:
    """The p-quantile after, over that before; the interval draws whole clusters again."""

    def ratio(rows: Ints) -> float:
        before = float(np.quantile(before_s[rows], p))
        return float(np.quantile(after_s[rows], p)) / before if before > 0 else math.nan

    cluster = over.found.code[over.trajectory]
    order = np.argsort(cluster, kind="stable")
    names, starts = np.unique(cluster[order], return_index=True)
    groups = np.split(order, starts[1:])
    value = ratio(order)
    if math.isnan(value):
        return Estimate(math.nan, math.nan, math.nan, 0, 0)
    random = np.random.default_rng(0)
    drawn = [
        ratio(np.concatenate([groups[one] for one in random.integers(0, len(groups), len(groups))]))
        for _ in range(draws)
    ]
    low, high = widened(value, *np.nanquantile(drawn, [0.025, 0.975]), clusters=len(names))
    return Estimate(value, low, high, len(after_s), len(names))


_FIGURES: Final[Mapping[str, Callable[[Rows, _Over], dict[str, Estimate]]]] = {
    "chance": _chance,
    "steps": _steps,
    "abort": _abort,
    "expectation": _expectation,
    "first_tokens": _first_tokens,
    "stream": _stream,
}


def reliability_of(said: Floats, met: Floats) -> tuple[tuple[float, float, int], ...]:
    """(mean chance said, share that met, n) by tenths of the chance."""
    place = np.minimum((said * BINS).astype(np.int64), BINS - 1)
    rows = []
    for one in range(BINS):
        inside = place == one
        n = int(np.count_nonzero(inside))
        if n:
            rows.append((float(said[inside].mean()), float(met[inside].mean()), n))
    return tuple(rows)
