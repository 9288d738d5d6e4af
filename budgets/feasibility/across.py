"""A deadline for a run that nobody has seen: what changes between runs hurts more than any number of trajectories.

An order statistic over trajectories says where the p-quantile of these runs lies. A new deployment, model or day is
another draw of a *run*, so its bound comes from how the runs' own quantiles spread.
"""

import math
from typing import Final

import numpy as np
from scipy import special

from hopbudget.budgets.allocation import RunBounds
from hopbudget.budgets.numbers.quantiles import attained, smallest_n
from hopbudget.budgets.profile import Bools, Floats, Words

FEW_RUNS: Final = 5
CONFIDENCE: Final = 0.95


def run_bounds(
    finish_s: Floats, censored: Bools, run: Words, p: float, *, smallest_s: float, weight: Floats | None = None
) -> RunBounds | None:
    """The two bounds, with their price: the ratio to the smallest deadline over all trajectories.

    None where no run has a name. A run with fewer trajectories than can bound the percentile does not count; where
    those that count hold less than half of all trajectories, they stand for nothing and there is no bound.
    """
    names = sorted({str(word) for word in run} - {""})
    if not names:
        return None
    sizes = {name: int(np.count_nonzero(run == name)) for name in names}
    counted = [name for name in names if sizes[name] >= smallest_n(p)]
    own = np.array(
        [
            attained(finish_s[run == name], censored[run == name], p, None if weight is None else weight[run == name])
            for name in counted
        ]
    )
    if 2 * sum(sizes[name] for name in counted) < len(run):
        own = own[:0]
    largest = int(np.argmax(own)) if len(own) else -1
    largest_s = float(own[largest]) if len(own) > 1 else math.nan
    t_s = one_more(own)
    return RunBounds(
        runs=len(counted),
        small=len(names) - len(counted),
        largest_s=largest_s,
        largest_run=counted[largest] if len(own) > 1 else "",
        largest_price=largest_s / smallest_s if smallest_s > 0 else math.nan,
        t_s=t_s,
        t_price=t_s / smallest_s if smallest_s > 0 else math.nan,
        only_this=len(counted) < FEW_RUNS,
    )


def one_more(quantiles_s: Floats) -> float:
    """The upper end of the prediction interval for one more run: exp(m + t_{.95, R-1} s sqrt(1 + 1/R)).

    m and s are mean and standard deviation of the logarithms of R runs' quantiles; the interval takes them as normal.
    NaN with fewer than two runs, +inf where a run's failures put its own quantile out of reach.
    """
    count = len(quantiles_s)
    if count < 2:
        return math.nan
    if not np.isfinite(quantiles_s).all() or not (quantiles_s > 0).all():
        return math.inf
    logs = np.log(quantiles_s)
    spread = float(logs.std(ddof=1)) * math.sqrt(1 + 1 / count)
    reach = float(logs.mean()) + float(special.stdtrit(count - 1, CONFIDENCE)) * spread
    return math.exp(reach) if reach < 700 else math.inf
