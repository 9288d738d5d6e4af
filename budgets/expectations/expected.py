"""What a hop of so many tokens should have taken at most, a share p of the time.

For a hop of a model whose first tokens were observed, with N output tokens that streamed:

    E = Q_l(TTFT | model, prompt) + (N - 1) * Q_l(TPOT | model)

with one level l for both, chosen so that a share p of the observed hops ended by then (`fit`). Without first tokens:

    E = s * (a + b * prompt + c * N)

with the model's line of least absolute deviations and s the p-quantile of duration over line. Both are one formula,
first token + (N - 1) * seconds a token, so that a plan holds them as rows of one table (`Row`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from hopbudget.budgets.expectations.expectation import OWN_LINE, Line, fit_lines, prompt_tokens
from hopbudget.budgets.expectations.table import Expectations, Expected, Row, expect, from_plan
from hopbudget.budgets.expectations.waits import OTHERS, Curve, Wait, curve, fit_waits, wait_of
from hopbudget.budgets.numbers.quantiles import FINISHED, among
from hopbudget.budgets.profile import Bools, Floats, Hops, Ints, Profile, Words

__all__ = [
    "FIRST_TOKEN",
    "LONG_ANSWER",
    "PACE",
    "Expectations",
    "Expected",
    "blame",
    "evaluate",
    "expect",
    "fit",
    "from_plan",
    "learn",
    "pinball",
]

LEVEL_STEP: Final = 1e-4
"""To what the calibrated level is found."""
LONG_ANSWER: Final = "long answer"
FIRST_TOKEN: Final = "first token"
PACE: Final = "pace"


def learn(profile: Profile, percentile: float = 90.0) -> Expectations:
    """The expectations that a profile's hops give, at this percentile (0 to 100)."""
    return fit(profile.hops, percentile / 100)


def fit(hops: Hops, p: float = 0.9) -> Expectations:
    """Expectations that a share p of these hops kept; without a single usable hop they have no rows."""
    models = hops.model.astype(str)
    usable = usable_hops(hops)
    flats = _by_model(models, hops.duration_s, usable)
    paces = _by_model(models, hops.tpot_s, usable & ~np.isnan(hops.tpot_s) & (hops.output_tokens > 1))
    waits = fit_waits(hops) if paces else {}
    lined = [model for model in flats if model not in waits]
    rows = _line_rows(hops, models, usable, lined, p)
    level = float("nan")
    if waits:
        streamed = np.flatnonzero(usable & ~np.isin(models, lined))
        level = _calibrated([_Group(hops, rows_of, waits, paces) for rows_of in _split(models, streamed)], p)
        rows += [row for model, wait in waits.items() for row in _stream_rows(model, wait, _of(paces, model), level)]
    filled = (replace(row, flat_s=_of(flats, row.model).at(p)) for row in rows)
    return Expectations(p, level, tuple(sorted(filled, key=lambda row: (row.model, row.up_to_tokens))))


def usable_hops(hops: Hops) -> Bools:
    """Hops that came well and whose output tokens are known, by tokens and not by chunks."""
    return (
        among(hops.outcome, FINISHED) & ~np.isnan(hops.duration_s) & ~np.isnan(hops.output_tokens) & ~hops.n_is_chunks
    )


def blame(hops: Hops, expected: Expected) -> Words:
    """What made a hop slow: FIRST_TOKEN or PACE (over its expectation, by the larger excess; PACE where no first token
    was observed), LONG_ANSWER (inside its expectation but over the flat quantile, because its answer is longer than the
    usual one of its model here: the provider is healthy), "" if it was not slow or nothing is known. One that is inside
    its expectation and has no such answer is FIRST_TOKEN where that alone was over what was expected of it."""
    known = np.isfinite(expected.finish_s)
    late = np.where(known, hops.duration_s, np.nan) - np.where(known, expected.finish_s, np.nan)
    first = np.where(expected.observed & known, hops.ttft_s, np.nan) - np.where(known, expected.first_token_s, np.nan)
    over_flat = (late <= 0) & (hops.duration_s > expected.flat_s)
    words = np.full(len(late), "", dtype=object)
    words[over_flat & (first > 0)] = FIRST_TOKEN
    words[over_flat & _long_answers(hops, expected)] = LONG_ANSWER
    words[late > 0] = PACE
    words[(late > 0) & (first >= late - first)] = FIRST_TOKEN
    return words


