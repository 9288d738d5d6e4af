"""What recorded trajectories say to an agent that runs: what fits, how it stands, how long to wait, when to stop."""

import math
from dataclasses import dataclass
from typing import Any

from hopbudget.budgets.allocation import Binds
from hopbudget.budgets.drifts import drift, fingerprint
from hopbudget.budgets.drifts.drift import Drift
from hopbudget.budgets.drifts.fingerprint import Fingerprint
from hopbudget.budgets.expectations import expected, first_tokens
from hopbudget.budgets.expectations.expected import Expectations
from hopbudget.budgets.expectations.first_tokens import FirstTokens
from hopbudget.budgets.profile import Profile
from hopbudget.budgets.run_time import aborting, answer, caps, chance, fits, tokens
from hopbudget.budgets.run_time.aborting import Abort
from hopbudget.budgets.run_time.answer import Answer
from hopbudget.budgets.run_time.caps import Cap
from hopbudget.budgets.run_time.chance import Chance
from hopbudget.budgets.run_time.fits import Steps
from hopbudget.budgets.run_time.tokens import Pace


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What a plan holds beside its budgets. None, or empty, where there was too little to learn it from."""

    deadline_s: float
    """Rounded up to the microsecond, as in a plan file."""
    p: float
    steps: Steps | None
    chance: Chance | None
    abort: Abort | None
    tokens: tuple[Pace, ...]
    caps: tuple[Cap, ...]
    answer: Answer | None
    """None where the deadline binds the first answer token: then the answer may get as long as it likes."""
    first_tokens: FirstTokens
    expectations: Expectations
    drift: Drift | None
    fingerprint: Fingerprint

    @property
    def max_steps(self) -> int | None:
        """How many hops fit in the whole deadline at the target."""
        return self.steps.left(0.0, self.p) if self.steps else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know about it, one sentence each."""
        found = []
        if self.chance is None or not any(self.chance.known):
            found.append(
                "the chance is said only with a hint of the steps left: without, it did not beat the base rate"
                if self.chance is not None and any(self.chance.known_hint)
                else "there is no information yet on the chance under way: it did not beat the base rate"
            )
        if self.abort is not None and not self.abort.pays:
            found.append("no rule for giving up early pays: none saved time on trajectories that it had not seen")
        elif self.abort is not None and self.abort.latest_s is None:
            found.append("giving up early pays only with a hint of the steps left")
        return tuple(found)

    def to_plan(self) -> dict[str, Any]:
        """The plan's sections, by name."""
        return {
            "max_steps": self.max_steps,
            "steps": self.steps.to_plan() if self.steps else None,
            "answer": self.answer.to_plan() if self.answer else None,
            "chance": self.chance.to_plan() if self.chance else None,
            "abort": self.abort.to_plan() if self.abort else None,
            "caps": [cap.to_plan() for cap in self.caps],
            "tokens": [pace.to_plan() for pace in self.tokens],
            "first_tokens": self.first_tokens.to_plan(),
            "first_token_benefits": [benefit.to_plan() for benefit in self.first_tokens.benefits],
            "expectations": self.expectations.to_plan(),
            "drift": self.drift.to_plan() if self.drift else None,
            "fingerprint": self.fingerprint.to_plan(),
        }


def learn(profile: Profile, deadline_s: float, percentile: float = 90.0, binds: Binds = "last") -> Knowledge:
    """Everything for a deadline at this percentile (0 to 100); see `allocate` for `binds`."""
    deadline_s = math.ceil(deadline_s * 1e6 - 1e-3) / 1e6
    p = percentile / 100
    found = chance.learn(profile, deadline_s, binds)
    expectations = expected.learn(profile, percentile)
    paces = tokens.learn(profile, p, expectations)
    return Knowledge(
        deadline_s=deadline_s,
        p=p,
        steps=fits.learn(profile, deadline_s, p, binds),
        chance=found[0] if found else None,
        abort=aborting.learn(*found) if found else None,
        tokens=paces,
        caps=caps.learn(profile, deadline_s, paces, binds),
        answer=answer.learn(profile, deadline_s, p, paces) if binds == "last" else None,
        first_tokens=first_tokens.learn(profile),
        expectations=expectations,
        drift=drift.learn(profile, expectations),
        fingerprint=fingerprint.learn(profile),
    )
