"""The `allocate` command: a deadline, read or taken from a percentile, becomes a plan that is drawn and written."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hopbudget import budgets, units
from hopbudget.budgets.groups.conversation import by_conversation
from hopbudget.budgets.population import thinned
from hopbudget.budgets.run_time.knowledge import learn
from hopbudget.errors import Exit, UserError
from hopbudget.plans import files
from hopbudget.render import base
from hopbudget.render import plan as draw
from hopbudget.reports.reading import Selection, one_workload
from hopbudget.store import queries

EXIT: Final = {"feasible": Exit.DONE, "infeasible": Exit.NO, "undecided": Exit.CANT_SAY}


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked of a plan, as it was written; None for what was not said."""

    deadline: str | None = None
    percentile: float | None = None
    binds: budgets.Binds | None = None
    answer_deadline: str | None = None
    method: budgets.Method | None = None
    slots: budgets.SlotKind | None = None
    unit: budgets.Unit | None = None
    half_life: str | None = None
    run_by: str | None = None

    @property
    def share(self) -> float:
        """The percentile aimed at, 0 to 100."""
        percentile = 90.0 if self.percentile is None else self.percentile
        if percentile < 1:
            raise UserError(f"--percentile is out of 100: write {percentile * 100:g}, not {percentile:.10g}.")
        return percentile

    def check(self) -> None:
        """UserError for a mistake that can be named before anything is read."""
        _ = self.share, self.half_life_s, self.answer_deadline_s

    @property
    def half_life_s(self) -> float | None:
        """The half-life in seconds."""
        return None if self.half_life is None else units.parse_duration(self.half_life, "--half-life")

    @property
    def answer_deadline_s(self) -> float | None:
        """The deadline of the first answer token in seconds, where both ends bind."""
        if (self.binds == "both") != (self.answer_deadline is not None):
            raise UserError("--binds both and --answer-deadline go together: give both, or neither.")
        return None if self.answer_deadline is None else units.parse_duration(self.answer_deadline, "--answer-deadline")


def read(selection: Selection, asked: Asked) -> tuple[str, budgets.Profile]:
    """The workload, and its trajectories in the unit that was asked for."""
    with selection.open() as (con, where):
        workload = one_workload(con, where, "A plan is for one workload.")
        profile = queries.profile(con, where.for_workload(workload), run_by=asked.run_by)
    return workload, by_conversation(profile) if asked.unit == "conversation" else profile


def allocate(selection: Selection, asked: Asked, *, out: Path | None, as_json: bool) -> int:
    """Allot the deadline and print (and write) the plan; the exit code is the verdict's."""
    asked.check()
    workload, profile = read(selection, asked)
    allocation, plan = made(workload, profile, asked)
    if out is not None:
        files.write(out, plan)
    show(plan, allocation, workload, out, as_json=as_json)
    return EXIT[allocation.feasibility.verdict]


def made(workload: str, profile: budgets.Profile, asked: Asked) -> tuple[budgets.Allocation, dict[str, Any]]:
    """The allocation, and the plan with all that was learned beside it."""
    binds = asked.binds or "last"
    try:
        deadline_s = files.stated_s(seconds_of(asked, profile))
        answer_s = asked.answer_deadline_s
        if answer_s is not None and answer_s > deadline_s:
            raise UserError(
                f"--answer-deadline {units.seconds(answer_s)} is after the deadline, {units.seconds(deadline_s)}: the "
                "first answer token comes before the last token."
            )
        allocation = budgets.allocate(
            profile,
            deadline_s,
            percentile=asked.share,
            binds=binds,
            method=asked.method or "auto",
            slots=asked.slots or "name",
            answer_deadline_s=None if answer_s is None else files.stated_s(answer_s),
            half_life_s=asked.half_life_s,
            unit=asked.unit or "request",
        )
        seen = profile if asked.half_life_s is None else thinned(profile, asked.half_life_s)
        knowledge = learn(seen, deadline_s, asked.share, "last" if binds == "both" else binds)
    except budgets.CannotAllocateError as error:
        raise UserError(f"{workload}: {error}", Exit.CANT_SAY) from error
    except ValueError as error:
        raise UserError(f"{workload}: {error}.") from error
    return allocation, files.plan_dict(allocation, workload, knowledge, asked.run_by)


def seconds_of(asked: Asked, profile: budgets.Profile) -> float:
    """The deadline that was asked for, in seconds; that of the last token where both ends bind."""
    if asked.deadline is None:
        raise UserError("Give --deadline, in seconds (12s) or as a percentile of what was recorded (p90).")
    binds = "last" if asked.binds == "both" else asked.binds or "last"
    return resolve(asked.deadline, profile, binds, asked.half_life_s)


def resolve(deadline: str, profile: budgets.Profile, binds: budgets.Binds, half_life_s: float | None = None) -> float:
    """Seconds of a deadline given as a duration or as a percentile of the recorded trajectories."""
    percentile = units.parse_percentile(deadline)
    if percentile is None:
        return units.parse_duration(deadline, "--deadline")
    found = budgets.deadline_at(profile, percentile, binds, half_life_s)
    if found == float("inf"):
        raise UserError(no_number(percentile), Exit.NO)
    return found


def no_number(percentile: float) -> str:
    """What is said of a percentile that failures make infinite."""
    return (
        f"p{percentile:.10g} of the recorded trajectories is no number: too many of them failed. "
        "Give --deadline in seconds, or a lower percentile."
    )


def show(
    plan: dict[str, Any], allocation: budgets.Allocation, workload: str, written: Path | None, *, as_json: bool
) -> None:
    """Print the plan as JSON, or draw it for a person."""
    if as_json:
        base.print_json(plan)
        return
    screen = base.console()
    draw.plan(screen, allocation, workload, plan)
    if written is not None:
        screen.print(f"Written to {written}.", soft_wrap=True)
