"""Which terms a trajectory runs on: what the code says goes before the environment, that before `hopbudget.toml`, that
before the plan. And whether they are in force at all.
"""

import math
import os
from typing import TYPE_CHECKING, NamedTuple

from hopbudget.tracing import scope
from hopbudget.tracing.fit import NO_TERMS, Terms
from hopbudget.tracing.modes import HopTerms, Mode, is_mode

if TYPE_CHECKING:
    from hopbudget.tracing.book import Book
    from hopbudget.tracing.plan import Plan

__all__ = [
    "NO_TERMS",
    "HopTerms",
    "Mode",
    "Status",
    "Terms",
    "check_arguments",
    "complain",
    "deadline_status",
    "disable",
    "enable",
    "hosts",
    "look_again",
    "off",
    "positive",
    "terms",
]


class Status(NamedTuple):
    """What holds for a workload, and where it was taken from."""

    deadline_s: float
    """`math.inf` where there is none."""
    mode: Mode
    plan: str | None
    """The id of the plan in use."""
    not_used: str | None
    """Why a plan that was named is not in use."""
    sources: dict[str, str]
    """Of `deadline`, `mode` and `plan`: code, environment, hopbudget.toml or plan."""
    off: bool
    warnings: tuple[str, ...]
    """All that was said about configuration and plans in this process."""


_opened: "Book | None" = None


def _book() -> "Book":
    """The process's own, loaded when something is first asked of it."""
    global _opened  # noqa: PLW0603
    if _opened is None:
        from hopbudget.tracing.book import BOOK

        _opened = BOOK
    return _opened


def terms(
    name: str,
    *,
    deadline_s: float | None = None,
    plan: "str | os.PathLike[str] | Plan | None" = None,
    enforce: str | None = None,
) -> Terms:
    """The terms of a trajectory of this workload, or name, that starts now. Never raises."""
    try:
        return _book().terms(name, deadline_s, plan, enforce)
    except Exception:
        scope.recorder_failed()
        return NO_TERMS


def deadline_status(
    name: str,
    *,
    deadline_s: float | None = None,
    plan: "str | os.PathLike[str] | Plan | None" = None,
    enforce: str | None = None,
) -> Status:
    """What holds for a trajectory of this workload, or name, and why; the rest as given to `trajectory`."""
    check_arguments(deadline_s=deadline_s, plan=plan, enforce=enforce)
    found = terms(name, deadline_s=deadline_s, plan=plan, enforce=enforce)
    named = os.fspath(plan) if isinstance(plan, (str, os.PathLike)) else None
    return Status(
        found.deadline_s,
        found.mode,
        None if found.plan is None else found.plan.id,
        _book().why_not(found, named),
        dict(found.sources),
        off(),
        _book().complaints.said,
    )


def check_arguments(
    *, deadline_s: object = None, plan: object = None, enforce: object = None, max_steps: object = None
) -> None:
    """What the code says, checked where it says it. Raises TypeError or ValueError, saying what would be right."""
    if deadline_s is not None:
        positive("deadline_s", deadline_s, endless=True)
    if plan is not None and not isinstance(plan, (str, os.PathLike)) and not hasattr(plan, "deadline_s"):
        raise TypeError(f"plan is the path of a plan file, or a Plan, not {plan!r}")
    if enforce is not None and not is_mode(enforce):
        raise ValueError(f'enforce is "observe", "deadline" or "abort", not {enforce!r}')
    if max_steps is not None:
        if not isinstance(max_steps, int) or isinstance(max_steps, bool):
            raise TypeError(f"max_steps is a whole number of hops, not {max_steps!r}")
        if max_steps < 1:
            raise ValueError(f"max_steps is at least 1, not {max_steps}")


def positive(what: str, value: object, *, endless: bool = False) -> None:
    """Raises TypeError or ValueError unless it is a number of seconds above 0; `endless`: infinity is one too."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"{what} is a number of seconds, not {value!r}")
    if not value > 0 or (math.isinf(value) and not endless):
        raise ValueError(f"{what} is a number of seconds above 0, not {value!r}")


def off() -> bool:
    """Whether `disable` or HOPBUDGET_OFF switched off all that acts and advises."""
    return _book().off()


def disable() -> None:
    """Switch off, in this process and at once, all that acts or advises: limits, fail-over, headers, answers.

    Recording goes on.
    """
    _book().disabled = True


def enable() -> None:
    """Take `disable` back. HOPBUDGET_OFF holds on."""
    _book().disabled = False


def hosts() -> tuple[str, ...]:
    """The hosts that the remaining time may be sent to, by the environment and `hopbudget.toml`."""
    _book().look()
    return _book().environment.hosts + _book().said().hosts


def complain(sentence: str) -> None:
    """Say something about the configuration in the log, once."""
    _book().complaints.say(sentence)


def look_again() -> None:
    """Forget what variables and files said, and what was said about them, so that the next start reads them again."""
    _book().forget()
