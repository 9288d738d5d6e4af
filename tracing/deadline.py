"""The deadline of the trajectory that runs now: how much is left of it, and what it is held by.

It travels in OpenTelemetry's context, so whatever carries that over to a task or a thread carries it too, also while
nothing is recorded.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from opentelemetry.context import Context, get_current

from hopbudget.tracing import scope
from hopbudget.tracing.clock import NANOSECONDS, seconds
from hopbudget.tracing.limits_cause import WORK, Ledger, Took, sentence

if TYPE_CHECKING:
    from hopbudget.tracing.blocks import TrajectoryBlock
    from hopbudget.tracing.hops import HopBlock
    from hopbudget.tracing.limits_guard import Guard
    from hopbudget.tracing.terms import Terms
    from hopbudget.tracing.visits import Visit


class Deadline:
    """The deadline of one trajectory. Its clock stands still while a pause is open.

    A trajectory inside of another has its own, and ends no later than the one around it: `at_ns` and `remaining_s` are
    the smaller of both. No deadline is `math.inf`.
    """

    __slots__ = (
        "_pause_ns", "_paused_ns", "_pauses", "alone", "fallen", "falls_ns", "hint", "ledger", "open_guards", "outer",
        "pressure", "started_ns", "terms", "trajectory", "visit", "watched",
    )  # fmt: skip

    def __init__(
        self,
        deadline_s: float = math.inf,
        terms: "Terms | None" = None,
        *,
        outer: "Deadline | None" = None,
        started_ns: int | None = None,
    ) -> None:
        """`deadline_s` counts from `started_ns` on the recorder's monotonic clock, from now unless given."""
        self.started_ns = scope.setup.clock.now_ns() if started_ns is None else started_ns
        self.terms = terms
        self.outer = outer
        self.visit = 0
        """Hops begun so far, those of trajectories inside of this one too."""
        self.hint: float | None = None
        """How many hops the application expects in all; None while it says nothing."""
        self.pressure: Callable[[Deadline], None] | None = None
        """Called when a hop begins, and when one has ended. Never raises."""
        self.trajectory: TrajectoryBlock | None = None
        """Whose it is; None where another process began it, and once it has ended."""
        self.ledger = Ledger(self.started_ns)
        """What its hops took so far."""
        self.falls_ns = math.inf if deadline_s == math.inf else self.started_ns + round(deadline_s * NANOSECONDS)
        """When it falls by itself, if no pause goes on."""
        self.fallen = False
        """Whether something was ended because it had passed."""
        self.open_guards: set[Guard] | None = None
        """Those of its open hops, if they are of interest to whoever holds the trajectory's own body."""
        self.watched: bool = outer is not None and outer.watched
        """Whether they are, here or in a trajectory around."""
        self.alone: bool = outer is None
        """Whether `falls_ns` is all there is to it: nothing around, and no pause."""
        self._paused_ns = 0
        self._pauses = 0
        self._pause_ns = 0
        scope.setup.limited = True

    @property
    def at_ns(self) -> float:
        """When it falls, in nanoseconds of the monotonic clock, if no pause goes on; `math.inf` for never."""
        own = self.falls_ns
        # Every hop passes here, some more than once.
        if self.alone:
            return own
        if self._pauses:
            own += scope.setup.clock.now_ns() - self._pause_ns
        return own if self.outer is None else min(own, self.outer.at_ns)

    def remaining_s(self) -> float:
        """Seconds left; negative once it has passed, `math.inf` without a deadline."""
        return float(self.at_ns - scope.setup.clock.now_ns()) / NANOSECONDS

    def elapsed_s(self) -> float:
        """Seconds since the trajectory began, its pauses taken out."""
        return seconds(scope.setup.clock.now_ns() - self.started_ns - self._stood_ns())

    def paused(self) -> bool:
        """Whether a pause is open."""
        return self._pauses > 0

    def pause(self) -> None:
        """The clock stands still from now on, that of the trajectories around too. Pauses may overlap."""
        if not self._pauses:
            self._pause_ns = scope.setup.clock.now_ns()
        self._pauses += 1
        self.alone = False
        if self.outer is not None:
            self.outer.pause()

    def resume(self) -> None:
        """One pause is over."""
        if self._pauses:
            self._pauses -= 1
            if not self._pauses:
                stood_ns = scope.setup.clock.now_ns() - self._pause_ns
                self._paused_ns += stood_ns
                self.falls_ns += stood_ns
                self.alone = self.outer is None
        if self.outer is not None:
            self.outer.resume()

    @property
    def steps_left(self) -> float | None:
        """Hops to come by what the application expects, that which began last included; at least one."""
        return None if self.hint is None else max(self.hint - self.visit + 1, 1.0)

    def begin_hop(self) -> None:
        """One more hop begins, and those who wait for the deadline to become tight are told."""
        self.visit += 1
        if self.pressure is not None:
            self.pressure(self)
        if self.outer is not None:
            self.outer.begin_hop()

    def intervene(self, word: str) -> None:
        """Something was done about the trajectory: mark it."""
        if self.trajectory is not None:
            self.trajectory.intervene(word)
        elif self.outer is not None:
            self.outer.intervene(word)

    def watch_hops(self) -> None:
        """Know from now on whether a hop is waited for."""
        self.open_guards = set()
        self.watched = True

    def hop_waits(self) -> bool:
        """Whether a hop is waited for right now, and can be ended."""
        return any(wait.asked_ns for guard in self.open_guards or () for wait in guard.waits)

    def fell(self) -> None:
        """Something was ended because it, or one around it, has passed."""
        self.fallen = True
        if self.outer is not None and self.outer.at_ns <= self.at_ns:
            self.outer.fell()

    def end_hop(self, visit: "Visit", name: str) -> None:
        """A call of the hops of this name has ended; those who wait are told again."""
        self.ledger.add(visit, name)
        if self.pressure is not None:
            self.pressure(self)
        if self.outer is not None:
            self.outer.end_hop(visit, name)

    def budget_s(self, name: str | None) -> float | None:
        """What the plan allots to the hops of this name, or to work, in seconds; None where it says nothing of them."""
        plan = None if self.terms is None else self.terms.plan
        if plan is None or name is None:
            return None
        return plan.work_s if name == WORK else plan.slots.get(name)

    def cause_so_far(self, here: Took | None = None) -> str | None:
        """Who overspent so far, and on what, in words. `here`: a hop that is open, up to now."""
        return sentence(self.ledger.spent(self.elapsed_s(), here), self.budget_s)

    def tightened(self, margin_s: float) -> "Deadline":
        """A deadline inside of this one that falls `margin_s` seconds earlier, and is held by the same terms."""
        return Deadline(max(self.remaining_s() - margin_s, 0.0), self.terms, outer=self)

    def _stood_ns(self) -> int:
        if not self._pauses:
            return self._paused_ns
        return self._paused_ns + scope.setup.clock.now_ns() - self._pause_ns


def current(context: Context | None = None) -> Deadline | None:
    """The innermost deadline in this context, the current one unless given; None if there is none."""
    found: Deadline | None = (get_current() if context is None else context).get(scope.DEADLINE)  # type: ignore[assignment]
    if found is None and scope.setup.home_deadline is not None:
        return scope.setup.home_deadline()
    return found


class RunningHop(Protocol):
    """The hop whose body this is."""

    @property
    def name(self) -> str | None:
        """The hop's name, None where it has none."""
        ...

    @property
    def model(self) -> str | None:
        """The model asked for, as far as it is known."""
        ...


def hop() -> RunningHop | None:
    """The hop whose body this is; None outside of one, and where nothing is recorded and there is no deadline."""
    place: Any = get_current().get(scope.PLACE)
    found: HopBlock | None = place if getattr(place, "visits", None) and not place.body_left else None
    return found


def within(deadline: Deadline, context: Context | None = None) -> Context:
    """The context, the current one unless given, with this deadline as its innermost."""
    return Context({**(get_current() if context is None else context), scope.DEADLINE: deadline})
