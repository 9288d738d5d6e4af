"""What holds the calls of one hop to their limits and to the deadline around it, and tells of it.

On an event loop one timer for the hop looks at its waits when the next limit is due, and ends the innermost.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.context import get_current

from hopbudget.tracing import scope
from hopbudget.tracing import vocabulary as v
from hopbudget.tracing.clock import NANOSECONDS, seconds
from hopbudget.tracing.deadline import Deadline, current
from hopbudget.tracing.limits import COMPLETION, DEADLINE, FIRST_TOKEN, NEVER_NS, STALL, Due, Limits, Place
from hopbudget.tracing.limits_errors import (
    BLOCKED_S,
    CompletionTimeout,
    DeadlineExceeded,
    FirstTokenTimeout,
    HopRefused,
    StallTimeout,
    TrajectoryAborted,
    lateness,
)
from hopbudget.tracing.limits_loop import LoopTimer, running_task
from hopbudget.tracing.limits_waits import BodyWait, PullWait, Wait
from hopbudget.tracing.modes import NO_LIMITS
from hopbudget.tracing.terms import HopTerms, off, terms

if TYPE_CHECKING:
    from hopbudget.tracing.hops import HopBlock
    from hopbudget.tracing.visits import Call, Visit

_ERRORS: Final[Mapping[str, type[DeadlineExceeded]]] = {
    FIRST_TOKEN: FirstTokenTimeout,
    STALL: StallTimeout,
    COMPLETION: CompletionTimeout,
    DEADLINE: CompletionTimeout,
}
ENFORCED: Final = frozenset({"deadline", "abort"})
_SAME_S: Final = 1e-6
SOON_NS: Final = 150_000_000
"""Three ticks of the lag. A timer is set for what is due before, so that most hops need none."""


class Asked:
    """What the code asks of a hop."""

    __slots__ = ("_with", "limits", "refuse", "retries", "terms")

    def __init__(
        self, terms: HopTerms = NO_LIMITS, refuse: bool | float | None = None, retries: str | None = None
    ) -> None:
        self.terms = terms
        self.refuse = refuse
        self.retries = retries
        self.limits = _limits(terms, NO_LIMITS)
        self._with: tuple[HopTerms, Limits] = NO_LIMITS, self.limits

    def limits_in(self, around: HopTerms) -> Limits:
        """The hop's limits: what is not said here, as around it."""
        if around is not self._with[0]:
            self._with = around, _limits(self.terms, around)
        return self._with[1]


def _limits(own: HopTerms, around: HopTerms) -> Limits:
    return Limits(
        around.first_token_s if own.first_token_s is None else own.first_token_s,
        around.stall_s if own.stall_s is None else own.stall_s,
        around.completion_s if own.completion_s is None else own.completion_s,
        silent_thinking=own.silent_thinking or around.silent_thinking,
    )


NOTHING_ASKED: Final = Asked()


