"""Quantiles and shares, as the statistics of this project count them.

*Plain* quantiles describe what came well: linear interpolation over `ok` and `truncated`. *Attained* quantiles are
what can be promised: order statistics over everything that was asked for, where a failure never finishes and a
time-out only says "longer than this".
"""

import math
from collections.abc import Iterable
from typing import Final, Literal

import numpy as np
from scipy import special

from hopbudget.budgets.profile import Bools, Floats, Words

FINISHED: Final = frozenset({"ok", "truncated"})
NEVER: Final = frozenset({"failed", "refused"})
CENSORED: Final = frozenset({"timed_out", "cancelled", "closed_by_consumer"})

ALPHA: Final = 0.05


def among(words: Words | Iterable[str], wanted: frozenset[str]) -> Bools:
    """A mask: which of the words are among those wanted."""
    return np.fromiter(map(wanted.__contains__, words), dtype=np.bool_)


def plain_quantile(values: Floats, outcomes: Words, p: float) -> float:
    """The linear-interpolated p-quantile of what came well (`ok`, `truncated`) and was observed; NaN of nothing."""
    usable = values[among(outcomes, FINISHED) & ~np.isnan(values)]
    return float(np.quantile(usable, p)) if len(usable) else math.nan


def attained_quantile(values: Floats, outcomes: Words, p: float) -> float:
    """The smallest observed time within which a share p came to its end.

    Without time-outs it is the order statistic ceil(n p) over all, with `failed` and `refused` = +inf. A `timed_out`,
    `cancelled` or `closed_by_consumer` one counts as later than every time up to its own, and is left out of the count
    for times past it. +inf where failures put the share out of reach; NaN where nothing was observed.
    """
    observed = ~np.isnan(values) | among(outcomes, NEVER)
    times, words = values[observed], outcomes[observed]
    return attained(np.where(among(words, NEVER), np.inf, times), among(words, CENSORED), p)


def attained(times: Floats, censored: Bools, p: float, weight: Floats | None = None) -> float:
    """`attained_quantile` of times where +inf never finishes and `censored` ones are lower bounds."""
    if not len(times):
        return math.nan
    events = np.sort(times[~censored & np.isfinite(times)])
    reached = share_within(events, times, censored, weight)
    enough = np.flatnonzero(reached >= p - 1e-12)
    return float(events[enough[0]]) if len(enough) else math.inf


def share_within(limits: Floats, times: Floats, censored: Bools, weight: Floats | None = None) -> Floats:
    """For each limit the share of times within it: #{t <= limit} / #{not censored before the limit}.

    It never falls when the limit rises, because what leaves the count was in no numerator. A time censored exactly at
    the limit is past it. 0 where nothing is left to count. With a `weight` for each time, weights are counted instead
    of times. It is right where those cut off before the limit would have kept it as often as the others. Where being
    cut off only takes time, they were slow ones, and it says too much: see `share_going_on`.
    """
    if weight is not None:
        return _weighted_share_within(limits, times, censored, weight)
    events = np.sort(times[~censored])
    bounds = np.sort(times[censored])
    within = np.searchsorted(events, limits, side="right")
    counted = len(times) - np.searchsorted(bounds, limits, side="left")
    return np.divide(within, counted, out=np.zeros(np.shape(limits)), where=counted > 0)


def _weighted_share_within(limits: Floats, times: Floats, censored: Bools, weight: Floats) -> Floats:
    within = _weight_up_to(limits, times[~censored], weight[~censored], side="right")
    gone = _weight_up_to(limits, times[censored], weight[censored], side="left")
    counted = float(weight.sum()) - gone
    share = np.divide(within, counted, out=np.zeros(np.shape(limits)), where=counted > 1e-12 * float(weight.sum()))
    return np.minimum(share, 1.0)