def _long_answers(hops: Hops, expected: Expected) -> Bools:
    """Which hops took longer than their model's median by their tokens, more than by the wait before the first one."""
    waited_s = np.where(np.isnan(hops.ttft_s), hops.queue_s + hops.prefill_s, hops.ttft_s)
    more, longer_s = np.zeros(len(waited_s)), np.zeros(len(waited_s))
    models, usable = hops.model.astype(str), usable_hops(hops)
    for model in np.unique(models[usable]).tolist():
        own = models == model
        more[own] = hops.output_tokens[own] - float(np.median(hops.output_tokens[own & usable]))
        told = waited_s[own & usable & ~np.isnan(waited_s)]
        longer_s[own] = np.nan_to_num(waited_s[own] - float(np.median(told))) if len(told) else 0.0
    each_s = expected.answer_s / np.maximum(hops.output_tokens - 1.0, 1.0)
    long: Bools = (more > 0) & (more * each_s >= longer_s)
    return long


def pinball(value: Floats, quantile: Floats, p: float) -> Floats:
    """The loss that the p-quantile minimises in the mean: p * (value - quantile) above it, (1 - p) * the rest below."""
    over = value - quantile
    loss: Floats = np.maximum(p * over, (p - 1) * over)
    return loss


def evaluate(train: Profile, test: Profile, p: float = 0.9) -> dict[str, Any]:
    """How expectations learned from `train` hold on `test`: equally long arrays, one entry a hop whose N is known.

    `loss` and `flat_loss` are pinball losses in seconds, `covered` says that the hop ended within its expectation,
    `quarter` is its quarter by length (0 to 3, of the lengths in `train`), `long_answer` that it is over the flat
    quantile but expected. Known truth, NaN where no first token was observed: is the hop over its expectation
    (`*_slow`) or the flat quantile (`*_flat`) after pace was doubled (`pace2`), five seconds came before the first
    token (`first5`), or the answer was made three times as long (`answer3`, the provider is innocent)?
    """
    hops = test.hops
    expected = expect(hops, fit(train.hops, p))
    rows = np.flatnonzero(usable_hops(hops) & ~np.isnan(expected.finish_s))
    took, finish, flat = hops.duration_s[rows], expected.finish_s[rows], expected.flat_s[rows]
    answer = took - hops.ttft_s[rows]
    more = np.maximum(hops.output_tokens[rows] - 1, 0.0)
    longer = answer / np.where(more > 0, more, np.nan) * 2 * hops.output_tokens[rows]
    longer_expected = expected.answer_s[rows] / np.where(more > 0, more, np.nan) * 2 * hops.output_tokens[rows]
    altered = {
        "pace2": (took + answer, finish),
        "first5": (took + 5.0 + 0.0 * answer, finish),
        "answer3": (took + longer, finish + longer_expected),
    }
    result: dict[str, Any] = {
        "trajectory": hops.trajectory[rows],
        "model": hops.model[rows].astype(str),
        "loss": pinball(took, finish, p),
        "flat_loss": pinball(took, flat, p),
        "covered": (took <= finish).astype(np.float64),
        "quarter": np.searchsorted(_quarters(train.hops), hops.output_tokens[rows], side="left"),
        "flat_slow": (took > flat).astype(np.float64),
        "long_answer": ((took > flat) & (took <= finish)).astype(np.float64),
    }
    for name, (seconds, limit) in altered.items():
        unknown = np.isnan(seconds) | np.isnan(limit)
        result[f"{name}_slow"] = np.where(unknown, np.nan, seconds > limit)
        result[f"{name}_flat"] = np.where(unknown, np.nan, seconds > flat)
    return result


def _quarters(hops: Hops) -> Floats:
    tokens = hops.output_tokens[usable_hops(hops)]
    quarters: Floats = np.quantile(tokens, [0.25, 0.5, 0.75]) if len(tokens) else np.zeros(3)
    return quarters


def _of(curves: Mapping[str, Curve], model: str) -> Curve:
    return curves.get(model) or curves[OTHERS]


