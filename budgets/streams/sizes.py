"""The final stream's first token and pace by model and prompt size, at a level at which both hold together.

Each model has one level l, the smallest at which a share p of its streams kept both

    TTFT <= Q_l(TTFT | model, prompt)   and   TPOT <= Q_l(TPOT | model)

TTFT and TPOT each at level p hold together less often than p, so l lies above p.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hopbudget.budgets.allocation import StreamSize
from hopbudget.budgets.expectations.expectation import prompt_tokens
from hopbudget.budgets.expectations.waits import OTHERS, Curve, Seen, Wait, curve, waits_by_model
from hopbudget.budgets.numbers.quantiles import CENSORED, NEVER, among
from hopbudget.budgets.profile import Bools, Floats, Profile, Words

LEVEL_STEP: Final = 1e-4
"""To what a common level is found."""


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
    model: Words
    prompt: Floats

    def __len__(self) -> int:
        return len(self.ttft_s)

    def take(self, rows: Bools) -> "Streams":
        """Only these."""
        return Streams(*(getattr(self, name)[rows] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Limits:
    """First token and pace of one model at the level at which both hold together."""

    wait: Wait
    pace: Curve
    level: float

    def of(self, prompt: Floats) -> tuple[Floats, float]:
        """TTFT for prompts of these sizes, and TPOT (+inf where the pace is not known)."""
        return self.wait.at_s(prompt, self.level), _pace_s(self.pace, self.level)


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
        model=hops.model[finals].astype(str),
        prompt=prompt_tokens(hops)[finals],
    )


def joint(streams: Streams, ttft_s: Floats | float, tpot_s: Floats | float) -> Floats:
    """For each stream 1 if it kept both, 0 if it broke one, NaN where that is not known."""
    late = (streams.ttft_s > ttft_s) | (streams.ttft_censored & (streams.ttft_s >= ttft_s))
    slow = streams.tpot_s > tpot_s
    unknown = streams.ttft_censored | np.isnan(streams.ttft_s) | np.isnan(streams.tpot_s)
    kept: Floats = np.where(late | slow, 0.0, np.where(unknown, np.nan, 1.0))
    return kept


def fit_limits(streams: Streams, p: float) -> dict[str, Limits]:
    """The limits of each model with enough streams of its own; where none has, those of all under `waits.OTHERS`."""
    seen = Seen(np.arange(len(streams)), streams.ttft_s, streams.ttft_censored, streams.prompt)
    known = ~np.isnan(streams.ttft_s)
    waits = waits_by_model(seen.take(known), streams.model[known])
    limits: dict[str, Limits] = {}
    for model, wait in reversed(waits.items()):
        if model == OTHERS and limits:
            break
        own = streams.take(streams.model == model) if model else streams
        paced = own.tpot_s[~np.isnan(own.tpot_s)]
        pace = curve(paced, np.zeros(len(paced), dtype=np.bool_))
        limits[model] = Limits(wait, pace, _level(own, wait, pace, p))
    return limits


def limits_of(streams: Streams, limits: Mapping[str, Limits]) -> tuple[Floats, Floats]:
    """TTFT and TPOT for each stream; NaN for models that were not learned."""
    ttft, tpot = np.full(len(streams), np.nan), np.full(len(streams), np.nan)
    for model in np.unique(streams.model).tolist():
        found = limits.get(model) or limits.get(OTHERS)
        if found is not None:
            own = streams.model == model
            ttft[own], tpot[own] = found.of(streams.prompt[own])
    return ttft, tpot


def stream_sizes(streams: Streams, p: float, most_s: float) -> tuple[StreamSize, ...]:
    """The limits as rows, no first token later than `most_s`; models in order, sizes ascending."""
    limits = fit_limits(streams, p)
    return tuple(row for model in sorted(limits) for row in _rows(model, limits[model], most_s))


def evaluate(train: Streams, test: Streams, p: float) -> dict[str, Any]:
    """`joint` (1, 0, NaN), `ttft` and `tpot` (each alone) and `model` of each stream in `test`, by limits of `train`"""
    ttft, tpot = limits_of(test, fit_limits(train, p))
    learned = ~np.isnan(ttft)
    return {
        "joint": np.where(learned, joint(test, ttft, tpot), np.nan),
        "ttft": np.where(learned & ~np.isnan(test.ttft_s), test.ttft_s <= ttft, np.nan),
        "tpot": np.where(learned & ~np.isnan(test.tpot_s), test.tpot_s <= tpot, np.nan),
        "model": test.model,
    }


def _level(streams: Streams, wait: Wait, pace: Curve, p: float) -> float:
    """The smallest level at which both hold together for a share p; where none does, the highest of finite limits."""
    low, high = 0.0, 1.0

    def limits(level: float) -> tuple[Floats, float]:
        return wait.at_s(streams.prompt, level), _pace_s(pace, level)

    def holds(level: float) -> bool:
        kept = joint(streams, *limits(level))
        return bool(np.nanmean(kept) >= p - 1e-12) if not np.isnan(kept).all() else True

    def endless(level: float) -> bool:
        ttft, tpot = limits(level)
        return bool(np.isinf(ttft).any()) or (len(pace.times) > 0 and bool(np.isinf(tpot)))

    while high - low > LEVEL_STEP:
        middle = (low + high) / 2
        low, high = (low, middle) if endless(middle) or holds(middle) else (middle, high)
    return high if not endless(high) else low


def _pace_s(pace: Curve, level: float) -> float:
    return pace.at(level) if len(pace.times) else float("inf")


def _rows(model: str, limits: Limits, most_s: float) -> Iterator[StreamSize]:
    wait = limits.wait
    for k, upper in enumerate([*wait.edges.tolist(), float("inf")]):
        at_tokens = float(wait.centres[k])
        ttft, tpot = limits.of(np.array([at_tokens]))
        yield StreamSize(
            model=model,
            from_tokens=wait.smallest,
            up_to_tokens=upper,
            at_tokens=at_tokens,
            per_token=wait.growth(k),
            ttft_s=min(float(ttft[0]), most_s),
            tpot_s=tpot if np.isfinite(tpot) else float("nan"),
            level=limits.level,
            n=int(wait.counts[k]),
        )
