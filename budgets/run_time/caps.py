"""Caps on output tokens that a plan proposes, with what each would have bought.

Replayed on what was recorded: a hop with more tokens than its cap ends at the cap, the trajectory is over earlier by
the time of the tokens cut off, and nothing else changes. How good an answer is that was cut short, times do not tell.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hopbudget.budgets.allocation import Binds
from hopbudget.budgets.expectations.expected import usable_hops
from hopbudget.budgets.groups.folds import clusters
from hopbudget.budgets.numbers.paired import mean_and_error
from hopbudget.budgets.population import Population, population
from hopbudget.budgets.profile import Bools, Floats, Ints, Profile
from hopbudget.budgets.run_time.tokens import Pace

LEVELS: Final = (0.99, 0.975, 0.95, 0.9)
"""Quantiles of the recorded answers at which a cap is tried; the first is proposed unless another buys more."""
LEAST: Final = 100
"""A hop with fewer answers of known length has no cap: its Q99 would be its longest."""


@dataclass(frozen=True, slots=True)
class Cap:
    """A cap on the output tokens of the hops of one name."""

    hop: str
    tokens: int
    level: float
    """Which quantile of the recorded answers it is."""
    n: int
    """Answers whose length is known."""
    cuts: float
    """Share of them that it would have cut short."""
    in_time: float
    """By how much more trajectories would have met the deadline, as a share of all,"""
    error: float
    """and its standard error over clusters."""
    saves_s: float
    """Seconds saved in a mean trajectory."""

    def to_plan(self) -> dict[str, Any]:
        """A row of the plan's `[[caps]]`."""
        figures = {name: round(getattr(self, name), 6) for name in ("cuts", "in_time", "error", "saves_s")}
        return {"hop": self.hop, "tokens": self.tokens, "level": self.level, "n": self.n, **figures}


def learn(profile: Profile, deadline_s: float, paces: Sequence[Pace], binds: Binds = "last") -> tuple[Cap, ...]:
    """A cap for each hop name with enough answers: the Q99 of its tokens, which stops runaways and cuts few answers.

    A tighter one where it puts more trajectories in time than it cuts answers of trajectories that were in time anyway,
    by a standard error over clusters, and by more than the wider ones do.
    """
    people = population(profile, binds)
    if not len(people.rows):
        return ()
    replay = _Replay(profile, people, deadline_s)
    usable = usable_hops(profile.hops) & (replay.index[profile.hops.trajectory] >= 0)
    second_s = _seconds_a_token(profile, paces)
    caps = []
    for name in sorted({str(hop) for hop in profile.hops.hop[usable]}):
        mine = np.flatnonzero(usable & (profile.hops.hop == name))
        if len(mine) >= LEAST:
            caps.append(_best(name, replay, mine, second_s[mine]))
    return tuple(caps)


class _Replay:
    """A population that is run again with some answers cut short."""

    def __init__(self, profile: Profile, people: Population, deadline_s: float) -> None:
        self.profile = profile
        self.finish_s, self.deadline_s = people.finish_s, deadline_s
        self.groups = clusters(
            profile, people.rows, np.column_stack([people.finish_s, people.censored.astype(np.float64)])
        )
        self.index = np.full(len(profile), -1, dtype=np.int64)
        self.index[people.rows] = np.arange(len(people.rows))
        self.open: Bools = people.censored
        self.known: Bools = ~(people.censored & (people.finish_s < deadline_s))
        self.before = self.met(np.zeros(len(people.rows)))

    def met(self, saved_s: Floats) -> Bools:
        """Which are over in time if each saves so much."""
        return ~self.open & (self.finish_s - saved_s <= self.deadline_s)

    def mean(self, values: Floats | Bools) -> tuple[float, float]:
        """Over the trajectories of which it is known, with the standard error over clusters."""
        return mean_and_error(np.where(self.known, values, np.nan), self.groups)


def _best(name: str, replay: _Replay, mine: Ints, second_s: Floats) -> Cap:
    hops = replay.profile.hops
    tokens, place = hops.output_tokens[mine], replay.index[hops.trajectory[mine]]
    best, most_worth = None, 0.0
    for level in LEVELS:
        most = int(np.quantile(tokens, level, method="higher"))
        over = tokens > most
        cut_s = np.where(over, (tokens - most) * second_s, 0.0)
        saved: Floats = np.bincount(place, weights=cut_s, minlength=len(replay.known)).astype(np.float64)
        cut = np.bincount(place[over], minlength=len(replay.known)) > 0
        after = replay.met(saved)
        gain, error = replay.mean(after.astype(np.float64) - replay.before)
        worth, worth_error = replay.mean((after & ~replay.before).astype(np.float64) - (cut & replay.before))
        if best is None or (worth > worth_error and worth > most_worth):
            best = Cap(name, most, level, len(mine), float(over.mean()), gain, error, float(saved.mean()))
            most_worth = max(worth, 0.0)
    assert best is not None
    return best


def _seconds_a_token(profile: Profile, paces: Sequence[Pace]) -> Floats:
    """The usual seconds a token of every hop: its own pace where that was observed, else its model's median."""
    hops = profile.hops
    median = {pace.model: pace.per_token_s[pace.at.index(0.5)] for pace in paces}
    of_model = np.array([median.get(str(model), 0.0) for model in hops.model], dtype=np.float64)
    return np.where(np.isnan(hops.tpot_s), of_model, hops.tpot_s)
