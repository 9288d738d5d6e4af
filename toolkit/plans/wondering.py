"""`allocate --what-if`: what one change does to the chance of a deadline, and to the smallest that would do."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from hopbudget import budgets
from hopbudget.budgets.feasibility.whatif import Change, WhatIf
from hopbudget.budgets.feasibility.whatif import what_if as work_out
from hopbudget.errors import Exit, UserError
from hopbudget.plans import planning
from hopbudget.render import base
from hopbudget.render import whatif as draw
from hopbudget.reports.reading import Selection

_FORM: Final = re.compile(r"(?P<name>.+):(?P<kind>tokens|scale|model)=(?P<value>.+)")


def what_if(selection: Selection, asked: planning.Asked, changes: Sequence[str], *, as_json: bool) -> int:
    """Print the effect of each change alone; returns the exit code."""
    if asked.binds == "both":
        raise UserError("--what-if answers for one end: give --binds last or answer.")
    wanted = [parse(text) for text in changes]
    workload, profile = planning.read(selection, asked)
    try:
        deadline_s = planning.seconds_of(asked, profile)
        found = [
            work_out(profile, change, deadline_s, percentile=asked.share, binds=asked.binds or "last")
            for change in wanted
        ]
    except budgets.CannotAllocateError as error:
        raise UserError(f"{workload}: {error}", Exit.CANT_SAY) from error
    except ValueError as error:
        raise UserError(f"{workload}: {error}.") from error
    if as_json:
        rows = [as_dict(text, one) for text, one in zip(changes, found, strict=True)]
        base.print_json({"workload": workload, "deadline_s": deadline_s, "percentile": asked.share, "what_if": rows})
    else:
        draw.what_if(base.console(), workload, deadline_s, asked.share, list(zip(changes, found, strict=True)))
    return Exit.DONE


def parse(text: str) -> Change:
    """A change as it is written: `plan:tokens=200`, `search:scale=0.6`, `drop:verify` or `plan:model=other`."""
    if text.startswith("drop:") and len(text) > len("drop:"):
        return Change("drop", text.removeprefix("drop:"))
    match = _FORM.fullmatch(text)
    if match is None:
        raise UserError(
            f"--what-if {text!r} is no change; write NAME:tokens=200, NAME:scale=0.6, drop:NAME or NAME:model=OTHER."
        )
    name, kind, value = match["name"], match["kind"], match["value"]
    if kind == "model":
        return Change("model", name, value)
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not (number >= 1 if kind == "tokens" else number >= 0) or number == float("inf"):
        what = "a number of tokens, 1 or more" if kind == "tokens" else "a factor, 0 or more"
        raise UserError(f"--what-if {text!r}: {value!r} is not {what}.")
    return Change("tokens" if kind == "tokens" else "scale", name, number)


def as_dict(text: str, found: WhatIf) -> dict[str, object]:
    """The row of `--json`; times in seconds."""
    return {
        "change": text,
        "changed": found.changed,
        "trajectories": found.trajectories,
        "before": asdict(found.before),
        "after": asdict(found.after),
        "min_deadline_before_s": found.min_before_s,
        "min_deadline_after_s": found.min_after_s,
        "min_deadline_after_low_s": found.min_after_low_s,
        "min_deadline_after_high_s": found.min_after_high_s,
        "assumption": found.assumption,
    }
