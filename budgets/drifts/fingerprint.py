"""What a plan was learned from, so that it can be told when something else runs."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hopbudget.budgets.expectations.expectation import prompt_tokens
from hopbudget.budgets.numbers.quantiles import FINISHED, among
from hopbudget.budgets.profile import Profile

MOST: Final = 20
"""Names of runs, dependencies and models kept, those with most behind them."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Names and sizes of everything that takes time."""

    models: tuple[str, ...]
    hops: tuple[str, ...]
    """The names of all hops, final ones included."""
    runs: tuple[str, ...]
    """Configurations or versions of the agent, with most trajectories first."""
    works: tuple[tuple[str, float, int], ...]
    """(name, median seconds, n) of the dependencies behind the work, most seconds first."""
    prompts: tuple[tuple[str, float, float, float, int], ...]
    """(model, p10, p50, p90, n) of the input tokens."""

    def to_plan(self) -> dict[str, Any]:
        """The plan's `[fingerprint]`."""
        return {
            "models": list(self.models),
            "hops": list(self.hops),
            "runs": list(self.runs),
            "works": [{"work": name, "median_s": median, "n": n} for name, median, n in self.works],
            "prompts": [
                {"model": model, "p10": low, "p50": middle, "p90": high, "n": n}
                for model, low, middle, high, n in self.prompts
            ],
        }


def learn(profile: Profile) -> Fingerprint:
    """The fingerprint of the complete trajectories of a profile."""
    part = profile.take(profile.trajectories.complete)
    hops = part.hops
    models = _names(hops.model)
    return Fingerprint(
        models=models,
        hops=_names(hops.hop),
        runs=_most(part.trajectories.run)[:MOST],
        works=_works(part),
        prompts=tuple(_prompts(part, model) for model in _most(hops.model)[:MOST] if _sized(part, model).any()),
    )


def _names(words: Any) -> tuple[str, ...]:
    return tuple(sorted({str(word) for word in words if word}))


def _most(words: Any) -> tuple[str, ...]:
    names, counts = np.unique(words.astype(str), return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return tuple(str(name) for name in names[order] if name)


def _works(part: Profile) -> tuple[tuple[str, float, int], ...]:
    works = part.works
    well = among(works.outcome, FINISHED) & ~np.isnan(works.duration_s)
    names = works.work.astype(str)
    rows = []
    for name in _names(works.work):
        seconds = works.duration_s[well & (names == name)]
        if len(seconds):
            rows.append((float(seconds.sum()), (name, round(float(np.median(seconds)), 6), len(seconds))))
    rows.sort(key=lambda row: (-row[0], row[1][0]))
    return tuple(row for _, row in rows[:MOST])


def _sized(part: Profile, model: str) -> Any:
    return (part.hops.model.astype(str) == model) & ~np.isnan(prompt_tokens(part.hops))


def _prompts(part: Profile, model: str) -> tuple[str, float, float, float, int]:
    sizes = prompt_tokens(part.hops)[_sized(part, model)]
    low, middle, high = (round(float(q), 1) for q in np.quantile(sizes, (0.1, 0.5, 0.9)))
    return model, low, middle, high, len(sizes)
