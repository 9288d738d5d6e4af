"""What holds the calls of one hop to their limits and to the deadline around it.

On an event loop one timer for the hop looks at its waits when the next limit is due, and ends the innermost.
"""

import math
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.context import Context, get_current

from hopbudget.tracing import scope
from hopbudget.tracing import vocabulary as v
from hopbudget.tracing.clock import NANOSECONDS
from hopbudget.tracing.deadline import Deadline, current
from hopbudget.tracing.limits import COMPLETION, DEADLINE, NEVER_NS, Due, Place
from hopbudget.tracing.limits_asked import NOTHING_ASKED, Asked, Rules
from hopbudget.tracing.limits_errors import BLOCKED_S, DeadlineExceeded
from hopbudget.tracing.limits_loop import NOBODY, LoopTimer, running_task
from hopbudget.tracing.limits_told import decision, exceeded
from hopbudget.tracing.limits_waits import BodyWait, PullWait, Wait
from hopbudget.tracing.modes import NO_LIMITS
from hopbudget.tracing.terms import off, terms

if TYPE_CHECKING:
    from hopbudget.tracing.hops import HopBlock
    from hopbudget.tracing.visits import Call, Visit

SOON_NS: Final = 150_000_000
"""Three ticks of the lag. A timer is set for what is due before, so that most hops need none."""
_NEVER: Final = math.inf


