"""The methods: seconds of one deadline, split over the places of an agent.

Each takes the seconds observed by place and what there is to give, and returns budgets that add up to it. With more
to give no budget of `equal`, `mean`, `quantile` or `equal_risk` falls, so `independent`, which chooses the best of
those and of its own frontier, never loses on what it maximises.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hopbudget.budgets.allocation import Rule
from hopbudget.budgets.numbers.distribution import Distribution, distribution
from hopbudget.budgets.profile import Bools, Floats
from hopbudget.budgets.splits.frontier import Frontier, frontier


def split(
    method: Rule,
    seconds: Floats,
    censored: Bools,
    give_s: float,
    *,
    level: float = 0.9,
    reserves: Sequence[int] = (),
    within: Bools | None = None,
    floor_s: float = 0.0,
    reserve: float | None = None,
    weight: Floats | None = None,
) -> Floats:
    """Budgets by column of `seconds` (rows are trajectories), at least `floor_s` each, that add up to `give_s`.

    `seconds` is 0 where a place was not visited, +inf where it never came to its end, a lower bound where `censored`.
    `level` is the quantile of `quantile`. `equal_tuned` gives the columns in `reserves` what makes most trajectories
    keep every budget, among the rows `within` the deadline. With a `reserve` they get their quantile of that level
    instead, and the method splits the rest; where nothing would be left, they are places like any other.
    """
    places = Places(seconds, censored, weight, tuple(reserves), within, level, floor_s)
    return places.budgets(method, give_s, reserve)


@dataclass(frozen=True, slots=True)
class Risks:
    """The places' quantiles at every level at which any of them steps."""

    wanted: Floats
    """(levels, places)"""

    def split(self, give_s: float, floor_s: float = 0.0) -> Floats:
        """See `equal_risk`."""
        sums = np.maximum(self.wanted, floor_s).sum(axis=1)
        at = max(int(np.searchsorted(sums, give_s, side="right")) - 1, 0)
        if at == len(sums) - 1:
            return in_proportion(self.wanted[at], give_s, floor_s)
        return _between(self.wanted[at], self.wanted[at + 1], give_s, floor_s)


def risks(places: Sequence[Distribution]) -> Risks:
    """Read the quantiles that `equal_risk` chooses from."""
    levels = np.unique(np.concatenate([[0.0], *[place.shares for place in places]]))
    return Risks(np.stack([place.quantile(levels) for place in places], axis=1))


def equal_risk(places: Sequence[Distribution], give_s: float, floor_s: float = 0.0) -> Floats:
    """Every place at the same risk: the largest level q with sum_k Q_k(q) <= what there is to give.

    This minimises the summed expected overrun sum_k E(X_k - b_k)+: its Lagrange condition is 1 - F_k(b_k) equal for
    all k (the newsvendor's), and Q_k(q) gives way to the floor. What is left below the next level goes towards that
    level, where each second is worth the same to every place; past the last level it goes in proportion.
    """
    return risks(places).split(give_s, floor_s)


@dataclass(frozen=True)
class Places:
    """What the methods read of the observed seconds, each worked out once; the fields are the arguments of `split`."""

    seconds: Floats
    censored: Bools
    weight: Floats | None
    reserves: tuple[int, ...]
    within: Bools | None
    level: float
    floor_s: float

    @cached_property
    def slots(self) -> list[int]:
        """The columns that are no reserve."""
        return [k for k in range(self.seconds.shape[1]) if k not in self.reserves]

    @cached_property
    def everywhere(self) -> "Read":
        """All columns."""
        columns = range(self.seconds.shape[1])
        return Read([distribution(self.seconds[:, k], self.censored[:, k], self.weight) for k in columns])

    @cached_property
    def in_slots(self) -> "Read":
        """The slots alone."""
        return Read([self.everywhere.places[k] for k in self.slots])

    def budgets(self, method: Rule, give_s: float, reserve: float | None = None) -> Floats:
        """See `split`."""
        columns = self.seconds.shape[1]
        kept_back = {k: self.everywhere.places[k] for k in self.reserves}
        if method == "equal_tuned":
            mask = np.ones(len(self.seconds), dtype=np.bool_) if self.within is None else self.within
            return equal_tuned(
                self.seconds,
                self.censored,
                give_s,
                kept_back,
                within=mask,
                floor_s=min(self.floor_s, give_s / columns),
                weight=self.weight,
            )
        if reserve is not None and kept_back and self.slots:
            kept_back_s = [max(float(place.quantile(reserve)), self.floor_s) for place in kept_back.values()]
            left_s = give_s - sum(kept_back_s)
            if left_s > len(self.slots) * self.floor_s:
                budgets = np.empty(columns)
                budgets[list(kept_back)] = kept_back_s
                budgets[self.slots] = self.in_slots.split(method, left_s, self.level, self.floor_s)
                return budgets
        return self.everywhere.split(method, give_s, self.level, self.floor_s)


