"""What trajectories can have in common: model, prompt size, hour, observed concurrency, steps, any attribute."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from hopbudget.budgets.profile import Bools, Floats, Ints, Profile, Words
from hopbudget.budgets.splits.labels import encode

MOST_LEVELS: Final = 128
"""An attribute with more values than this names single trajectories rather than kinds of them, and is left out."""
_HOURS: Final = 4
_DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Trait:
    """One thing that some trajectories have and others don't."""

    factor: str
    level: str
    has: Bools
    known: Bools
    """Where it can be said whether a trajectory has it."""


def traits(
    profile: Profile, attributes: Mapping[str, Words] | None = None, running: Floats | None = None
) -> list[Trait]:
    """Every trait of these trajectories that at least one has and one has not.

    What is had by the same ones is told once.

    `attributes` holds words by key, one for each trajectory, "" where it has none. `running` says how many others ran
    when each started, where the profile is a sample and can't tell. Hours are UTC.
    """
    others = concurrency(profile) if running is None else running
    found = [
        *_models(profile),
        *_upper(profile, "prompt tokens of the first hop", first_prompt(profile), "over {:,.0f}"),
        *_hours(profile),
        *_upper(profile, "observed concurrency at the start", others, "over {:,.0f} others"),
        *_upper(profile, "steps (hops)", steps(profile), "over {:,.0f}"),
    ]
    for key, words in sorted((attributes or {}).items()):
        found += _of_attribute(key, words)
    distinct: dict[bytes, Trait] = {}
    for trait in found:
        if trait.has.any() and (trait.known & ~trait.has).any():
            distinct.setdefault(trait.has.tobytes() + trait.known.tobytes(), trait)
    return list(distinct.values())


def steps(profile: Profile) -> Floats:
    """Hops of each trajectory."""
    return np.bincount(profile.hops.trajectory, minlength=len(profile)).astype(np.float64)


def first_prompt(profile: Profile) -> Floats:
    """Prompt tokens of each trajectory's first hop; NaN where they are not known."""
    found = np.full(len(profile), np.nan)
    first, rows = np.unique(profile.hops.trajectory, return_index=True)
    found[first] = profile.hops.input_tokens[rows]
    return found


def concurrency(profile: Profile) -> Floats:
    """How many of the other trajectories were running when each started: what traffic did, not what a server could.

    Each counts from its start for its duration; time paused for a person is not known here and not added.
    """
    t = profile.trajectories
    return running_at(t.started_at, t.started_at, t.started_at + np.nan_to_num(t.duration_s))


def running_at(moments: Floats, started: Floats, ended: Floats) -> Floats:
    """How many others were under way at each moment, at which one of these started itself."""
    begun = np.searchsorted(np.sort(started), moments, side="right")
    over = np.searchsorted(np.sort(ended), moments, side="right")
    return (begun - over - 1).clip(min=0).astype(np.float64)


def _models(profile: Profile) -> Iterator[Trait]:
    hops = profile.hops
    if not len(hops.model):
        return
    labels = encode([str(model) for model in hops.model])
    known = np.bincount(hops.trajectory, weights=hops.model != "", minlength=len(profile)) > 0
    for code, name in enumerate(labels.names):
        if name:
            has = np.bincount(hops.trajectory, weights=labels.code == code, minlength=len(profile)) > 0
            yield Trait("model", name, has, known)


def _hours(profile: Profile) -> Iterator[Trait]:
    block: Ints = (profile.trajectories.started_at % _DAY_S // (3600 * _HOURS)).astype(np.int64)
    everywhere = np.ones(len(profile), dtype=np.bool_)
    for number in np.unique(block).tolist():
        first = number * _HOURS
        yield Trait("hour (UTC)", f"{first:02d}:00 to {first + _HOURS:02d}:00", block == number, everywhere)


def _upper(profile: Profile, factor: str, values: Floats, level: str) -> Iterator[Trait]:
    """The upper quarter: those past the 75th percentile of the values."""
    known = ~np.isnan(values)
    if known.any() and len(profile):
        limit = float(np.quantile(values[known], 0.75))
        # Not the percentile itself where it lies between two values: the words name a value that was seen.
        limit = float(values[known & (values <= limit)].max())
        yield Trait(factor, level.format(limit), known & (values > limit), known)


def _of_attribute(key: str, words: Words) -> Iterator[Trait]:
    known: Bools = words != ""
    labels = encode([str(word) for word in words])
    if len(labels.names) <= MOST_LEVELS:
        for code, name in enumerate(labels.names):
            if name:
                yield Trait(key, name, labels.code == code, known)
