"""`hopbudget check --plan`: has what a plan was learned from changed, since which trajectory, and in which cause?"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from hopbudget.budgets import Profile
from hopbudget.budgets.drifts import drift
from hopbudget.budgets.drifts.cusum import FALSE_ALARMS, WITHIN
from hopbudget.budgets.drifts.drift import Drift, Watched
from hopbudget.budgets.drifts.ratios import LEAST
from hopbudget.budgets.drifts.unlike import Unlike, unlike
from hopbudget.budgets.expectations import expected
from hopbudget.budgets.expectations.expected import Expectations
from hopbudget.errors import Exit, UserError
from hopbudget.plans import files
from hopbudget.render import base
from hopbudget.render import drift as draw
from hopbudget.reports.reading import Selection
from hopbudget.store import queries


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found of one plan."""

    plan: dict[str, Any]
    profile: Profile
    """What was looked at, and nothing else."""
    learned: int
    """How many trajectories the plan was learned from."""
    watched: Watched
    unlike: tuple[Unlike, ...]
    inside: bool
    """Nothing was newer: these are the trajectories that the plan was learned from."""

    @property
    def found(self) -> bool:
        """Something is not as the plan says."""
        return bool(self.watched.changes) or any(item.changes for item in self.unlike)

    @property
    def changed(self) -> bool | None:
        """The answer; None where what the plan was learned from was not steady itself, so that it can't be said."""
        return None if self.inside and self.found else self.found

    def trajectory(self, row: int) -> dict[str, Any]:
        """Which trajectory a row is."""
        t = self.profile.trajectories
        started = datetime.fromtimestamp(float(t.started_at[row]), UTC)
        return {"trace_id": str(t.trace_id[row]), "started_at": started.isoformat(timespec="seconds")}

    def as_json(self) -> dict[str, Any]:
        """The object of `--json`."""
        return {
            "workload": self.plan.get("workload"),
            "plan": self.plan.get("id"),
            "learned_from": self.learned,
            "trajectories": self.watched.n,
            "newer": not self.inside,
            "changed": self.changed,
            "false_alarms": {"share": FALSE_ALARMS, "within": WITHIN},
            "changes": [
                {
                    "cause": change.cause,
                    "way": change.way,
                    "since": self.trajectory(change.since),
                    "alarm": self.trajectory(change.at),
                    "trajectories": change.trajectories,
                    "before": change.before,
                    "after": change.after,
                    "lately": change.lately,
                }
                for change in self.watched.changes
            ],
            "new_names": [
                {
                    "kind": item.kind,
                    "name": item.name,
                    "share": item.share,
                    "since": self.trajectory(item.since),
                    "changed": item.changes,
                }
                for item in self.unlike
            ],
        }


def check_plan(selection: Selection, plan_path: Path, as_json: bool) -> int:
    """Compare trajectories with what a plan was learned from, and print it; 0 unchanged, 1 changed, 3 can't say.

    Where the source holds what the plan was learned from, only later trajectories are looked at, or those themselves
    where nothing is later; a change among those is no answer, for the recording was not steady itself.
    """
    plan = files.read(plan_path)
    learned, expectations = _learned(plan, plan_path)
    chosen = replace(selection, workload=selection.workload or plan.get("workload"))
    with chosen.open() as (con, where):
        profile = queries.profile(con, where)
    checked = _check(plan, learned, expectations, profile)
    if as_json:
        base.print_json(checked.as_json())
    else:
        draw.drift(base.console(), checked, chosen.heading, str(plan_path))
    if checked.changed is None:
        return Exit.CANT_SAY
    return Exit.NO if checked.changed else Exit.DONE


def _check(plan: dict[str, Any], learned: Drift, expectations: Expectations, profile: Profile) -> Checked:
    rows = drift.usable(profile)
    inside = False
    if learned.of_same_source(profile):
        newer = rows[np.floor(profile.trajectories.started_at[rows]) > _last(plan)]
        inside = len(newer) == 0
        rows = rows if inside else newer
    if len(rows) < drift.LEAST_NEW:
        raise UserError(
            f"Too few trajectories to say whether anything changed: {len(rows)} complete ones that are newer than the "
            f"plan, and it takes {drift.LEAST_NEW}.",
            Exit.CANT_SAY,
        )
    part = profile.take(rows)
    found = unlike(part, np.arange(len(part)), plan.get("fingerprint", {}))
    return Checked(plan, part, learned.n, drift.watch(part, learned, expectations), found, inside)


def _learned(plan: dict[str, Any], path: Path) -> tuple[Drift, Expectations]:
    try:
        return drift.from_plan(plan["drift"]), expected.from_plan(plan.get("expectations", ()))
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} does not say what to compare with: it has no usable section `drift`. It was learned from fewer "
            f"than {LEAST} trajectories, or by an older hopbudget; make it anew with `hopbudget allocate`.",
            Exit.CANT_SAY,
        ) from error


def _last(plan: dict[str, Any]) -> float:
    """The second in which the last trajectory began that the plan was learned from, since the Unix epoch."""
    last = plan.get("learned_from", {}).get("last")
    try:
        moment = last if isinstance(last, datetime) else datetime.fromisoformat(str(last))
    except ValueError:
        return float("-inf")
    return moment.timestamp()
