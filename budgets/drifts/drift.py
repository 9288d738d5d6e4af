"""Has what a plan was learned from changed, since which trajectory, and in which cause?

Everything that takes time has a limit that nine of ten kept when the plan was learned: a trajectory's duration, hops
and work; a hop's first token, pace (by its expectation, see `expected`), answer and prompt. A trajectory's score is the
share of its hops past the limit (0 or 1 where it is about the trajectory itself). A rate of scores that rises is
"more"; for "less", the limit is half way (the median). `cusum` watches both, with thresholds that keep false alarms
under one in a hundred for every 500 trajectories, where some 75 sessions or more were learned from (see `cusum`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from hopbudget.budgets.drifts import cusum
from hopbudget.budgets.drifts.cusum import FALSE_ALARMS, WITHIN
from hopbudget.budgets.drifts.ratios import CAUSES, LEAST, DriftCause, Limit, Ratios, limits_of, ratios_of, share_past
from hopbudget.budgets.expectations.table import Expectations
from hopbudget.budgets.profile import Floats, Ints, Profile

Way = Literal["more", "less"]
SIGNS: Final[dict[Way, float]] = {"more": 1.0, "less": -1.0}

LEAST_NEW: Final = 20
"""With fewer new ones it can't be said whether anything changed."""
SHIFT: Final = 0.3
"""A rate that has risen by this much matters; one that has fallen to a third."""
LATELY: Final = 100
SOME: Final = 20
ID_LENGTH: Final = 12


@dataclass(frozen=True, slots=True)
class Chart:
    """One rate that is watched."""

    cause: DriftCause
    way: Way
    at: float
    """What counts: more than so many times the limit."""
    rate: float
    """The mean score when it was learned."""
    k: float
    alike: float
    """The correlation of scores within sessions."""
    h: float
    """See `cusum`."""

    def steps(self, scores: Floats) -> Floats:
        """sign * (x - k)."""
        return SIGNS[self.way] * (scores - self.k)


@dataclass(frozen=True, slots=True)
class Drift:
    """What later trajectories are compared with."""

    n: int
    limits: tuple[Limit, ...]
    charts: tuple[Chart, ...]
    some: tuple[str, ...]
    """The ends of some of the trace ids it was learned from, to know them by."""

    def of_same_source(self, profile: Profile) -> bool:
        """The profile holds most of those trajectories too."""
        here = {str(trace_id)[-ID_LENGTH:] for trace_id in profile.trajectories.trace_id}
        return bool(self.some) and 2 * sum(word in here for word in self.some) > len(self.some)

    def to_plan(self) -> dict[str, Any]:
        """As plain values, for a plan's `[drift]`."""
        return {
            "n": self.n,
            "within": WITHIN,
            "false_alarms": FALSE_ALARMS,
            "limits": [{"cause": x.cause, "hop": x.hop, "value": _digits(x.value)} for x in self.limits],
            "charts": [
                {"cause": c.cause, "way": c.way} | {key: _digits(getattr(c, key)) for key in _NUMBERS}
                for c in self.charts
            ],
            "some": list(self.some),
        }


_NUMBERS: Final = ("at", "rate", "k", "alike", "h")


@dataclass(frozen=True, slots=True)
class Change:
    """A rate that has changed."""

    cause: DriftCause
    way: Way
    at: int
    """Row of the profile whose trajectory raised the alarm."""
    since: int
    """Row of the trajectory from which on the rate seems to have changed."""
    trajectories: int
    """How many trajectories it took, from the first that was looked at to the alarm."""
    before: float
    """The rate that was learned."""
    after: float
    """The mean score from `since` to `at`."""
    lately: float
    """The mean score of the last `LATELY` trajectories."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What was found in trajectories that came after."""

    n: int
    """Trajectories that were looked at."""
    changes: tuple[Change, ...]
    """The first to raise an alarm first."""


def learn(profile: Profile, expectations: Expectations) -> Drift | None:
    """What to watch for in trajectories that come after these; None where there are too few (`LEAST`)."""
    rows = usable(profile)
    if len(rows) < LEAST:
        return None
    part = profile.take(rows)
    limits = limits_of(part)
    ratios = ratios_of(part, limits, expectations)
    charts = [chart for cause in ratios for chart in _charts(cause, *ratios[cause], len(part))]
    if not charts:
        return None
    sessions = _sessions(part)
    steps = np.stack([chart.steps(_scores(chart, ratios, len(part))) for chart in charts], axis=1)
    worst = np.array([float(chart.steps(np.array(1.0 if chart.way == "more" else 0.0))) for chart in charts])
    alike = np.array([cusum.correlation_within(column, sessions) for column in steps.T])
    h = cusum.calibrate(steps, worst, sessions, alike)
    calibrated = (
        replace(chart, alike=float(r), h=float(each)) for chart, r, each in zip(charts, alike, h, strict=True)
    )
    kept = np.unique(np.linspace(0, len(part) - 1, SOME).astype(np.int64))
    some = tuple(str(word)[-ID_LENGTH:] for word in part.trajectories.trace_id[kept])
    return Drift(len(part), limits, tuple(calibrated), some)


