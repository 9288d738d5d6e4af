"""What the pages show, fetched from the store and kept until the store changes.

A connection is open only while rows are fetched. Every answer is kept under the file's stamp, its time of change and
its size, so a store that agents are writing to is read again as soon as it grows. Counts and quantiles are SQL over
everything; what needs arrays or rows (plans, causes, costs) is taken from at most `MOST_PLANNED` trajectories, and
says so.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import streamlit as st

from hopbudget import budgets
from hopbudget.budgets.attainment.spread import Spread, gap_spreads
from hopbudget.budgets.blame.breaches import Breaches, breaches
from hopbudget.budgets.blame.causes import Causes
from hopbudget.budgets.blame.traits import MOST_LEVELS, running_at
from hopbudget.budgets.feasibility.curve import Met
from hopbudget.budgets.feasibility.curve import curve as share_in_time
from hopbudget.budgets.feasibility.whatif import Change, WhatIf
from hopbudget.budgets.feasibility.whatif import what_if as work_out
from hopbudget.budgets.profile import Floats, Words
from hopbudget.budgets.run_time import answer, caps, fits, tokens
from hopbudget.budgets.run_time.answer import Answer
from hopbudget.budgets.run_time.caps import Cap
from hopbudget.budgets.run_time.fits import Steps
from hopbudget.budgets.run_time.knowledge import learn
from hopbudget.budgets.run_time.tokens import Pace
from hopbudget.budgets.streams.pace import shares_waiting
from hopbudget.config.configuring import Config, find, load
from hopbudget.errors import UserError
from hopbudget.objectives.checking import ObjectiveResult, evaluate
from hopbudget.plans import files
from hopbudget.reports import costing
from hopbudget.reports.explaining import Explained
from hopbudget.store import attributes, figures, queries
from hopbudget.store.costs import charged, charged_by
from hopbudget.store.duck import Store
from hopbudget.store.waiting import still_waiting

_PATIENCE_S: Final = 10.0
_KEPT: Final = 16
MOST_LISTED: Final = 200
"""How many trajectories a list offers; a link may name any other."""
MOST_PLANNED: Final = 5_000
"""How many trajectories plans, causes and costs are taken from; of more, a part that is always the same."""
AUTO_UP_TO: Final = 2_000
"""Up to how many trajectories a plan's method is `auto`, as the command's; of more, `auto` would hold up the slider."""
PACES: Final = [float(pace) for pace in np.round(np.geomspace(2, 200, 25), 1)]
"""Tokens a second."""
PATIENCE: Final = (0.0, 0.25, 1.0)
"""Seconds that a reader may wait."""
CURVE: Final = 60
"""How many deadlines the curve of feasibility is drawn through, besides observed ones."""
MOST_VALUES: Final = 30
"""How many values of an attribute the filter offers; any other can be typed."""


@dataclass(frozen=True, slots=True)
class Source:
    """One state of one store: what every cached answer belongs to."""

    path: str
    stamp: tuple[int, int]

    @property
    def store(self) -> Store:
        """The store, ready to be opened."""
        return Store(Path(self.path), patience_s=_PATIENCE_S)


@dataclass(frozen=True, slots=True)
class Scope:
    """What a page is about: one state of a store, a workload, values of attributes."""

    source: Source
    workload: str
    filters: tuple[tuple[str, str], ...] = ()

    @property
    def where(self) -> queries.Where:
        """The filter of queries."""
        return queries.Where(workload=self.workload, attributes=dict(self.filters))


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a store holds, in a line."""

    workloads: tuple[tuple[str, int], ...]
    dropped: dict[str, int]
    """Reason to number of spans that were lost before they came here."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of `allocate`."""

    deadline_s: float
    percentile: float
    binds: budgets.Binds
    method: budgets.Method
    slots: budgets.SlotKind


