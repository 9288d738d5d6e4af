"""The table of expectations: what a plan holds of them, and how they are looked up for hops."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hopbudget.budgets.expectations.expectation import prompt_tokens
from hopbudget.budgets.expectations.waits import OTHERS
from hopbudget.budgets.profile import Bools, Floats, Hops


@dataclass(frozen=True, slots=True)
class Row:
    """The expectation of one model for prompts of one range of sizes."""

    model: str
    """`waits.OTHERS` for a model that was not learned."""
    from_tokens: float
    """Shorter prompts count as this long."""
    up_to_tokens: float
    """+inf for the last range."""
    at_tokens: float
    """The prompt size that `first_token_s` is for; NaN where sizes are not known."""
    per_prompt_token: float
    """By how much `first_token_s` grows for each token more, as a share of it."""
    first_token_s: float
    """Without observed first tokens, what the line gives for an answer of one token."""
    per_token_s: float
    flat_s: float
    """The p-quantile of the model's hops, whatever their tokens."""
    observed: bool
    """First tokens of this model were observed."""
    n: int

    def first_s(self, prompt: Floats) -> Floats:
        """The expected first token for prompts of these sizes."""
        more = np.nan_to_num(np.maximum(prompt, self.from_tokens) - self.at_tokens)
        return self.first_token_s * (1.0 + self.per_prompt_token * more)


@dataclass(frozen=True, slots=True)
class Expectations:
    """The expectations of all models; a row's ranges of prompt sizes ascend within a model."""

    p: float
    """The share of hops that end within their expectation."""
    level: float
    """At which first token and pace were read; NaN where no first token was observed."""
    rows: tuple[Row, ...]

    def to_plan(self) -> list[dict[str, Any]]:
        """The rows as plain values, for a plan file; what is not known is left out."""
        return [_plain(row, self.p, self.level) for row in self.rows]


@dataclass(frozen=True, slots=True)
class Expected:
    """What was expected of hops, one entry each; NaN where it is not known."""

    first_token_s: Floats
    answer_s: Floats
    flat_s: Floats
    observed: Bools

    @property
    def finish_s(self) -> Floats:
        """The first token and the answer of its length."""
        return self.first_token_s + self.answer_s


def expect(hops: Hops, expectations: Expectations) -> Expected:
    """What each hop should have taken at most; the finish is NaN where N is not known or nothing was learned."""
    models, prompt = hops.model.astype(str), prompt_tokens(hops)
    first, pace, flat = (np.full(len(models), np.nan) for _ in range(3))
    observed = np.zeros(len(models), dtype=np.bool_)
    table = _table(expectations.rows)
    for model in np.unique(models).tolist():
        rows = table.get(model) or table.get(OTHERS)
        if not rows:
            continue
        own = models == model
        edges = np.array([row.up_to_tokens for row in rows[:-1]])
        bucket = np.where(np.isnan(prompt), len(rows) // 2, np.searchsorted(edges, prompt, side="left"))
        for k, row in enumerate(rows):
            inside = own & (bucket == k)
            first[inside], pace[inside], flat[inside] = row.first_s(prompt[inside]), row.per_token_s, row.flat_s
            observed[inside] = row.observed
    tokens = np.where(hops.n_is_chunks, np.nan, hops.output_tokens)
    return Expected(first, np.maximum(tokens - 1.0, 0.0) * pace, flat, observed)


def from_plan(rows: Iterable[Mapping[str, Any]]) -> Expectations:
    """What `Expectations.to_plan` wrote."""
    read = list(rows)
    return Expectations(
        p=float(read[0]["p"]) if read else float("nan"),
        level=float(next((row["level"] for row in read if "level" in row), float("nan"))),
        rows=tuple(
            Row(
                model=str(row.get("model", OTHERS)),
                from_tokens=float(row.get("from_tokens", 0.0)),
                up_to_tokens=float(row.get("up_to_tokens", float("inf"))),
                at_tokens=float(row.get("at_tokens", float("nan"))),
                per_prompt_token=float(row.get("per_prompt_token", 0.0)),
                first_token_s=float(row.get("first_token_s", float("nan"))),
                per_token_s=float(row.get("per_token_s", float("nan"))),
                flat_s=float(row.get("flat_s", float("nan"))),
                observed=bool(row["observed"]),
                n=int(row["n"]),
            )
            for row in read
        ),
    )


def _plain(row: Row, p: float, level: float) -> dict[str, Any]:
    figures = {
        "from_tokens": row.from_tokens,
        "up_to_tokens": row.up_to_tokens,
        "at_tokens": row.at_tokens,
        "per_prompt_token": _digits(row.per_prompt_token),
        "first_token_s": _digits(row.first_token_s),
        "per_token_s": _digits(row.per_token_s),
        "flat_s": _digits(row.flat_s),
    }
    known = {key: value for key, value in figures.items() if np.isfinite(value)}
    calibrated = {"level": round(level, 6)} if row.observed else {}
    return {"model": row.model, **known, "observed": row.observed, "n": row.n, "p": p, **calibrated}


def _digits(value: float) -> float:
    """Six significant digits."""
    return float(f"{value:.6g}")


def _table(rows: Sequence[Row]) -> dict[str, list[Row]]:
    table: dict[str, list[Row]] = {}
    for row in rows:
        table.setdefault(row.model, []).append(row)
    return table
