"""The terms a trajectory runs on, and whether its plan fits what is seen to run."""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from hopbudget.tracing.modes import NO_LIMITS, HopTerms, Mode
from hopbudget.tracing.vocabulary import CHAT

if TYPE_CHECKING:
    from hopbudget.tracing.plan import Plan
    from hopbudget.tracing.watched import Complaints


class Fit:
    """One reading of a plan, until something is seen that it was not made for; then `reason` says what."""

    __slots__ = ("_complaints", "_hops", "_models", "_plain", "_source", "plan", "reason")

    def __init__(self, plan: "Plan", source: str, complaints: "Complaints") -> None:
        from hopbudget.tracing.models import plain

        self.plan = plan
        self.reason: str | None = None
        self._plain = plain
        self._hops = _words(plan.fingerprint.get("hops"))
        self._models = frozenset(map(plain, _words(plan.fingerprint.get("models"))))
        self._source = source
        self._complaints = complaints

    def see(self, hop: str | None, model: str | None) -> None:
        """A hop of this name begins, on this model."""
        if self.reason is not None:
            return
        if hop is not None and self._hops and hop not in self._hops:
            self.reason = f"it knows no hop {hop!r}"
        elif model is not None and self._models and self._plain(model) not in self._models:
            self.reason = f"it was not learned on the model {model!r}"
        else:
            return
        self._complaints.say(
            f"the plan {self._source} does not fit: {self.reason}; the bare deadline holds "
            "(`hopbudget allocate` makes a new plan)"
        )


def _fit_of(plan: "Plan") -> Fit:
    from hopbudget.tracing.watched import Complaints

    return Fit(plan, plan.id, Complaints())


def _words(value: Any) -> frozenset[str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        return frozenset()
    return frozenset(word for word in value if isinstance(word, str))


class Terms:
    """What one trajectory runs on: `deadline_s` (`math.inf` = none), how it is held, its plan and its hops' limits."""

    __slots__ = ("_fit", "bare", "deadline_s", "hops", "max_steps", "mode", "sources")

    def __init__(
        self,
        deadline_s: float = math.inf,
        mode: Mode = "observe",
        plan: "Plan | Fit | None" = None,
        *,
        max_steps: int | None = None,
        hops: Mapping[str, HopTerms] | None = None,
        sources: Mapping[str, str] | None = None,
    ) -> None:
        self.deadline_s = deadline_s
        self.mode: Mode = mode
        self.max_steps = max_steps
        self.hops: Mapping[str, HopTerms] = hops or {}
        self.sources: Mapping[str, str] = sources or {}
        self._fit = plan if plan is None or isinstance(plan, Fit) else _fit_of(plan)
        self.bare = self._fit is None and not self.hops
        """Nothing is said of its hops."""

    @property
    def plan(self) -> "Plan | None":
        """The plan; None where there is none, or something was seen that it does not fit."""
        fit = self._fit
        return None if fit is None or fit.reason is not None else fit.plan

    @property
    def silent(self) -> bool:
        """Whether it says nothing at all: no deadline, and nothing that acts, knows, or bounds."""
        return self.bare and self.deadline_s == math.inf and self.mode == "observe" and self.max_steps is None

    @property
    def unfit(self) -> str | None:
        """Why the plan does not fit; None while it does."""
        return None if self._fit is None else self._fit.reason

    def see(self, hop: str | None, model: str | None) -> None:
        """A hop of this name runs on this model, either None if that is not known: does the plan fit?"""
        if self._fit is not None:
            self._fit.see(hop, model)

    def hop(self, name: str | None, model: str | None = None, operation: str = CHAT) -> HopTerms:
        """The limits of a hop that begins now; one without a name is called as its operation is."""
        self.see(name, model)
        return self.hops.get(operation if name is None else name, NO_LIMITS)


NO_TERMS: Final = Terms()
