"""What `allocate` answers: a deadline given to slots, work and the final stream, and whether it can be met.

Seconds are floats, shares are between 0 and 1, percentiles between 0 and 100. `math.inf` means that the failures alone
put the figure out of reach ("worse than anything observed").
"""

import math
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final, Literal, get_args

Binds = Literal["last", "answer", "both"]
Rule = Literal["equal_tuned", "independent", "equal_risk", "mean", "quantile", "equal"]
Method = Literal["auto", "equal_tuned", "independent", "equal_risk", "mean", "quantile", "equal"]
SlotKind = Literal["name", "before", "visit"]
Unit = Literal["request", "conversation"]
Verdict = Literal["feasible", "infeasible", "undecided"]

BINDS: Final[tuple[Binds, ...]] = get_args(Binds)
RULES: Final[tuple[Rule, ...]] = get_args(Rule)
"""The methods that split by one rule, in the order in which `auto` tries them."""
METHODS: Final[tuple[Method, ...]] = get_args(Method)
UNITS: Final[tuple[Unit, ...]] = get_args(Unit)
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
class StreamSize:
    """First token and pace of the final stream for one model and one range of prompt sizes."""

    model: str
    """"" for models with too few streams of their own."""
    from_tokens: float
    """Shorter prompts count as this long."""
    up_to_tokens: float
    """+inf for the largest prompts."""
    at_tokens: float
    """The prompt size that `ttft_s` is for; NaN where sizes are not known."""
    per_token: float
    """By how much `ttft_s` grows for each prompt token more, as a share of it."""
    ttft_s: float
    tpot_s: float
    """NaN where the pace is not known."""
    level: float
    """The one quantile level at which both were read."""
    n: int


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
    answer_s: float | None = None
    """Seconds to the first answer token, where the deadline binds that beside the last token."""
    sizes: tuple[StreamSize, ...] = ()
    """First token and pace that hold together by model and prompt size."""


@dataclass(frozen=True, slots=True)
class RunBounds:
    """The smallest deadline for a run that nobody has seen: two bounds from how runs differed so far.

    Only runs with enough trajectories to bound the percentile count. +inf where failures forbid any; NaN where there
    are fewer than two runs, or those that count hold less than half of all trajectories.
    """

    runs: int
    """Runs that counted."""
    small: int
    """Runs with too few trajectories to count."""
    largest_s: float
    """The largest of the runs' own smallest deadlines,"""
    largest_run: str
    """the run that had it,"""
    largest_price: float
    """and its ratio to the smallest deadline over all trajectories."""
    t_s: float
    """The upper end of a t interval for one more run, on the logarithms of the runs' own smallest deadlines."""
    t_price: float
    only_this: bool
    """Fewer than five runs counted: the deadline is one of this configuration only."""

    def to_plan(self) -> dict[str, Any]:
        """Plain values for a plan file; None for what is not known."""
        return table(self)


@dataclass(frozen=True, slots=True)
class ClassShares:
    """Trajectories of different classes that meet one deadline unequally often."""

    by: str
    """What tells the classes apart, such as "position in the conversation"."""
    shares: tuple[tuple[str, Share], ...]
    """Class to share in time."""


@dataclass(frozen=True, slots=True)
class Feasibility:
    """Can this deadline be met as often as asked, and which is the smallest that can?"""

    p_deadline: float
    """The share in time of those of which it is known,"""
    p_low: float
    """and its 95% interval. The lower end holds as well if those cut off before it went on like the others."""
    p_high: float
    min_deadline_s: float
    min_deadline_low_s: float
    """NaN where there are too few trajectories for a lower bound."""
    min_deadline_high_s: float
    """Likewise."""
    verdict: Verdict
    needs: str | None
    """For `undecided`, a sentence: what would decide it."""
    possible_low: float = math.nan
    """Share in time if everything cut off before the deadline would have missed it,"""
    possible_high: float = math.nan
    """and if all of it would have made it. Equal where nothing was cut off."""
    extrapolated: bool = False
    """The deadline lies past a time-out of a recorded trajectory."""
    runs: RunBounds | None = None
    """None where runs are not told apart."""
    classes: tuple[ClassShares, ...] = ()
    """Classes with unequal shares, significantly and by five points or more."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to split, tried on trajectories that it was not learned from."""

    method: Rule
    reserve: float | None
    """The level at which work and stream were set aside first; None where they were split like slots."""
    success: float
    """Share of held-out trajectories that kept every budget and the deadline."""
    gain: float
    """Paired difference to what was best before it,"""
    error: float
    """and its standard error over clusters."""


@dataclass(frozen=True, slots=True)
class Auto:
    """What cross-validation chose, and what it says about splitting this deadline at all."""

    method: Rule
    reserve: float | None
    cluster: str
    """What was held out together: run, session or trajectory."""
    clusters: int
    folds: int
    success: Share
    """Held-out trajectories that kept every budget and the deadline; interval over clusters."""
    deadline_only: Share
    """Those that met the deadline, with no budgets at all."""
    kept_of_deadline: Share
    """success / deadline_only, with the interval of the ratio."""
    gain: Share
    """success minus that of the equal split (`equal_tuned`), paired."""
    beats_equal: bool
    """False: nothing beats an equal split here by more than one standard error."""
    candidates: tuple[Candidate, ...]
    price: tuple[tuple[str, int, float], ...]
    """(kind of slot, places, held-out success) by the ways to cut a trajectory into slots: `success` for the slots that
    were asked for, and for others that of the chosen method or of `independent`, whichever keeps more."""
    binding: str | None
    """The place whose budget most trajectories broke that broke no other and were in time;"""
    binding_share: float
    """their share."""
    step_s: float
    """A deadline longer by so much: a second, or less where the deadline is short."""
    step_in_time: float
    """How much it adds to the share in time,"""
    step_kept: float
    """and to the share that keeps every budget as well, each grown in proportion."""

    def to_plan(self) -> dict[str, Any]:
        """Plain values for a plan file; None for what is not known."""
        return table(self)


def table(value: Any) -> dict[str, Any]:
    """The fields of a dataclass as plain values."""
    return {field.name: plain(getattr(value, field.name)) for field in fields(value)}


def plain(value: Any) -> Any:
    """Dataclasses as dictionaries, tuples as lists, what is not finite as None."""
    if is_dataclass(value) and not isinstance(value, type):
        return table(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value


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
    intervened: float = 0.0
    """Share of all complete trajectories that were left out because we degraded, hedged, cut or refused something."""
    half_life_s: float | None = None
    """Trajectories so much older than the newest weigh half; None where all weigh the same."""
    effective: float = math.nan
    """How many trajectories of equal weight would say as much."""
    unit: Unit = "request"
    """What one trajectory is: a request, or a whole conversation without the person's time."""


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
    answer_deadline_s: float | None = None
    """Where both ends bind: the deadline of the first answer token; `deadline_s` is that of the last token."""
    auto: Auto | None = None
    """How `auto` chose; None for any other method, and where there was nothing to choose."""
