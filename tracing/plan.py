"""A plan file, read for an agent that runs: what fits, how it stands, how long to wait. No numpy, no arrays.

`hopbudget allocate --out plan.toml` writes it. Every answer here equals the one of `hopbudget.budgets` (by test); a
figure that the plan does not hold is None, never a guess.
"""

import math
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, Final, TypeVar

from hopbudget.tracing.lookups import Abort, Chance, FirstTokens, Pace, Steps

Made = TypeVar("Made")

FORMAT: Final = 1
"""The newest plan format that this version reads."""


class PlanError(ValueError):
    """The file is no plan that this version can read; the message is a sentence that says why."""


class Plan:
    """A deadline with everything learned for it. Read-only; safe to share between threads.

    `visit` is the number of the hop that begins (1 for the first of the trajectory, whatever its name), `elapsed_s` the
    seconds since the trajectory's start without pauses, `steps_left` the hops still to come, this one included.
    """

    __slots__ = (
        "_abort",
        "_caps",
        "_chance",
        "_steps",
        "_tokens",
        "_waits",
        "aborts",
        "base_rate",
        "deadline_s",
        "fingerprint",
        "format",
        "id",
        "max_steps",
        "percentile",
        "slots",
        "stream",
        "work_s",
        "workload",
    )

    id: str
    format: int
    workload: str | None
    deadline_s: float
    percentile: float
    slots: dict[str, float]
    """Slot to its seconds."""
    work_s: float
    stream: dict[str, Any] | None
    """The final stream's own budget: `ttft_s`, `tpot_s`, `tokens`, `budget_s` where known."""
    max_steps: int | None
    """How many hops fit in the whole deadline at the target."""
    fingerprint: dict[str, Any]
    """What the plan was learned from: models, agent versions, dependencies, prompt sizes."""
    base_rate: float | None
    """Share of the recorded trajectories that met this deadline: what to say without looking."""
    aborts: bool
    """True where giving up early was shown to save time; see `should_abort`."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.format = _format(content)
        self.deadline_s = _number(content, "deadline_s", above=0.0)
        self.id = str(content.get("id", ""))
        workload = content.get("workload")
        self.workload = None if workload is None else str(workload)
        self.percentile = _number(content, "percentile", default=90.0)
        self.slots = {row["slot"]: _number(row, "budget_s") for row in _rows(content, "slots") if "slot" in row}
        self.work_s = _number(content, "work_s", default=0.0)
        self.stream = dict(_table(content, "stream")) or None
        self.max_steps = None if content.get("max_steps") is None else int(_number(content, "max_steps"))
        self.fingerprint = dict(_table(content, "fingerprint"))
        chance = _table(content, "chance")
        self.base_rate = chance.get("base_rate")
        self._chance = _made(content, "chance", lambda: Chance(chance, self.deadline_s))
        self._abort = _made(content, "abort", lambda: Abort(_table(content, "abort")))
        self.aborts = self._abort is not None and self._abort.pays
        self._steps = _made(content, "steps", lambda: Steps(_table(content, "steps")))
        paces = {str(row.get("model")): row for row in _rows(content, "tokens")}
        self._tokens = _made(content, "tokens", lambda: {name: Pace(row) for name, row in paces.items()}) or {}
        waits: dict[str, list[Mapping[str, Any]]] = {}
        for row in _rows(content, "first_tokens"):
            waits.setdefault(str(row.get("model")), []).append(row)
        self._waits = _made(content, "first_tokens", lambda: {n: FirstTokens(rows) for n, rows in waits.items()}) or {}
        caps = _rows(content, "caps")
        self._caps = _made(content, "caps", lambda: {str(row["hop"]): int(row["tokens"]) for row in caps}) or {}

    @classmethod
    def read(cls, path: str | PathLike[str]) -> "Plan":
        """The plan in a file. Raises PlanError where it can't be read or is no plan."""
        import tomllib

        try:
            with open(path, "rb") as file:  # noqa: PTH123  pathlib is not loaded for this
                content = tomllib.load(file)
        except OSError as error:
            raise PlanError(f"can't read the plan {path}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise PlanError(f"{path} is not a TOML file: {error}") from error
        try:
            return cls(content)
        except PlanError as error:
            raise PlanError(f"{path}: {error}") from None

    def chance(self, visit: int, elapsed_s: float, steps_left: float | None = None) -> float | None:
        """P(the deadline is met), at the start of this visit; None where it says no more than `base_rate` does."""
        return None if self._chance is None else self._chance.said(visit, elapsed_s, steps_left)

    def steps_left(self, elapsed_s: float, at: float = 0.9) -> int | None:
        """How many more hops fit in what is left, each whole, `at` of the time; None where that is not known."""
        return None if self._steps is None else self._steps.left(self.deadline_s - elapsed_s, at)

    def tokens_left(self, model: str, elapsed_s: float, at: float = 0.9) -> int | None:
        """How many output tokens of a hop of this model that begins now fit in what is left, `at` of the time."""
        pace = self._tokens.get(model)
        return None if pace is None else pace.left(self.deadline_s - elapsed_s, at)

    def first_token_after(self, model: str, prompt_tokens: float | None = None, q: float = 0.99) -> float | None:
        """Seconds within which a share q of first tokens of this model came, for prompts of this size."""
        wait = self._waits.get(model)
        return None if wait is None else wait.after_s(prompt_tokens, q)

    def max_tokens(self, hop: str) -> int | None:
        """The cap on output tokens that the plan proposes for this hop; None where it proposes none."""
        return self._caps.get(hop)

    def should_abort(self, visit: int, elapsed_s: float, steps_left: float | None = None) -> bool:
        """True where what is left is too little and giving up now was shown to pay; False where `aborts` is."""
        return self._abort is not None and self._abort.gives_up(self._chance, visit, elapsed_s, steps_left)


def _format(content: Mapping[str, Any]) -> int:
    found = content.get("format")
    if not isinstance(found, int) or isinstance(found, bool):
        raise PlanError("this is not a plan: it has no whole number `format`; `hopbudget allocate --out` writes plans")
    if found > FORMAT:
        raise PlanError(f"format {found} is newer than this hopbudget reads ({FORMAT}); upgrade hopbudget")
    return found


def _number(table: Mapping[str, Any], key: str, *, default: float | None = None, above: float | None = None) -> float:
    value = table.get(key, default)
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not good or value < 0 or (above is not None and value <= above):
        raise PlanError(f"`{key}` must be a {'positive ' if above is not None else ''}number, not {value!r}")
    return float(value)


def _made(content: Mapping[str, Any], key: str, make: Callable[[], Made]) -> Made | None:
    """What a section says; None where there is none. Raises PlanError where it was not written by hopbudget."""
    if not content.get(key):
        return None
    try:
        return make()
    except (KeyError, TypeError, ValueError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise PlanError(
            f"`{key}` is not as hopbudget writes it ({what}); `hopbudget allocate --out` writes it anew"
        ) from error


def _table(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = content.get(key, {})
    if not isinstance(value, Mapping):
        raise PlanError(f"`{key}` must be a table")
    return value


def _rows(content: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = content.get(key, [])
    if not isinstance(value, list) or not all(isinstance(row, Mapping) for row in value):
        raise PlanError(f"`{key}` must be an array of tables")
    return value
