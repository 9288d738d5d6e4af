"""How long a first token takes, by model and by the size of the prompt.

A model's hops stand in buckets of prompt size (quartiles where there are enough of them). Inside a bucket the wait
still grows with the prompt, so that what is read off a bucket is a quantile of TTFT / (a + b * prompt), with the line
of the least absolute deviations; times the line, it is a quantile of TTFT for a prompt of that size:

    Q_l(TTFT | model, prompt) = Q_l(TTFT / (a + b prompt) | model, bucket) * (a + b prompt)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from hopbudget.budgets.expectations.expectation import OWN_LINE, fit_line, prompt_tokens
from hopbudget.budgets.numbers.quantiles import CENSORED, FINISHED, among, share_within
from hopbudget.budgets.profile import Bools, Floats, Hops, Ints, Words

BUCKETS: Final = 4
PER_BUCKET: Final = 500
"""A bucket of prompt sizes has at least so many hops, so that its Q99 does not hang on one of them."""
OTHERS: Final = ""
"""The entry for models that were not learned: all hops together."""


@dataclass(frozen=True, slots=True)
class Curve:
    """The attained quantiles of one set of times, quick at any level."""

    times: Floats
    """What was observed, ascending."""
    reached: Floats
    """The share that had come by then."""

    def at(self, level: float) -> float:
        """The smallest observed time that this share kept; +inf where time-outs leave it open, NaN of nothing."""
        if not len(self.times):
            return float("nan")
        place = int(np.searchsorted(self.reached, level - 1e-12))
        return float(self.times[place]) if place < len(self.times) else float("inf")

    def next_within(self, level: float) -> float:
        """What the next one keeps with this probability: order statistic ceil((n + 1) l); +inf where n is too small."""
        return self.at(level * (1.0 + 1.0 / max(len(self.times), 1)))


def curve(times: Floats, censored: Bools) -> Curve:
    """The curve of times of which the `censored` ones are lower bounds, see `quantiles.attained`."""
    events = np.sort(times[~censored])
    return Curve(events, share_within(events, times, censored))


@dataclass(frozen=True, slots=True)
class Wait:
    """The first token of one model, by prompt size."""

    a_s: float
    b_s: float
    """Seconds for each token of the prompt."""
    smallest: float
    """Shorter prompts than any that was seen count as this long."""
    edges: Floats
    """Between the buckets; a prompt at an edge belongs below it."""
    centres: Floats
    """The median prompt of each bucket."""
    counts: Ints
    relative: tuple[Curve, ...]
    """Of TTFT / (a + b prompt), by bucket."""
    plain: Curve
    """Of TTFT, whatever the prompt."""

    def bucket(self, prompt: Floats) -> Ints:
        """Which bucket each prompt is in."""
        return np.searchsorted(self.edges, prompt, side="left").astype(np.int64)

    def usual_at(self, k: int) -> float:
        """a + b * prompt at the centre of bucket k; a where prompt sizes are not known."""
        return float(self.usual_s(np.nan_to_num(self.centres[k : k + 1]))[0])

    def growth(self, k: int) -> float:
        """By how much a wait in bucket k grows for each prompt token, as a share of that at its centre."""
        return self.b_s / self.usual_at(k)

    def usual_s(self, prompt: Floats) -> Floats:
        """a + b * prompt."""
        return self.a_s + self.b_s * np.maximum(prompt, self.smallest)

    def at_s(self, prompt: Floats, level: float) -> Floats:
        """The quantile of TTFT at this level for each prompt; that of all prompts for one whose size is not known."""
        return self._read(prompt, lambda curve: curve.at(level))

    def next_within_s(self, prompt: Floats, level: float) -> Floats:
        """What the next first token keeps with this probability, see `Curve.next_within`."""
        return self._read(prompt, lambda curve: curve.next_within(level))

    def _read(self, prompt: Floats, read: Callable[[Curve], float]) -> Floats:
        by_bucket = np.array([read(bucket) for bucket in self.relative])
        at: Floats = np.where(np.isnan(prompt), read(self.plain), by_bucket[self.bucket(prompt)] * self.usual_s(prompt))
        return at


@dataclass(frozen=True, slots=True)
class Seen:
    """First tokens that were waited for: rows of the hops, times (lower bounds where `censored`), prompts."""

    rows: Ints
    times_s: Floats
    censored: Bools
    prompt: Floats

    def take(self, wanted: Bools) -> "Seen":
        """Only these."""
        return Seen(self.rows[wanted], self.times_s[wanted], self.censored[wanted], self.prompt[wanted])


def seen_waits(hops: Hops) -> Seen:
    """Streams whose first token came, and those that were cut off while they waited for it."""
    came = ~np.isnan(hops.ttft_s) & (among(hops.outcome, FINISHED) | among(hops.outcome, CENSORED))
    cut = hops.streamed & np.isnan(hops.ttft_s) & among(hops.outcome, CENSORED) & ~np.isnan(hops.duration_s)
    rows = np.flatnonzero(came | cut)
    times = np.where(came, hops.ttft_s, hops.duration_s)[rows]
    return Seen(rows, times, cut[rows], prompt_tokens(hops)[rows])


def fit_waits(hops: Hops) -> dict[str, Wait]:
    """A `Wait` for each model with enough first tokens, and one of all together under `OTHERS`; {} without any."""
    seen = seen_waits(hops)
    return waits_by_model(seen, hops.model[seen.rows])


def waits_by_model(seen: Seen, models: Words) -> dict[str, Wait]:
    """The same for first tokens of these models, one for each."""
    came = ~seen.censored & np.isfinite(seen.times_s)
    if not came.any():
        return {}
    words = models.astype(str)
    waits = {OTHERS: fit_wait(seen)}
    for model in np.unique(words).tolist():
        own = words == model
        if model and np.count_nonzero(own & came) >= OWN_LINE:
            waits[model] = fit_wait(seen.take(own))
    return waits


def fit_wait(seen: Seen) -> Wait:
    """The first token of these hops, by the size of their prompt."""
    sized = ~np.isnan(seen.prompt)
    prompt, times, cut = seen.prompt[sized], seen.times_s[sized], seen.censored[sized]
    plain = curve(seen.times_s, seen.censored)
    came = ~cut & np.isfinite(times)
    if np.count_nonzero(came) < OWN_LINE:
        return _one_size(seen, plain, prompt)
    a_s, b_s = _line(times[came], prompt[came])
    smallest = float(prompt.min())
    pieces = min(max(len(prompt) // PER_BUCKET, 1), BUCKETS)
    edges = np.unique(np.quantile(prompt, np.arange(1, pieces) / pieces, method="inverted_cdf"))
    edges = edges[edges < prompt.max()]
    bucket = np.searchsorted(edges, prompt, side="left")
    relative = times / (a_s + b_s * prompt)
    inside = [bucket == k for k in range(len(edges) + 1)]
    return Wait(
        a_s=a_s,
        b_s=b_s,
        smallest=smallest,
        edges=edges,
        centres=np.array([float(np.median(prompt[mask])) for mask in inside]),
        counts=np.array([np.count_nonzero(mask) for mask in inside]),
        relative=tuple(curve(relative[mask], cut[mask]) for mask in inside),
        plain=plain,
    )


def _one_size(seen: Seen, plain: Curve, prompt: Floats) -> Wait:
    """Too few prompts of known size: one bucket, whatever the size."""
    observed = seen.times_s[~seen.censored & np.isfinite(seen.times_s)]
    usual_s = (float(np.median(observed)) if len(observed) else 0.0) or 1.0
    return Wait(
        a_s=usual_s,
        b_s=0.0,
        smallest=0.0,
        edges=np.zeros(0),
        centres=np.array([np.median(prompt) if len(prompt) else np.nan]),
        counts=np.array([len(seen.times_s)]),
        relative=(Curve(plain.times / usual_s, plain.reached),),
        plain=plain,
    )


def _line(times: Floats, prompt: Floats) -> tuple[float, float]:
    """a and b of a + b * prompt; a constant where the line would leave nothing for the smallest prompt."""
    line = fit_line(times, prompt, np.zeros(len(times)))
    least = line.a_s + line.per_prompt_token_s * float(prompt.min())
    usual = float(np.median(times))
    return (line.a_s, line.per_prompt_token_s) if least > 0.1 * usual else (usual or 1.0, 0.0)


def wait_of(waits: Mapping[str, Wait], model: str) -> Wait:
    """The model's own, else that of all together."""
    return waits.get(model) or waits[OTHERS]


def waits_within_s(hops: Hops, waits: Mapping[str, Wait], level: float) -> Floats:
    """For each hop what a next first token of its model and prompt size keeps with this probability; NaN where nothing
    was learned."""
    out = np.full(len(hops.hop), np.nan)
    if not waits:
        return out
    models, prompt = hops.model.astype(str), prompt_tokens(hops)
    for model in np.unique(models).tolist():
        own = models == model
        out[own] = wait_of(waits, model).next_within_s(prompt[own], level)
    return out
