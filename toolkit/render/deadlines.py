"""What became of deadlines and limits, in words: over many trajectories in `report`, of one in `explain`."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from hopbudget.render import base
from hopbudget.units import count, plural, seconds, share

LIMIT: Final[Mapping[str, str]] = {"first_token": "first token"}
"""Limits whose name is another in words."""
_MOST_HOPS: Final = 24


def over_many(out: Console, held: Mapping[str, Any]) -> None:
    """Draw the counts of `deadlines.held`; nothing where no deadline, limit or decision was recorded."""
    lines = _lines(held)
    if lines:
        out.print(Text("Deadlines and limits", style="bold"))
        for line in lines:
            out.print(Text(line))
        out.print()


def _lines(held: Mapping[str, Any]) -> list[str]:
    lines = []
    if held["with_deadline"]:
        of = f"{plural(held['with_deadline'], 'trajectory', 'trajectories')} had a deadline"
        left_out = f", {count(held['left_out'])} cut short before it" if held["left_out"] else ""
        lines.append(f"{of}: {count(held['met'])} met it, {count(held['missed'])} missed it{left_out}")
    if held["limits"]:
        lines.append(f"limits ended {_hops(held['limits'])}")
    if held["beyond"]:
        lines.append(f"{_hops(held['beyond'])} went beyond a limit that was not held")
    if held["refused"]:
        lines.append(f"{plural(held['refused'], 'hop', 'hops')} refused: not sent, for want of time")
    if held["intervened"]:
        part = share(held["intervened"] / held["trajectories"])
        of = f"{count(held['intervened'])} of {count(held['trajectories'])} ({part}; the next plan leaves them out)"
        lines.append(f"intervened in {of}{_counted(_decided(held), ': ')}")
    return lines


def _hops(by_limit: Mapping[str, int]) -> str:
    return f"{plural(sum(by_limit.values()), 'hop', 'hops')} ({_counted(by_limit)})"


def _decided(held: Mapping[str, Any]) -> dict[str, int]:
    """The decisions by their kind, in the words of `_completion`."""
    called = _completion([*held["limits"], *held["beyond"]])
    named = [(called if name == "completion" else name, n) for name, n in held["decisions"].items()]
    return {name: sum(n for other, n in named if other == name) for name, _ in named}


def _completion(limits: Sequence[str | None]) -> str:
    """What to call a decision recorded as completion, of a call that its own limit or the deadline ended."""
    if "deadline" not in limits:
        return "completion"
    return "completion or deadline" if "completion" in limits else "deadline"


def _counted(by_name: Mapping[str, int], before: str = "") -> str:
    words = ", ".join(f"{LIMIT.get(name, name)} {count(n)}" for name, n in by_name.items())
    return before + words if words else ""


def of_one(out: Console, told: Mapping[str, Any]) -> None:
    """Draw what `deadlines.of_trajectory` tells: the deadline, what was done about it, what each hop had left."""
    if told["deadline_s"] is not None:
        out.print(_deadline(told))
    if told["decisions"]:
        called = _completion([hop["limit_hit"] for hop in told["hops"]])
        said = [re.sub(r"\bcompletion$", called, decision) for decision in told["decisions"]]
        out.print(Text(f"intervened: {', '.join(said)}", style=base.OVER))
    if any(hop["remaining_s"] is not None or hop["limit_hit"] is not None for hop in told["hops"]):
        _hops_table(out, told["hops"])
    elif told["deadline_s"] is None and not told["decisions"]:
        return
    out.print()


def _deadline(told: Mapping[str, Any]) -> Text:
    left_s = told["deadline_s"] - told["duration_s"]
    how = {"observe": ", observed", None: ""}.get(told["enforce"], f", held ({told['enforce']})")
    plan = f", plan {told['plan']}" if told["plan"] else ""
    if told["ended"] == "met":
        said = f"met, with {seconds(left_s)} left"
    else:
        said = f"missed by {seconds(-left_s)}" if left_s < 0 else f"{told['outcome']} with {seconds(left_s)} left"
    words = f"deadline {seconds(told['deadline_s'])}{how}{plan}: {said}"
    return Text(words, style="" if told["ended"] == "met" else base.OVER)


def _hops_table(out: Console, hops: Sequence[Mapping[str, Any]]) -> None:
    budgets = any(hop["budget_s"] is not None for hop in hops)
    rows = base.table("hop", "left at its start", *(["budget"] if budgets else []), "took", "")
    rows.columns[-1].justify = "left"
    rows.padding = (0, 2, 0, 0)
    for hop in hops[:_MOST_HOPS]:
        over = hop["budget_s"] is not None and hop["duration_s"] > hop["budget_s"]
        rows.add_row(
            base.name(f"{hop['hop']} #{hop['visit']}" if hop["visit"] > 1 else hop["hop"], 24),
            seconds(hop["remaining_s"]),
            *([seconds(hop["budget_s"])] if budgets else []),
            Text(seconds(hop["duration_s"]), style=base.OVER if over else ""),
            Text(_limit(hop), style=base.OVER),
        )
    out.print(rows)
    if len(hops) > _MOST_HOPS:
        out.print(Text(f"and {plural(len(hops) - _MOST_HOPS, 'more hop', 'more hops')}", style=base.QUIET))


def _limit(hop: Mapping[str, Any]) -> str:
    if hop["outcome"] == "refused":
        return "not sent"
    limit = hop["limit_hit"]
    if limit is None:
        return ""
    name = "the deadline" if limit == "deadline" else f"its {LIMIT.get(limit, limit)} limit"
    return f"ended by {name}" if hop["outcome"] == "timed_out" else f"beyond {name}, not held"
