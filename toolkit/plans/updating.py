"""`allocate --update`: an old plan, learned again with its own settings, beside the new one."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from hopbudget import budgets
from hopbudget.errors import UserError
from hopbudget.plans import files, planning
from hopbudget.render import base
from hopbudget.render import difference as draw
from hopbudget.reports.reading import Selection

_SECONDS: Final = "s"
_SHARE: Final = "share"
_PLAIN: Final = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that a plan says, before and after; None where it says nothing."""

    what: str
    unit: str
    """What the values are: seconds ("s"), a share ("share"), or neither ("")."""
    before: Any
    after: Any

    @property
    def changed(self) -> bool:
        """Whether a person would call it a change: more than a rounding error."""
        if isinstance(self.before, float | int) and isinstance(self.after, float | int):
            return abs(float(self.after) - float(self.before)) > 1e-6 * max(1.0, abs(float(self.before)))
        return bool(self.before != self.after)


def update(selection: Selection, asked: planning.Asked, old_path: Path, out: Path, *, as_json: bool) -> int:
    """Learn the plan again, print the difference, write the new one; the exit code is the new verdict's."""
    old = files.read(old_path)
    if selection.workload is None and old["workload"]:
        selection = replace(selection, workload=old["workload"])
    if old["workload"] and selection.workload != old["workload"] and out.resolve() == old_path.resolve():
        raise UserError(
            f"{old_path} is a plan of {old['workload']!r}, and would be overwritten by one of "
            f"{selection.workload!r}. Give --out another file, or leave out --workload."
        )
    wanted = settings(old, asked)
    workload, profile = planning.read(selection, wanted)
    allocation, plan = planning.made(workload, profile, wanted)
    lines = difference(old, plan)
    files.write(out, plan)
    if as_json:
        changes = [{"what": one.what, "before": one.before, "after": one.after} for one in lines if one.changed]
        base.print_json({"plan": plan, "changes": changes})
    else:
        screen = base.console()
        draw.difference(screen, old, plan, lines)
        screen.print(f"Written to {out}.", soft_wrap=True)
    return planning.EXIT[allocation.feasibility.verdict]


def settings(old: dict[str, Any], asked: planning.Asked) -> planning.Asked:
    """What was asked for now, and for the rest what the old plan was made with.

    A deadline that was a percentile is seconds in the plan; ask for the percentile again to learn it anew.
    """
    learned = old["learned_from"] or {}
    half_life_s, answer_s = learned.get("half_life_s"), old.get("answer_deadline_s")
    kept = {
        "deadline": f"{old['deadline_s']:f}s",
        "percentile": old["percentile"],
        "binds": _one_of(old["binds"], budgets.BINDS),
        "answer_deadline": None if answer_s is None else f"{answer_s:f}s",
        "method": _one_of(old["method"], budgets.METHODS),
        "slots": _one_of(old["slot_kind"], budgets.SLOT_KINDS),
        "unit": _one_of(learned.get("unit"), budgets.UNITS),
        "half_life": None if half_life_s is None else f"{half_life_s:f}s",
        "run_by": learned.get("run_by"),
    }
    return replace(asked, **{name: value for name, value in kept.items() if getattr(asked, name) is None})


def _one_of(word: Any, known: tuple[str, ...]) -> Any:
    if word is not None and word not in known:
        raise UserError(f"the plan says {word!r}, which is none of {', '.join(known)}")
    return word


def difference(old: dict[str, Any], new: dict[str, Any]) -> list[Line]:
    """What both plans say, side by side."""
    lines = [Line("deadline", _SECONDS, old["deadline_s"], new["deadline_s"])]
    before, after = ({slot["slot"]: slot["budget_s"] for slot in plan["slots"]} for plan in (old, new))
    lines += [Line(f"slot {name}", _SECONDS, before.get(name), after.get(name)) for name in {**before, **after}]
    lines.append(Line("work", _SECONDS, old["work_s"], new["work_s"]))
    for key, unit in (("budget_s", _SECONDS), ("ttft_s", _SECONDS), ("tpot_s", _SECONDS), ("tokens", _PLAIN)):
        name = key.removesuffix("_s")
        lines.append(Line(f"stream {name}", unit, _in(old, "stream", key), _in(new, "stream", key)))
    lines.append(Line("steps that fit", _PLAIN, old.get("max_steps"), new.get("max_steps")))
    lines.append(Line("split by", _PLAIN, _split_by(old), _split_by(new)))
    for words, table, key, unit in (
        ("in time", "feasibility", "p_deadline", _SHARE),
        ("smallest deadline", "feasibility", "min_deadline_s", _SECONDS),
        ("verdict", "feasibility", "verdict", _PLAIN),
        ("every budget kept", "kept", "share", _SHARE),
        ("trajectories", "learned_from", "trajectories", _PLAIN),
        ("runs", "learned_from", "runs", _PLAIN),
        ("newest", "learned_from", "last", _PLAIN),
    ):
        lines.append(Line(words, unit, _in(old, table, key), _in(new, table, key)))
    before_models, after_models = (", ".join(_in(plan, "learned_from", "models") or []) for plan in (old, new))
    lines.append(Line("models", _PLAIN, before_models, after_models))
    return [line for line in lines if line.before is not None or line.after is not None]


def _in(plan: dict[str, Any], table: str, key: str) -> Any:
    return (plan.get(table) or {}).get(key)


def _split_by(plan: dict[str, Any]) -> str | None:
    chosen = _in(plan, "auto", "method")
    return f"{plan['method']}: {chosen}" if chosen else plan["method"]
