"""What a limit that was reached raises.

TimeoutError
 └ DeadlineExceeded
    ├ FirstTokenTimeout    no generated token came in time
    ├ StallTimeout         no further token came in time
    ├ CompletionTimeout    the call, or the trajectory around it, took its time
    ├ HopRefused           the hop was not sent, because what is left is too little for it
    └ TrajectoryAborted    the plan says that the deadline can't be met any more
"""

from typing import ClassVar, Final

from hopbudget.tracing.clock import NANOSECONDS
from hopbudget.tracing.vocabulary import Outcome

BLOCKED_S: Final = 0.05
"""A limit that fires later than this on an event loop was held up by the loop."""


def lateness(due_ns: float, now_ns: int, *, loop: bool) -> tuple[float, bool]:
    """How many seconds late a limit fired, and whether a blocked event loop was why."""
    late_s = max(now_ns - due_ns, 0.0) / NANOSECONDS
    return late_s, loop and late_s > BLOCKED_S


class DeadlineExceeded(TimeoutError):  # noqa: N818
    """A limit was reached. Its causes and traceback are those of the wait that it ended.

    `limit`: `first_token`, `stall` or `completion`. `hop`: the hop's name, None without one. `elapsed_s`, `budget_s`:
    seconds on the limit's own clock, and how many it allows. `cause_so_far`: where the time went, in words, None where
    nothing is known. `late_s`: how late it fired; `client_lag` says whether a blocked event loop was why.
    """

    outcome: ClassVar[Outcome] = "timed_out"

    def __init__(
        self,
        limit: str,
        hop: str | None,
        elapsed_s: float,
        budget_s: float,
        *,
        cause_so_far: str | None = None,
        late_s: float = 0.0,
        client_lag: bool = False,
        capped: bool = False,
    ) -> None:
        self.limit = limit
        self.hop = hop
        self.elapsed_s = elapsed_s
        self.budget_s = budget_s
        self.cause_so_far = cause_so_far
        self.late_s = late_s
        self.client_lag = client_lag
        self.capped = capped
        """Whether the trajectory's deadline fell before the hop's own limit."""
        super().__init__(self._sentence())

    def __reduce__(self) -> tuple[object, ...]:
        facts = (self.limit, self.hop, self.elapsed_s, self.budget_s)
        told = ("cause_so_far", "late_s", "client_lag", "capped", "needed_s")
        rest = {key: getattr(self, key) for key in told if hasattr(self, key)}
        return _again, (type(self), facts, rest)

    @property
    def _where(self) -> str:
        return "its work" if self.hop is None else f"hop {self.hop!r}"

    def _sentence(self) -> str:
        parts = [self._said()]
        if self.client_lag:
            parts.append(f"it fired {self.late_s:.2f} s late, because the event loop was blocked")
        if self.cause_so_far:
            parts.append(self.cause_so_far)
        return "; ".join(parts)

    def _said(self) -> str:
        if self.capped:
            return f"the trajectory's deadline of {self.budget_s:.2f} s fell in {self._where}"
        return f"{self._where}: {self.elapsed_s:.2f} s of {self.budget_s:.2f} s"


class FirstTokenTimeout(DeadlineExceeded):
    """No generated token came in time."""

    def _said(self) -> str:
        return f"{self._where}: no token within {self.budget_s:.2f} s of the request"


class StallTimeout(DeadlineExceeded):
    """No further token came in time."""

    def _said(self) -> str:
        return f"{self._where}: no further token within {self.budget_s:.2f} s"


class CompletionTimeout(DeadlineExceeded):
    """The call, or the trajectory around it, took its time."""

    def _said(self) -> str:
        return super()._said() if self.capped else f"{self._where}: not complete within {self.budget_s:.2f} s"


class HopRefused(DeadlineExceeded):
    """The hop was not sent, because what is left is too little for it.

    `budget_s`: what is left; `needed_s`: what the hop needs.
    """

    outcome = "refused"
    needed_s: float | None = None

    def __init__(self, *args: object, needed_s: float | None = None, **facts: object) -> None:
        self.needed_s = needed_s
        super().__init__(*args, **facts)  # type: ignore[arg-type]

    def _said(self) -> str:
        needs = "" if self.needed_s is None else f", and it needs {self.needed_s:.2f} s"
        return f"{self._where} was not sent: {max(self.budget_s, 0.0):.2f} s are left{needs}"


class TrajectoryAborted(DeadlineExceeded):
    """The plan says that the deadline can't be met any more, and that giving up now pays."""

    outcome = "refused"

    def _said(self) -> str:
        return (
            f"given up before {self._where}: by the plan the deadline of {self.budget_s:.2f} s can't be met any more "
            f"after {self.elapsed_s:.2f} s"
        )


def _again(cls: type[DeadlineExceeded], facts: tuple[object, ...], rest: dict[str, object]) -> DeadlineExceeded:
    return cls(*facts, **rest)  # type: ignore[arg-type]