class Guard:
    """The limits of one hop, the deadline around it, and its waits."""

    hop: "HopBlock"
    """The hop; it lets go of its guard when it ends."""
    raised: DeadlineExceeded | None = None
    """The last that was."""
    _timer: LoopTimer | None = None

    def __init__(self, limits: Limits, deadline: Deadline | None, mode: str, asked: Asked) -> None:
        self.limits = limits
        self.deadline = deadline
        self.mode = mode
        self.enforced = mode in ENFORCED
        self.may_object = mode == "abort" or (self.enforced and bool(asked.refuse))
        self.asked = asked
        self.now_ns = scope.setup.clock.now_ns
        self.waits: list[Wait] = []
        while deadline is not None:
            if deadline.open_guards is not None:
                deadline.open_guards.add(self)
            deadline = deadline.outer

    @property
    def name(self) -> str | None:
        """The hop's name."""
        return self.hop.name

    @property
    def told_name(self) -> str:
        """What the hop is called where it has no name."""
        return self.hop.name or v.CHAT

    @property
    def cap_ns(self) -> float:
        """When the trajectory's deadline falls."""
        return math.inf if self.deadline is None else self.deadline.at_ns

    def tell(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Add what is known when a visit of the hop begins to its span's attributes; returns them."""
        deadline = self.deadline
        if deadline is None:
            return attributes
        at_ns = deadline.at_ns
        if at_ns != math.inf:
            attributes[v.REMAINING] = (at_ns - self.now_ns()) / NANOSECONDS
        if deadline.terms is not None and deadline.terms.plan is not None:
            budget_s = deadline.budget_s(attributes.get(v.HOP))
            if budget_s is not None:
                attributes[v.BUDGET] = budget_s
        return attributes

    # The hop's life --------------------------------------------------------------------------------------------

    def issued(self, model: str | None) -> None:
        """A request of the hop is sent, for this model: a plan that was not made for it is noticed."""
        if self.deadline is not None and self.deadline.terms is not None:
            self.deadline.terms.see(None, model)

    def follow(self, call: "Call") -> None:
        """A stream of the hop is about to be read."""
        if self.limits.stall_ns < math.inf:
            call.clock.patience_ns = int(self.limits.stall_ns)
        if self.enforced:
            call.wait = PullWait(self, call)

    def followed(self, call: "Call") -> None:
        """The stream has ended."""
        if call.wait is not None:
            call.wait.leave()
        visit = call.visit
        if visit.limit_hit is None and call.clock.longest_ns:
            visit.limit_hit = STALL

    def ended(self, visit: "Visit") -> None:
        """A visit of the hop has ended, and is about to be written."""
        clock = visit.clock
        length_ns = visit.end_ns - visit.started_ns
        deadline = self.deadline
        beyond = length_ns > self.limits.shortest_ns or (deadline is not None and visit.end_ns > deadline.at_ns)
        if beyond and visit.limit_hit is None:
            first_ns = None if clock is None or clock.first_ns is None else clock.first_ns - visit.started_ns
            if visit.streamed and first_ns is None:
                first_ns = length_ns
            visit.limit_hit = self.limits.reached(first_ns=first_ns, length_ns=length_ns)
            if visit.limit_hit is None and visit.started_ns < self.cap_ns < visit.end_ns:
                visit.limit_hit = COMPLETION
        if deadline is not None:
            deadline.end_hop(visit.took(self.told_name, visit.end_ns))

    # Before it is sent -----------------------------------------------------------------------------------------

    def objection(self) -> DeadlineExceeded | None:
        """Why the hop must not be sent; None if it may be."""
        deadline = self.deadline
        if deadline is None or not self.may_object or off():
            return None
        plan = None if deadline.terms is None else deadline.terms.plan
        elapsed_s, left_s = deadline.elapsed_s(), deadline.remaining_s()
        # The plan knows states by the time gone of its own deadline, and none with more time left than that.
        gone_s = -math.inf if plan is None else plan.deadline_s - left_s
        if (
            self.mode == "abort"
            and plan is not None
            and plan.aborts
            and gone_s > -_SAME_S
            and plan.should_abort(deadline.visit, max(gone_s, 0.0), deadline.steps_left)
        ):
            return TrajectoryAborted(
                DEADLINE, self.told_name, elapsed_s, elapsed_s + left_s, cause_so_far=deadline.cause_so_far()
            )
        if not self.asked.refuse or left_s == math.inf:
            return None
        needed_s = self._needed_s()
        if left_s > 0 and (needed_s is None or left_s >= needed_s):
            return None
        return HopRefused(
            DEADLINE, self.told_name, elapsed_s, left_s, cause_so_far=deadline.cause_so_far(), needed_s=needed_s
        )

    def _needed_s(self) -> float | None:
        """What the hop needs: what the code says, else its completion limit, else what the plan allots to it."""
        refuse = self.asked.refuse
        if refuse is not None and not isinstance(refuse, bool):
            return refuse
        if self.limits.completion_ns < math.inf:
            return self.limits.completion_ns / NANOSECONDS
        return None if self.deadline is None else self.deadline.budget_s(self.name)

    def hold(self, *, looped: bool) -> DeadlineExceeded | None:
        """The body begins; returns the limit that is reached already.

        `looped`: it is awaited in a task that may be cancelled in it.
        """
        if not self.enforced:
            return None
        now_ns = self.now_ns()
        # No limit falls earlier than the shortest, whatever the body does.
        next_ns = now_ns + self.limits.shortest_ns
        if self.deadline is not None and (cap_ns := self.deadline.at_ns) < next_ns:
            if cap_ns <= now_ns:
                return self._passed(now_ns)
            next_ns = cap_ns
        task = running_task() if looped else None
        if task is not None:
            self.hop.wait = BodyWait(self, self.hop)
            self.hop.wait.enters(task, now_ns, next_ns)
            if next_ns - now_ns < SOON_NS or self.hop.lag is None:
                self.arm(self.hop.wait.loop, self.hop.wait.next_ns, now_ns)
        return None

    def _passed(self, now_ns: int) -> DeadlineExceeded | None:
        if off():
            return None
        visit = self.hop.visits[-1]
        due, place = Due(self.cap_ns, DEADLINE), Place("sent", visit.started_ns)
        return self.exceeded(due, place, visit, now_ns, loop=False)

    def steps(self) -> None:
        """The body is a generator, and is held in each of its steps."""
        if self.enforced:
            self.hop.wait = BodyWait(self, self.hop)

    # The timer -------------------------------------------------------------------------------------------------

    def arm(self, loop: Any, at_ns: int, now_ns: int) -> None:
        """Look at the waits then, at the latest. What is not due soon is left to the ticks of the loop's lag."""
        lag = self.hop.lag
        if lag is None:
            self.hop.awaits()
            lag = self.hop.lag
        if at_ns - now_ns < SOON_NS or (at_ns != NEVER_NS and (lag is None or not lag.is_of(loop))):
            self._set(loop, at_ns)

    def ticked(self) -> None:
        """A tick of the lag: set the timer for what is due soon."""
        try:
            soon_ns = self.now_ns() + SOON_NS
            for wait in self.waits:
                if wait.asked_ns and wait.next_ns < soon_ns and wait.loop is not None:
                    self._set(wait.loop, wait.next_ns)
        except Exception:
            scope.recorder_failed()

    def _set(self, loop: Any, at_ns: float) -> None:
        if self._timer is None or self._timer.loop is not loop:
            if self._timer is not None:
                self._timer.stop()
            self._timer = LoopTimer(loop, self._tick, self.now_ns)
        self._timer.set(at_ns)

    def _tick(self) -> None:
        try:
            self._look()
        except Exception:
            scope.recorder_failed()

    def _look(self) -> None:
        now_ns = self.now_ns()
        waiting = [wait for wait in self.waits if wait.asked_ns]
        for number, wait in enumerate(waiting):
            place = wait.place()
            due = self.limits.due(place)
            if due.at_ns > now_ns:
                wait.next_ns = self.limits.look_ns(due, place, now_ns)
                if wait.loop is not None:
                    self.arm(wait.loop, wait.next_ns, now_ns)
                continue
            inner = waiting[number + 1 :]
            if wait.fired is not None or (inner if wait.outermost else any(w.task is wait.task for w in inner)):
                continue
            if wait.outermost and wait.knows(due):
                continue
            if not wait.fire(due, now_ns):
                self._set(wait.loop, now_ns)

    def close(self) -> None:
        """The hop has ended."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        self.waits = []
        deadline = self.deadline
        while deadline is not None:
            if deadline.open_guards is not None:
                deadline.open_guards.discard(self)
            deadline = deadline.outer

    # What is told ----------------------------------------------------------------------------------------------

    def exceeded(self, due: Due, place: Place, visit: "Visit | None", now_ns: int, *, loop: bool) -> DeadlineExceeded:
        """The exception for a limit that is reached, which is noted on the visit and the trajectory."""
        deadline = self.deadline
        capped = due.limit == DEADLINE and deadline is not None
        if capped and deadline is not None:
            deadline.fell()
            elapsed_s = deadline.elapsed_s()
            budget_s = elapsed_s + deadline.remaining_s()
        else:
            elapsed_s, budget_s = self.limits.on_clock(due, place, now_ns)
        late_s, lag = lateness(due.at_ns, now_ns, loop=loop or self._lags())
        error = _ERRORS[due.limit](
            COMPLETION if capped else due.limit,
            self.told_name,
            elapsed_s,
            budget_s,
            cause_so_far=self._cause(place, visit, now_ns, capped),
            late_s=late_s,
            client_lag=lag,
            capped=capped,
        )
        if visit is not None:
            visit.limit_hit = error.limit
        self.raised = error
        self.intervened(error)
        return error

    def _lags(self) -> bool:
        """Whether the loop that the hop is awaited in was blocked meanwhile."""
        hop = self.hop
        if hop.lag is not None:
            hop.lag.look(hop)
        return (hop.lag_s or 0.0) > BLOCKED_S

    def intervened(self, error: DeadlineExceeded) -> None:
        """Something was ended or not sent: the trajectory is marked."""
        if self.hop.trajectory is not None:
            self.hop.trajectory.intervene(f"{self.told_name}: {_decision(error)}")

    def _cause(self, place: Place, visit: "Visit | None", now_ns: int, capped: bool) -> str | None:
        deadline = self.deadline
        words = _phase(place, visit, now_ns)
        if deadline is None:
            return words
        here = None if visit is None else visit.took(self.told_name, now_ns)
        spent = deadline.cause_so_far(here) if capped else None
        return words if spent is None else f"{words}; {spent}"


def _decision(error: DeadlineExceeded) -> str:
    if isinstance(error, TrajectoryAborted):
        return "aborted"
    return "refused" if isinstance(error, HopRefused) else error.limit


def _phase(place: Place, visit: "Visit | None", now_ns: int) -> str:
    """Where the call was, in words."""
    clock = None if visit is None else visit.clock
    if place.phase in {"first", "tokens", "thinking", "open"} and clock is not None:
        if not clock.chunks:
            what = f"{clock.bare_chunks} chunks without one" if clock.bare_chunks else "nothing"
            words = f"the response was open, and {what} had come"
        else:
            ago_s = seconds(now_ns - clock.last_ns)
            words = f"{clock.chunks} chunks with tokens had come, the last {ago_s:.2f} s before"
    elif place.phase == "done":
        words = "the call was over"
    else:
        words = "no response had come"
    if visit is not None and visit.backoff_ns:
        words += f"; {visit.attempts} attempts, {seconds(visit.backoff_ns):.2f} s of waiting between them"
    return words


# Who is guarded --------------------------------------------------------------------------------------------------


def guard_for(name: str | None, model: str | None, asked: Asked = NOTHING_ASKED) -> Guard | None:
    """The guard of a hop that begins now; None if no limit and no deadline is around."""
    context = get_current()
    deadline: Deadline | None = context.get(scope.DEADLINE)  # type: ignore[assignment]
    if deadline is None and scope.PLACE not in context:
        deadline = current(scope.sheltered(context))
    around = None if deadline is None else deadline.terms
    if around is not None:
        found = around.hop(name, model)
        guard = Guard(asked.limits_in(found), deadline, asked.terms.mode or found.mode or around.mode, asked)
    elif deadline is None and asked is NOTHING_ASKED:
        return None
    else:
        guard = Guard(asked.limits, deadline, asked.terms.mode or terms("").mode, asked)
    if guard.enforced and not _Clients.held:
        _Clients.hold()
    return guard


class _Clients:
    """The known clients, of whose requests hold is taken when the first limit is to be held."""

    held = False

    @classmethod
    def hold(cls) -> None:
        from hopbudget.tracing import clients

        cls.held = True
        clients.hold()
