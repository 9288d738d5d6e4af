"""What was observed of trajectories and hops, over limits that nine of ten kept: what drift is looked for in."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from hopbudget.budgets.expectations.expectation import prompt_tokens
from hopbudget.budgets.expectations.table import Expectations, expect
from hopbudget.budgets.numbers.quantiles import CENSORED, FINISHED, NEVER, among
from hopbudget.budgets.profile import Bools, Floats, Ints, Profile

DriftCause = Literal["overall", "failures", "visits", "answers", "prompt", "first_token", "pace", "tools"]
CAUSES: Final[tuple[DriftCause, ...]] = get_args(DriftCause)
LEAST: Final = 100
"""With fewer trajectories nothing is learned to compare with."""
WORK_MATTERS: Final = 0.05
"""Work under this share of the time is not watched."""
P: Final = 0.9


@dataclass(frozen=True, slots=True)
class Limit:
    """What nine of ten kept."""

    cause: DriftCause
    hop: str
    """"" for what is not about one hop name, and for hop names that were not learned."""
    value: float


def limits_of(profile: Profile) -> tuple[Limit, ...]:
    """The limits of these trajectories: quantiles of what came well, of hops by name where there are enough."""
    t, hops = profile.trajectories, profile.hops
    well = among(t.outcome, FINISHED)
    limits: list[Limit] = []
    if well.any():
        limits.append(Limit("overall", "", _quantile(t.duration_s[well])))
        limits.append(Limit("visits", "", _quantile(_hop_counts(profile)[well])))
    if well.any() and np.nansum(t.work_s) > WORK_MATTERS * np.nansum(t.duration_s):
        limits.append(Limit("tools", "", _quantile(t.work_s[well])))
    names = hops.hop.astype(str)
    for cause, values in _by_hop(profile):
        for name in ["", *np.unique(names).tolist()]:
            own = ~np.isnan(values) & ((names == name) if name else np.ones(len(names), dtype=np.bool_))
            if np.count_nonzero(own) >= LEAST // 2:
                limits.append(Limit(cause, name, _quantile(values[own])))
    return tuple(limit for limit in limits if limit.value > 0)


def _quantile(values: Floats) -> float:
    return float(np.nanquantile(values, P, method="inverted_cdf"))


def _hop_counts(profile: Profile) -> Floats:
    return np.bincount(profile.hops.trajectory, minlength=len(profile)).astype(np.float64)


def _by_hop(profile: Profile) -> tuple[tuple[DriftCause, Floats], ...]:
    """What has a limit for each hop name: answers and prompts, in tokens."""
    hops = profile.hops
    answers = np.where(hops.n_is_chunks | ~among(hops.outcome, FINISHED), np.nan, hops.output_tokens)
    return ("answers", answers), ("prompt", prompt_tokens(hops))


Ratios = tuple[Ints, Floats]
"""Trajectories, and for each what was observed over its limit: NaN where that is not known."""


def ratios_of(profile: Profile, limits: Iterable[Limit], expectations: Expectations) -> dict[DriftCause, Ratios]:
    """By cause, what was observed of each trajectory or hop over its limit."""
    t, hops = profile.trajectories, profile.hops
    by_cause: dict[str, dict[str, float]] = {}
    for limit in limits:
        by_cause.setdefault(limit.cause, {})[limit.hop] = limit.value
    each = np.arange(len(profile))
    failed, cut = among(t.outcome, NEVER), among(t.outcome, CENSORED)
    found: dict[DriftCause, Ratios] = {"failures": (each, np.where(failed, np.inf, 0.0))}
    if "overall" in by_cause:
        ratio = np.where(failed, np.inf, t.duration_s) / by_cause["overall"][""]
        found["overall"] = each, np.where(cut & (ratio <= 1.0), np.nan, ratio)
    if "visits" in by_cause:
        ratio = _hop_counts(profile) / by_cause["visits"][""]
        found["visits"] = each, np.where((failed | cut) & (ratio <= 1.0), np.nan, ratio)
    if "tools" in by_cause:
        found["tools"] = each, t.work_s / by_cause["tools"][""]
    for cause, values in _by_hop(profile):
        if cause in by_cause:
            names, known = hops.hop.astype(str), by_cause[cause]
            limit_of = np.array([known.get(name, known.get("", np.nan)) for name in names], dtype=np.float64)
            found[cause] = hops.trajectory, _over(values, limit_of)
    expected = expect(hops, expectations)
    finished = among(hops.outcome, FINISHED)
    first = np.where(expected.observed, _over(hops.ttft_s, expected.first_token_s), np.nan)
    pace = np.where(
        np.isnan(hops.ttft_s),
        _over(hops.duration_s, expected.finish_s),
        _over(hops.duration_s - hops.ttft_s, expected.answer_s),
    )
    found["first_token"] = hops.trajectory, np.where(finished, first, np.nan)
    found["pace"] = hops.trajectory, np.where(finished, pace, np.nan)
    return found


def share_past(trajectory: Ints, ratio: Floats, at: float, n: int) -> Floats:
    """By trajectory, the share of its entries past the limit; NaN where it has none."""
    seen: Bools = ~np.isnan(ratio)
    count = np.bincount(trajectory[seen], minlength=n)
    past = np.bincount(trajectory[seen], weights=ratio[seen] > at, minlength=n)
    share: Floats = np.divide(past, count, out=np.full(n, np.nan), where=count > 0)
    return share


def _over(value: Floats, limit: Floats) -> Floats:
    """Their ratio; NaN where there is no limit above 0."""
    ratio: Floats = np.divide(value, limit, out=np.full(len(value), np.nan), where=limit > 0)
    return ratio
