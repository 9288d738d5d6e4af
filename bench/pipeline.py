"""A fixed pipeline of eight unlike hops, made from a seed: what splitting a deadline is for.

Each hop's time is lognormal with its own median and spread, all of them slowed together by one factor a trajectory
(a slow provider slows everything), and now and then three times as long as a Pareto draw (a straggler). Tools run
between the hops, and the last hop streams its answer.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np

from hopbudget.budgets import Allocation, Hops, Profile, Trajectories, Works, allocate, deadline_at
from hopbudget.budgets.groups.folds import Clusters
from hopbudget.budgets.numbers.paired import Estimate, bootstrap
from hopbudget.budgets.population import population
from hopbudget.budgets.profile import Bools, Floats, Words
from hopbudget.budgets.splits.auto import in_time, succeeded
from hopbudget.budgets.splits.slots import slot_times
from hopbudget.budgets.streams.stream import final_hops

HOPS: Final = 8
MEDIANS_S: Final = (0.5, 3.5, 0.8, 2.6, 0.6, 1.7, 1.1, 2.2)
SPREADS: Final = (0.25, 1.0, 0.4, 0.85, 0.3, 0.7, 0.5, 0.6)


@dataclass(frozen=True)
class Shape:
    """How unlike the hops are, and what runs beside them."""

    medians_s: tuple[float, ...] = MEDIANS_S
    spreads: tuple[float, ...] = SPREADS
    together: float = 0.35
    """Correlation of the hops' logarithms: how much of a slow moment all of them share."""
    stragglers: float = 0.03
    work_s: float = 0.15
    """Median time of each tool between two hops; 0 for none."""
    stream: bool = True
    """The last hop streams its answer: its first token and its tokens stand apart."""


ALIKE: Final = Shape(medians_s=(1.6,) * HOPS, spreads=(0.6,) * HOPS)


def make(trajectories: int, seed: int, shape: Shape = Shape()) -> Profile:
    """So many trajectories of the pipeline."""
    random = np.random.default_rng(seed)
    n, k = trajectories, len(shape.medians_s)
    shared = random.standard_normal((n, 1))
    own = random.standard_normal((n, k))
    z = np.sqrt(shape.together) * shared + np.sqrt(1 - shape.together) * own
    hop_s = np.array(shape.medians_s) * np.exp(z * np.array(shape.spreads))
    straggles = random.random((n, k)) < shape.stragglers
    hop_s = np.where(straggles, 3 * hop_s * (1 + random.pareto(1.5, (n, k))), hop_s)
    tool_s = shape.work_s * np.exp(0.5 * random.standard_normal((n, k)))
    tool_s[:, -1] = 0.0
    tokens = np.maximum(2, np.round(np.exp(5.0 + 0.6 * z[:, -1])))
    return _profile(hop_s, tool_s, tokens, stream=shape.stream)


def _profile(hop_s: Any, tool_s: Any, tokens: Any, *, stream: bool) -> Profile:
    n, k = hop_s.shape
    start_s = np.cumsum(hop_s + tool_s, axis=1) - hop_s - tool_s
    rows = np.repeat(np.arange(n), k)
    names = np.array([f"step {column + 1}" for column in range(k)], dtype=object)
    final = np.tile(np.arange(k) == k - 1, n) & stream
    flat_s = hop_s.ravel()
    ttft_s = np.where(final, 0.3 * flat_s, np.nan)
    counted = np.where(final, np.repeat(tokens, k), np.nan)
    hops = _table(
        Hops,
        n * k,
        trajectory=rows,
        hop=np.tile(names, n),
        visit=np.ones(n * k, dtype=np.int64),
        model=_words(n * k, "made-up"),
        streamed=final,
        final=final,
        started_s=start_s.ravel(),
        duration_s=flat_s,
        ttft_s=ttft_s,
        ttfa_s=ttft_s,
        tpot_s=(flat_s - ttft_s) / (counted - 1),
        output_tokens=counted,
        outcome=_words(n * k, "ok"),
    )
    between = np.flatnonzero(tool_s.ravel() > 0)
    works = _table(
        Works,
        len(between),
        trajectory=rows[between],
        work=_words(len(between), "tool"),
        started_s=(start_s + hop_s).ravel()[between],
        duration_s=tool_s.ravel()[between],
        outcome=_words(len(between), "ok"),
    )
    trajectories = _table(
        Trajectories,
        n,
        trace_id=np.array([f"{row:032x}" for row in range(n)], dtype=object),
        workload=_words(n, "pipeline"),
        started_at=1_700_000_000.0 + 60.0 * np.arange(n),
        duration_s=hop_s.sum(axis=1) + tool_s.sum(axis=1),
        work_s=tool_s.sum(axis=1),
        answer_start_s=start_s[:, -1] + 0.3 * hop_s[:, -1],
        outcome=_words(n, "ok"),
        complete=np.ones(n, dtype=np.bool_),
    )
    return Profile(trajectories, hops, works)


