"""The final stream's own objectives: how long until it starts, how fast it goes on, how long it may get."""

import math
from dataclasses import replace
from typing import Any, Final

import numpy as np

from hopbudget.budgets.allocation import Binds, Slot, StreamBudget
from hopbudget.budgets.numbers import words
from hopbudget.budgets.numbers.quantiles import attained, rank, share_within
from hopbudget.budgets.profile import Bools, Floats, Profile
from hopbudget.budgets.streams.sizes import Streams, joint, observe, stream_sizes
from hopbudget.budgets.streams.sizes import evaluate as by_size

ENOUGH: Final = 200
"""With fewer final streams, their limits are judged on all streams."""
SHORT: Final = 0.1
"""An answer no longer than this quantile of N is short."""


def final_hops(profile: Profile) -> Bools:
    """The hops that leave the slots: final streams, if the first token of any of them was observed."""
    hops = profile.hops
    finals = hops.final & hops.streamed
    return finals if bool((finals & ~np.isnan(hops.ttft_s)).any()) else np.zeros(len(finals), dtype=np.bool_)


def joint_share(streams: Streams, ttft_s: float, tpot_s: float) -> float:
    """Share of streams that kept both; those whose answer is not known are left out. NaN of nothing."""
    kept = joint(streams, ttft_s, tpot_s)
    known = kept[~np.isnan(kept)]
    return float(known.mean()) if len(known) else math.nan


def at_level(streams: Streams, level: float) -> tuple[float, float]:
    """The attained quantiles (TTFT, TPOT) at one common level."""
    seen = ~np.isnan(streams.ttft_s)
    paced = streams.tpot_s[~np.isnan(streams.tpot_s)]
    ttft = attained(streams.ttft_s[seen], streams.ttft_censored[seen], level)
    return ttft, attained(paced, np.zeros(len(paced), dtype=np.bool_), level)


def joint_level(streams: Streams, p: float) -> float:
    """The smallest common level at which TTFT and TPOT hold together for a share p.

    Where none does, because too many failed, the highest at which both are finite. TTFT and TPOT each at level p
    hold together less often than p, so the level lies above p.
    """
    n = len(streams)
    low, high = rank(n, p) - 1, n
    while high > 1 and not all(np.isfinite(x) or np.isnan(x) for x in at_level(streams, high / n)):
        high -= 1
    low = min(low, high - 1)
    while high - low > 1:
        middle = (low + high) // 2
        if _holds(streams, middle / n, p):
            high = middle
        else:
            low = middle
    return high / n


def _holds(streams: Streams, level: float, p: float) -> bool:
    ttft, tpot = at_level(streams, level)
    return joint_share(streams, ttft, math.inf if math.isnan(tpot) else tpot) >= p - 1e-12


def stream_budget(
    streams: Streams, place: Slot, p: float, binds: Binds, answer_s: float | None = None
) -> tuple[StreamBudget, list[str]]:
    """What the stream's seconds hold: first token and pace at the level that keeps both for a share p, and N.

    N is its p-quantile where that fits into the seconds, else the longest that fits. Where not even a short answer (the
    `SHORT` quantile of N) fits at that level, the level is lowered until it does, and a note says so. Where the
    deadline binds both, the place's seconds go to the last token and `answer_s` of them to the first answer token.
    """
    wait_s = place.budget_s if answer_s is None else min(answer_s, place.budget_s)
    budget, notes = _one_size(streams, place, p, binds, wait_s)
    return replace(budget, answer_s=answer_s, sizes=stream_sizes(streams, p, wait_s)), notes


