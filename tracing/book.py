"""What was resolved in this process: whose terms are which, out of code, environment, `hopbudget.toml` and plans.

Files and variables are looked at once a second at most, by whoever starts a trajectory: what changes is in force within
a second, and a start in between costs a look-up.
"""

import math
import os
from _thread import RLock
from typing import TYPE_CHECKING, Any, Final

from hopbudget.tracing import scope
from hopbudget.tracing.clock import NANOSECONDS
from hopbudget.tracing.fit import NO_TERMS, Fit, Terms
from hopbudget.tracing.settings import FILE, NO_CONFIG, Config, Environment, read_config, read_environment
from hopbudget.tracing.watched import Complaints, Watched

if TYPE_CHECKING:
    from hopbudget.tracing.plan import Plan

LOOK_EVERY_NS: Final = NANOSECONDS
MOST: Final = 512
"""How many resolved terms, and files of plans, are remembered."""


class Book:
    """What was resolved in this process, and the files that it came from."""

    def __init__(self) -> None:
        self.disabled = False
        # Whoever handles the log may begin a trajectory itself.
        self._lock = RLock()
        self.forget()

    def forget(self) -> None:
        """Forget everything but whether it is switched off."""
        self.complaints = Complaints()
        self.environment = Environment()
        self.config: Watched[Config] | None = None
        self._terms: dict[object, Terms] = {}
        self._plans: dict[str, Watched[Plan]] = {}
        self._fits: dict[int, Fit] = {}
        self._next_ns = 0

    def look(self) -> None:
        """Look at the variables and files, unless that was done within the last second."""
        if self._is_fresh():
            return
        # Only the first look is waited for: what was seen before is good enough meanwhile.
        if not self._lock.acquire(blocking=self.config is None):
            return
        try:
            if not self._is_fresh():
                self._look()
        finally:
            self._lock.release()

    def _is_fresh(self) -> bool:
        left_ns = self._next_ns - scope.setup.clock.now_ns()
        # A clock that was exchanged may stand anywhere.
        return self.config is not None and 0 < left_ns <= LOOK_EVERY_NS

    def _look(self) -> None:
        self._next_ns = scope.setup.clock.now_ns() + LOOK_EVERY_NS
        environment = read_environment(os.environ, self.complaints.say)
        changed = self._look_at_config(environment.config) or environment != self.environment
        self.environment = environment
        for watched in tuple(self._plans.values()):
            changed |= watched.look()
        if changed:
            self._terms = {}

    def _look_at_config(self, named: str | None) -> bool:
        path = named or FILE
        config = self.config
        if config is None or config.path != path:
            self.config = config = Watched(path, self._read_config)
            changed = True
        else:
            changed = config.look()
        if config.error and (named or not config.missing):
            self.complaints.say(f"{path} can't be used: {config.error}; what it said before, if anything, holds")
        return changed

    def _read_config(self, path: str) -> Config:
        import tomllib

        with open(path, "rb") as file:  # noqa: PTH123 - as in `watched`
            document = tomllib.load(file)
        return read_config(document, lambda sentence: self.complaints.say(f"{path}: {sentence}"))

    def off(self) -> bool:
        """Whether everything is switched off."""
        self.look()
        return self.disabled or self.environment.off

    def said(self) -> Config:
        """What the file says; what it said last, where it is broken now; nothing, where it was taken away."""
        config = self.config
        if config is None or config.missing:
            return NO_CONFIG
        return config.last or NO_CONFIG

    def terms(self, name: str, deadline_s: float | None, plan: Any, enforce: str | None) -> Terms:
        """The terms of a trajectory of this workload, or name, that starts now."""
        if self.off():
            return NO_TERMS
        key = (name, deadline_s, plan, enforce)
        found = self._terms.get(key)
        if found is None:
            if len(self._terms) >= MOST:
                self._terms = {}
            found = self._terms[key] = self._resolve(name, deadline_s, plan, enforce)
        return found

    def _resolve(self, name: str, deadline_s: float | None, plan: Any, enforce: str | None) -> Terms:
        said, file = self.environment, self.said().workload(name)
        sources: dict[str, str] = {}

        def first(what: str, *values: Any) -> Any:
            for value, source in zip(values, ("code", "environment", FILE, "plan"), strict=False):
                if value is not None:
                    sources[what] = source
                    return value
            return None

        named = first("plan", plan, said.plan, self._beside_config(file.plan))
        known, fit = (None, None) if named is None else self._plan(named)
        if known is not None and sources["plan"] == "environment" and known.workload not in {None, name}:
            # The variable names one plan for a whole process.
            known = fit = None
        limit = first("deadline", deadline_s, said.deadline_s, file.deadline_s, known and known.deadline_s)
        return Terms(
            math.inf if limit is None else float(limit),
            first("mode", enforce, said.mode, file.mode) or "observe",
            fit,
            max_steps=file.max_steps,
            hops=file.hops,
            sources=sources,
        )

    def _beside_config(self, plan: str | None) -> str | None:
        """A path in the file is relative to the file."""
        if plan is None or self.config is None:
            return None
        return os.path.join(os.path.dirname(self.config.path), plan)  # noqa: PTH118, PTH120

    def _plan(self, named: Any) -> "tuple[Plan | None, Fit | None]":
        """The plan to take a deadline from, which a broken file had before, and the one to go by."""
        if not isinstance(named, (str, os.PathLike)):
            return named, self._fit(named, named.id)
        path = os.fspath(named)
        watched = self._plans.get(path)
        if watched is None:
            if len(self._plans) >= MOST:
                self._plans = {}
            watched = self._plans[path] = Watched(path, _read_plan)
        if watched.error:
            self.complaints.say(f"{watched.error}; the bare deadline holds")
        return watched.last, None if watched.value is None else self._fit(watched.value, path)

    def _fit(self, plan: "Plan", source: str) -> Fit:
        found = self._fits.get(id(plan))
        if found is None or found.plan is not plan:
            if len(self._fits) >= MOST:
                self._fits = {}
            found = self._fits[id(plan)] = Fit(plan, source, self.complaints)
        return found

    def why_not(self, terms: Terms, plan: Any) -> str | None:
        """Why the plan that was named is not in use."""
        if terms.unfit or terms.plan is not None or "plan" not in terms.sources:
            return terms.unfit
        errors = [watched.error for path, watched in self._plans.items() if watched.error and plan in {None, path}]
        return errors[0] if errors else "it is another workload's"


def _read_plan(path: str) -> "Plan":
    from hopbudget.tracing.plan import Plan

    return Plan.read(path)


BOOK: Final = Book()
"""The one of this process."""
