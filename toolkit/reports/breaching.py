"""`report --breaches`: which causes and hops the time past a deadline went to, and what late trajectories share."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hopbudget import budgets
from hopbudget.budgets.blame.breaches import Breaches, breaches
from hopbudget.budgets.blame.traits import MOST_LEVELS
from hopbudget.config.configuring import find, load
from hopbudget.errors import Exit, UserError
from hopbudget.plans.planning import resolve
from hopbudget.render import base
from hopbudget.render import breaches as draw
from hopbudget.reports.reading import Selection
from hopbudget.store import attributes, queries
from hopbudget.units import parse_percentile

if TYPE_CHECKING:
    import duckdb

    from hopbudget.budgets.profile import Words

_DEFAULT: Final = "p90"


@dataclass(frozen=True, slots=True)
class Explained:
    """The breaches of one workload, with what its rows are called."""

    workload: str
    deadline: str
    """Where the deadline came from, in words."""
    profile: budgets.Profile
    found: Breaches

    def as_json(self) -> dict[str, Any]:
        """The row of `--json`; times in seconds, shares of the excess."""
        b, t = self.found, self.profile.trajectories
        return {
            "workload": self.workload,
            "deadline_s": b.deadline_s,
            "deadline_from": self.deadline,
            "n": b.counted,
            "breached": b.breached,
            "late": b.late,
            "failed": b.failed,
            "left_out": b.left_out,
            "share": b.share,
            "low": b.low,
            "high": b.high,
            "excess_s": b.excess_s,
            "reference_s": b.reference.duration_s,
            "reference": b.reference.description,
            "causes": [
                {
                    "kind": cause.kind,
                    "seconds": cause.seconds,
                    "share": cause.share,
                    "low": cause.low,
                    "high": cause.high,
                    "n": cause.n,
                    "main_in": cause.main_in,
                    "levers": list(cause.levers),
                }
                for cause in b.causes
            ],
            "hops": [
                {"name": hop.name, "work": hop.work, "seconds": hop.seconds, "share": hop.share} for hop in b.hops
            ],
            "parts": [
                {
                    "kind": place.kind,
                    "name": place.name,
                    "seconds": place.seconds,
                    "share": place.share,
                    "main_in": place.main_in,
                }
                for place in b.places
            ],
            "servers_told": {"hops": b.told.hops, "of": b.told.of, "trajectories": b.told.trajectories},
            "in_common": [_common_json(common) for common in b.in_common],
            "comparisons": b.comparisons,
            "caution": b.caution,
            "trajectories": [
                {
                    "trace_id": t.trace_id[late.row],
                    "outcome": t.outcome[late.row],
                    "duration_s": late.duration_s,
                    "excess_s": late.excess_s,
                    "main": {"kind": late.kind, "name": late.name, "seconds": late.seconds},
                }
                for late in b.trajectories
            ],
        }


def _common_json(common: Any) -> dict[str, Any]:
    effect = common.effect
    return {
        "factor": common.factor,
        "level": common.level,
        "n_with": effect.n_with,
        "breached_with": effect.cases_with,
        "n_without": effect.n_without,
        "breached_without": effect.cases_without,
        "difference": effect.difference,
        "low": effect.low,
        "high": effect.high,
        "ratio": effect.ratio,
        "ratio_low": effect.ratio_low,
        "ratio_high": effect.ratio_high,
        "beyond_chance": effect.beyond_chance,
    }


def report_breaches(selection: Selection, *, deadline: str | None, as_json: bool) -> int:
    """Print why trajectories came late, by workload; returns the exit code."""
    with selection.open() as (con, where):
        names = [where.workload] if where.workload is not None else [name for name, _ in queries.workloads(con, where)]
        read = [(name, *read_workload(con, where.for_workload(name))) for name in names]
    explained = []
    why_not = ""
    for name, profile, words in read:
        try:
            explained.append(of_profile(name, profile, words, deadline))
        except budgets.CannotAllocateError as error:
            why_not = f"{name}: {error}"
    if not explained:
        raise UserError(f"There is nothing to compare breaches with: {why_not}.", Exit.CANT_SAY)
    if as_json:
        base.print_json({"workloads": [each.as_json() for each in explained]})
        return Exit.DONE
    out = base.console()
    for index, each in enumerate(explained):
        if index:
            out.print()
        draw.breaches(out, each)
    return Exit.DONE


def read_workload(con: "duckdb.DuckDBPyConnection", where: queries.Where) -> tuple[budgets.Profile, "dict[str, Words]"]:
    """The profile of one workload, and the attributes that may tell its trajectories apart."""
    names = attributes.keys(con, where, MOST_LEVELS)
    return queries.profile(con, where), attributes.columns(con, where, names)


def of_profile(workload: str, profile: budgets.Profile, words: "dict[str, Words]", deadline: str | None) -> Explained:
    """The breaches of one workload. Raises CannotAllocateError where there is nothing to compare with."""
    text, source = _deadline(workload, deadline)
    try:
        deadline_s = resolve(text, profile, "last")
    except UserError as error:
        if deadline is not None:
            raise
        raise budgets.CannotAllocateError(error.message.removesuffix(".")) from error
    return Explained(workload, source, profile, breaches(profile, deadline_s, words))


def _deadline(workload: str, given: str | None) -> tuple[str, str]:
    """What to take as the deadline, and where it comes from, in words."""
    if given is not None:
        return given, f"{given} attained" if parse_percentile(given) is not None else "as asked"
    path = find()
    for configured in load(path).workloads if path is not None else ():
        if configured.match.get("name", configured.name) == workload and configured.deadline_s is not None:
            return f"{configured.deadline_s!r}s", f"from {path}"
    return _DEFAULT, "p90 attained"
