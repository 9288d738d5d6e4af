"""Objectives in words, for screens, test reports and annotations."""

import math
from typing import TYPE_CHECKING, Final

from hopbudget.budgets.attainment.objectives import Burn, Objective
from hopbudget.units import count, plural, seconds, share

if TYPE_CHECKING:
    from hopbudget.objectives.checking import ObjectiveResult

NAMES: Final = {
    "ttft": "TTFT",
    "ttfa": "TTFA",
    "tpot": "TPOT",
    "tokens_per_s": "tokens/s",
    "itl": "ITL",
    "hop_duration": "hop duration",
    "trajectory_duration": "trajectory",
    "answer_start": "answer start",
    "error_share": "errors",
    "underrun": "underrun",
}
UNITS: Final = {
    "itl": ("gap", "gaps"),
    "trajectory_duration": ("trajectory", "trajectories"),
    "answer_start": ("trajectory", "trajectories"),
    "hop_duration": ("hop", "hops"),
    "underrun": ("stream", "streams"),
}
STATES: Final = {"met": "met", "breach": "BREACH", "cant_say": "can't say"}


def title(objective: Objective) -> str:
    """What is wanted, such as "TTFT p95 within 1.50 s, hop answer"."""
    name = NAMES[objective.metric]
    hop = f", hop {objective.hop}" if objective.hop is not None else ""
    if objective.percentile is None:
        pace = f" at {objective.pace:g} tokens/s" if objective.pace is not None else ""
        return f"{name}{pace} at most {share(objective.limit)}{hop}"
    wanted = "at least" if objective.metric == "tokens_per_s" else "within"
    return f"{name} p{objective.percentile:.10g} {wanted} {quantity(objective, objective.limit)}{hop}"


def quantity(objective: Objective, value: float) -> str:
    """A value or a limit in the metric's unit; "-" where it was not observed."""
    if math.isnan(value):
        return "-"
    if objective.percentile is None:
        return share(value)
    return f"{value:.3g}/s" if objective.metric == "tokens_per_s" else seconds(value)


def value(result: "ObjectiveResult") -> str:
    """What was attained; among failures a percentile is worse than its limit."""
    o = result.objective
    out_of_reach = result.value == (0 if o.metric == "tokens_per_s" else math.inf) and o.percentile is not None
    return f"worse than {quantity(o, o.limit)}" if out_of_reach else quantity(o, result.value)


def interval(result: "ObjectiveResult") -> str:
    """The share within the limit and its 95% interval."""
    a = result.attained
    if not a.n:
        return "-"
    return f"{share(a.share)} [{_bare(a.low)}, {_bare(a.high)}]"


def _bare(of: float) -> str:
    return f"{of * 100:.1f}"


def account(result: "ObjectiveResult") -> str:
    """The share within the limit and what it was counted from, or why there is nothing to count."""
    if result.note is not None:
        return f"nothing to count: {result.note}"
    return f"{interval(result)} of {counted(result)}"


def counted(result: "ObjectiveResult") -> str:
    """What the share was counted from, with what was missed by failing and by slowness apart."""
    a = result.attained
    one, many = _units(result.objective)
    words = plural(a.n, one, many)
    if result.objective.metric == "itl":
        words += f" of {plural(a.sample, 'stream', 'streams')}"
    if a.n:
        words += f": {count(a.failed)} failed, {count(a.slow)} {slow_word(result)}"
    if a.left_out:
        words += f"; {count(a.left_out)} cut before the limit, left out"
    if a.unmeasured:
        words += f"; {count(a.unmeasured)} without a value"
    return words


def _units(objective: Objective) -> tuple[str, str]:
    if objective.metric == "error_share" and objective.hop is None:
        return UNITS["trajectory_duration"]
    return UNITS.get(objective.metric, ("request", "requests"))


def slow_word(result: "ObjectiveResult") -> str:
    """How units missed it that did not fail."""
    return {"error_share": "timed out", "underrun": "waited"}.get(result.objective.metric, "too slow")


def budget(result: "ObjectiveResult") -> str:
    """What is left of the error budget, and how fast it goes; where the sample is too small, what it takes."""
    left = result.budget_left
    if result.state == "cant_say":
        return f"{plural(result.attained.sample, 'is', 'are')} too few, it takes {count(result.objective.needed)}"
    words = f"{left * 100:.0f}% of budget left" if left >= 0 else f"budget spent {1 - left:.1f} times"
    return f"{words} · burn {', '.join(_burn(one) for one in result.burn)}"


def _burn(one: Burn) -> str:
    rate = "-" if math.isnan(one.rate) else f"{one.rate:.2g}" if one.rate < 100 else f"{one.rate:.0f}"
    return f"{span(one.window_s)} {rate}"


def span(window_s: float) -> str:
    """A window, such as "6h" or "30d"."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if window_s >= size and window_s % size == 0:
            return f"{window_s / size:.0f}{unit}"
    return f"{window_s:g}s"


def sentence(result: "ObjectiveResult") -> str:
    """The verdict in one line."""
    said = f"{STATES[result.state]}: {title(result.objective)}; "
    if result.note is not None:
        return said + account(result)
    said += f"attained {value(result)}, {account(result)}"
    return said if result.state != "cant_say" else f"{said}; it takes {count(result.objective.needed)} to say"
