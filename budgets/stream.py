"""The final stream's own objectives: how long until it starts, how fast it goes on, how long it may get."""

import math
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from hopbudget.budgets import words
from hopbudget.budgets.allocation import Binds, Slot, StreamBudget
from hopbudget.budgets.profile import Bools, Floats, Profile
from hopbudget.budgets.quantiles import CENSORED, NEVER, among, attained, rank, share_within

SHORT: Final = 0.1
"""An answer no longer than this quantile of N is short."""


@dataclass(frozen=True, slots=True)
class Streams:
    """What was observed of final streams, one entry each; NaN where it was not."""

    ttft_s: Floats
    """+inf for a stream that failed; a lower bound where `ttft_censored`."""
    ttft_censored: Bools
    tpot_s: Floats
    """0 for a stream of one token, whose pace breaks nothing; +inf for one that failed."""
    tokens: Floats
    """N; never one that was counted in chunks."""

    def __len__(self) -> int:
        return len(self.ttft_s)


def final_hops(profile: Profile) -> Bools:
    """The hops that leave the slots: final streams, if the first token of any of them was observed."""
    hops = profile.hops
    finals = hops.final & hops.streamed
    return finals if bool((finals & ~np.isnan(hops.ttft_s)).any()) else np.zeros(len(finals), dtype=np.bool_)


def observe(profile: Profile, finals: Bools) -> Streams:
    """Read TTFT, TPOT and N of these hops, as attained quantiles count them."""
    hops = profile.hops
    failed = among(hops.outcome[finals], NEVER)
    cut = among(hops.outcome[finals], CENSORED)
    ttft, tpot = hops.ttft_s[finals], hops.tpot_s[finals]
    by_chunks = hops.n_is_chunks[finals]
    tokens = np.where(by_chunks, np.nan, hops.output_tokens[finals])
    waited = cut & np.isnan(ttft)
    pace = np.where(by_chunks, np.nan, np.where(tokens == 1, 0.0, tpot))
    return Streams(
        ttft_s=np.where(failed, np.inf, np.where(waited, hops.duration_s[finals], ttft)),
        ttft_censored=waited,
        tpot_s=np.where(failed & ~by_chunks, np.inf, pace),
        tokens=np.where(failed | cut, np.nan, tokens),
    )


def joint_share(streams: Streams, ttft_s: float, tpot_s: float) -> float:
    """Share of streams that kept both; those whose answer is not known are left out. NaN of nothing."""
    late = (streams.ttft_s > ttft_s) | (streams.ttft_censored & (streams.ttft_s >= ttft_s))
    slow = streams.tpot_s > tpot_s
    unknown = ~late & ~slow & (streams.ttft_censored | np.isnan(streams.ttft_s) | np.isnan(streams.tpot_s))
    known = len(streams) - int(np.count_nonzero(unknown))
    return float(np.count_nonzero(~late & ~slow & ~unknown)) / known if known else math.nan


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


def stream_budget(streams: Streams, place: Slot, p: float, binds: Binds) -> tuple[StreamBudget, list[str]]:
    """What the stream's seconds hold: first token and pace at the level that keeps both for a share p, and N.

    N is its p-quantile where that fits into the seconds, else the longest that fits. Where not even a short answer (the
    `SHORT` quantile of N) fits at that level, the level is lowered until it does, and a note says so.
    """
    level = joint_level(streams, p)
    ttft, tpot = at_level(streams, level)
    counted = np.sort(streams.tokens[~np.isnan(streams.tokens)])
    if math.isnan(tpot) or not len(counted):
        ttft = min(ttft, place.budget_s)
        note = (
            "the final stream's pace is not known (its tokens were counted in chunks or not at all): no TPOT, no tokens"
        )
        return _filled(place, level, _share_in_time(streams, ttft), ttft_s=ttft), [note]
    short, most = (int(counted[rank(len(counted), q) - 1]) for q in (min(SHORT, p), p))
    notes = []
    if binds == "last" and (lower := _fitting_level(streams, level, place.budget_s, short)) < level:
        notes.append(
            f"the stream's {words.seconds(place.budget_s)} would not hold even a short answer ({short} tokens) at the "
            f"level that keeps first token and pace together {100 * p:g}% of the time (p{100 * level:.3g} of each), so "
            f"they stand at p{100 * lower:.3g}"
        )
        level = lower
        ttft, tpot = at_level(streams, level)
    fits = _longest(ttft, tpot, place.budget_s, most) if binds == "last" else most
    ttft = min(ttft, place.budget_s)
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
    return max(1, min(most, 1 + math.floor((budget_s - ttft_s) / tpot_s + 1e-9)))