def source(path: Path) -> Source | None:
    """The store as it is now, with what waited in its spool; None where there is no store yet. Raises UserError."""
    store = Store(path, patience_s=_PATIENCE_S)
    store.drain()
    if not path.exists():
        return None
    found = path.stat()
    return Source(str(path), (found.st_mtime_ns, found.st_size))


@st.cache_data(show_spinner=False, max_entries=_KEPT)
def holdings(source: Source) -> Holdings:
    """Workloads with their numbers of trajectories, and what was lost."""
    with source.store.reading() as con:
        return Holdings(tuple(queries.workloads(con)), queries.drops(con))


@st.cache_data(show_spinner=False, max_entries=_KEPT)
def choices(source: Source, workload: str) -> dict[str, list[tuple[str, int]]]:
    """What can be filtered and grouped by: keys, and their commonest values with numbers of trajectories."""
    where = queries.Where(workload=workload)
    with source.store.reading() as con:
        names = attributes.keys(con, where, 100_000)
        found = {name: attributes.values(con, where, name, MOST_VALUES) for name in ("outcome", *names)}
    return {name: values for name, values in found.items() if len(values) > 1}


@st.cache_data(show_spinner=False, max_entries=_KEPT)
def size(scope: Scope) -> int:
    """How many trajectories the filter leaves."""
    with scope.source.store.reading() as con:
        return figures.count(con, scope.where)


def usual_method(scope: Scope) -> budgets.Method:
    """How a deadline is split unless a person chooses: as `hopbudget allocate` does, where that is quick enough."""
    return "auto" if size(scope) <= AUTO_UP_TO else "independent"


@st.cache_data(show_spinner=False, max_entries=_KEPT)
def report(scope: Scope) -> dict[str, Any]:
    """The numbers of `hopbudget report`, without those of gaps."""
    with scope.source.store.reading() as con:
        return queries.report(con, scope.where, gaps=False)


def cost(scope: Scope) -> dict[str, Any] | None:
    """What trajectories cost, as `hopbudget report` says, and of how many those are a part; None without a price."""
    config = _with_prices()
    return None if config is None else _cost(scope, *config)


def costs_by(scope: Scope, by: str) -> dict[str, dict[str, Any]]:
    """The same by the values of a key; empty where no price is said."""
    config = _with_prices()
    return {} if config is None else _costs_by(scope, by, *config)


def _with_prices() -> tuple[str, int] | None:
    """The configuration's path and time of change, where it says prices and can be read."""
    try:
        config = configuration()
    except UserError:
        return None
    if config is None or not config.prices:
        return None
    return str(config.path), Path(config.path).stat().st_mtime_ns


def _at_most_planned(scope: Scope) -> queries.Where:
    """The filter, and of very many trajectories a part that is always the same."""
    n, where = size(scope), scope.where
    return where if n <= MOST_PLANNED else queries.Where(where.workload, where.attributes, sample=MOST_PLANNED / n)


@st.cache_data(show_spinner=False, max_entries=_KEPT)
def _cost(scope: Scope, path: str, stamp: int) -> dict[str, Any]:
    with scope.source.store.reading() as con:
        rows = charged(con, _at_most_planned(scope))
    n = size(scope)
    return costing.costs(rows, _configuration(path, stamp)) | {"part_of": n if n > MOST_PLANNED else None}


@st.cache_data(show_spinner=False, max_entries=_KEPT)
def _costs_by(scope: Scope, by: str, path: str, stamp: int) -> dict[str, dict[str, Any]]:
    with scope.source.store.reading() as con:
        rows = charged_by(con, _at_most_planned(scope), by)
    return {name: costing.costs(of_it, _configuration(path, stamp)) for name, of_it in rows.items()}


@st.cache_data(show_spinner=False, max_entries=_KEPT)
def extent(scope: Scope) -> tuple[Any, Any] | None:
    """The first and the last start."""
    with scope.source.store.reading() as con:
        return figures.extent(con, scope.where)


