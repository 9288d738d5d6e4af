"""How many meet a deadline, for many deadlines at once."""

from dataclasses import dataclass

import numpy as np

from hopbudget.budgets.allocation import Binds
from hopbudget.budgets.numbers.quantiles import clopper_pearson
from hopbudget.budgets.population import usable_population
from hopbudget.budgets.profile import Floats, Profile


@dataclass(frozen=True, slots=True)
class Met:
    """The share of trajectories that meet one deadline, with its 95% Clopper-Pearson interval."""

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
    found = []
    for deadline_s, some, n in zip(deadlines_s.tolist(), met.tolist(), counted.tolist(), strict=True):
        low, high = clopper_pearson(some, n)
        found.append(Met(deadline_s, some / n if n else 0.0, low, high, n))
    return found
