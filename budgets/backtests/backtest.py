"""Would it have held? Everything a plan says, learned on some runs and scored on others.

Whole clusters (runs, else sessions, else trajectories) are held out in turn, so that nothing is scored on its own
neighbours. Every figure is pooled over all held-out trajectories, and its interval is a bootstrap over clusters.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from hopbudget.budgets.allocation import Binds, CannotAllocateError, SlotKind
from hopbudget.budgets.backtests import splits
from hopbudget.budgets.backtests.bounds import Bound, bounds
from hopbudget.budgets.backtests.parts import PARTS, Part, Rows, join, measure
from hopbudget.budgets.backtests.splits import Cell, Named
from hopbudget.budgets.groups.folds import clusters, folds, within_runs
from hopbudget.budgets.numbers import words
from hopbudget.budgets.numbers.paired import Estimate
from hopbudget.budgets.population import usable_population
from hopbudget.budgets.profile import Ints, Profile
from hopbudget.budgets.splits.slots import Times, slot_times
from hopbudget.budgets.streams.stream import final_hops

FOLDS: Final = 10
LEAST: Final = 20
"""Fewer trajectories, or fewer clusters than two, say nothing about trajectories that were not there."""


@dataclass(frozen=True, slots=True)
class Backtest:
    """What was measured, all on trajectories held out."""

    trajectories: int
    held_out: str
    """What was held out together: run, session or trajectory."""
    clusters: int
    folds: int
    percentile: float
    slot_kind: SlotKind
    places: tuple[str, ...]
    cells: tuple[Cell, ...]
    """One a deadline."""
    main: Named
    """The deadline that the parts below were asked about: of those that are a number, the nearest to the percentile."""
    parts: dict[str, Estimate]
    """By name, see `backtest_parts.PARTS`; what could not be scored is not there."""
    reliability: tuple[tuple[float, float, int], ...]
    """(chance said, share that met the deadline, n) by tenths of the chance."""
    bounds: tuple[Bound, ...]
    left_out: dict[str, int]

    @property
    def sentence(self) -> str:
        """What a sceptic may quote."""
        return _sentence(self)


def backtest(
    profile: Profile,
    deadlines: Sequence[Named],
    *,
    percentile: float = 90.0,
    binds: Binds = "last",
    slots: SlotKind | None = None,
    parts: Sequence[Part] = PARTS,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Backtest:
    """Hold out whole clusters in turn, learn everything on the rest, and score it on what was held out.

    A deadline named by a percentile is learned anew each time; folds whose training part makes none, because too many
    failed, are left out and counted (`Cell.untold`). Without `slots`, hops are split by name, or where all
    have one name, by what came before. Raises `CannotAllocateError` where there is too little to hold out.
    """
    people = usable_population(profile, binds)
    found = clusters(profile, people.rows)
    if len(people.rows) < LEAST or found.n < 2:
        usable = words.trajectories(len(people.rows))
        enough = f"a backtest takes {LEAST}" if len(people.rows) < LEAST else f"all are of one {found.kind}"
        raise CannotAllocateError(f"there is too little to hold anything out: {usable} can be used, and {enough}")
    groups = (found, within_runs(profile, people.rows))
    fold = folds(found, FOLDS)
    kind, times = _places(profile, slots, binds)
    everyone = np.arange(len(people.rows))
    known = [one for one in deadlines if math.isfinite(one.at(times, everyone))] or deadlines
    main = min(known, key=lambda one: abs((one.percentile or math.inf) - percentile))
    count = int(fold.max()) + 1
    rows: dict[str, list[Rows]] = {part.name: [] for part in parts}
    tried = [splits.empty(one, len(people.rows)) for one in deadlines]
    done, of = 0, count * (len(deadlines) + len(parts))
    for one in range(count):
        train, test = np.flatnonzero(fold != one), np.flatnonzero(fold == one)
        for cell in tried:
            deadline_s = cell.named.at(times, train)
            if math.isfinite(deadline_s) and deadline_s > 0:
                splits.fill(cell, times, groups, train=train, test=test, deadline_s=deadline_s)
            else:
                cell.untold.append(len(test))
            progress(done := done + 1, of)
        learned, judged = profile.take(people.rows[train]), profile.take(people.rows[test])
        deadline_s = main.at(times, train)
        for part in parts:
            if math.isfinite(deadline_s) and deadline_s > 0:
                scored = part.evaluate(learned, judged, deadline_s, percentile / 100, binds)
                rows[part.name].append(_on_people(scored, test))
            progress(done := done + 1, of)
    figures, reliability = measure({name: join(scored) for name, scored in rows.items()}, found)
    return Backtest(
        trajectories=len(people.rows),
        held_out=found.kind,
        clusters=found.n,
        folds=count,
        percentile=percentile,
        slot_kind=kind,
        places=times.names,
        cells=tuple(splits.score(cell, times, found) for cell in tried),
        main=main,
        parts=figures,
        reliability=reliability,
        bounds=bounds(people, profile.trajectories.run[people.rows], groups[1], percentile / 100),
        left_out=people.left_out,
    )


def _places(profile: Profile, slots: SlotKind | None, binds: Binds) -> tuple[SlotKind, Times]:
    people, finals = usable_population(profile, binds), final_hops(profile)
    times = slot_times(profile, people, slots or "name", finals)
    if slots is None and times.slots < 2:
        return "before", slot_times(profile, people, "before", finals)
    return slots or "name", times


def _on_people(scored: Rows, test: Ints) -> Rows:
    """The same rows, pointing to the trajectories of the whole backtest."""
    return {**scored, "trajectory": test[np.asarray(scored["trajectory"], dtype=np.int64)]}


def _with_untold(cell: Cell, b: Backtest, told: str) -> str:
    """The sentence where some folds have no deadline; without a share, where those are most of the trajectories."""
    missing = (
        f"{cell.folds_untold} of {b.folds} folds ({cell.untold:,} of {b.trajectories:,} trajectories) are left out: "
        f"too many of the trajectories learned from failed for {cell.named.label} to be a number"
    )
    if 2 * cell.untold > b.trajectories:
        return f"{missing}. The rest is too little to say how many make it."
    return f"{told} {missing}; the folds that are left hold more failures."


def _sentence(b: Backtest) -> str:
    cell = next(cell for cell in b.cells if cell.named == b.main)
    alone = cell.methods["deadline_only"]
    told = b.main.percentile
    clustered = "" if b.held_out == "trajectory" else f" in {alone.clusters} {b.held_out}s"
    made = f"{100 * alone.value:.1f}% made it [{100 * alone.low:.1f}%, {100 * alone.high:.1f}%]"
    if told is None:
        first = f"Of {alone.n:,} held-out trajectories{clustered}, {made}."
    else:
        first = f"Of {alone.n:,} held-out trajectories{clustered} told {told:g}%, {made}."
    if cell.untold:
        first = _with_untold(cell, b, first)
    own = next((bound for bound in b.bounds if bound.bound == "point" and bound.runs), None)
    wide = next((bound for bound in b.bounds if bound.bound == "largest_run" and bound.runs), None)
    if own is None or wide is None:
        return first
    large = " with enough trajectories" if b.held_out == "run" and own.runs < alone.clusters else ""
    return (
        f"{first} Run by run, {own.held} of {own.runs}{large} reached {b.percentile:g}%; under the largest-run bound "
        f"{wide.held} of {wide.runs} did, at {wide.price:.2f} times the deadline."
    )
