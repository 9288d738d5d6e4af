"""The tables of `hopbudget.toml`: which keys stand where, and what one asks of another."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hopbudget.budgets.attainment.objectives import METRICS, SHARES
from hopbudget.config.kinds import (
    ANYTHING,
    COUNT,
    DURATION,
    HOSTS,
    MATCH,
    METRIC,
    MODE,
    PACE,
    PERCENTILE,
    SHARE,
    TEXT,
    TRACE_URL,
    TRUTH,
    WINDOW,
    Json,
    Kind,
)
from hopbudget.config.kinds import PRICE as PRICE_KIND
from hopbudget.config.toml_lines import Path


class Mistakes:
    """Mistakes and where they stand."""

    def __init__(self) -> None:
        self.found: list[tuple[Path, str]] = []

    def add(self, where: Path, sentence: str) -> None:
        """Note one."""
        self.found.append((where, sentence))


@dataclass(frozen=True, slots=True)
class Table:
    """A table of known keys, or (`each`) of names that the user gives."""

    keys: Mapping[str, "Kind | Table | Tables"] = field(default_factory=dict[str, Any])
    each: "Kind | Table | None" = None
    about: str = ""
    needed: tuple[str, ...] = ()
    check: Callable[[Mapping[str, Any], Path, Mistakes], None] | None = None
    rules: tuple[Json, ...] = ()
    """What JSON Schema says beside the keys."""


@dataclass(frozen=True, slots=True)
class Tables:
    """An array of tables."""

    of: Table
    about: str = ""


def _check_objective(values: Mapping[str, Any], where: Path, mistakes: Mistakes) -> None:
    """What one key of an objective asks of the others."""
    metric = values.get("metric")
    if metric not in METRICS:
        return
    share, limit = metric in SHARES, values.get("limit")
    if share and "percentile" in values:
        mistakes.add((*where, "percentile"), f"{metric} has a limit that is a share, and no percentile")
    if not share and "percentile" not in values:
        mistakes.add(where, f"{metric} needs a percentile, such as percentile = 95")
    if metric == "underrun" and "pace" not in values:
        mistakes.add(where, "underrun needs a pace in tokens a second, such as pace = 8")
    if metric != "underrun" and "pace" in values:
        mistakes.add((*where, "pace"), f"{metric} has no pace; underrun has")
    if metric in {"trajectory_duration", "answer_start"} and "hop" in values:
        mistakes.add((*where, "hop"), f"{metric} is of whole trajectories, so it has no hop")
    if limit is not None:
        try:
            limit_kind(metric).read(limit)
        except ValueError as error:
            mistakes.add((*where, "limit"), f"limit of {metric}: {error}")


def limit_kind(metric: str) -> Kind:
    """What the limit of an objective on this metric is."""
    if metric in SHARES:
        return SHARE
    return PACE if metric == "tokens_per_s" else DURATION


def _rule(metrics: Sequence[str], then: Json) -> Json:
    return {"if": {"properties": {"metric": {"enum": list(metrics)}}, "required": ["metric"]}, "then": then}


_TIMED: Final = [metric for metric in METRICS if metric not in SHARES and metric != "tokens_per_s"]
_RULES: Final = (
    _rule(_TIMED, {"properties": {"limit": DURATION.schema}, "required": ["percentile"]}),
    _rule(["tokens_per_s"], {"properties": {"limit": PACE.schema}, "required": ["percentile"]}),
    _rule(sorted(SHARES), {"properties": {"limit": SHARE.schema, "percentile": False}}),
    _rule(["underrun"], {"required": ["pace"]}),
    _rule([metric for metric in METRICS if metric != "underrun"], {"properties": {"pace": False}}),
    _rule(["trajectory_duration", "answer_start"], {"properties": {"hop": False}}),
)

OBJECTIVE: Final = Table(
    keys={
        "metric": METRIC.named("What is looked at."),
        "percentile": PERCENTILE.named("Out of 100: so many of a hundred must be within the limit."),
        "limit": ANYTHING.named("A duration, tokens a second, or a share, as the metric asks."),
        "hop": TEXT.named("Only hops of this name."),
        "window": WINDOW.named("The last stretch of time that counts; 30d unless said."),
        "min_sample": COUNT.named("Fewer requests than this say nothing."),
        "pace": PACE.named("Tokens a second that a reader or a speech engine takes."),
    },
    needed=("metric", "limit"),
    check=_check_objective,
    rules=_RULES,
    about="One target, accounted over many requests.",
)
HOP: Final = Table(
    keys={
        "first_token": DURATION.named("How long its first token may take."),
        "stall": DURATION.named("The longest gap between its tokens."),
        "completion": DURATION.named("How long it may take in all."),
        "silent_thinking": TRUTH.named("Its endpoint may say nothing while it thinks."),
        "enforce": MODE.named("How its limits are held, if not as the workload's."),
    },
    about="Limits of one hop's requests.",
)
WORKLOAD: Final = Table(
    keys={
        "match": MATCH.named("Which trajectories belong to it: name, service, or any attribute; all must hold."),
        "deadline": DURATION.named("The end-to-end deadline of one trajectory."),
        "enforce": MODE.named("What happens at a limit: nothing, the request ends, or hopeless runs end early too."),
        "plan": TEXT.named("The plan that `hopbudget allocate` wrote; a path beside this file."),
        "max_steps": COUNT.named("The most hops that a trajectory may make."),
        "hops": Table(each=HOP, about="Limits by hop."),
        "objectives": Tables(OBJECTIVE, "Targets, side by side."),
    },
    about="A named class of trajectories.",
)
PRICE: Final = Table(
    keys=dict.fromkeys(("input", "output", "cached"), PRICE_KIND),
    about="What a million tokens cost, in your currency.",
)
DOCUMENT: Final = Table(
    keys={
        "workloads": Table(each=WORKLOAD),
        "prices": Table(each=PRICE, about="Prices by model."),
        "trace_url": TRACE_URL.named("Where your tracing tool shows a trace; {trace_id} stands for its id."),
        "propagate": Table(
            keys={"hosts": HOSTS.named("Hosts that are told how much time is left.")},
        ),
    },
)
