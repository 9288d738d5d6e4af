"""When to give up: only where giving up early was shown to save time on trajectories that the rule had not seen.

The rule: at a hop's start, give up when P(the deadline is met) is below a threshold. A trajectory that was going to
miss the deadline then costs less; one that was going to meet it costs what it took so far, for nothing. Net seconds
saved are counted against letting everything run until the deadline.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hopbudget.budgets.allocation import Binds
from hopbudget.budgets.groups.folds import Clusters
from hopbudget.budgets.numbers.paired import mean_and_error
from hopbudget.budgets.population import Population, population
from hopbudget.budgets.profile import Bools, Floats, Profile
from hopbudget.budgets.run_time import chance as chances
from hopbudget.budgets.run_time.chance import Chance
from hopbudget.budgets.run_time.held_out import HeldOut, noisy_hint
from hopbudget.budgets.run_time.suffix import Starts, starts

FALSE_SHARE: Final = 0.01
"""Of all trajectories, at most so many are given up that would have met the deadline."""
LEAST_SAVED: Final = 0.02
"""A rule that saves a smaller share is not worth having."""
FIGURES: Final = ("saved", "error", "false", "false_error")
LEAST_MET: Final = 0.1
"""Where fewer meet the deadline, no rule is looked for: it is the deadline that should be given up."""
THRESHOLDS: Final = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)


@dataclass(frozen=True, slots=True)
class Trial:
    """What a rule saved on trajectories that it was not learned from. NaN where it could not be tried."""

    saved: float
    """Net seconds saved, as a share of the seconds that missed deadlines cost without it."""
    error: float
    """Its standard error over clusters."""
    false: float
    """Share of all trajectories that were given up and would have met the deadline."""
    false_error: float
    n: int


NO_TRIAL: Final = Trial(math.nan, math.nan, math.nan, math.nan, 0)


@dataclass(frozen=True, slots=True)
class Abort:
    """When to give up, without and with a hint of the hops to come; a rule that doesn't pay is None."""

    visits: tuple[int, ...]
    latest_s: tuple[float, ...] | None
    """By row of visits, as in the suffix bank: give up when a hop starts later."""
    hint_below: float | None
    """Give up when the chance with a hint is below."""
    trial: Trial
    trial_hint: Trial

    @property
    def pays(self) -> bool:
        """Whether giving up pays at all."""
        return self.latest_s is not None or self.hint_below is not None

    def gives_up(self, found: Starts) -> Bools:
        """At which of these starts the rule without a hint gives up."""
        if self.latest_s is None:
            return np.zeros(len(found), dtype=np.bool_)
        row = np.maximum(np.searchsorted(np.array(self.visits), found.visit, side="right") - 1, 0)
        return found.elapsed_s > np.array(self.latest_s)[row]

    def gives_up_with(self, chance: Chance, found: Starts, hint: Floats) -> Bools:
        """The same for the rule with a hint; without one that pays, that of the other."""
        if self.hint_below is None:
            return self.gives_up(found)
        return chance.any(found.visit, found.elapsed_s, hint) < self.hint_below

    def to_plan(self) -> dict[str, Any]:
        """The plan's `[abort]`; None where a figure is not known, or no rule pays."""
        figures = {
            f"{name}{end}": _rounded(getattr(trial, name))
            for end, trial in (("", self.trial), ("_hint", self.trial_hint))
            for name in FIGURES
        }
        return {
            "pays": self.pays,
            "n": self.trial.n,
            **figures,
            "visits": list(self.visits) if self.latest_s is not None else None,
            "latest_s": None if self.latest_s is None else list(self.latest_s),
            "hint_below": self.hint_below,
        }

    @classmethod
    def from_plan(cls, table: Mapping[str, Any]) -> "Abort":
        """The rule that `to_plan` wrote."""
        latest = table.get("latest_s")
        trial, trial_hint = (_trial_of(table, end) for end in ("", "_hint"))
        return cls(
            visits=tuple(table.get("visits") or ()),
            latest_s=None if latest is None else tuple(latest),
            hint_below=table.get("hint_below"),
            trial=trial,
            trial_hint=trial_hint,
        )