def evaluate(train: Profile, test: Profile, p: float = 0.9) -> dict[str, Any]:
    """How the limits of final streams learned from `train` hold on `test`.

    Where `train` has few final streams, all streams are learned from and judged. Equally long arrays, one entry a
    stream: `joint` (1 where first token and pace both held, NaN where that is not known or the model was not learned),
    `ttft` and `tpot` (each alone), `model`, `trajectory`.
    """
    learned, judged = final_hops(train), final_hops(test)
    if np.count_nonzero(learned) < ENOUGH:
        learned, judged = (of.hops.streamed & ~np.isnan(of.hops.ttft_s) for of in (train, test))
    found = by_size(observe(train, learned), observe(test, judged), p)
    return {"trajectory": test.hops.trajectory[judged], **found}


def _one_size(streams: Streams, place: Slot, p: float, binds: Binds, wait_s: float) -> tuple[StreamBudget, list[str]]:
    """The limits of all models and prompt sizes together."""
    level = joint_level(streams, p)
    ttft, tpot = at_level(streams, level)
    counted = np.sort(streams.tokens[~np.isnan(streams.tokens)])
    if math.isnan(tpot) or not len(counted):
        ttft = min(ttft, wait_s)
        note = (
            "the final stream's pace is not known (its tokens were counted in chunks or not at all): no TPOT, no tokens"
        )
        return _filled(place, level, _share_in_time(streams, ttft), ttft_s=ttft), [note]
    short, most = (int(counted[rank(len(counted), q) - 1]) for q in (min(SHORT, p), p))
    notes = []
    if binds != "answer" and (lower := _fitting_level(streams, level, place.budget_s, short)) < level:
        notes.append(
            f"the stream's {words.seconds(place.budget_s)} would not hold even a short answer "
            f"({words.tokens(short)}) at the level that keeps first token and pace together {100 * p:.10g}% of the "
            f"time ({100 * level:.3g}% of each), so they stand where {100 * lower:.3g}% of each are kept"
        )
        level = lower
        ttft, tpot = at_level(streams, level)
    fits = _longest(ttft, tpot, place.budget_s, most) if binds != "answer" else most
    ttft = min(ttft, wait_s)
    filled = _filled(place, level, joint_share(streams, ttft, tpot), ttft_s=ttft, tpot_s=tpot, tokens=fits)
    return replace(filled, tokens_percentile=100 * p if fits == most else 100 * _share_up_to(counted, fits)), notes


def _filled(place: Slot, level: float, joint: float, *, ttft_s: float, **known: Any) -> StreamBudget:
    unknown: dict[str, Any] = {"tpot_s": None, "tokens": None, "tokens_percentile": None}
    return StreamBudget(
        ttft_s=ttft_s,
        **{**unknown, **known},
        level=level,
        joint=joint,
        budget_s=place.budget_s,
        kept=place.kept,
        p50_s=place.p50_s,
        p90_s=place.p90_s,
    )


def _share_up_to(ordered: Floats, value: float) -> float:
    return int(np.searchsorted(ordered, value, side="right")) / len(ordered)


def _share_in_time(streams: Streams, ttft_s: float) -> float:
    """Share of streams that kept the first token's limit, where pace is not known."""
    seen = ~np.isnan(streams.ttft_s)
    return float(share_within(np.array([ttft_s]), streams.ttft_s[seen], streams.ttft_censored[seen])[0])


def _fitting_level(streams: Streams, level: float, budget_s: float, tokens: int) -> float:
    """The highest common level, at most `level`, at which an answer of so many tokens ends within the budget."""
    n = len(streams)
    low, high = 1, rank(n, level)
    while low < high:
        middle = (low + high + 1) // 2
        ttft, tpot = at_level(streams, middle / n)
        if ttft + (tokens - 1) * tpot <= budget_s:
            low = middle
        else:
            high = middle - 1
    return high / n if high < rank(n, level) else level


def _longest(ttft_s: float, tpot_s: float, budget_s: float, most: int) -> int:
    """The longest answer, of `most` tokens at most, that ends within the budget at these limits; at least one token."""
    if tpot_s <= 0:
        return most
    if not ttft_s < budget_s:
        return 1
    return max(1, min(most, 1 + math.floor((budget_s - ttft_s) / tpot_s + 1e-9)))
