"""P(this trajectory meets its deadline, now), and when it is worth saying.

Without a hint it is the mean of the suffix bank's share and a logit's answer: the bank needs no shape to be right, the
logit sees the pace so far, and their mean did better than either on recorded trajectories. With a hint of the hops to
come it is a logit's that has the hint. What is said was tried on clusters (runs, else sessions, else trajectories) that
it was not learned from; where it did not beat the base rate there, nothing is said: NaN here, None in an agent.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hopbudget.budgets.allocation import Binds
from hopbudget.budgets.numbers.quantiles import share_within
from hopbudget.budgets.numbers.scoring import NO_SCORE, Score, score
from hopbudget.budgets.population import population
from hopbudget.budgets.profile import Floats, Ints, Profile
from hopbudget.budgets.run_time.held_out import (
    RANGES,
    HeldOut,
    fit_models,
    hold_out,
    noisy_hint,
    range_of,
    worth_saying,
)
from hopbudget.budgets.run_time.logit import Logit
from hopbudget.budgets.run_time.suffix import SuffixBank, at_most, starts


@dataclass(frozen=True, slots=True)
class Chance:
    """The chance of a deadline as a plan holds it."""

    deadline_s: float
    base_rate: float
    """Share of trajectories that met the deadline."""
    later_base_rate: float
    """The same, counted at their later hop starts before the deadline, where the long ones count more often."""
    bank: SuffixBank
    logit: Logit | None
    """None where all met the deadline, or none did: then the bank speaks alone."""
    hint: Logit | None
    known: tuple[bool, ...]
    """By range of visits: whether the chance without a hint beats the base rate by a standard error."""
    known_hint: tuple[bool, ...]
    score: Score = NO_SCORE

    def any(self, visit: Ints, elapsed_s: Floats, hint: Floats | None = None) -> Floats:
        """P(met) at the start of these visits, said or not; 0 past the deadline, NaN where there is no model of it."""
        if hint is not None:
            return self.hint.p(visit, elapsed_s, self.deadline_s, hint) if self.hint else np.full(len(visit), np.nan)
        share = self.bank.within(visit, self.deadline_s - elapsed_s)
        return (share + self.logit.p(visit, elapsed_s, self.deadline_s, None)) / 2 if self.logit else share

    def said(self, visit: Ints, elapsed_s: Floats, hint: Floats | None = None) -> Floats:
        """P(met) where it says more than the base rate; NaN elsewhere."""
        known = np.array(self.known if hint is None else self.known_hint)
        return np.where(known[range_of(visit)], self.any(visit, elapsed_s, hint), np.nan)

    def to_plan(self) -> dict[str, Any]:
        """The plan's `[chance]`; None where a figure is not known."""
        score = {key: _rounded(getattr(self.score, key)) for key in ("base", "brier", "brier_hint", "ece", "ece_hint")}
        model = self.hint or self.logit
        return {
            "base_rate": self.base_rate,
            "later_base_rate": self.later_base_rate,
            "scored": self.score.n,
            **score,
            "ranges": list(RANGES),
            "known": list(self.known),
            "known_hint": list(self.known_hint),
            "mean_hop_s": model.mean_hop_s if model else None,
            "logit": self.logit.to_plan() if self.logit else None,
            "hint": self.hint.to_plan() if self.hint else None,
            **self.bank.to_plan(),
        }

    @classmethod
    def from_plan(cls, table: Mapping[str, Any], deadline_s: float) -> "Chance":
        """The chance that `to_plan` wrote."""

        def figure(key: str) -> float:
            value = table.get(key)
            return math.nan if value is None else float(value)

        return cls(
            deadline_s=deadline_s,
            base_rate=float(table["base_rate"]),
            later_base_rate=float(table["later_base_rate"]),
            bank=SuffixBank.from_plan(table),
            logit=Logit.from_plan(table, "logit"),
            hint=Logit.from_plan(table, "hint"),
            known=tuple(table["known"]),
            known_hint=tuple(table["known_hint"]),
            score=Score(
                int(table["scored"]), *(figure(key) for key in ("base", "brier", "brier_hint", "ece", "ece_hint"))
            ),
        )


def learn(profile: Profile, deadline_s: float, binds: Binds = "last") -> tuple[Chance, HeldOut] | None:
    """The chance of a deadline, and how it did where it was held out; None where no hop start says anything."""
    people = at_most(population(profile, binds))
    held = hold_out(profile, people, deadline_s)
    if held is None:
        return None
    base_rate = float(share_within(np.array([deadline_s]), people.finish_s, people.censored)[0])
    later = held.usable & (held.starts.visit > 1)
    later_base = float(held.met[later].mean()) if later.any() else base_rate
    models = fit_models(held.starts, held.usable, deadline_s, noisy_hint(held.starts))
    base = np.where(held.starts.visit == 1, base_rate, later_base)
    known, known_hint = worth_saying(held, held.plain, base), worth_saying(held, held.hint, base)
    ranges = range_of(held.starts.visit)
    said, said_hint = (
        np.where(np.array(mask)[ranges] & ~np.isnan(p), p, later_base)[later]
        for mask, p in ((known, held.plain), (known_hint, held.hint))
    )
    chance = Chance(
        deadline_s=deadline_s,
        base_rate=round(base_rate, 6),
        later_base_rate=round(later_base, 6),
        bank=models.bank,
        logit=models.logit,
        hint=models.hint,
        known=known,
        known_hint=known_hint,
        score=score(held.met[later], np.full(len(said), later_base), said, said_hint),
    )
    return chance, held


def evaluate(train: Profile, test: Profile, deadline_s: float, *, binds: Binds = "last") -> dict[str, Any]:
    """What a plan learned on `train` says at the later hop starts of `test`, a row each, before the deadline.

    `trajectory` (index into `test`), `visit`, `met`, `base` (the later base rate of `train`), `p` and `p_hint` (with a
    noisy hint); where the plan says nothing, they are `base`. Equally long arrays, empty where nothing can be scored.
    """
    people = population(test, binds)
    found = starts(test, people)
    learned = learn(train, deadline_s, binds)
    found = found.take(found.known(deadline_s) & (found.elapsed_s < deadline_s) & (found.visit > 1))
    if learned is None:
        found = found.take(np.zeros(len(found), dtype=np.bool_))
        base = p = p_hint = np.empty(0)
    else:
        chance = learned[0]
        base = np.full(len(found), chance.later_base_rate)
        p = chance.said(found.visit, found.elapsed_s)
        p_hint = chance.said(found.visit, found.elapsed_s, noisy_hint(found))
    return {
        "trajectory": people.rows[found.trajectory],
        "visit": found.visit,
        "met": found.met(deadline_s).astype(np.float64),
        "base": base,
        "p": np.where(np.isnan(p), base, p),
        "p_hint": np.where(np.isnan(p_hint), base, p_hint),
    }


def _rounded(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None
