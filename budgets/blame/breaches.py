"""Causes over many: which causes and hops the time past a deadline went to, and what late trajectories share.

A trajectory breaches a deadline by coming late, or by failing within it. What is late took longer than the deadline;
its excess is the time over a typical trajectory, split by `causes.explain`, so the shares of causes add up to 1. A
failure within the deadline has no time to explain and is counted apart. What was cut off within the deadline by a
time-out of somebody else's, a cancel or its consumer says nothing and is left out.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from hopbudget.budgets.blame.association import Association, associate
from hopbudget.budgets.blame.causes import SERVER_KINDS, WORK_KINDS, CauseKind, Causes, Reference, explain
from hopbudget.budgets.blame.levers import levers
from hopbudget.budgets.blame.traits import traits
from hopbudget.budgets.groups.sessions import sessions
from hopbudget.budgets.numbers.paired import share_interval
from hopbudget.budgets.numbers.quantiles import CENSORED, NEVER, among, clopper_pearson
from hopbudget.budgets.numbers.words import by_chance
from hopbudget.budgets.profile import Bools, Floats, Ints, Profile, Words

_NOTHING_S: Final = 1e-9
FEWEST: Final = 10
"""A trait that fewer trajectories have, or lack, is not compared."""


@dataclass(frozen=True, slots=True)
class CauseShare:
    """One kind of cause over all late trajectories."""

    kind: CauseKind
    seconds: float
    share: float
    """Of the summed excess; negative where it saved time. All kinds add up to 1."""
    low: float
    high: float
    """Of the share, at 95%, given the reference, by whole sessions; NaN where fewer than 20 were late."""
    n: int
    """Late trajectories that can show this cause: all; of what only an inference server tells, those it told of."""
    main_in: int
    """How many late trajectories have their largest part here."""
    levers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlaceShare:
    """One cause in one hop or work over all late trajectories."""

    kind: CauseKind
    name: str
    """The hop's or the work's name; "" for time that belongs to none."""
    seconds: float
    share: float
    main_in: int


@dataclass(frozen=True, slots=True)
class HopShare:
    """All causes in one hop, or in one work, over all late trajectories."""

    name: str
    """"" for time that belongs to none: outside steps where `work`, else what hops side by side saved or did not."""
    work: bool
    seconds: float
    share: float
    """Of the summed excess. All hops and works add up to 1."""


@dataclass(frozen=True, slots=True)
class Late:
    """One late trajectory: where it stands in the profile, and its largest part."""

    row: int
    duration_s: float
    excess_s: float
    kind: CauseKind
    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Told:
    """Of how many hops of late trajectories the inference servers told queue and prefill."""

    hops: int
    of: int
    trajectories: int
    """Late ones with at least one such hop."""


@dataclass(frozen=True, slots=True)
class InCommon:
    """A trait, and how much more often those that have it breach."""

    factor: str
    level: str
    effect: Association


@dataclass(frozen=True, slots=True)
class Breaches:
    """The breaches of one deadline in one profile."""

    deadline_s: float
    counted: int
    """Trajectories that say whether the deadline was met."""
    late: int
    """Of them, those that took longer, however they came out."""
    failed: int
    """Of them, those that failed or were refused within the deadline."""
    left_out: dict[str, int]
    """Reason to number of trajectories that say nothing about the deadline."""
    share: float
    """Breached of counted."""
    low: float
    high: float
    excess_s: float
    """Of the late ones, summed: what the shares are shares of."""
    reference: Reference
    causes: tuple[CauseShare, ...]
    places: tuple[PlaceShare, ...]
    hops: tuple[HopShare, ...]
    trajectories: tuple[Late, ...]
    """The late ones, slowest first."""
    told: Told
    in_common: tuple[InCommon, ...]
    """Traits, those that tell most first."""
    comparisons: int

    @property
    def breached(self) -> int:
        """Late or failed."""
        return self.late + self.failed

    @property
    def caution(self) -> str:
        """What to know before an interval of `in_common` is believed."""
        if not self.comparisons:
            return "No trait was had, and lacked, by enough trajectories to be compared."
        compared = "1 trait was" if self.comparisons == 1 else f"{self.comparisons} traits were"
        return (
            f"{compared} compared, so {by_chance(self.comparisons)} would stand "
            "out at 95% by chance alone; the marked ones stand out from that many too. What breached ones share need "
            "not be why they breached."
        )


def breaches(
    profile: Profile,
    deadline_s: float,
    attributes: Mapping[str, Words] | None = None,
    running: Floats | None = None,
    *,
    causes: Causes | None = None,
) -> Breaches:
    """Explain the breaches of a deadline (seconds) by the trajectories of one workload.

    `attributes` (words by key, one a trajectory) and `running` (trajectories under way at each one's start) widen
    what is compared; `causes` are the profile's own, where they are known already. Raises `CannotAllocateError` where
    nothing came well, so that there is nothing to compare with.
    """
    causes = causes or explain(profile)
    t = profile.trajectories
    known = t.complete & ~np.isnan(t.duration_s)
    late = known & (t.duration_s > deadline_s)
    cut = known & ~late & among(t.outcome, CENSORED)
    failed = known & ~late & among(t.outcome, NEVER)
    counted = known & ~cut
    n, breached = int(np.count_nonzero(counted)), int(np.count_nonzero(late | failed))
    low, high = clopper_pearson(breached, n)
    left_out = Counter(str(word) for word in t.outcome[cut])
    left_out["incomplete"] = int(np.count_nonzero(~known))
    common = _in_common(profile, late | failed, counted, attributes, running)
    rows = np.flatnonzero(late)
    main = _main_column(causes, rows)
    return Breaches(
        deadline_s=deadline_s,
        counted=n,
        late=len(rows),
        failed=int(np.count_nonzero(failed)),
        left_out={reason: number for reason, number in sorted(left_out.items()) if number},
        share=breached / n if n else math.nan,
        low=low,
        high=high,
        excess_s=math.fsum(causes.excess_s[rows]),
        reference=causes.reference,
        causes=_by_kind(causes, rows, main, sessions(profile)[rows]),
        places=_by_place(causes, rows, main),
        hops=_by_hop(causes, rows),
        trajectories=_listed(profile, causes, rows, main),
        told=Told(int(causes.told[rows].sum()), int(causes.hops[rows].sum()), int(np.count_nonzero(causes.told[rows]))),
        in_common=common,
        comparisons=len(common),
    )


def _main_column(causes: Causes, rows: Ints) -> Ints:
    """Of each late trajectory, the column of its largest part."""
    found: Ints = np.argmax(causes.seconds[rows], axis=1) if len(rows) else np.zeros(0, dtype=np.int64)
    return found


def _longer(causes: Causes, rows: Ints, main: Ints) -> Ints:
    """The largest parts that made their trajectory longer: one that was faster than usual everywhere has none."""
    found: Ints = main[causes.seconds[rows, main] > _NOTHING_S]
    return found


def _share(seconds: float, total: float) -> float:
    return seconds / total if total else math.nan


def _total(causes: Causes, rows: Ints) -> float:
    """The parts' own sum, which is the excess but for rounding, so that shares add up to 1."""
    return math.fsum(causes.seconds[rows].sum(axis=0))


def _by_kind(causes: Causes, rows: Ints, main: Ints, session: Ints) -> tuple[CauseShare, ...]:
    total, whole = _total(causes, rows), causes.seconds[rows].sum(axis=1)
    mains = Counter(causes.kind[column] for column in _longer(causes, rows, main))
    told = int(np.count_nonzero(causes.told[rows]))
    found = []
    for kind in dict.fromkeys(causes.kind):
        columns = np.array([other == kind for other in causes.kind])
        each = causes.seconds[rows][:, columns].sum(axis=1)
        seconds = math.fsum(each)
        low, high = share_interval(each, whole, session)
        n = told if kind in SERVER_KINDS else len(rows)
        found.append(CauseShare(kind, seconds, _share(seconds, total), low, high, n, mains[kind], levers(kind)))
    return tuple(sorted(found, key=lambda cause: -cause.seconds))


def _by_place(causes: Causes, rows: Ints, main: Ints) -> tuple[PlaceShare, ...]:
    total, by_column = _total(causes, rows), causes.seconds[rows].sum(axis=0)
    mains = np.bincount(_longer(causes, rows, main), minlength=len(causes.kind))
    found = [
        PlaceShare(kind, name, float(seconds), _share(float(seconds), total), int(first))
        for kind, name, seconds, first in zip(causes.kind, causes.name, by_column, mains, strict=True)
    ]
    return tuple(sorted(found, key=lambda place: -place.seconds))


def _by_hop(causes: Causes, rows: Ints) -> tuple[HopShare, ...]:
    total, by_column = _total(causes, rows), causes.seconds[rows].sum(axis=0)
    sums: dict[tuple[str, bool], list[float]] = {}
    for kind, name, seconds in zip(causes.kind, causes.name, by_column, strict=True):
        sums.setdefault((name, kind in WORK_KINDS), []).append(float(seconds))
    found = [
        HopShare(name, work, math.fsum(parts), _share(math.fsum(parts), total)) for (name, work), parts in sums.items()
    ]
    return tuple(sorted(found, key=lambda hop: -hop.seconds))


def _listed(profile: Profile, causes: Causes, rows: Ints, main: Ints) -> tuple[Late, ...]:
    duration_s = profile.trajectories.duration_s
    order = np.argsort(-duration_s[rows], kind="stable")
    return tuple(
        Late(
            row=row,
            duration_s=float(duration_s[row]),
            excess_s=float(causes.excess_s[row]),
            kind=causes.kind[column],
            name=causes.name[column],
            seconds=float(causes.seconds[row, column]),
        )
        for row, column in zip(rows[order].tolist(), main[order].tolist(), strict=True)
    )


def _in_common(
    profile: Profile,
    breached: Bools,
    counted: Bools,
    attributes: Mapping[str, Words] | None,
    running: Floats | None,
) -> tuple[InCommon, ...]:
    compared = []
    for trait in traits(profile, attributes, running):
        usable = counted & trait.known
        with_it, without = usable & trait.has, usable & ~trait.has
        if min(np.count_nonzero(with_it), np.count_nonzero(without)) >= FEWEST:
            compared.append((trait, usable))
    if not breached[counted].any() or breached[counted].all():
        return ()
    cluster = sessions(profile)
    found = [
        InCommon(
            trait.factor,
            trait.level,
            associate(breached[usable], trait.has[usable], cluster[usable], len(compared)),
        )
        for trait, usable in compared
    ]
    return tuple(sorted(found, key=_telling))


def _telling(common: InCommon) -> tuple[bool, float]:
    """Those beyond chance first, then by how far the interval stays from 0, raising the risk before lowering it."""
    effect = common.effect
    nearest = effect.low if effect.difference > 0 else -effect.high
    return not effect.beyond_chance, -nearest
