"""The `explain` command: causes of slowness, in seconds that add up, for one trajectory or for the slow ones."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from hopbudget import budgets
from hopbudget.budgets.expectations import expected
from hopbudget.errors import Exit, UserError
from hopbudget.render import base
from hopbudget.render import causes as draw
from hopbudget.reports.reading import Selection
from hopbudget.store import queries, servers
from hopbudget.store.deadlines import of_trajectory
from hopbudget.units import seconds

_SLOWEST = 10
NOTHING: Final = "There is nothing to compare with: it takes two complete trajectories, one of which came out well."
_ENOUGH = 2
"""One trajectory has nothing to be compared with."""


@dataclass(frozen=True, slots=True)
class SlowHop:
    """A hop that was slow, flat or for its tokens; seconds are None where they are not known."""

    span_id: str
    hop: str
    visit: int
    model: str
    duration_s: float
    output_tokens: float
    ttft_s: float | None
    usual_s: float
    """The p90 of the model's hops, whatever their tokens."""
    expected_s: float
    """Within which nine of ten hops with this prompt and so many tokens end."""
    expected_first_token_s: float | None
    blame: str
    """"long answer" (the provider is healthy), "first token" or "pace"."""


@dataclass(frozen=True, slots=True)
class Explained:
    """One trajectory with the parts of its excess."""

    trace_id: str
    workload: str
    outcome: str
    duration_s: float
    excess_s: float
    parts: list[budgets.Part]
    reference: budgets.Reference
    slow_hops: Sequence[SlowHop] = ()

    def as_json(self) -> dict[str, Any]:
        """The row of `--json`; times in seconds."""
        parts = [
            {
                "kind": part.kind,
                "name": part.name,
                "seconds": part.seconds,
                "estimated": part.estimated,
                "count": part.count,
                "detail": part.detail,
            }
            for part in self.parts
        ]
        return {
            "trace_id": self.trace_id,
            "workload": self.workload,
            "outcome": self.outcome,
            "duration_s": self.duration_s,
            "reference_s": self.reference.duration_s,
            "excess_s": self.excess_s,
            "parts": parts,
            "slow_hops": [asdict(hop) for hop in self.slow_hops],
        }


@dataclass(frozen=True, slots=True)
class Alone:
    """One trajectory that has nothing to be compared with."""

    trace_id: str
    workload: str
    outcome: str
    duration_s: float

    def as_json(self) -> dict[str, Any]:
        """The row of `--json`: as that of an explained one, with None for what is not known; times in seconds."""
        return {**asdict(self), "reference_s": None, "excess_s": None, "parts": [], "slow_hops": []}


def explain(
    selection: Selection, *, trace_id: str | None, slowest: int | None, over_s: float | None, as_json: bool
) -> int:
    """Print why trajectories took longer than typical ones; returns the exit code."""
    if trace_id is not None:
        if slowest is not None or over_s is not None:
            raise UserError("Give a TRACE_ID, or --slowest or --over, but not both.")
        return _one(selection, trace_id, as_json=as_json)
    with selection.open() as (con, where):
        names = [where.workload] if where.workload is not None else [name for name, _ in queries.workloads(con, where)]
        profiles = {name: queries.profile(con, where.for_workload(name)) for name in names}
    explained = [row for profile in profiles.values() for row in of_profile(profile)]
    compared = {row.workload for row in explained}
    rows: list[Explained | Alone] = [*explained]
    for name, profile in profiles.items():
        rows += alone(profile) if name not in compared else []
    if not rows:
        raise UserError(NOTHING, Exit.CANT_SAY)
    rows.sort(key=lambda row: -row.duration_s)
    if over_s is not None:
        rows = [row for row in rows if row.duration_s > over_s]
    if slowest is not None or over_s is None:
        rows = rows[: slowest or _SLOWEST]
    if as_json:
        base.print_json({"trajectories": [row.as_json() for row in rows]})
    elif not rows:
        base.console().print(f"No trajectory took longer than {seconds(over_s)}.")
    else:
        explained = [row for row in rows if isinstance(row, Explained)]
        others = [row for row in rows if isinstance(row, Alone)]
        draw.slow(base.console(), explained, selection.heading, others)
        if not explained:
            sys.stderr.write(f"hopbudget: {NOTHING} Where one spent its time: hopbudget explain TRACE_ID\n")
    return Exit.DONE if compared else Exit.CANT_SAY


def of_profile(profile: budgets.Profile) -> list[Explained]:
    """Every trajectory of one workload whose duration is known, explained; none where none came out well."""
    if len(profile) < _ENOUGH:
        return []
    try:
        causes = budgets.explain(profile)
    except budgets.CannotAllocateError:
        return []
    t = profile.trajectories
    slow = slow_hops(profile)
    return [
        Explained(
            trace_id=t.trace_id[row],
            workload=t.workload[row],
            outcome=t.outcome[row],
            duration_s=float(t.duration_s[row]),
            excess_s=float(causes.excess_s[row]),
            parts=causes.parts(row),
            reference=causes.reference,
            slow_hops=slow.get(row, ()),
        )
        for row in np.flatnonzero(~np.isnan(causes.excess_s)).tolist()
    ]


def alone(profile: budgets.Profile) -> list[Alone]:
    """Every trajectory of a workload whose duration is known, as one with nothing to be compared with."""
    t = profile.trajectories
    return [
        Alone(t.trace_id[row], t.workload[row], t.outcome[row], float(t.duration_s[row]))
        for row in np.flatnonzero(t.complete & ~np.isnan(t.duration_s)).tolist()
    ]


def slow_hops(profile: budgets.Profile) -> dict[int, list[SlowHop]]:
    """By trajectory (row of the profile), the hops that were slow and what made each of them slow."""
    hops = profile.hops
    limits = expected.expect(hops, expected.learn(profile))
    blamed = expected.blame(hops, limits)
    found: dict[int, list[SlowHop]] = {}
    for row in np.flatnonzero(blamed != "").tolist():
        slow = SlowHop(
            span_id=hops.span_id[row],
            hop=hops.hop[row],
            visit=int(hops.visit[row]),
            model=hops.model[row],
            duration_s=float(hops.duration_s[row]),
            output_tokens=float(hops.output_tokens[row]),
            ttft_s=_known(hops.ttft_s[row]),
            usual_s=float(limits.flat_s[row]),
            expected_s=float(limits.finish_s[row]),
            expected_first_token_s=_known(limits.first_token_s[row]) if limits.observed[row] else None,
            blame=str(blamed[row]),
        )
        found.setdefault(int(hops.trajectory[row]), []).append(slow)
    return found


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _one(selection: Selection, trace_id: str, *, as_json: bool) -> int:
    with selection.open() as (con, where):
        detail = queries.trajectory(con, trace_id)
        profile = queries.profile(con, where.for_workload(detail["trajectory"]["workload"]))
    full_id = detail["trajectory"]["trace_id"]
    explained = next((row for row in of_profile(profile) if row.trace_id == full_id), None)
    if as_json:
        base.print_json(
            {
                "trajectories": [explained.as_json()] if explained else [],
                "deadline": of_trajectory(detail),
                "servers": servers.of_trajectory(detail),
            }
        )
    else:
        draw.one(base.console(), detail, explained)
    return Exit.DONE