def _words(n: int, word: str) -> Any:
    return np.full(n, word, dtype=object)


def _table(table: Any, rows: int, **known: Any) -> Any:
    """The table with these columns; every other one as if nothing had been observed."""
    blank = {Words: _words(rows, ""), Bools: np.zeros(rows, dtype=np.bool_), Floats: np.full(rows, np.nan)}
    return table(**{field.name: known.get(field.name, blank.get(field.type)) for field in fields(table)})


@dataclass(frozen=True)
class HeldOut:
    """Shares of held-out trajectories that kept every budget and the deadline."""

    auto: Estimate
    eighth: Estimate
    """Each of the hops within D / 8, and the deadline met: nothing is set aside for tools."""
    equal: Estimate
    """Equal budgets for every place, tools and stream too."""
    alone: Estimate
    """The deadline met."""
    gain: Estimate
    """auto / eighth"""
    gain_over_equal: Estimate


def held_out(trajectories: int, seeds: Iterable[int], shape: Shape = Shape()) -> HeldOut:
    """Learn on one set of trajectories, at the p90 of its durations, and score on another, seed by seed."""
    columns: dict[str, list[Any]] = {name: [] for name in ("auto", "eighth", "equal", "alone")}
    for seed in seeds:
        learned, judged = make(trajectories, 2 * seed, shape), make(trajectories, 2 * seed + 1, shape)
        deadline_s = deadline_at(learned, 90)
        times = slot_times(judged, population(judged, "last"), "name", final_hops(judged))
        for name, method in (("auto", "auto"), ("equal", "equal")):
            plan = allocate(learned, deadline_s, method=method)
            budgets = _budgets(plan, times.names)
            columns[name].append(succeeded(times, budgets, deadline_s))
        in_hops = judged.hops.duration_s.reshape(-1, len(shape.medians_s))
        alone = in_time(times, deadline_s)
        columns["alone"].append(alone)
        columns["eighth"].append(alone * (in_hops <= deadline_s / in_hops.shape[1]).all(axis=1))
    kept = {name: np.concatenate(parts) for name, parts in columns.items()}
    n = len(kept["alone"])
    each = Clusters("trajectory", np.arange(n), ("",) * n)
    ones = np.ones(n)
    shares = {name: bootstrap(values, ones, each) for name, values in kept.items()}
    return HeldOut(
        **shares,
        gain=bootstrap(kept["auto"], kept["eighth"], each),
        gain_over_equal=bootstrap(kept["auto"], kept["equal"], each),
    )


def _budgets(plan: Allocation, names: tuple[str, ...]) -> Any:
    found = {slot.slot: slot.budget_s for slot in plan.slots}
    found["work"] = plan.work_s
    found["stream"] = plan.stream.budget_s if plan.stream else 0.0
    return np.array([found[name] if found[name] or name != "work" else np.inf for name in names])
