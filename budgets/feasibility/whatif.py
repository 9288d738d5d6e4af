"""What if one thing were different: the chance of a deadline, and the smallest that enough would meet.

Every answer is worked out on the recorded trajectories, with the one change made in each of them, and rests on an
assumption that is named. Seconds saved count only where nothing else was running.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from hopbudget.budgets.allocation import Binds, CannotAllocateError, Share
from hopbudget.budgets.expectations.expectation import Line, fit_lines, known_prompts
from hopbudget.budgets.feasibility.feasible import feasibility, smallest_deadline
from hopbudget.budgets.numbers import words
from hopbudget.budgets.numbers.intervals import union_seconds
from hopbudget.budgets.population import Population, usable_population
from hopbudget.budgets.profile import Bools, Floats, Hops, Profile, Works

_NAMED: Final = 12
ChangeKind = Literal["tokens", "scale", "drop", "model"]


@dataclass(frozen=True, slots=True)
class Change:
    """One thing made different: hops (or work, for `scale` and `drop`) of one name."""

    kind: ChangeKind
    name: str
    value: float | str | None = None
    """Tokens at most, the factor, or the model's name."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What the change does to one deadline."""

    change: Change
    changed: int
    """Hops (or pieces of work) that the change touches,"""
    trajectories: int
    """of so many trajectories that count."""
    before: Share
    """Share in time as recorded,"""
    after: Share
    """and with the change."""
    min_before_s: float
    """The smallest deadline for the percentile, as recorded,"""
    min_after_s: float
    """and with the change, with order statistics that enclose it at 95%."""
    min_after_low_s: float
    min_after_high_s: float
    assumption: str


def what_if(
    profile: Profile, change: Change, deadline_s: float, *, percentile: float = 90.0, binds: Binds = "last"
) -> WhatIf:
    """Make the change in every recorded trajectory.

    Raises ValueError where no hop or work has that name or a model was never recorded, `CannotAllocateError` (one of
    those) where tokens are unknown.
    """
    people = usable_population(profile, binds)
    rows, new_s, assumption = _new_seconds(profile, change)
    altered = _altered(profile, people, change, rows, new_s)
    before, after = (feasibility(one, deadline_s, percentile) for one in (people, altered))
    smallest, low, high = smallest_deadline(altered, percentile / 100)
    n = int(np.count_nonzero(~(altered.censored & (altered.finish_s < deadline_s))))
    return WhatIf(
        change=change,
        changed=_touched(profile, people, change, rows),
        trajectories=len(people.rows),
        before=Share(before.p_deadline, before.p_low, before.p_high, n),
        after=Share(after.p_deadline, after.p_low, after.p_high, n),
        min_before_s=before.min_deadline_s,
        min_after_s=smallest,
        min_after_low_s=low,
        min_after_high_s=high,
        assumption=assumption,
    )


def _touched(profile: Profile, people: Population, change: Change, rows: Bools) -> int:
    """How many of these rows become another: of tokens capped, those that had more."""
    if change.kind == "tokens":
        rows = rows & (profile.hops.output_tokens > float(change.value or 0.0))
    return int(np.count_nonzero(np.isin(_table(profile, change).trajectory[rows], people.rows)))


def _is_work(profile: Profile, change: Change) -> bool:
    return change.kind in ("scale", "drop") and not (profile.hops.hop == change.name).any()


def _table(profile: Profile, change: Change) -> Hops | Works:
    return profile.works if _is_work(profile, change) else profile.hops


