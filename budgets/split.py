"""The methods: seconds of one deadline, split over the places of an agent.

Each takes the seconds observed by place and what there is to give, and returns budgets that add up to it. With more
to give no budget of `equal`, `mean`, `quantile` or `equal_risk` falls, so `independent`, which chooses the best of
those and of its own frontier, never loses on what it maximises.
"""

from collections.abc import Sequence

import numpy as np

from hopbudget.budgets.allocation import Method
from hopbudget.budgets.distribution import Distribution, distribution
from hopbudget.budgets.frontier import frontier
from hopbudget.budgets.profile import Bools, Floats


def split(
    method: Method,
    seconds: Floats,
    censored: Bools,
    give_s: float,
    *,
    level: float = 0.9,
    reserves: Sequence[int] = (),
    within: Bools | None = None,
    floor_s: float = 0.0,
) -> Floats:
    """Budgets by column of `seconds` (rows are trajectories), at least `floor_s` each, that add up to `give_s`.

    `seconds` is 0 where a place was not visited, +inf where it never came to its end, a lower bound where `censored`.
    `level` is the quantile of `quantile`. `equal_tuned` gives the columns in `reserves` what makes most trajectories
    keep every budget, among the rows `within` the deadline.
    """
    columns = seconds.shape[1]
    floor = min(floor_s, give_s / columns)
    if method == "equal":
        return np.full(columns, give_s / columns)
    if method == "equal_tuned":
        mask = np.ones(len(seconds), dtype=np.bool_) if within is None else within
        return equal_tuned(seconds, censored, give_s, reserves, within=mask, floor_s=floor)
    places = [distribution(seconds[:, k], censored[:, k]) for k in range(columns)]
    if method == "mean":
        return in_proportion(np.array([place.mean() for place in places]), give_s, floor)
    if method == "quantile":
        return in_proportion(np.array([float(place.quantile(level)) for place in places]), give_s, floor)
    if method == "equal_risk":
        return equal_risk(places, give_s, floor)
    return independent(places, give_s, level=level, floor_s=floor)


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


def equal_risk(places: Sequence[Distribution], give_s: float, floor_s: float = 0.0) -> Floats:
    """Every place at the same risk: the largest level q with sum_k Q_k(q) <= what there is to give.

    This minimises the summed expected overrun sum_k E(X_k - b_k)+: its Lagrange condition is 1 - F_k(b_k) equal for
    all k (the newsvendor's), and Q_k(q) gives way to the floor. What is left below the next level goes towards that
    level, where each second is worth the same to every place; past the last level it goes in proportion.
    """
    levels = np.unique(np.concatenate([[0.0], *[place.shares for place in places]]))
    wanted = np.stack([place.quantile(levels) for place in places], axis=1)
    sums = np.maximum(wanted, floor_s).sum(axis=1)
    at = max(int(np.searchsorted(sums, give_s, side="right")) - 1, 0)
    if at == len(levels) - 1:
        return in_proportion(wanted[at], give_s, floor_s)
    return _between(wanted[at], wanted[at + 1], give_s, floor_s)


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


def independent(places: Sequence[Distribution], give_s: float, *, level: float = 0.9, floor_s: float = 0.0) -> Floats:
    """The budgets with the largest product of the places' shares: max sum_k log F_k(b_k) with sum b_k = give.

    If places were independent this would be the share of trajectories that keep every budget; under positive
    dependence it is a lower bound for it. Candidates are the frontier's rows that fit, with what they leave over in
    proportion, and the simpler methods' budgets: each grows with what there is to give, and so does the best of them.
    """
    ahead = frontier(list(places)).budgets
    fits = np.maximum(ahead, floor_s).sum(axis=1) <= give_s
    simple = [
        equal_risk(places, give_s, floor_s),
        in_proportion(np.array([float(place.quantile(level)) for place in places]), give_s, floor_s),
        in_proportion(np.array([place.mean() for place in places]), give_s, floor_s),
        np.full(len(places), give_s / len(places)),
    ]
    candidates = np.concatenate([np.stack(simple), in_proportion(ahead[fits], give_s, floor_s)])
    best: Floats = candidates[int(np.argmax(log_share(places, candidates)))]
    return best


def log_share(places: Sequence[Distribution], budgets: Floats) -> Floats:
    """sum_k log F_k(b_k) by row of budgets, which `independent` maximises; -inf where a place never keeps its own."""
    shares = np.stack([place.share(budgets[..., k]) for k, place in enumerate(places)], axis=-1)
    with np.errstate(divide="ignore"):
        total: Floats = np.log(shares).sum(axis=-1)
    return total


def equal_tuned(
    seconds: Floats, censored: Bools, give_s: float, reserves: Sequence[int], *, within: Bools, floor_s: float = 0.0
) -> Floats:
    """The same seconds for every slot, after a reserve for work and stream at the level that makes most succeed.

    The reserves stand at one common quantile level, tried from 0 to 1; the plain equal split is tried first.
    """
    columns = seconds.shape[1]
    slots = [k for k in range(columns) if k not in reserves]
    best = np.full(columns, give_s / columns)
    if not slots or not reserves:
        return best
    places = {k: distribution(seconds[:, k], censored[:, k]) for k in reserves}
    most = _successes(best, seconds, censored, within)
    for level in np.linspace(0.0, 1.0, 51):
        budgets = np.zeros(columns)
        for k, place in places.items():
            budgets[k] = max(float(place.quantile(level)), floor_s)
        left = give_s - float(budgets.sum())
        if left / len(slots) < floor_s or left < 0:
            break
        budgets[slots] = left / len(slots)
        count = _successes(budgets, seconds, censored, within)
        if count > most:
            best, most = budgets, count
    return best


def _successes(budgets: Floats, seconds: Floats, censored: Bools, within: Bools) -> int:
    kept = within & ~((seconds > budgets) | censored).any(axis=1)
    return int(np.count_nonzero(kept))