def _by_model(models: Any, values: Floats, usable: Bools) -> dict[str, Curve]:
    """A curve for each model with enough values, and one of all together under `OTHERS`; {} without any."""
    if not usable.any():
        return {}
    whole = np.zeros(int(np.count_nonzero(usable)), dtype=np.bool_)
    curves = {OTHERS: curve(values[usable], whole)}
    for model in np.unique(models[usable]).tolist():
        own = usable & (models == model)
        if model and np.count_nonzero(own) >= OWN_LINE:
            curves[model] = curve(values[own], whole[: np.count_nonzero(own)])
    return curves


class _Group:
    """The hops of one model, ready for any level."""

    def __init__(self, hops: Hops, rows: Ints, waits: Mapping[str, Wait], paces: Mapping[str, Curve]) -> None:
        model = str(hops.model[rows[0]])
        self.wait, self.pace = wait_of(waits, model), _of(paces, model)
        self.prompt = prompt_tokens(hops)[rows]
        self.more = np.maximum(hops.output_tokens[rows] - 1.0, 0.0)
        self.took_s = hops.duration_s[rows]

    def kept(self, level: float) -> int:
        """How many of them ended within their expectation at this level."""
        finish_s = self.wait.at_s(self.prompt, level) + self.more * self.pace.at(level)
        return int(np.count_nonzero(self.took_s <= finish_s))


def _split(models: Any, rows: Ints) -> list[Ints]:
    return [rows[models[rows] == model] for model in np.unique(models[rows]).tolist()]


def _calibrated(groups: Sequence[_Group], p: float) -> float:
    """The smallest level at which a share p of these hops ended within their expectation."""
    wanted = p * sum(len(group.took_s) for group in groups) - 1e-9
    low, high = 0.0, 1.0
    while high - low > LEVEL_STEP:
        middle = (low + high) / 2
        low, high = (low, middle) if sum(group.kept(middle) for group in groups) >= wanted else (middle, high)
    return high


def _stream_rows(model: str, wait: Wait, pace: Curve, level: float) -> Iterable[Row]:
    """The rows of a model whose first tokens were observed."""
    uppers = [*wait.edges.tolist(), float("inf")]
    for k, upper in enumerate(uppers):
        yield Row(
            model=model,
            from_tokens=wait.smallest,
            up_to_tokens=upper,
            at_tokens=float(wait.centres[k]),
            per_prompt_token=wait.growth(k),
            first_token_s=wait.relative[k].at(level) * wait.usual_at(k),
            per_token_s=pace.at(level),
            flat_s=float("nan"),
            observed=True,
            n=int(wait.counts[k]),
        )


def _line_rows(hops: Hops, models: Any, usable: Bools, wanted: Sequence[str], p: float) -> list[Row]:
    """One row for each of these models, whose first tokens were not observed."""
    lines = fit_lines(hops) if wanted else {}
    return [_line_row(hops, usable & (models == model) if model else usable, lines, model, p) for model in wanted]


def _line_row(hops: Hops, mask: Bools, lines: Mapping[str, Line], model: str, p: float) -> Row:
    each = [lines[name] for name in hops.model[mask].astype(str).tolist()]
    a, b, c = (
        np.array([getattr(line, name) for line in each]) for name in ("a_s", "per_prompt_token_s", "per_output_token_s")
    )
    prompt = prompt_tokens(hops)[mask]
    sized = prompt[~np.isnan(prompt)]
    centre = float(np.median(sized)) if len(sized) else float("nan")
    line_s = a + b * np.where(np.isnan(prompt), np.nan_to_num(centre), prompt) + c * hops.output_tokens[mask]
    ratio = hops.duration_s[mask][line_s > 0] / line_s[line_s > 0]
    s = curve(ratio, np.zeros(len(ratio), dtype=np.bool_)).at(p)
    one_token_s = float(np.mean(a) + np.mean(b) * np.nan_to_num(centre) + np.mean(c))
    return Row(
        model=model,
        from_tokens=float(sized.min()) if len(sized) else 0.0,
        up_to_tokens=float("inf"),
        at_tokens=centre,
        per_prompt_token=float(np.mean(b)) / one_token_s if one_token_s > 0 else 0.0,
        first_token_s=s * max(one_token_s, 0.0),
        per_token_s=s * float(np.mean(c)),
        flat_s=float("nan"),
        observed=False,
        n=int(np.count_nonzero(mask)),
    )