@st.cache_data(show_spinner=False, max_entries=_KEPT)
def cut_off(scope: Scope) -> dict[str, Any] | None:
    """Streams that were cut off while they waited for their first token; None where there is none."""
    with scope.source.store.reading() as con:
        return still_waiting(con, scope.where)


@st.cache_data(show_spinner=False, max_entries=_KEPT)
def trend(scope: Scope, by: str | None) -> tuple[int, list[figures.Point]]:
    """Trajectories by stretch of time, and by the values of a key."""
    with scope.source.store.reading() as con:
        return figures.trend(con, scope.where, by)


@st.cache_data(show_spinner=False, max_entries=_KEPT)
def groups(scope: Scope, by: str) -> list[figures.Group]:
    """Trajectories by the values of a key, the largest group first."""
    with scope.source.store.reading() as con:
        return figures.groups(con, scope.where, by)


@st.cache_data(show_spinner=False, max_entries=4 * _KEPT)
def hop_spreads(scope: Scope, metric: figures.Metric, by: Literal["hop", "model"] = "hop") -> list[Spread]:
    """How a metric of hops is spread, by hop name or by model."""
    with scope.source.store.reading() as con:
        return figures.hop_spreads(con, scope.where, metric, by)


@st.cache_data(show_spinner=False, max_entries=_KEPT)
def work_spreads(scope: Scope) -> list[Spread]:
    """How long work takes, by its name."""
    with scope.source.store.reading() as con:
        return figures.work_spreads(con, scope.where)


@st.cache_data(show_spinner=False, max_entries=_KEPT)
def trajectory_spread(scope: Scope) -> Spread | None:
    """How long trajectories take."""
    with scope.source.store.reading() as con:
        return figures.trajectory_spread(con, scope.where)


@dataclass(frozen=True, slots=True)
class Gaps:
    """What the gaps of streams say."""

    spreads: list[Spread]
    """ITL by hop name."""
    waiting: dict[float, list[tuple[float, float]]]
    """By the seconds that a reader may wait: pace in tokens a second, and the share of streams that are too slow."""
    streams: int
    """How many were read,"""
    of: int
    """of how many that came to their end."""


@st.cache_data(show_spinner="Reading gaps", max_entries=_KEPT)
def gaps(scope: Scope) -> Gaps:
    """ITL by hop, and who would have had to wait."""
    with scope.source.store.reading() as con:
        streams, hops, n = figures.streams(con, scope.where)
    return Gaps(
        gap_spreads(streams, hops),
        {
            over_s: list(zip(PACES, shares, strict=True))
            for over_s, shares in zip(PATIENCE, shares_waiting(streams, PACES, PATIENCE), strict=True)
        },
        len(streams),
        n,
    )


@st.cache_data(show_spinner=False, max_entries=_KEPT)
def stalled(scope: Scope) -> list[dict[str, Any]]:
    """The streams with the longest gaps."""
    with scope.source.store.reading() as con:
        return figures.stalled(con, scope.where, MOST_LISTED)


@st.cache_data(show_spinner=False, max_entries=32)
def stream(source: Source, address: str) -> dict[str, Any] | None:
    """One hop with its gaps, by the beginning of its trace's id and its span's, with a dot between."""
    trace_id, _, span_id = address.partition(".")
    with source.store.reading() as con:
        return figures.stream(con, trace_id, span_id)


@dataclass(frozen=True, slots=True)
class Learned:
    """Arrays to learn from, and of what they are a part."""

    profile: budgets.Profile
    of: int
    """How many trajectories the filter leaves."""
    words: dict[str, Words]
    running: Floats
    """How many other trajectories of the whole store were under way when each started."""

    @property
    def sampled(self) -> bool:
        """Whether these are a part of them only."""
        return len(self.profile) < self.of