def _new_seconds(profile: Profile, change: Change) -> tuple[Bools, Floats, str]:
    """Which rows change, how long each then takes, and what that assumes."""
    work = _is_work(profile, change)
    names = profile.works.work if work else profile.hops.hop
    rows: Bools = names == change.name
    if not rows.any():
        known = sorted({str(name) for name in profile.hops.hop} | {str(name) for name in profile.works.work})
        raise ValueError(f"nothing is named {change.name!r}; there are {_some(known)}")
    took = np.nan_to_num((profile.works if work else profile.hops).duration_s[rows])
    others = "everything else takes as long as it did"
    if change.kind == "drop":
        return rows, np.zeros(len(took)), f"nothing waits for {change.name}, and {others}"
    if change.kind == "scale":
        factor = float(change.value or 0.0)
        return rows, took * factor, f"every {change.name} takes {factor:g} times as long, and {others}"
    lines = fit_lines(profile.hops)
    if change.kind == "tokens":
        return (
            rows,
            _capped(profile, rows, took, float(change.value or 0.0), lines),
            (
                f"an answer of {change.name} that was longer ends at {words.tokens(float(change.value or 0.0))}, "
                f"at its own pace, and {others}, also where the longer answer was needed"
            ),
        )
    return (
        rows,
        _other_model(profile, rows, took, str(change.value), lines),
        (
            f"{change.value} takes the same prompts and writes as many tokens, at the first token and pace that were "
            f"recorded of it; what was slow by this line stays as slow in proportion, and {others}"
        ),
    )


def _capped(profile: Profile, rows: Bools, took: Floats, most: float, lines: dict[str, Line]) -> Floats:
    hops = profile.hops
    tokens = hops.output_tokens[rows]
    if np.isnan(tokens).all():
        raise CannotAllocateError("the tokens of these hops are not known, so nothing can be said about fewer of them")
    pace = hops.tpot_s[rows]
    fitted = np.array([lines[str(m)].per_output_token_s if str(m) in lines else math.nan for m in hops.model[rows]])
    pace = np.where(np.isnan(pace), fitted, pace)
    saved = np.nan_to_num(np.maximum(tokens - most, 0.0) * pace)
    return np.maximum(took - saved, 0.0)


def _some(known: Sequence[str]) -> str:
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    return f"{', '.join(known[:_NAMED])}{more}"


def _other_model(profile: Profile, rows: Bools, took: Floats, model: str, lines: dict[str, Line]) -> Floats:
    hops = profile.hops
    if not (hops.model == model).any():
        known = sorted({str(name) for name in hops.model if str(name) in lines})
        raise ValueError(f"no call of {model!r} was recorded; there are {_some(known)}")
    if model not in lines:
        raise CannotAllocateError(f"no call of {model!r} with known tokens was recorded")
    prompt, tokens = known_prompts(hops)[rows], hops.output_tokens[rows]
    own = [lines.get(str(name), lines[model]) for name in hops.model[rows]]
    now, then = (
        np.array([line.a_s for line in of])
        + np.array([line.per_prompt_token_s for line in of]) * prompt
        + np.array([line.per_output_token_s for line in of]) * tokens
        for of in (own, [lines[model]] * len(own))
    )
    known_ratio = np.isfinite(now) & np.isfinite(then) & (now > 0)
    return took * np.where(known_ratio, then / np.where(known_ratio, now, 1.0), 1.0)


def _altered(profile: Profile, people: Population, change: Change, rows: Bools, new_s: Floats) -> Population:
    """The population with every finish moved by what the change saves where nothing else was running."""
    size = len(profile)
    limit = np.full(size, np.nan)
    limit[people.rows] = people.observed_s
    hops, works = profile.hops, profile.works
    work = _is_work(profile, change)
    changed_hops = np.zeros(len(hops.hop), dtype=np.bool_) if work else rows
    changed_works = rows if work else np.zeros(len(works.work), dtype=np.bool_)
    group = np.concatenate([hops.trajectory, works.trajectory])
    start = np.concatenate([hops.started_s, works.started_s])
    took = np.nan_to_num(np.concatenate([hops.duration_s, works.duration_s]))
    changed = np.concatenate([changed_hops, changed_works])
    bound = np.nan_to_num(limit)[group]
    start = np.clip(np.nan_to_num(start), 0.0, bound)
    end = np.clip(start + took, start, bound)
    beside = ~changed
    alone = union_seconds(group, start, end, size) - union_seconds(group[beside], start[beside], end[beside], size)
    old = np.bincount(group[changed], weights=took[changed], minlength=size)
    new = np.bincount(group[changed], weights=new_s, minlength=size)
    ratio = np.divide(new, old, out=np.ones(size), where=old > 0)
    shift = (alone * (ratio - 1.0))[people.rows]
    finish = np.where(np.isfinite(people.finish_s), np.maximum(people.finish_s + shift, 0.0), people.finish_s)
    return replace(people, finish_s=finish)