class Guard:
    """The limits of one hop, the deadline around it, and its waits."""

    hop: "HopBlock"
    """The hop; it lets go of its guard when it ends."""
    raised: DeadlineExceeded | None = None
    """The last that was."""
    cap_then_ns: float = math.inf
    """When the deadline fell as its call began. Pauses move it, and only to later."""
    late = False
    """Whether it had passed by then."""
    known = False
    """Whether somebody else knows it, and must be told when the hop has ended."""
    _timer: LoopTimer | None = None

    def __init__(self, rules: Rules, deadline: Deadline | None, context: Context | None = None) -> None:
        """`context`: in which the hop begins."""
        self.rules = rules
        self.context = context
        self.limits = rules.limits
        self.enforced = rules.enforced
        self.deadline = deadline
        self.now_ns = scope.setup.clock.now_ns
        self.waits: list[Wait] = []
        if deadline is not None and deadline.watched:
            self._watch(deadline)

    def _watch(self, deadline: Deadline | None) -> None:
        """Those around who want to know whether a hop is waited for can ask."""
        self.known = True
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
        own = self.hop.own
        called: str = own.get(v.HOP) or own[v.OPERATION]
        return called

    @property
    def cap_ns(self) -> float:
        """When the trajectory's deadline falls."""
        return _NEVER if self.deadline is None else self.deadline.at_ns

    def tell(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Add what is known when a visit of the hop begins to its span's attributes; returns them."""
        deadline = self.deadline
        if deadline is None:
            return attributes
        self.cap_then_ns = at_ns = deadline.falls_ns if deadline.alone else deadline.at_ns
        if at_ns != _NEVER:
            left_ns = at_ns - self.now_ns()
            attributes[v.REMAINING] = left_ns / NANOSECONDS
            self.late = left_ns <= 0
        around = deadline.terms
        if around is not None and not around.bare and around.plan is not None:
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

    def ended(self, visit: "Visit") -> None:
        """A visit of the hop has ended, and is about to be written."""
        end_ns = visit.end_ns
        if end_ns > self.cap_then_ns or end_ns - visit.started_ns > self.limits.shortest_ns:
            self._went_beyond(visit)
        deadline = self.deadline
        if deadline is not None:
            name = self.told_name
            if deadline.outer is None and deadline.pressure is None:
                deadline.ledger.add(visit, name)
            else:
                deadline.end_hop(visit, name)

    def _went_beyond(self, visit: "Visit") -> None:
        if visit.limit_hit is not None:
            return
        clock, length_ns = visit.clock, visit.end_ns - visit.started_ns
        first_ns = None if clock is None or clock.first_ns is None else clock.first_ns - visit.started_ns
        if visit.streamed and first_ns is None:
            first_ns = length_ns
        stalled_ns = None if clock is None or clock.stalled_ns is None else clock.stalled_ns - visit.started_ns
        visit.limit_hit = self.limits.reached(first_ns=first_ns, stalled_ns=stalled_ns, length_ns=length_ns)
        if visit.limit_hit is None and visit.started_ns < self.cap_ns < visit.end_ns:
            visit.limit_hit = COMPLETION

    def hold(self, *, looped: bool) -> DeadlineExceeded | None:
        """The body begins; returns the limit that is reached already.

        `looped`: it is awaited in a task that may be cancelled in it.
        """
        if not self.enforced:
            return None
        now_ns, cap_ns = self.now_ns(), self.cap_then_ns
        if cap_ns <= now_ns and (passed := self._passed(now_ns)) is not None:
            return passed
        if looped and (runs := running_task()) is not NOBODY:
            # No limit falls earlier than the shortest, whatever the body does.
            soonest_ns = self.limits.soonest_ns
            next_ns = now_ns + soonest_ns if soonest_ns < NEVER_NS else NEVER_NS
            if cap_ns < next_ns:
                next_ns = int(self.cap_ns)
            hop = self.hop
            hop.wait = BodyWait(self, hop, now_ns, next_ns, runs)
            if hop.lag is None or next_ns - now_ns < SOON_NS:
                self.arm(runs[1], next_ns, now_ns)
        return None

    def _passed(self, now_ns: int) -> DeadlineExceeded | None:
        cap_ns = self.cap_ns
        if cap_ns > now_ns or off():
            return None
        visit = self.hop.visits[-1]
        return self.exceeded(Due(cap_ns, DEADLINE), Place("sent", visit.started_ns), visit, now_ns, loop=False)

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
            self.known = True
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
        if deadline is None or not deadline.watched:
            return
        while deadline is not None:
            if deadline.open_guards is not None:
                deadline.open_guards.discard(self)
            deadline = deadline.outer

    # What is told ----------------------------------------------------------------------------------------------

    def exceeded(self, due: Due, place: Place, visit: "Visit | None", now_ns: int, *, loop: bool) -> DeadlineExceeded:
        """The exception for a limit that is reached, which is noted on the visit and the trajectory."""
        if due.limit == DEADLINE and self.deadline is not None:
            self.deadline.fell()
        error = exceeded(self, due, place, visit, now_ns, blocked=loop or self._lags(now_ns))
        if visit is not None:
            visit.limit_hit = error.limit
        self.raised = error
        self.intervened(error)
        return error

    def _lags(self, now_ns: int) -> bool:
        """Whether the loop that the hop is awaited in was blocked, here or when its trajectory should have ended."""
        hop, deadline = self.hop, self.deadline
        if hop.lag is not None:
            hop.lag.look(hop)
        blocked = (hop.lag_s or 0.0) > BLOCKED_S
        while deadline is not None and not blocked:
            around = None if deadline.trajectory is None else deadline.trajectory.guard
            blocked = around is not None and around.overdue_ns(now_ns) > BLOCKED_S * NANOSECONDS
            deadline = deadline.outer
        return blocked

    def overdue_ns(self, now_ns: int) -> float:
        """By how much its timer should have come, and did not."""
        return 0.0 if self._timer is None else self._timer.overdue_ns(now_ns)

    def intervened(self, error: DeadlineExceeded) -> None:
        """Something was ended or not sent: the trajectory is marked."""
        if self.hop.trajectory is not None:
            self.hop.trajectory.intervene(f"{self.told_name}: {decision(error)}")


def guard_for(
    name: str | None, model: str | None, asked: Asked = NOTHING_ASKED, *, operation: str = v.CHAT
) -> Guard | None:
    """The guard of a hop that begins now; None if no limit and no deadline is around.

    `operation`: what a hop without a name is called.
    """
    context = get_current()
    deadline: Deadline | None = context.get(scope.DEADLINE)  # type: ignore[assignment]
    rules = asked.last
    if (
        deadline is None
        and (scope.open_trajectories or scope.setup.home_deadline is not None)
        and scope.PLACE not in context
    ):
        deadline = current(scope.sheltered(context))
    if deadline is None:
        if asked is NOTHING_ASKED:
            return None
        if rules.found is not NO_LIMITS or asked.terms.mode is None:
            rules = asked.rules(NO_LIMITS, terms("").mode)
    elif (around := deadline.terms) is None:
        rules = asked.rules(NO_LIMITS, terms("").mode)
    else:
        found = NO_LIMITS if around.bare else around.hop(name, model, operation)
        if rules.found is not found or rules.around != around.mode:
            rules = asked.rules(found, around.mode)
    if rules.enforced and not _Clients.held:
        _Clients.hold()
    return Guard(rules, deadline, context)


class _Clients:
    """The known clients, of whose requests hold is taken when the first limit is to be held."""

    held = False

    @classmethod
    def hold(cls) -> None:
        from hopbudget.tracing import clients

        cls.held = True
        clients.hold()
