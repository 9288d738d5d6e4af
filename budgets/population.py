"""Which trajectories count, and when each of them finished."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from hopbudget.budgets.allocation import Binds, CannotAllocateError
from hopbudget.budgets.numbers.quantiles import CENSORED, FINISHED, NEVER, among
from hopbudget.budgets.profile import Bools, Floats, Ints, Profile


@dataclass(frozen=True, slots=True)
class Population:
    """Trajectories that say something about a deadline; every array has one entry for each of them."""

    rows: Ints
    """Index into the profile."""
    finish_s: Floats
    """When what the deadline binds was there; +inf if it never came; a lower bound where `censored`."""
    censored: Bools
    timed_out: Bools
    """Which of those ran into a time-out of their own."""
    observed_s: Floats
    """How much of the trajectory was seen: what hops are clipped to. Finite."""
    left_out: dict[str, int]
    """Reason to number of trajectories that say nothing."""
    weight: Floats | None = None
    """How much each counts, the newest 1; None where all count the same."""
    intervened: float = 0.0
    """Share of the complete trajectories that were left out because we changed their course."""

    def left_out_at(self, profile: Profile, deadline_s: float) -> tuple[Bools, dict[str, int]]:
        """Those cut off before the deadline, whose success is unknown, as a mask; and the full count by reason."""
        unknown = self.censored & (self.finish_s < deadline_s)
        reasons = Counter(str(word) for word in profile.trajectories.outcome[self.rows[unknown]])
        return unknown, {**self.left_out, **dict(sorted(reasons.items()))}


def population(
    profile: Profile, binds: Binds, half_life_s: float | None = None, answer_scale: float = 1.0
) -> Population:
    """Sort trajectories into finished, never finishing, cut off, and left out with the reason.

    With `binds="both"` it finishes at the later of its last token and `answer_scale` times its first answer token: with
    the ratio of the two deadlines, both are met exactly when that time is within the longer one.

    With a half-life, a trajectory that began so many seconds before the newest one counts half, and so on.

    With `binds="answer"` a trajectory finishes at the first answer token of its final stream, whatever cut it off
    later; one that came well without an observed answer start is left out.
    """
    t = profile.trajectories
    end_s = {
        "last": t.duration_s,
        "answer": t.answer_start_s,
        "both": np.maximum(t.duration_s, t.answer_start_s * answer_scale),
    }[binds]
    finished, never, cut = (among(t.outcome, words) for words in (FINISHED, NEVER, CENSORED))
    if binds == "answer":
        answered = cut & ~np.isnan(end_s)
        finished, cut = finished | answered, cut & ~answered
    reason = np.full(len(t.duration_s), "", dtype=object)
    reason[finished & np.isnan(end_s)] = "no_answer_start"
    if binds != "last" and np.any(finished) and np.isnan(end_s[finished]).all():
        # Failures alone would read as "nobody ever answers", where it is only that nobody watched.
        reason[never | cut] = "no_answer_start"
    reason[~(finished | never | cut)] = "unknown_outcome"
    reason[t.intervened] = "intervened"
    reason[~t.complete | np.isnan(t.duration_s)] = "incomplete"
    rows = np.flatnonzero(reason == "")
    finish_s = np.where(finished | (cut & (binds == "both") & ~np.isnan(end_s)), end_s, t.duration_s)
    observed = np.where(finished & (binds == "answer"), end_s, t.duration_s)
    return Population(
        rows=rows,
        finish_s=np.where(never, np.inf, finish_s)[rows],
        censored=cut[rows],
        observed_s=observed[rows],
        left_out=dict(sorted(Counter(str(word) for word in reason if word).items())),
        weight=None if half_life_s is None else recency(t.started_at[rows], half_life_s),
        timed_out=among(t.outcome[rows], frozenset({"timed_out"})),
        intervened=float(np.mean(t.intervened[t.complete])) if bool(t.complete.any()) else 0.0,
    )


def recency(started_at: Floats, half_life_s: float) -> Floats:
    """Weights 2^(-age / half-life), ages counted from the newest; what has no date counts as the oldest."""
    if not len(started_at):
        return np.zeros(0)
    if bool(np.isnan(started_at).all()):
        return np.ones(len(started_at))
    dated = np.where(np.isnan(started_at), np.nanmin(started_at), started_at)
    weight: Floats = np.exp2(-(dated.max() - dated) / half_life_s)
    return weight


def thinned(profile: Profile, half_life_s: float) -> Profile:
    """A profile in which each trajectory stands with its weight's probability: evenly, in order of start.

    For what counts trajectories and knows no weights. The newest always stays.
    """
    t = profile.trajectories
    order = np.argsort(-np.nan_to_num(t.started_at, nan=-np.inf), kind="stable")
    total = np.cumsum(recency(t.started_at, half_life_s)[order])
    stays = np.floor(total) > np.floor(np.concatenate([[0.0], total[:-1]]))
    return profile.take(np.sort(order[stays]))


def usable_population(
    profile: Profile, binds: Binds, half_life_s: float | None = None, answer_scale: float = 1.0
) -> Population:
    """`population`, or `CannotAllocateError` with the reason when not one trajectory counts."""
    found = population(profile, binds, half_life_s, answer_scale)
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
