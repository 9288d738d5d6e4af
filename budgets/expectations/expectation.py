"""What a hop of so many tokens should have taken, by model."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from hopbudget.budgets.numbers.quantiles import FINISHED, among
from hopbudget.budgets.profile import Floats, Hops

OWN_LINE: Final = 20
"""A model with fewer usable hops than this shares a line with all the others."""
UNLIKE: Final = 0.1
"""Prompts that differ by less than this share of their mean say nothing of what a prompt costs."""
LINE_ROWS: Final = 4000
"""A line is fitted to this many hops at most: of more, to every k-th in order of tokens, prompt and time."""


@dataclass(frozen=True, slots=True)
class Line:
    """dur = a + p * prompt tokens + c * output tokens, with p, c >= 0."""

    a_s: float
    per_prompt_token_s: float
    per_output_token_s: float


def fit_line(duration_s: Floats, prompt: Floats, output: Floats) -> Line:
    """The line with the least absolute deviations: min sum |dur - a - p prompt - c output| with p, c >= 0.

    Solved through its dual, which has only three rows: max sum_i dur_i y_i with sum y = 0, prompt.y <= 0, output.y <= 0
    and |y_i| <= 1; a, p and c are its multipliers. Of more than `LINE_ROWS` hops, evenly spaced ones are taken.
    """
    from scipy.optimize import linprog

    if len(duration_s) > LINE_ROWS:
        order = np.lexsort((duration_s, prompt, output))
        rows = order[np.linspace(0, len(order) - 1, LINE_ROWS).astype(np.int64)]
        duration_s, prompt, output = duration_s[rows], prompt[rows], output[rows]
    unit = float(np.median(duration_s)) or 1.0
    prompt_unit, output_unit = (max(float(np.mean(tokens)), 1.0) for tokens in (prompt, output))
    solved = linprog(
        -duration_s / unit,
        A_ub=np.stack([prompt / prompt_unit, output / output_unit]),
        b_ub=np.zeros(2),
        A_eq=np.ones((1, len(duration_s))),
        b_eq=np.zeros(1),
        bounds=(-1.0, 1.0),
        method="highs-ds",
    )
    a, (p, c) = -float(solved.eqlin.marginals[0]), -solved.ineqlin.marginals
    return Line(a * unit, max(float(p), 0.0) * unit / prompt_unit, max(float(c), 0.0) * unit / output_unit)


def fit_lines(hops: Hops) -> dict[str, Line]:
    """A line for each model, from its hops that came well and whose output tokens are known.

    Where only some prompts are known, the model's median prompt stands for the others; models with few such hops share
    one line; without any, there is none. Few hops or prompts that are nearly alike cost nothing by the prompt.
    """
    usable = among(hops.outcome, FINISHED) & ~np.isnan(hops.output_tokens) & ~np.isnan(hops.duration_s)
    prompt = known_prompts(hops)
    models = np.array([str(model) for model in hops.model], dtype=object)
    counts = {model: int(np.count_nonzero(usable & (models == model))) for model in sorted(set(models))}
    small = [model for model, count in counts.items() if count < OWN_LINE]
    groups = [(usable & (models == model), [model]) for model, count in counts.items() if count >= OWN_LINE]
    if small and usable.any():
        groups.append((usable, small))
    lines: dict[str, Line] = {}
    for mask, names in groups:
        told = np.count_nonzero(mask) >= OWN_LINE and unlike(prompt[mask])
        line = fit_line(hops.duration_s[mask], prompt[mask] if told else 0.0 * prompt[mask], hops.output_tokens[mask])
        lines |= dict.fromkeys(names, line)
    return lines


def unlike(prompt: Floats) -> bool:
    """Whether prompts differ by enough to say what a token of them costs."""
    return bool(np.ptp(prompt) >= UNLIKE * float(np.mean(prompt)) > 0)


def prompt_tokens(hops: Hops) -> Floats:
    """What a provider has to read of each prompt: input tokens, less the cached ones where those are known."""
    uncached: Floats = np.maximum(hops.input_tokens - np.nan_to_num(hops.cached_tokens), 0.0)
    return uncached


def known_prompts(hops: Hops) -> Floats:
    """`prompt_tokens`, with the model's median for a hop without; 0 where a model's prompts are not known at all."""
    prompt = prompt_tokens(hops)
    if not np.isnan(prompt).any():
        return prompt
    models = np.array([str(model) for model in hops.model], dtype=object)
    for model in sorted(set(models)):
        of_model = models == model
        known = prompt[of_model & ~np.isnan(prompt)]
        prompt[of_model & np.isnan(prompt)] = float(np.median(known)) if len(known) else 0.0
    return prompt
