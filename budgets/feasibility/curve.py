"""How many meet a deadline, for many deadlines at once."""

from dataclasses import dataclass

import numpy as np

from hopbudget.budgets.allocation import Binds
from hopbudget.budgets.feasibility.feasible import least_share
from hopbudget.budgets.numbers.quantiles import clopper_pearson
from hopbudget.budgets.population import usable_population
from hopbudget.budgets.profile import Floats, Profile


@dataclass(frozen=True, slots=True)
class Met:
    """The share of trajectories that meet one deadline, with its 95% interval (see `feasible.feasibility`)."""

    deadline_s: float
    share: float
    low: float
    high: float
    n: int


def curve(profile: Profile, deadlines_s: Floats, binds: Binds = "last") -> list[Met]:
    """The share that meets each deadline, as `allocate` counts it; CannotAllocateError where none says anything."""
    people = usable_population(profile, binds)
    ended, cut = np.sort(people.finish_s[~people.censored]), np.sort(people.finish_s[people.censored])
    met = np.searchsorted(ended, deadlines_s, side="right")
    counted = len(people.finish_s) - np.searchsorted(cut, deadlines_s, side="left")
    ends = [clopper_pearson(some, n) for some, n in zip(met.tolist(), counted.tolist(), strict=True)]
    share = np.divide(met, counted, out=np.zeros(len(deadlines_s)), where=counted > 0)
    _, low = least_share(people, deadlines_s, share, np.array([end for end, _ in ends]))
    columns = (deadlines_s.tolist(), share.tolist(), low.tolist(), [end for _, end in ends], counted.tolist())
    return [Met(*row) for row in zip(*columns, strict=True)]
