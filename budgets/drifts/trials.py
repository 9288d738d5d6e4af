"""Trials of drift's alarms on recorded trajectories: how soon they come after a change, and how often for nothing."""

from dataclasses import replace

import numpy as np

from hopbudget.budgets.drifts import drift
from hopbudget.budgets.drifts.cusum import WITHIN
from hopbudget.budgets.expectations import expected
from hopbudget.budgets.profile import Ints, Profile


def alarm_after(learned_from: Profile, other: Profile, *, trials: int = 25, length: int = 200, seed: int = 5) -> Ints:
    """How many trajectories of `other`, in the order they ran in, it took to an alarm; one entry a trial.

    Each trial begins at a random one; `length` stands for "none within so many". Raises ValueError where too little is
    there to learn from.
    """
    learned, expectations = _learned(learned_from)
    waited = []
    for first in np.random.default_rng(seed).integers(0, max(len(other) - length, 1), trials):
        part = other.take(np.arange(first, min(first + length, len(other))))
        changes = drift.watch(part, learned, expectations).changes
        waited.append(changes[0].trajectories if changes else length)
    return np.array(waited, dtype=np.int64)


def false_alarms(profile: Profile, *, halvings: int = 4, trials: int = 25, seed: int = 6) -> tuple[int, int]:
    """(sequences with an alarm, sequences): of one half of the trajectories, shuffled, against what the other taught.

    Every sequence has `cusum.WITHIN` trajectories, or a half.
    """
    random = np.random.default_rng(seed)
    alarms = 0
    for _ in range(halvings):
        order = random.permutation(len(profile))
        known, rest = np.sort(order[: len(order) // 2]), order[len(order) // 2 :]
        learned, expectations = _learned(profile.take(known))
        others = profile.take(rest)
        for _ in range(trials):
            t = others.trajectories
            dealt = replace(others, trajectories=replace(t, started_at=random.permutation(t.started_at)))
            part = dealt.take(np.sort(random.permutation(len(others))[:WITHIN]))
            alarms += bool(drift.watch(part, learned, expectations).changes)
    return alarms, halvings * trials


def _learned(profile: Profile) -> tuple[drift.Drift, expected.Expectations]:
    expectations = expected.learn(profile)
    learned = drift.learn(profile, expectations)
    if learned is None:
        raise ValueError(f"{len(profile)} trajectories are too few to learn what drift is")
    return learned, expectations
