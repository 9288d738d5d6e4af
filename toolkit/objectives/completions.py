"""How workloads without objectives on streams did, such as batch: completion, and tokens a second."""

import math
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np

from hopbudget.budgets.attainment.attained import CAME
from hopbudget.budgets.attainment.objectives import OF_STREAMS, WINDOW_S
from hopbudget.config.configuring import Config
from hopbudget.objectives.counting import Window, window_end
from hopbudget.store import objectives as stored
from hopbudget.store.narrow import Where
from hopbudget.store.objectives import Scope


@dataclass(frozen=True, slots=True)
class Completion:
    """How a workload without objectives on streams did: whole trajectories, and two speeds that are not the same."""

    workload: str
    trajectories: int
    p50_s: float
    p90_s: float
    pace: float
    """Tokens a second of the median stream; NaN where no pace was observed."""
    throughput: float
    """Output tokens a second, over the time in which any hop was under way; NaN where none was."""

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "workload": self.workload,
            "trajectories": self.trajectories,
            "completion_s": {"p50": self.p50_s, "p90": self.p90_s},
            "pace_tokens_per_s": self.pace,
            "throughput_tokens_per_s": self.throughput,
        }


def completions(
    con: duckdb.DuckDBPyConnection,
    config: Config,
    where: Where | None = None,
    *,
    workload: str | None = None,
    at: float | None = None,
) -> list[Completion]:
    """The workloads without objectives on streams, such as batch, over the last 30 days."""
    found = []
    for one in config.chosen(workload):
        if not any(objective.metric in OF_STREAMS for objective in one.objectives):
            chosen = stored.scope(where or Where(), one.match)
            to_at = window_end(con, chosen, at)
            found.append(_completion(one.name, Window(con, Scope(chosen, to_at - WINDOW_S, to_at))))
    return found


def _completion(name: str, window: Window) -> Completion:
    t, h = window.trajectories, window.hops
    durations = t.duration_s[t.complete & (t.code == CAME)]
    paces = h.tpot_s[(h.code == CAME) & (h.tpot_s > 0)]
    p50_s, p90_s = np.quantile(durations, (0.5, 0.9)) if len(durations) else (math.nan, math.nan)
    tokens, busy_s = window.throughput()
    return Completion(
        workload=name,
        trajectories=len(t.code),
        p50_s=float(p50_s),
        p90_s=float(p90_s),
        pace=float(1 / np.median(paces)) if len(paces) else math.nan,
        throughput=tokens / busy_s if tokens and busy_s else math.nan,
    )
