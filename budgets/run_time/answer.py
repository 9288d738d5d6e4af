"""The longest final answer that still fits when it starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from hopbudget.budgets.numbers.quantiles import attained
from hopbudget.budgets.population import population
from hopbudget.budgets.profile import Profile
from hopbudget.budgets.run_time.tokens import Pace


@dataclass(frozen=True, slots=True)
class Answer:
    """How long the last hop of a trajectory may get, when it starts as late as it does at the target."""

    model: str
    """The model that wrote most last hops."""
    starts_s: float
    """The last hop began by then, in this share of trajectories:"""
    at: float
    tokens: int
    """Output tokens that come within the rest of the deadline, `at` of the time; 0 where not even one does."""
    n: int
    """Trajectories with a last hop."""

    def to_plan(self) -> dict[str, Any]:
        """The plan's `[answer]`."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_plan(cls, table: Mapping[str, Any]) -> "Answer":
        """The answer that `to_plan` wrote."""
        return cls(**{field.name: table[field.name] for field in fields(cls)})


def learn(profile: Profile, deadline_s: float, p: float, paces: Sequence[Pace]) -> Answer | None:
    """The longest final answer at the target p; None where no pace of the model that writes it is known."""
    hops = profile.hops
    people = population(profile, "last")
    done = people.rows[np.isfinite(people.finish_s) & ~people.censored]
    mine = np.flatnonzero(np.isin(hops.trajectory, done))
    if not len(mine):
        return None
    order = mine[np.lexsort((hops.started_s[mine], hops.final[mine], hops.trajectory[mine]))]
    last = order[np.append(hops.trajectory[order][1:] != hops.trajectory[order][:-1], True)]
    models, counts = np.unique(hops.model[last].astype(str), return_counts=True)
    model = str(models[int(np.argmax(counts))])
    pace = next((pace for pace in paces if pace.model == model), None)
    if pace is None:
        return None
    starts_s = round(attained(hops.started_s[last], np.zeros(len(last), dtype=np.bool_), p), 6)
    return Answer(model, starts_s, p, pace.left(deadline_s - starts_s, p) or 0, len(last))