def _weight_up_to(limits: Floats, times: Floats, weight: Floats, side: Literal["left", "right"]) -> Floats:
    order = np.argsort(times, kind="stable")
    running = np.concatenate([[0.0], np.cumsum(weight[order])])
    summed: Floats = running[np.searchsorted(times[order], limits, side=side)]
    return summed


def share_going_on(
    limits: Floats, times: Floats, censored: Bools, weight: Floats | None = None
) -> tuple[Floats, Floats]:
    """For each limit the share of times within it if those cut off go on like the others that still ran then, and n.

    Kaplan and Meier's (1958) product-limit estimate 1 - S, with events before what is censored at the same time. It
    needs that who is cut off does not depend on how long they would still have taken, and is never above
    `share_within`. n = Y / S, with Y times beyond the limit, is as many whole ones as it is worth (Peto 1977): all
    where nothing is cut off. With a `weight` for each time, of their effective number.
    """
    w = np.ones(len(times)) if weight is None else weight
    order = np.lexsort((censored, times))
    ordered, event = times[order], (~censored & np.isfinite(times))[order]
    at_risk = np.cumsum(w[order][::-1])[::-1]
    surviving = np.concatenate([[1.0], np.cumprod(np.where(event, 1.0 - w[order] / at_risk, 1.0))])
    s = surviving[np.searchsorted(ordered, limits, side="right")]
    counted = float(w.sum()) - _weight_up_to(limits, times[censored], w[censored], side="left")
    beyond = counted - _weight_up_to(limits, times[~censored], w[~censored], side="right")
    n = np.divide(beyond, s, out=np.array(counted), where=s > 1e-12)
    return 1.0 - s, np.maximum(n, 0.0) * (effective_n(w) / max(float(w.sum()), 1e-300))


def effective_n(weight: Floats) -> float:
    """How many trajectories of equal weight say as much: (sum w)^2 / sum w^2 (Kish 1965)."""
    squares = float(np.sum(weight * weight))
    return float(weight.sum()) ** 2 / squares if squares else 0.0


def rank(n: int, p: float) -> int:
    """ceil(n p), from 1 to n, unmoved by rounding in p."""
    return min(max(math.ceil(n * p - 1e-9), 1), n)


def order_statistic_interval(n: int, p: float, alpha: float = ALPHA) -> tuple[int, int]:
    """Ranks (low, high) of the order statistics that enclose the p-quantile of n draws with confidence 1 - alpha.

    The number of draws below the quantile is Binomial(n, p). Rank 0 stands for "no lower bound", n + 1 for "no upper".
    """
    below = special.bdtr(np.arange(n + 1, dtype=np.float64), n, p)  # P(Binomial <= k), k = 0..n
    low = int(np.searchsorted(below, alpha / 2, side="right"))
    high = int(np.searchsorted(below, 1 - alpha / 2, side="left")) + 1
    return low, high


def smallest_n(p: float, alpha: float = ALPHA) -> int:
    """How many trajectories are needed before the largest of them bounds the p-quantile: ceil(log alpha / log p)."""
    return math.ceil(math.log(alpha) / math.log(p) - 1e-9)


def clopper_pearson(successes: float, n: float, alpha: float = ALPHA) -> tuple[float, float]:
    """The exact binomial interval of a share, by the quantiles of the beta distribution (Clopper and Pearson 1934).

    With an effective n, which need not be whole, it is the same quantiles.
    """
    if n == 0:
        return 0.0, 1.0
    low = float(special.betaincinv(successes, n - successes + 1, alpha / 2)) if successes else 0.0
    high = float(special.betaincinv(successes + 1, n - successes, 1 - alpha / 2)) if successes < n else 1.0
    return low, high


def clopper_pearson_low(successes: Floats, n: Floats, alpha: float = ALPHA) -> Floats:
    """The lower ends of `clopper_pearson`, many at a time."""
    some = np.maximum(successes, 1e-300)
    ends = special.betaincinv(some, np.maximum(n - successes, 0.0) + 1.0, alpha / 2)
    low: Floats = np.where(successes > 1e-12, ends, 0.0)
    return low
