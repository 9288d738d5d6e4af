"""Which trajectories count, and when each of them finished."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from hopbudget.budgets.allocation import Binds, CannotAllocateError
from hopbudget.budgets.profile import Bools, Floats, Ints, Profile
from hopbudget.budgets.quantiles import CENSORED, FINISHED, NEVER, among


@dataclass(frozen=True, slots=True)
class Population:
    """Trajectories that say something about a deadline; every array has one entry for each of them."""

    rows: Ints
    """Index into the profile."""
    finish_s: Floats
    """When what the deadline binds was there; +inf if it never came; a lower bound where `censored`."""
    censored: Bools
    observed_s: Floats
    """How much of the trajectory was seen: what hops are clipped to. Finite."""
    left_out: dict[str, int]
    """Reason to number of trajectories that say nothing."""

    def left_out_at(self, profile: Profile, deadline_s: float) -> tuple[Bools, dict[str, int]]:
        """Those cut off before the deadline, whose success is unknown, as a mask; and the full count by reason."""
        unknown = self.censored & (self.finish_s < deadline_s)
        reasons = Counter(str(word) for word in profile.trajectories.outcome[self.rows[unknown]])
        return unknown, {**self.left_out, **dict(sorted(reasons.items()))}


def population(profile: Profile, binds: Binds) -> Population:
    """Sort trajectories into finished, never finishing, cut off, and left out with the reason.

    With `binds="answer"` a trajectory finishes at the first answer token of its final stream, whatever cut it off
    later; one that came well without an observed answer start is left out.
    """
    t = profile.trajectories
    end_s = t.duration_s if binds == "last" else t.answer_start_s
    finished, never, cut = (among(t.outcome, words) for words in (FINISHED, NEVER, CENSORED))
    if binds == "answer":
        answered = cut & ~np.isnan(end_s)
        finished, cut = finished | answered, cut & ~answered
    reason = np.full(len(t.duration_s), "", dtype=object)
    reason[finished & np.isnan(end_s)] = "no_answer_start"
    if binds == "answer" and np.any(finished) and np.isnan(end_s[finished]).all():
        # Failures alone would read as "nobody ever answers", where it is only that nobody watched.
        reason[never | cut] = "no_answer_start"
    reason[~(finished | never | cut)] = "unknown_outcome"
    reason[t.intervened] = "intervened"
    reason[~t.complete | np.isnan(t.duration_s)] = "incomplete"
    rows = np.flatnonzero(reason == "")
    observed = np.where(finished, end_s, t.duration_s)
    return Population(
        rows=rows,
        finish_s=np.where(never, np.inf, observed)[rows],
        censored=cut[rows],
        observed_s=observed[rows],
        left_out=dict(sorted(Counter(str(word) for word in reason if word).items())),
    )


def usable_population(profile: Profile, binds: Binds) -> Population:
    """`population`, or `CannotAllocateError` with the reason when not one trajectory counts."""
    found = population(profile, binds)
    if len(found.rows):
        return found
    if not len(profile):
        raise CannotAllocateError("there are no trajectories to learn from")
    if "no_answer_start" in found.left_out:
        raise CannotAllocateError(
            "no trajectory has an observed start of its final answer, so no deadline can bind it; bind the last token"
        )
    why = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in found.left_out.items())
    raise CannotAllocateError(f"none of the {len(profile)} trajectories can be learned from: {why}")
