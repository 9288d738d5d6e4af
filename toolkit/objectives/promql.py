"""Objectives as PromQL over the metrics of capture (`hopbudget.tracing.metrics`).

OpenTelemetry names them to Prometheus with underscores, the unit and `_total`: `hopbudget.ttft` is
`hopbudget_ttft_seconds`, `hopbudget.hops` is `hopbudget_hops_total`.
"""

import bisect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hopbudget.budgets.attainment.objectives import Objective
from hopbudget.tracing.metrics import DURATION_S, FIRST_TOKEN_S, TOKEN_S

HISTOGRAMS: Final[Mapping[str, tuple[str, tuple[float, ...]]]] = {
    "ttft": ("hopbudget_ttft_seconds", FIRST_TOKEN_S),
    "tpot": ("hopbudget_tpot_seconds", TOKEN_S),
    "tokens_per_s": ("hopbudget_tpot_seconds", TOKEN_S),
    "itl": ("hopbudget_itl_seconds", TOKEN_S),
    "hop_duration": ("hopbudget_hop_duration_seconds", DURATION_S),
}
HOPS: Final = "hopbudget_hops_total"
WORKLOAD: Final = "hopbudget_workload"
HOP: Final = "hopbudget_hop"
OUTCOME: Final = "hopbudget_outcome"
_FAILED: Final = "failed|refused|timed_out"
_LEFT: Final = "cancelled|closed_by_consumer"

Ratio = Callable[[str], str]
"""From a window such as "5m" to the PromQL of the share that missed in it."""


@dataclass(frozen=True, slots=True)
class NotOverMetrics:
    """Why an objective can't be told from these metrics."""

    reason: str


def missed(objective: Objective, workload: str) -> Ratio | NotOverMetrics:
    """The share of units that missed the objective.

    The share within the limit of what was measured, times the share that neither failed nor was ended by a limit of
    ours. A limit between two edges of a histogram is interpolated, as `histogram_quantile` does.
    """
    chosen = _labels(workload, objective.hop)
    if objective.metric == "error_share":
        if objective.hop is None:
            return NotOverMetrics("errors of whole trajectories are in no metric; name a hop, or use `hopbudget check`")
        wrong = _labels(workload, objective.hop, outcome=_FAILED)
        counted = _labels(workload, objective.hop, but=_LEFT)
        return lambda window: f"{_some(HOPS, wrong, window)} / {_sum(HOPS, counted, window)}"
    if objective.metric not in HISTOGRAMS:
        return NotOverMetrics(f"{objective.metric} is in no metric; use `hopbudget check`")
    name, edges = HISTOGRAMS[objective.metric]
    if not edges[0] <= objective.bound <= edges[-1]:
        return NotOverMetrics(f"its limit is outside the histogram's edges, {edges[0]:g} s to {edges[-1]:g} s")
    if objective.metric == "hop_duration":
        within = _labels(workload, objective.hop, outcome="ok|truncated")
        counted = _labels(workload, objective.hop, but=_LEFT)
        return lambda window: (
            f"1 - {_within(name, edges, objective.bound, within, window)} / " + _sum(f"{name}_count", counted, window)
        )
    failed = _labels(workload, objective.hop, outcome=_FAILED)

    def ratio(window: str) -> str:
        # Where nothing was measured, because all failed, the share of what was measured says nothing.
        measured = f"({_sum(f'{name}_count', chosen, window)} > 0)"
        share = f"({_within(name, edges, objective.bound, chosen, window)} / {measured} or vector(1))"
        return f"1 - {share} * (1 - {_some(HOPS, failed, window)} / {_sum(HOPS, chosen, window)})"

    return ratio


def _within(name: str, edges: Sequence[float], limit: float, labels: str, window: str) -> str:
    above = bisect.bisect_left(edges, limit)
    upper = _some(f"{name}_bucket", f"{labels},{_le(edges[above])}", window)
    if edges[above] == limit:
        return upper
    lower = _some(f"{name}_bucket", f"{labels},{_le(edges[above - 1])}", window)
    weight = (limit - edges[above - 1]) / (edges[above] - edges[above - 1])
    return f"({1 - weight:.6g} * {lower} + {weight:.6g} * {upper})"


def _le(edge: float) -> str:
    """Older exporters write `1` where newer ones write `1.0`."""
    text = f"{edge:g}"
    return f'le="{text}"' if "." in text else f'le=~"{text}(\\\\.0)?"'


def _labels(workload: str, hop: str | None, *, outcome: str | None = None, but: str | None = None) -> str:
    parts = [f"{WORKLOAD}={json.dumps(workload, ensure_ascii=False)}"]
    if hop is not None:
        parts.append(f"{HOP}={json.dumps(hop, ensure_ascii=False)}")
    if outcome is not None:
        parts.append(f'{OUTCOME}=~"{outcome}"')
    if but is not None:
        parts.append(f'{OUTCOME}!~"{but}"')
    return ",".join(parts)


def _sum(metric: str, labels: str, window: str) -> str:
    return f"sum(rate({metric}{{{labels}}}[{window}]))"


def _some(metric: str, labels: str, window: str) -> str:
    """0 where no series has these labels yet."""
    return f"({_sum(metric, labels, window)} or vector(0))"