@dataclass(frozen=True)
class Read:
    """Some places' distributions, and what the rules derive from them whatever there is to give."""

    places: list[Distribution]

    @cached_property
    def ahead(self) -> Frontier:
        """For `independent`."""
        return frontier(self.places)

    @cached_property
    def risks(self) -> Risks:
        """For `equal_risk`."""
        return risks(self.places)

    def split(self, rule: Rule, give_s: float, level: float, floor_s: float) -> Floats:
        """The budgets of one rule that reads distributions alone."""
        floor_s = min(floor_s, give_s / len(self.places))
        if rule == "equal":
            return np.full(len(self.places), give_s / len(self.places))
        if rule == "mean":
            return in_proportion(np.array([place.mean() for place in self.places]), give_s, floor_s)
        if rule == "quantile":
            return in_proportion(np.array([float(place.quantile(level)) for place in self.places]), give_s, floor_s)
        if rule == "equal_risk":
            return self.risks.split(give_s, floor_s)
        return independent(self.places, give_s, level=level, floor_s=floor_s, ahead=self.ahead, at_risk=self.risks)


def in_proportion(weights: Floats, give_s: float, floor_s: float = 0.0) -> Floats:
    """Budgets in proportion to weights, none under the floor: b_k = max(floor, s w_k) with s so that they add up.

    Along the last axis; evenly where all weights are zero.
    """
    weights = np.where(weights.sum(axis=-1, keepdims=True) > 0, weights, 1.0)
    held = np.zeros(weights.shape, dtype=np.bool_)
    while True:
        free_s = give_s - floor_s * held.sum(axis=-1, keepdims=True)
        total = np.where(held, 0.0, weights).sum(axis=-1, keepdims=True)
        budgets: Floats = np.where(held, floor_s, weights * (free_s / np.where(total > 0, total, 1.0)))
        under = ~held & (budgets < floor_s)
        if not under.any():
            return budgets
        held |= under


def _between(low: Floats, high: Floats, give_s: float, floor_s: float) -> Floats:
    """The point on the line from low to high, raised to the floor where it lies under it, that adds up to `give_s`."""
    held = np.zeros(len(low), dtype=np.bool_)
    while True:
        way = float((high - low)[~held].sum())
        left = give_s - floor_s * np.count_nonzero(held) - float(low[~held].sum())
        budgets = np.where(held, floor_s, low + (left / way if way > 0 else 0.0) * (high - low))
        under = ~held & (budgets < floor_s)
        if not under.any():
            return budgets
        held |= under


def independent(
    places: Sequence[Distribution],
    give_s: float,
    *,
    level: float = 0.9,
    floor_s: float = 0.0,
    ahead: Frontier | None = None,
    at_risk: Risks | None = None,
) -> Floats:
    """The budgets with the largest product of the places' shares: max sum_k log F_k(b_k) with sum b_k = give.

    If places were independent this would be the share of trajectories that keep every budget; under positive
    dependence it is a lower bound for it. Candidates are the frontier's rows that fit, with what they leave over in
    proportion, and the simpler methods' budgets: each grows with what there is to give, and so does the best of them.
    `ahead` and `at_risk` are the places' frontier and quantiles, where they are known already.
    """
    rows = (frontier(list(places)) if ahead is None else ahead).budgets
    fits = np.maximum(rows, floor_s).sum(axis=1) <= give_s
    simple = [
        (risks(places) if at_risk is None else at_risk).split(give_s, floor_s),
        in_proportion(np.array([float(place.quantile(level)) for place in places]), give_s, floor_s),
        in_proportion(np.array([place.mean() for place in places]), give_s, floor_s),
        np.full(len(places), give_s / len(places)),
    ]
    candidates = np.concatenate([np.stack(simple), in_proportion(rows[fits], give_s, floor_s)])
    best: Floats = candidates[int(np.argmax(log_share(places, candidates)))]
    return best


def log_share(places: Sequence[Distribution], budgets: Floats) -> Floats:
    """sum_k log F_k(b_k) by row of budgets, which `independent` maximises; -inf where a place never keeps its own."""
    shares = np.stack([place.share(budgets[..., k]) for k, place in enumerate(places)], axis=-1)
    with np.errstate(divide="ignore"):
        total: Floats = np.log(shares).sum(axis=-1)
    return total


def equal_tuned(
    seconds: Floats,
    censored: Bools,
    give_s: float,
    kept_back: Mapping[int, Distribution],
    *,
    within: Bools,
    floor_s: float = 0.0,
    weight: Floats | None = None,
) -> Floats:
    """The same seconds for every slot, after a reserve for work and stream at the level that makes most succeed.

    The columns kept back stand at one common quantile level, tried from 0 to 1; the plain equal split is tried first.
    """
    columns = seconds.shape[1]
    slots = [k for k in range(columns) if k not in kept_back]
    reserves = list(kept_back)
    best = np.full(columns, give_s / columns)
    if not slots or not reserves:
        return best
    known = np.where(censored, np.inf, seconds)
    needed = np.column_stack([known[:, slots].max(axis=1), known[:, reserves]])[within]
    counted = np.ones(len(needed)) if weight is None else weight[within]

    def successes(each_s: float, back_s: Floats) -> float:
        return float(counted[(needed <= np.concatenate([[each_s], back_s])).all(axis=1)].sum())

    most = successes(give_s / columns, np.full(len(reserves), give_s / columns))
    for level in np.linspace(0.0, 1.0, 51):
        back_s = np.array([max(float(place.quantile(level)), floor_s) for place in kept_back.values()])
        left = give_s - float(back_s.sum())
        if left / len(slots) < floor_s or left < 0:
            break
        count = successes(left / len(slots), back_s)
        if count > most * (1 + 1e-12):
            most = count
            best = np.empty(columns)
            best[reserves], best[slots] = back_s, left / len(slots)
    return best