@st.cache_resource(show_spinner="Reading the store", max_entries=3)
def learned(scope: Scope) -> Learned:
    """The filter's trajectories as arrays, at most about `MOST_PLANNED`; shared, never changed."""
    n, where = size(scope), _at_most_planned(scope)
    with scope.source.store.reading() as con:
        profile = queries.profile(con, where)
        words = attributes.columns(con, where, attributes.keys(con, where, MOST_LEVELS))
        all_of_them = figures.starts_and_ends(con)
    started, ended = (np.asarray(all_of_them[name], dtype=np.float64) for name in ("start_s", "end_s"))
    return Learned(profile, n, words, running_at(profile.trajectories.started_at, started, ended))


@st.cache_data(show_spinner="Allotting the deadline", max_entries=64)
def allocation(scope: Scope, question: Question) -> budgets.Allocation:
    """The deadline, allotted. Raises `CannotAllocateError` where there is nothing to learn from."""
    return budgets.allocate(
        learned(scope).profile,
        files.stated_s(question.deadline_s),
        percentile=question.percentile,
        binds=question.binds,
        method=question.method,
        slots=question.slots,
    )


@st.cache_data(show_spinner=False, max_entries=64)
def attained(scope: Scope, binds: budgets.Binds, percentile: float) -> float:
    """The deadline that this percentile of trajectories attained, in seconds; infinite where failures forbid it."""
    return budgets.deadline_at(learned(scope).profile, percentile, binds)


@st.cache_data(show_spinner=False, max_entries=32)
def curve(scope: Scope, binds: budgets.Binds) -> list[Met]:
    """The share in time by deadline, from the fastest to past the slowest. Raises `CannotAllocateError`."""
    spread = trajectory_spread(scope)
    seen = [value for value in (spread.dots if spread else ()) if value > 0] or [1.0]
    limits = np.unique(np.concatenate((np.geomspace(0.5 * seen[0], 1.5 * seen[-1], CURVE), seen)))
    return share_in_time(learned(scope).profile, limits, binds)


@st.cache_resource(show_spinner="Comparing trajectories", max_entries=4)
def causes(scope: Scope) -> Causes:
    """The causes of every trajectory's excess. Raises CannotAllocateError where nothing came well."""
    return budgets.explain(learned(scope).profile)


@st.cache_resource(show_spinner="Comparing trajectories", max_entries=16)
def breached(scope: Scope, deadline_s: float) -> Breaches:
    """The breaches of a deadline, explained. Raises CannotAllocateError where nothing came well."""
    from_here = learned(scope)
    return breaches(from_here.profile, deadline_s, from_here.words, from_here.running, causes=causes(scope))


def explained(scope: Scope, trace_id: str, duration_s: float) -> Explained | None:
    """The causes of one trajectory's excess; None where it is not among those that were learned from."""
    t = learned(scope).profile.trajectories
    rows = np.flatnonzero((t.trace_id == trace_id) & (t.duration_s == duration_s))
    try:
        found = causes(scope)
    except budgets.CannotAllocateError:
        return None
    if not len(rows) or np.isnan(found.excess_s[rows[0]]):
        return None
    row = int(rows[0])
    return Explained(
        trace_id=trace_id,
        workload=str(t.workload[row]),
        outcome=str(t.outcome[row]),
        duration_s=duration_s,
        excess_s=float(found.excess_s[row]),
        parts=found.parts(row),
        reference=found.reference,
    )


@st.cache_data(show_spinner=False, max_entries=32)
def trajectories(scope: Scope, *, slowest: bool) -> list[dict[str, Any]]:
    """Rows of `trajectories`, the slowest or the newest first, at most `MOST_LISTED`."""
    with scope.source.store.reading() as con:
        if slowest:
            return queries.trajectory_rows(con, scope.where, slowest=MOST_LISTED)
        return queries.trajectory_rows(con, scope.where, limit=MOST_LISTED)


@st.cache_data(show_spinner=False, max_entries=32)
def trajectory(source: Source, trace_id: str) -> dict[str, Any]:
    """One trajectory with its hops and works in order of time. Raises UserError for none, or more than one."""
    with source.store.reading() as con:
        return queries.trajectory(con, trace_id)


