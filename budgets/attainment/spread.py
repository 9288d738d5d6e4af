"""How seconds are spread, told in at most fifty dots: each is the same share of what was observed."""

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from hopbudget.budgets.numbers.quantiles import FINISHED, among
from hopbudget.budgets.profile import Bools, Floats, Profile, Words
from hopbudget.budgets.streams.pace import Streams

Metric = Literal["duration_s", "ttft_s", "tpot_s"]

DOTS: Final = 50


@dataclass(frozen=True, slots=True)
class Spread:
    """The seconds of one name; quantiles are linear-interpolated over what came well."""

    name: str
    n: int
    p50: float
    p90: float
    p99: float
    dots: tuple[float, ...]
    """Quantiles at evenly spaced levels, rising: each dot stands for n / len(dots) observations."""
    left_out: int
    """Observed ones that did not come well, and are in no quantile."""


def hop_spreads(profile: Profile, metric: Metric) -> list[Spread]:
    """One for each hop name with anything observed, in the order in which a trajectory comes to them."""
    hops = profile.hops
    values: Floats = getattr(hops, metric)
    return _by_name(hops.hop, hops.started_s, values, hops.outcome)


def work_spreads(profile: Profile) -> list[Spread]:
    """One for each kind of work, in the order in which a trajectory comes to them."""
    works = profile.works
    return _by_name(works.work, works.started_s, works.duration_s, works.outcome)


def trajectory_spread(profile: Profile) -> Spread | None:
    """Of whole, complete trajectories."""
    t = profile.trajectories
    made = _spread("trajectory", np.where(t.complete, t.duration_s, np.nan), t.outcome)
    return made if made.n else None


def gap_spreads(streams: Streams, hops: Words) -> list[Spread]:
    """ITL over the gaps of the streams of each hop name, in the order in which the names come."""
    found = []
    for name in dict.fromkeys(str(hop) for hop in hops):
        ours = np.repeat(hops == name, streams.gaps)
        found.append(_of(name, streams.gaps_s[ours], 0))
    return found


def _by_name(names: Words, started_s: Floats, values: Floats, outcomes: Words) -> list[Spread]:
    found: list[tuple[float, Spread]] = []
    for name in sorted({str(name) for name in names}):
        ours: Bools = names == name
        made = _spread(name, values[ours], outcomes[ours])
        if made.n:
            found.append((float(started_s[ours].mean()), made))
    return [made for _, made in sorted(found, key=lambda item: item[0])]


def _spread(name: str, values: Floats, outcomes: Words) -> Spread:
    observed = ~np.isnan(values)
    well = among(outcomes, FINISHED) & observed
    return _of(name, values[well], int(np.count_nonzero(observed & ~well)))


def _of(name: str, usable: Floats, left_out: int) -> Spread:
    if not len(usable):
        return Spread(name, 0, math.nan, math.nan, math.nan, (), left_out)
    count = min(len(usable), DOTS)
    levels = (np.arange(count) + 0.5) / count
    p50, p90, p99 = (float(q) for q in np.quantile(usable, (0.5, 0.9, 0.99)))
    dots = tuple(float(dot) for dot in np.quantile(usable, levels))
    return Spread(name, len(usable), p50, p90, p99, dots, left_out)
