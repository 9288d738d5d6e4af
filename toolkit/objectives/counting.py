"""What an objective counts, from the rows of a store: the units of each metric, by trajectory."""

import math
from collections.abc import Sequence
from typing import Final

import duckdb
import numpy as np

from hopbudget.budgets.attainment import attained
from hopbudget.budgets.attainment.attained import CAME, CUT, NEVER, TIMED_OUT, Counts, Units
from hopbudget.budgets.attainment.objectives import Objective
from hopbudget.budgets.profile import Bools, Floats, Ints
from hopbudget.store import objectives as stored
from hopbudget.store.narrow import Condition, nearest
from hopbudget.store.objectives import HopRows, Scope, TrajectoryRows

_NOISE_S: Final = 1e-6
"""Gaps are stored in microseconds: a shorter wait is rounding."""


def window_end(con: duckdb.DuckDBPyConnection, chosen: Condition, at: float | None) -> float:
    """Where windows end, seconds since the Unix epoch: `at`, else the newest start; 0 where there is none."""
    newest = stored.newest_at(con, chosen) if at is None else at
    return 0.0 if math.isnan(newest) else newest


class Window:
    """What one stretch of time of one workload holds; rows are fetched when they are first asked for."""

    def __init__(self, con: duckdb.DuckDBPyConnection, scope: Scope) -> None:
        self._con = con
        self._scope = scope
        self.trajectories: TrajectoryRows = stored.trajectories(con, scope)
        self._fetched: HopRows | None = None

    @property
    def hops(self) -> HopRows:
        """Every hop of the window's trajectories."""
        self._fetched = self._fetched or stored.hops(self._con, self._scope)
        return self._fetched

    def counted(self, objective: Objective) -> tuple[Counts, float]:
        """The counts of an objective, and its attained quantile."""
        if objective.metric == "itl":
            return self._gaps(objective)
        units = self._units(objective)
        counts = attained.count(units, self.trajectories.started_at, objective.bound)
        return counts, units.quantile(objective.target)

    def why_nothing(self, objective: Objective) -> str:
        """Why there is nothing that this objective counts."""
        if not len(self.trajectories.code):
            return "no trajectory of this workload in the window"
        here = [self.hops.names[index] for index in np.unique(self.hops.name).tolist()]
        if objective.hop is not None and objective.hop not in here:
            return f"no hop {objective.hop!r}{nearest(objective.hop, here)}"
        return f"no {objective.metric} was recorded"

    def throughput(self) -> tuple[float, float]:
        """Output tokens, and the seconds in which any hop was under way."""
        return stored.throughput(self._con, self._scope)

    def _units(self, objective: Objective) -> Units:
        metric = objective.metric
        if metric == "underrun":
            return self._waits(objective)
        if metric in {"trajectory_duration", "answer_start"} or (metric == "error_share" and objective.hop is None):
            return self._whole(metric)
        h = self.hops
        value = {
            "ttft": h.ttft_s,
            "ttfa": h.ttfa_s,
            "tpot": h.tpot_s,
            "tokens_per_s": h.tpot_s,
            "hop_duration": h.duration_s,
            "error_share": _error(h.code),
        }[metric]
        bound = h.duration_s
        if metric in {"tpot", "tokens_per_s"}:
            # What was cut short was at most this slow until then, its last gap included.
            bound = (h.duration_s - h.ttft_s) / np.where(h.tokens > 1, h.tokens - 1, np.nan)
        if metric in {"tpot", "tokens_per_s", "hop_duration"}:
            value = _until_cut(value, h.code)
        if metric == "error_share":
            bound = np.full(len(value), -1.0)
        return _only(
            attained.units(h.trajectory, value, bound, h.code, h.name), _is_named(h.name, h.names, objective.hop)
        )

    def _whole(self, metric: str) -> Units:
        t = self.trajectories
        value, bound = t.duration_s, t.duration_s
        if metric == "answer_start":
            value = t.answer_start_s
        elif metric == "error_share":
            value, bound = _error(t.code), np.full(len(t.code), -1.0)
        else:
            value = _until_cut(value, t.code)
        keep = np.flatnonzero(t.complete)
        group = np.zeros(len(keep), dtype=np.int64)
        return attained.units(keep, value[keep], bound[keep], t.code[keep], group)

    def _waits(self, objective: Objective) -> Units:
        assert objective.pace is not None
        w = stored.waits(self._con, self._scope, objective.pace)
        waited = np.where(w["wait_s"] > _NOISE_S, w["wait_s"], 0.0)
        cut = (w["code"] != CAME) & (w["code"] != NEVER)
        value = np.where(np.isnan(w["wait_s"]) | (cut & (waited == 0)), np.nan, waited)
        bound = np.where(np.isnan(w["wait_s"]), np.nan, -1.0)
        streams = w["streamed"] | (w["code"] == NEVER)
        units = attained.units(w["trajectory"], value, bound, w["code"], w["name"])
        return _only(units, streams & _is_named(w["name"], stored.names(self._con), objective.hop))

    def _gaps(self, objective: Objective) -> tuple[Counts, float]:
        g = stored.gaps(self._con, self._scope, objective.limit)
        names = stored.names(self._con)
        wanted = (
            np.ones(len(g.code), dtype=np.bool_) if objective.hop is None else _is_named(g.name, names, objective.hop)
        )
        seen = attained.units(g.trajectory, np.where(g.seen, 0.0, np.nan), np.full(len(g.code), np.nan), g.code, g.name)
        failed = np.isposinf(seen.value) & wanted
        streams = g.seen & (g.code != NEVER) & wanted
        started_at = self.trajectories.started_at

        def summed(part: Floats) -> Floats:
            return np.bincount(g.trajectory, weights=part, minlength=len(started_at)).astype(np.float64)

        counts = Counts(
            started_at=started_at,
            good=summed(g.good * streams),
            slow=summed(g.slow * streams),
            failed=summed(failed.astype(np.float64)),
            left_out=summed(g.left_out * streams),
            unmeasured=summed((wanted & g.streamed & ~g.seen & ~failed).astype(np.float64)),
            sample=summed((failed | (streams & (g.good + g.slow > 0))).astype(np.float64)),
        )
        share = attained.attain(counts).failing_share
        values, events, bounds = stored.gap_histogram(self._con, self._scope, objective.hop)
        failing = 0.0 if math.isnan(share) else share
        return counts, attained.quantile_of_counts(values, events, bounds, failing, objective.target)


def _until_cut(value: Floats, code: Ints) -> Floats:
    """Without the values of what was cut short: they are bounds."""
    return np.where((code == CUT) | (code == TIMED_OUT), np.nan, value)


def _error(code: Ints) -> Floats:
    """0 where it came well, 1 where a limit of ours ended it, unknown where somebody ended it who did not wait."""
    return np.where(code == CUT, np.nan, np.where(code == TIMED_OUT, 1.0, 0.0))


def _only(units: Units, keep: Bools) -> Units:
    return Units(units.trajectory[keep], units.value[keep], units.censored[keep])


def _is_named(name: Ints, names: Sequence[str], hop: str | None) -> Bools:
    """Which hops have this name; all have where none is asked for."""
    if hop is None:
        return np.ones(len(name), dtype=np.bool_)
    return np.asarray(name == (names.index(hop) if hop in names else -1))