@dataclass(frozen=True, slots=True)
class Fits:
    """What fits in a deadline."""

    steps: Steps | None
    paces: tuple[Pace, ...]
    answer: Answer | None
    """The longest final answer; None where it is not known, or the deadline binds the first answer token."""
    caps: tuple[Cap, ...]


@st.cache_data(show_spinner=False, max_entries=64)
def fitting(scope: Scope, deadline_s: float, percentile: float, binds: budgets.Binds) -> Fits:
    """Steps, tokens and the longest answer that fit, and what caps on tokens would have bought."""
    profile, p = learned(scope).profile, percentile / 100
    paces = tokens.learn(profile, p)
    return Fits(
        steps=fits.learn(profile, deadline_s, p, binds),
        paces=paces,
        answer=answer.learn(profile, deadline_s, p, paces) if binds == "last" else None,
        caps=caps.learn(profile, deadline_s, paces, binds),
    )


@dataclass(frozen=True, slots=True)
class Places:
    """What can be made different: names of hops, of work, and models."""

    hops: tuple[str, ...]
    works: tuple[str, ...]
    models: tuple[str, ...]


@st.cache_data(show_spinner=False, max_entries=_KEPT)
def places(scope: Scope) -> Places:
    """The names in these trajectories."""
    profile = learned(scope).profile
    named = (profile.hops.hop, profile.works.work, profile.hops.model)
    return Places(*(tuple(sorted({str(name) for name in names} - {""})) for names in named))


@st.cache_data(show_spinner=False, max_entries=64)
def what_if(scope: Scope, change: Change, deadline_s: float, percentile: float, binds: budgets.Binds) -> WhatIf:
    """What a change would do to the deadline. Raises CannotAllocateError where nothing can be said."""
    return work_out(learned(scope).profile, change, deadline_s, percentile=percentile, binds=binds)


def plan_file(scope: Scope, question: Question) -> str:
    """The text of the plan's file, as `hopbudget allocate --out` writes it, with what a running agent looks up."""
    profile = learned(scope).profile
    knowledge = learn(profile, files.stated_s(question.deadline_s), question.percentile, question.binds)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.toml"
        files.write(path, files.plan_dict(allocation(scope, question), scope.workload, knowledge))
        return path.read_text(encoding="utf-8")


def configuration() -> Config | None:
    """The `hopbudget.toml` of where the app was started; None where there is none. Raises UserError."""
    path = find()
    return None if path is None else _configuration(str(path), path.stat().st_mtime_ns)


@st.cache_data(show_spinner=False, max_entries=2)
def _configuration(path: str, stamp: int) -> Config:
    return load(Path(path))


def objectives(scope: Scope) -> list[ObjectiveResult]:
    """The objectives that say something about these trajectories, judged. Raises UserError."""
    path = find()
    return [] if path is None else _objectives(scope, str(path), path.stat().st_mtime_ns)


@st.cache_data(show_spinner="Judging objectives", max_entries=_KEPT)
def _objectives(scope: Scope, path: str, stamp: int) -> list[ObjectiveResult]:
    with scope.source.store.reading() as con:
        judged = evaluate(con, load(Path(path)), scope.where)
    return [result for result in judged if result.attained.n or result.workload == scope.workload]


def configured_deadline_s(scope: Scope) -> float | None:
    """The workload's deadline as configured; None where nothing is said or the configuration can't be read."""
    try:
        config = configuration()
    except UserError:
        return None
    workloads = config.workloads if config is not None else ()
    return next((w.deadline_s for w in workloads if w.match.get("name", w.name) == scope.workload), None)


def trace_url(trace_id: str) -> str | None:
    """Where the user's own tracing tool shows this trace; None where no configuration says."""
    try:
        config = configuration()
    except UserError:
        return None
    return None if config is None else config.trace_link(trace_id)
