"""When to give up waiting for a first token and ask again: Q95 and Q99 of TTFT, by model and prompt size.

Given up at its q-quantile, a call is made again for a share 1 - q of calls, and the time to the first token becomes the
time waited plus the second call's. What that buys of the TTFT p99, and what it costs in calls, is measured on clusters
(runs, sessions) that the quantiles were not learned from; a second call is drawn from the first tokens of the same
model and prompt size in the others. It protects from calls that hang; it is no cure for slow ones.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hopbudget.budgets.expectations.expectation import prompt_tokens
from hopbudget.budgets.expectations.waits import OTHERS, Wait, fit_waits, wait_of, waits_within_s
from hopbudget.budgets.groups.folds import clusters, folds
from hopbudget.budgets.profile import Bools, Floats, Hops, Profile

LEVELS: Final = (0.95, 0.99)
HANG_SHARE: Final = 0.02
HANG_S: Final = 60.0
SEED: Final = 20
"""Of the second calls that are drawn."""
_DIGITS: Final = 4


@dataclass(frozen=True, slots=True)
class Benefit:
    """What giving up at one quantile costs and buys, on clusters it was not learned from; NaN where too few."""

    q: float
    n: int
    extra_calls: float
    """Share of calls that are made again."""
    p99_s: float
    """TTFT p99 of the calls as they were."""
    p99_after_s: float
    """With the second calls."""
    hanging_p99_s: float
    """The same with 2% of calls hanging for a minute."""
    hanging_p99_after_s: float

    def to_plan(self) -> dict[str, Any]:
        """As plain values; what is not known is left out."""
        values = {name: float(getattr(self, name)) for name in self.__slots__ if name != "n"}
        return {"n": self.n} | {name: round(value, _DIGITS) for name, value in values.items() if np.isfinite(value)}


@dataclass(frozen=True, slots=True)
class FirstTokens:
    """How long to wait for a first token."""

    waits: Mapping[str, Wait]
    benefits: tuple[Benefit, ...]
    """At Q95 and Q99; () where there were too few clusters to hold one out."""

    def to_plan(self) -> list[dict[str, Any]]:
        """A row for each model and range of prompt sizes, and one for all sizes; see `after_s` for how it is read."""
        named = [(model, wait) for model, wait in self.waits.items() if model != OTHERS]
        return [row for model, wait in named for row in [*_sized_rows(model, wait), _whole_row(model, wait)]]


def learn(profile: Profile) -> FirstTokens:
    """Fail-over times from a profile, with what they cost and buy where clusters can be held out."""
    waits = fit_waits(profile.hops)
    return FirstTokens(waits, _benefits(profile) if waits else ())


def after_s(rows: Iterable[Mapping[str, Any]], model: str, tokens: float | None, q: float = 0.99) -> float | None:
    """Seconds after which to give up, read off the rows of a plan; None for a model or a q that they don't hold.

    Of a prompt of known size: the model's first row whose `up_to_tokens` is not below it (the last row has none), its
    seconds times 1 + `per_token` * (max(size, `from_tokens`) - `at_tokens`). `q` is rounded up to 0.95 or 0.99.
    """
    level = next((level for level in LEVELS if q <= level + 1e-12), None)
    if level is None:
        return None
    key = f"q{100 * level:.0f}_s"
    own = [row for row in rows if row["model"] == model]
    if tokens is None:
        return next((row.get(key) for row in own if row.get("sizes") == "all"), None)
    for row in own:
        if row.get("sizes") != "all" and tokens <= row.get("up_to_tokens", float("inf")):
            seconds = row.get(key)
            more = max(tokens, row["from_tokens"]) - row["at_tokens"]
            return None if seconds is None else float(seconds * (1.0 + row["per_token"] * more))
    return None


def evaluate(train: Profile, test: Profile, p: float = 0.9) -> dict[str, Any]:
    """How waits learned from `train` hold on `test`: equally long arrays, one entry a hop with an observed first token.

    `covered`: it came within the p-quantile of its model and prompt size; `cell` names model and quarter of prompt
    size ("" for a model with too few hops in `train`). With fail-over at Q99: `extra` (a second call was made),
    `after_s`; at Q95: `q95_extra`, `q95_after_s`. With 2% of calls, first and second ones, hanging for a minute:
    `hang_ttft_s`, `hang_extra`, `hang_after_s`, and `hang_` before the q95 ones.
    """
    waits = fit_waits(train.hops)
    hops = test.hops
    rows = np.flatnonzero(~np.isnan(hops.ttft_s)) if waits else np.zeros(0, dtype=np.int64)
    ttft, prompt, models = hops.ttft_s[rows], prompt_tokens(hops)[rows], hops.model[rows].astype(str)
    random = np.random.default_rng(SEED)
    second = _second_calls(waits, models, prompt, random)
    hanging, again = (random.permutation(len(rows)) < HANG_SHARE * len(rows) for _ in range(2))
    hang, hang_second = np.where(hanging, HANG_S, ttft), np.where(again, HANG_S, second)
    result: dict[str, Any] = {
        "trajectory": hops.trajectory[rows],
        "model": models,
        "cell": _cells(train.hops, waits, models, prompt),
        "ttft_s": ttft,
        "hang_ttft_s": hang,
        "covered": (ttft <= waits_within_s(hops, waits, p)[rows]).astype(np.float64),
    }
    for level, name in ((0.99, ""), (0.95, "q95_")):
        limit = waits_within_s(hops, waits, level)[rows]
        for start, first, then in (("", ttft, second), ("hang_", hang, hang_second)):
            fired = first > limit
            result[f"{start}{name}extra"] = fired.astype(np.float64)
            result[f"{start}{name}after_s"] = np.where(fired, limit + then, first)
    return result


def _benefits(profile: Profile) -> tuple[Benefit, ...]:
    found = clusters(profile, np.arange(len(profile)))
    if found.n < 2:
        return ()
    fold = folds(found, most=5)
    parts = [evaluate(profile.take(fold != k), profile.take(fold == k)) for k in range(int(fold.max()) + 1)]
    joined = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    n = len(joined["ttft_s"])
    if not n:
        return ()
    p99 = {key: float(np.quantile(joined[key], 0.99)) for key in joined if key.endswith("_s")}
    return tuple(
        Benefit(
            q=level,
            n=n,
            extra_calls=float(joined[f"{name}extra"].mean()),
            p99_s=p99["ttft_s"],
            p99_after_s=p99[f"{name}after_s"],
            hanging_p99_s=p99["hang_ttft_s"],
            hanging_p99_after_s=p99[f"hang_{name}after_s"],
        )
        for level, name in ((0.95, "q95_"), (0.99, ""))
    )


def _second_calls(waits: Mapping[str, Wait], models: Any, prompt: Floats, random: np.random.Generator) -> Floats:
    """For each call another first token of the same model and prompt size."""
    drawn = np.full(len(models), np.nan)
    for model in np.unique(models).tolist():
        wait = wait_of(waits, model)
        own = models == model
        bucket = np.where(np.isnan(prompt), -1, wait.bucket(prompt))
        for k, relative in [(-1, wait.plain), *enumerate(wait.relative)]:
            inside: Bools = own & (bucket == k)
            if inside.any() and len(relative.times):
                usual = 1.0 if k < 0 else wait.usual_s(prompt[inside])
                drawn[inside] = random.choice(relative.times, np.count_nonzero(inside)) * usual
    return drawn


def _cells(hops: Hops, waits: Mapping[str, Wait], models: Any, prompt: Floats) -> Any:
    cells = np.full(len(models), "", dtype=object)
    learned_models, learned = hops.model.astype(str), prompt_tokens(hops)
    for model in np.unique(models).tolist():
        sizes = learned[(learned_models == model) & ~np.isnan(hops.ttft_s) & ~np.isnan(learned)]
        if model in waits and len(sizes):
            quarter = np.searchsorted(np.quantile(sizes, [0.25, 0.5, 0.75]), prompt, side="left")
            own = models == model
            cells[own] = [f"{model} {k + 1}/4" for k in quarter[own]]
    return cells


def _sized_rows(model: str, wait: Wait) -> Iterable[dict[str, Any]]:
    if not np.isfinite(wait.centres).all():
        return
    uppers = [*wait.edges.tolist(), float("inf")]
    for k, upper in enumerate(uppers):
        yield {
            "model": model,
            "from_tokens": wait.smallest,
            **({"up_to_tokens": upper} if np.isfinite(upper) else {}),
            "at_tokens": float(wait.centres[k]),
            "per_token": float(f"{wait.growth(k):.6g}"),
            **_quantiles(lambda level, k=k: wait.relative[k].next_within(level) * wait.usual_at(k)),
            "n": int(wait.counts[k]),
        }


def _whole_row(model: str, wait: Wait) -> dict[str, Any]:
    return {"model": model, "sizes": "all", **_quantiles(wait.plain.next_within), "n": int(wait.counts.sum())}


def _quantiles(at: Any) -> dict[str, float]:
    found = {f"q{100 * level:.0f}_s": float(at(level)) for level in LEVELS}
    return {key: round(seconds, _DIGITS) for key, seconds in found.items() if np.isfinite(seconds)}
