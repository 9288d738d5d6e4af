"""`report --against`: every figure of two stores, filters or windows, and which differences are beyond chance."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hopbudget import budgets
from hopbudget.budgets.attainment.comparing import DRAWS, Comparison, Difference, compare
from hopbudget.budgets.numbers.words import by_chance
from hopbudget.errors import Exit, UserError
from hopbudget.render import base
from hopbudget.render import comparing as draw
from hopbudget.reports.reading import Selection, one_workload
from hopbudget.store import attributes, queries

if TYPE_CHECKING:
    from hopbudget.budgets.profile import Words

AUTO: Final = "auto"
NONE: Final = "none"
_TASKS: Final = ("task", "task_id", "case", "case_id", "test_case", "question_id", "item_id", "example_id")
"""What an attribute is called, after its last dot, that names the task of a trajectory."""
_MOST_VALUES: Final = 100_000
_FEWEST_SHARED: Final = 5


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison, as it is shown."""

    heading: str
    workload: str
    profile: budgets.Profile
    words: dict[str, "Words"]


@dataclass(frozen=True, slots=True)
class Compared:
    """Two sides and what differs."""

    this: Side
    other: Side
    pair_by: str | None
    found: Comparison

    @property
    def sentence(self) -> str:
        """Which differences are beyond their interval, in words."""
        beyond, n = self.found.beyond, self.found.compared
        if not n:
            return "There is too little on one side for any interval."
        told = ", ".join(name(each) for each in beyond) or "none"
        chance = f"{by_chance(n)} would be by chance alone"
        return f"Beyond their 95% interval: {told} ({len(beyond)} of {n}; {chance})."

    def as_json(self) -> dict[str, Any]:
        """The object of `--json`; times in seconds, `difference` is this minus other."""
        return {
            "this": {"source": self.this.heading, "workload": self.this.workload, "n": len(self.this.profile)},
            "other": {"source": self.other.heading, "workload": self.other.workload, "n": len(self.other.profile)},
            "paired_by": self.pair_by,
            "clusters_this": self.found.clusters_this,
            "clusters_other": self.found.clusters_other,
            "left_out_this": self.found.left_out_this,
            "left_out_other": self.found.left_out_other,
            "by_chunks_this": self.found.by_chunks_this,
            "by_chunks_other": self.found.by_chunks_other,
            "draws": DRAWS,
            "differences": [
                {
                    "metric": each.metric,
                    "statistic": each.statistic,
                    "hop": each.hop or None,
                    "this": each.this,
                    "other": each.other,
                    "difference": each.difference,
                    "low": each.low,
                    "high": each.high,
                    "n_this": each.n_this,
                    "n_other": each.n_other,
                    "beyond": each.beyond,
                }
                for each in self.found.differences
            ],
            "sentence": self.sentence,
        }


def name(each: Difference) -> str:
    """A figure in words."""
    words = {
        "trajectory_s": "trajectory time",
        "answer_start_s": "until the answer starts",
        "steps": "steps",
        "work_s": "work",
        "failed": "failed",
        "hop_s": "duration",
        "ttft_s": "TTFT",
        "tpot_s": "TPOT",
        "tokens": "output tokens",
    }
    statistic = {"p50": " p50", "p90": " p90", "mean": " (mean)", "share": ""}[each.statistic]
    return (f"{each.hop} " if each.hop else "") + words[each.metric] + statistic


def report_against(this: Selection, other: Selection, *, pair_by: str | None, as_json: bool) -> int:
    """Print both sides' figures and their differences; returns the exit code."""
    sides = (_side(this), _side(other))
    key = _pair_by(sides, pair_by)
    tasks = (sides[0].words[key], sides[1].words[key]) if key is not None else None
    found = compare(sides[0].profile, sides[1].profile, tasks)
    compared = Compared(*sides, key, found)
    if not found.differences:
        raise UserError("The two sides have no figure in common.", Exit.CANT_SAY)
    if as_json:
        base.print_json(compared.as_json())
    else:
        draw.comparison(base.console(), compared)
    return Exit.DONE


def _side(selection: Selection) -> Side:
    with selection.open() as (con, where):
        workload = one_workload(con, where, "A comparison is of one workload on each side.")
        chosen = where.for_workload(workload)
        profile = queries.profile(con, chosen)
        keys = attributes.keys(con, chosen, _MOST_VALUES)
        words = attributes.columns(con, chosen, keys)
    if not len(profile):
        raise UserError(f"{selection.heading}: no trajectory in it.", Exit.CANT_SAY)
    return Side(selection.heading, workload, profile, words)


def _pair_by(sides: tuple[Side, Side], asked: str | None) -> str | None:
    """The attribute that names the task on both sides; None where none does."""
    if asked == NONE:
        return None
    shared = {key: _shared(sides, key) for key in sides[0].words if key in sides[1].words}
    if asked is not None and asked != AUTO:
        if shared.get(asked, 0) < _FEWEST_SHARED:
            known = [key for key, n in shared.items() if n >= _FEWEST_SHARED]
            listed = f" These have: {', '.join(known)}." if known else ""
            raise UserError(
                f"The two sides share fewer than {_FEWEST_SHARED} values of {asked!r}, so it can't pair them.{listed}"
            )
        return asked
    candidates = {key: n for key, n in shared.items() if n >= _FEWEST_SHARED}
    if asked is None:
        candidates = {key: n for key, n in candidates.items() if key.rpartition(".")[2].lower() in _TASKS}
    return max(candidates, key=lambda key: (candidates[key], key), default=None)


def _shared(sides: tuple[Side, Side], key: str) -> int:
    here, there = (np.unique(side.words[key].astype(str)) for side in sides)
    both = np.intersect1d(here, there)
    return int(np.count_nonzero(both != ""))