def watch(profile: Profile, drift: Drift, expectations: Expectations) -> Watched:
    """Run every chart over a profile's trajectories, oldest first."""
    rows = usable(profile)
    part = profile.take(rows)
    ratios = ratios_of(part, drift.limits, expectations)
    place = cusum.places(_sessions(part))
    found = []
    for chart in drift.charts:
        scores = _scores(chart, ratios, len(part))
        crossing = cusum.first_crossing(chart.steps(scores) * cusum.weights(place, chart.alike), chart.h)
        if crossing is not None:
            found.append(_change(chart, crossing, scores, rows))
    return Watched(
        len(part), tuple(sorted(found, key=lambda change: (change.trajectories, CAUSES.index(change.cause))))
    )


def _change(chart: Chart, crossing: cusum.Crossing, scores: Floats, rows: Ints) -> Change:
    return Change(
        cause=chart.cause,
        way=chart.way,
        at=int(rows[crossing.at]),
        since=int(rows[crossing.since]),
        trajectories=crossing.at + 1,
        before=chart.rate,
        after=_mean(scores[crossing.since : crossing.at + 1]),
        lately=_mean(scores[-LATELY:]),
    )


def _mean(scores: Floats) -> float:
    known = scores[~np.isnan(scores)]
    return float(known.mean()) if len(known) else float("nan")


def usable(profile: Profile) -> Ints:
    """Rows of complete trajectories that ran as they would by themselves, oldest first."""
    t = profile.trajectories
    rows = np.flatnonzero(t.complete & ~t.intervened & ~np.isnan(t.duration_s))
    return rows[np.argsort(t.started_at[rows], kind="stable")]


def from_plan(table: Mapping[str, Any]) -> Drift:
    """What `Drift.to_plan` wrote. Causes that this version does not know are left out."""
    return Drift(
        n=int(table["n"]),
        limits=tuple(
            Limit(row["cause"], str(row["hop"]), float(row["value"])) for row in _known(table.get("limits", ()))
        ),
        charts=tuple(
            Chart(row["cause"], row["way"], *(float(row[key]) for key in _NUMBERS))
            for row in _known(table.get("charts", ()))
        ),
        some=tuple(str(word) for word in table.get("some", ())),
    )


def _known(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if row.get("cause") in CAUSES and row.get("way", "more") in SIGNS]


def _digits(value: float) -> float:
    return float(f"{value:.6g}")


def _sessions(profile: Profile) -> Ints:
    """A number for each session; trajectories without one are their own."""
    words = [word or f"\0{row}" for row, word in enumerate(profile.trajectories.session.tolist())]
    return np.unique(np.array(words, dtype=str), return_inverse=True)[1].astype(np.int64)


def _charts(cause: DriftCause, trajectory: Ints, ratio: Floats, n: int) -> Iterable[Chart]:
    """What is watched of one cause; nothing of what was observed in too few trajectories."""
    seen = ~np.isnan(ratio)
    if len(np.unique(trajectory[seen])) < LEAST // 2:
        return
    usual = float(np.quantile(ratio[seen], 0.5, method="inverted_cdf"))
    ways: list[tuple[Way, float]] = [("more", 1.0)]
    if cause != "failures" and np.isfinite(usual):
        ways.append(("less", usual))
    for way, at in ways:
        rate = float(np.nanmean(share_past(trajectory, ratio, at, n)))
        if way == "more" and rate + SHIFT < 1.0:
            known = (rate * n + 1.0) / (n + 2.0)
            yield Chart(cause, way, at, rate, cusum.turning_point(known, known + SHIFT), 0.0, np.nan)
        elif way == "less" and rate > SHIFT:
            yield Chart(cause, way, at, rate, cusum.turning_point(rate, rate / 3), 0.0, np.nan)


def _scores(chart: Chart, ratios: Mapping[DriftCause, Ratios], n: int) -> Floats:
    """By trajectory; NaN where nothing of the cause was observed."""
    if chart.cause not in ratios:
        return np.full(n, np.nan)
    return share_past(*ratios[chart.cause], chart.at, n)
