"""What `allocate` answers: a deadline given to slots, work and the final stream, and whether it can be met.

Seconds are floats, shares are between 0 and 1, percentiles between 0 and 100. `math.inf` means that the failures alone
put the figure out of reach ("worse than anything observed").
"""

from dataclasses import dataclass
from typing import Final, Literal, get_args

Binds = Literal["last", "answer"]
Method = Literal["equal", "equal_tuned", "mean", "quantile", "equal_risk", "independent"]
SlotKind = Literal["name", "before", "visit"]
Verdict = Literal["feasible", "infeasible", "undecided"]

BINDS: Final[tuple[Binds, ...]] = get_args(Binds)
METHODS: Final[tuple[Method, ...]] = get_args(Method)
SLOT_KINDS: Final[tuple[SlotKind, ...]] = get_args(SlotKind)


class CannotAllocateError(ValueError):
    """The profile holds too little to allocate anything from; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Share:
    """A share of trajectories with its 95% Clopper-Pearson interval."""

    share: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Slot:
    """Seconds for the hops that share a place in the agent (or for work), and how they were kept so far."""

    slot: str
    budget_s: float
    kept: float
    """Share of trajectories that stay within `budget_s` here; not visiting counts as staying within."""
    p50_s: float
    """Of the time spent here in one trajectory, among trajectories that came here."""
    p90_s: float
    visits: float
    """Mean number of hops here in one trajectory."""
    visited: float
    """Share of trajectories that came here at all."""
    extrapolated: bool
    """True where the budget lies past a time-out recorded here: how long those hops would have taken is unknown."""


@dataclass(frozen=True, slots=True)
class StreamBudget:
    """The final stream's own objectives. `None` is "not observed"."""

    ttft_s: float | None
    tpot_s: float | None
    tokens: int | None
    """The longest answer planned for: first token and pace at their limits, it still ends within `budget_s`."""
    tokens_percentile: float | None
    """Which percentile of the observed token counts `tokens` is."""
    level: float
    """The one quantile level at which both `ttft_s` and `tpot_s` were read."""
    joint: float
    """Share of observed final streams that kept `ttft_s` and `tpot_s` together."""
    budget_s: float
    """Seconds of the deadline: to the last token, or to the first answer token where the deadline binds that."""
    kept: float
    """Share of trajectories whose final stream stays within `budget_s`."""
    p50_s: float
    p90_s: float


@dataclass(frozen=True, slots=True)
class Feasibility:
    """Can this deadline be met as often as asked, and which is the smallest that can?"""

    p_deadline: float
    p_low: float
    p_high: float
    min_deadline_s: float
    min_deadline_low_s: float
    """NaN where there are too few trajectories for a lower bound."""
    min_deadline_high_s: float
    verdict: Verdict
    needs: str | None
    """For `undecided`, a sentence: what would decide it."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What the answer was learned from."""

    trajectories: int
    runs: int | None
    models: tuple[str, ...]
    first_at: float
    """Start of the earliest trajectory, seconds since the Unix epoch."""
    last_at: float
    left_out: dict[str, int]
    """Reason to number of trajectories that could not be used."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """A deadline, allotted: the slots' budgets, `work_s` and the stream's budget add up to `deadline_s`, never to more.

    Budgets are caps for blame and design. They are no hard stops: time that one slot leaves over is the next one's.
    """

    deadline_s: float
    percentile: float
    binds: Binds
    method: Method
    slot_kind: SlotKind
    slots: tuple[Slot, ...]
    work_s: float
    """0 where work takes too little of the time to be given a share."""
    work: Slot | None
    stream: StreamBudget | None
    feasibility: Feasibility
    kept: Share
    """Trajectories that kept every budget and the deadline, of those it was learned from."""
    learned_from: Learned
    notes: tuple[str, ...]
    """What a person should know about these figures, one sentence each."""
