"""Ending the body of a trajectory at its deadline, where no hop of it is there to be ended: in a tool, between hops.

Only where a task can be cancelled. A hop that is awaited then is ended in place of it, and what the application does
about that is its own affair, and is not cut short again.
"""

import math
from typing import TYPE_CHECKING, Any, Final

from hopbudget.tracing import scope
from hopbudget.tracing import vocabulary as v
from hopbudget.tracing.deadline import Deadline, current, within
from hopbudget.tracing.limits import NEVER_NS, Due, Place
from hopbudget.tracing.limits_asked import NOTHING_ASKED
from hopbudget.tracing.limits_errors import CompletionTimeout, DeadlineExceeded, lateness
from hopbudget.tracing.limits_guard import Guard
from hopbudget.tracing.limits_loop import NOBODY, running_task
from hopbudget.tracing.limits_waits import Wait
from hopbudget.tracing.modes import MODES, NO_LIMITS

if TYPE_CHECKING:
    from hopbudget.tracing.blocks import TrajectoryBlock
    from hopbudget.tracing.terms import Terms
    from hopbudget.tracing.visits import Visit

_RULES: Final = {mode: NOTHING_ASKED.rules(NO_LIMITS, mode) for mode in MODES}
"""Those of its hops are not its own."""


def load() -> None:
    """Nothing but that all of it is loaded by now, and not in the first request."""


def deadline_of(terms: "Terms", max_steps: int | None) -> Deadline | None:
    """The deadline of a trajectory that begins now, on these terms; None where nothing is said and none is around."""
    outer = current() if scope.setup.limited else None
    if outer is None and terms.silent:
        return None
    deadline = Deadline(terms.deadline_s, terms, outer=outer)
    deadline.hint = terms.max_steps if max_steps is None else max_steps
    return deadline


def attributes(deadline: Deadline, terms: "Terms") -> dict[str, Any]:
    """What is told of it on the trajectory's span."""
    found: dict[str, Any] = {v.ENFORCE: terms.mode}
    remaining_s = deadline.remaining_s()
    if remaining_s < math.inf:
        # What is left by now of a deadline from outside, the own one else to the digit.
        found[v.DEADLINE] = terms.deadline_s if deadline.outer is None else min(terms.deadline_s, remaining_s)
    if terms.plan is not None:
        found[v.PLAN] = terms.plan.id
    return found


def take_hold(block: "TrajectoryBlock", deadline: Deadline) -> None:
    """The trajectory begins under its deadline."""
    deadline.trajectory = block
    block.context = within(deadline, block.context)
    if deadline.terms is not None and deadline.terms.mode != "observe":
        block.guard = TrajectoryGuard(block, deadline, deadline.terms.mode)


class TrajectoryGuard(Guard):
    """The deadline of one trajectory, and the wait of its body."""

    def __init__(self, block: "TrajectoryBlock", deadline: Deadline, mode: str) -> None:
        super().__init__(_RULES[mode], deadline.outer)
        self.block = block
        self.own = deadline

    def hold(self, *, looped: bool) -> DeadlineExceeded | None:
        """The body begins; nothing is raised, because it may have no hop in it. `looped`: as of a hop's guard."""
        task, _ = running_task() if looped else NOBODY
        if task is not None:
            self.steps()
            wait, now_ns = self.waits[-1], self.now_ns()
            wait.enters(task, now_ns, self.own.at_ns)
            self.arm(wait.loop, wait.next_ns, now_ns)
        return None

    def steps(self) -> None:
        """The body is a generator, and is held in each of its steps."""
        self.own.watch_hops()
        self.block.wait = TrajectoryWait(self, self.own)

    def arm(self, loop: Any, at_ns: int, now_ns: int) -> None:
        """Look at the wait then."""
        if at_ns != NEVER_NS:
            self._set(loop, at_ns)

    def _look(self) -> None:
        now_ns, at_ns = self.now_ns(), self.own.at_ns
        for wait in self.waits:
            if not wait.asked_ns or wait.fired is not None or wait.loop is None:
                continue
            if at_ns > now_ns:
                self.arm(wait.loop, int(at_ns), now_ns)
            elif self.own.fallen or self.own.hop_waits():
                return
            elif not wait.fire(Due(at_ns, "deadline"), now_ns):
                self._set(wait.loop, now_ns)

    def exceeded(self, due: Due, place: Place, visit: "Visit | None", now_ns: int, *, loop: bool) -> DeadlineExceeded:
        """The exception for the deadline, which is noted on the trajectory."""
        self.own.fell()
        elapsed_s = self.own.elapsed_s()
        late_s, lag = lateness(due.at_ns, now_ns, loop=loop)
        self.raised = CompletionTimeout(
            "completion",
            None,
            elapsed_s,
            max(elapsed_s + self.own.remaining_s(), 0.0),
            cause_so_far=self.own.cause_so_far(),
            late_s=late_s,
            client_lag=lag,
            capped=True,
        )
        self.block.intervene("deadline")
        return self.raised


class TrajectoryWait(Wait):
    """The trajectory's body, or one step of it if it is a generator."""

    def __init__(self, guard: Guard, deadline: Deadline) -> None:
        super().__init__(guard)
        self.deadline = deadline

    def leaves(self, due: Due) -> bool:
        """What goes on after the deadline has passed is the application's own."""
        return True

    @property
    def visit(self) -> "Visit | None":
        """None: no call is waited for."""
        return None

    def place(self) -> Place:
        """Not in a call."""
        return Place("done", self.deadline.started_ns, 0, 0, self.deadline.at_ns)