def learn(chance: Chance, held: HeldOut) -> Abort:
    """The rules that pay: of the thresholds that are false for at most `FALSE_SHARE`, by a standard error, the one that
    saved most where it was held out, if that is above 0 by a standard error and `LEAST_SAVED` at least."""
    if chance.base_rate < LEAST_MET:
        return Abort(chance.bank.visits, None, None, NO_TRIAL, NO_TRIAL)
    below, trial = _choose(held, held.bank, chance.deadline_s)
    hint_below, trial_hint = _choose(held, held.hint, chance.deadline_s)
    latest = None if below is None else tuple(round(t, 4) for t in chance.bank.latest_s(below, chance.deadline_s))
    return Abort(chance.bank.visits, latest, hint_below, trial, trial_hint)


def spending(people: Population, found: Starts, gives_up: Bools, deadline_s: float) -> dict[str, Floats]:
    """By trajectory of the population: `spent_s` by missed deadlines, net `saved_s` by giving up, `false` (0 or 1).

    NaN where the trajectory was cut off before the deadline, so that nobody knows.
    """
    given_up = gives_up & (found.elapsed_s < deadline_s)
    at = np.full(len(people.rows), np.inf)
    np.minimum.at(at, found.trajectory[given_up], found.elapsed_s[given_up])
    stopped = np.isfinite(at)
    met = ~people.censored & (people.finish_s <= deadline_s * (1 + 1e-12))
    spent = np.where(met, 0.0, np.minimum(people.observed_s, deadline_s))
    saved = np.where(stopped, spent - np.where(stopped, at, 0.0), 0.0)
    unknown = people.censored & (people.finish_s < deadline_s)
    columns = {"spent_s": spent, "saved_s": saved, "false": (stopped & met).astype(np.float64)}
    return {name: np.where(unknown, np.nan, values) for name, values in columns.items()}


def evaluate(train: Profile, test: Profile, deadline_s: float, *, binds: Binds = "last") -> dict[str, Any]:
    """What the rules of a plan learned on `train` save on `test`, a row a trajectory whose outcome is known.

    `trajectory` (index into `test`), `spent_s` (what it costs without a rule if it misses the deadline, else 0),
    `saved_s` (net) and `false` (0 or 1); `saved_hint_s`, `false_hint` with a noisy hint. A rule that doesn't pay by
    `train` is off: 0.
    """
    people = population(test, binds)
    found = starts(test, people)
    learned = chances.learn(train, deadline_s, binds)
    nobody = np.zeros(len(found), dtype=np.bool_)
    plain, hinted = nobody, nobody
    if learned is not None:
        chance, held = learned
        rule = learn(chance, held)
        plain = rule.gives_up(found)
        hinted = rule.gives_up_with(chance, found, noisy_hint(found))
    without = spending(people, found, plain, deadline_s)
    with_hint = spending(people, found, hinted, deadline_s)
    known = ~np.isnan(without["spent_s"])
    return {
        "trajectory": people.rows[known],
        **{name: values[known] for name, values in without.items()},
        "saved_hint_s": with_hint["saved_s"][known],
        "false_hint": with_hint["false"][known],
    }


def _choose(held: HeldOut, p: Floats, deadline_s: float) -> tuple[float | None, Trial]:
    """The threshold that saved most where it was held out, among those false seldom enough, and what it did."""
    best, best_trial = None, NO_TRIAL
    for threshold in THRESHOLDS:
        trial = _trial(spending(held.people, held.starts, p < threshold, deadline_s), held.groups)
        if not trial.false + trial.false_error <= FALSE_SHARE:
            break
        if best is None or trial.saved > best_trial.saved:
            best, best_trial = threshold, trial
    return (best if best_trial.saved > max(best_trial.error, LEAST_SAVED) else None), best_trial


def _trial(found: Mapping[str, Floats], groups: Clusters) -> Trial:
    known = ~np.isnan(found["spent_s"])
    n = int(np.count_nonzero(known))
    spent = float(found["spent_s"][known].sum())
    if not n or not spent:
        return NO_TRIAL
    mean, error = mean_and_error(found["saved_s"], groups)
    return Trial(mean * n / spent, error * n / spent, *mean_and_error(found["false"], groups), n)


def _rounded(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None


def _trial_of(table: Mapping[str, Any], end: str) -> Trial:
    found = (table.get(f"{name}{end}") for name in FIGURES)
    saved, error, false, false_error = (math.nan if value is None else float(value) for value in found)
    return Trial(saved, error, false, false_error, int(table["n"]))
