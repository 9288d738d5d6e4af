"""Why a trajectory took longer than usual: parts that add up exactly.

The reference is the middle of what came well, the trajectories between the 45th and the 55th percentile. Each hop is
split into parts by `hop_parts`: prompt, first token, retries, backoff, answer, stalls, client's lag, and pace (the
rest). For each hop name k with n_k hops in the trajectory, n0_k the reference's mean number of hops, and x0_k the
reference's mean per hop of part X:

    visits       (n_k - n0_k) * sum over parts of x0_k
    part X       sum of X - n_k * x0_k, for each part
    tools        time outside hops in which work of one name was running, minus the reference's
    between_steps, after_last_hop    time in no hop and no work, up to the end of the last hop and after it, likewise
    overlap      what hops that ran side by side saved, compared with the reference

A sum over all of them is T - T_ref, whatever the lines' fit. A part that no hop of a name has is no column.

A stream that ended before its first token came has waited and not written. What it waited over the usual first token
is `first_token`; what it waited less, and all that usually follows the first token, is `answers`: none came.

Where inference servers told their own times, queue, prefill and the way outside the server are compared with what they
usually take in hops of that name whose server told, and come off `first_token` (off `pace` without a TTFT). What no
server told stays there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from hopbudget.budgets.allocation import CannotAllocateError
from hopbudget.budgets.blame import hop_parts, server_parts, work_parts
from hopbudget.budgets.expectations.expectation import known_prompts, prompt_tokens
from hopbudget.budgets.numbers import words
from hopbudget.budgets.numbers.quantiles import FINISHED, among
from hopbudget.budgets.profile import Bools, Floats, Hops, Ints, Profile
from hopbudget.budgets.splits.labels import Labels, encode

CauseKind = Literal[
    "visits",
    "answers",
    "prompt",
    "first_token",
    "queue",
    "prefill",
    "outside",
    "retries",
    "backoff",
    "pace",
    "stalls",
    "client_lag",
    "tools",
    "between_steps",
    "after_last_hop",
    "overlap",
]
CAUSE_KINDS: Final[tuple[CauseKind, ...]] = get_args(CauseKind)
_PARTS: Final[tuple[CauseKind, ...]] = tuple(kind for kind in CAUSE_KINDS if kind in hop_parts.HopParts.__slots__)
SERVER_KINDS: Final[tuple[CauseKind, ...]] = ("queue", "prefill", "outside")
"""What only the inference server can tell apart; seconds that it told nothing of are in no cause of these kinds."""
FEW: Final = 5
"""With fewer trajectories in the middle, what is usual is not told from chance."""
WORK_KINDS: Final[tuple[CauseKind, ...]] = ("tools", "between_steps", "after_last_hop")
"""What the time outside hops went to."""


@dataclass(frozen=True, slots=True)
class Part:
    """One cause of one trajectory's excess."""

    kind: CauseKind
    name: str
    """The hop's or the work's name; "" for time that belongs to none."""
    seconds: float
    count: float | None
    """More than the reference of: hops (`visits`), output tokens (`answers`), prompt tokens (`prompt`), calls
    (`tools`). Of `first_token`, how many never came in hops that waited longer than usual. None where unknown."""
    estimated: bool = False
    """The first token of these hops was not observed: their prompts' cost is read off durations (`prompt`)."""

    @property
    def detail(self) -> str:
        """The cause in words, such as "3 more `search` visits" or "longer `plan` answers"."""
        return _words(self)


@dataclass(frozen=True, slots=True)
class Reference:
    """What trajectories are compared with."""

    trajectories: int
    of: int
    """How many came out well, of which those are the middle."""
    duration_s: float
    hops: float
    work_s: float

    @property
    def description(self) -> str:
        """The reference in words."""
        few = self.trajectories < FEW
        return (
            f"the {words.trajectories(self.trajectories)} in the middle (45th to 55th percentile"
            + (f" of {self.of}" if few else "")
            + f"): {words.seconds(self.duration_s)}, {self.hops:.1f} hops, {words.seconds(self.work_s)} of work"
            + ("; so few that a part of each difference is chance" if few else " on average")
        )


@dataclass(frozen=True, slots=True)
class Causes:
    """The additive split of every trajectory's excess over the reference; rows are the profile's trajectories."""

    reference: Reference
    excess_s: Floats
    """T - T_ref; NaN where the trajectory's duration is not known."""
    kind: tuple[CauseKind, ...]
    """Of each column of `seconds` and `count`."""
    name: tuple[str, ...]
    estimated: tuple[bool, ...]
    seconds: Floats
    count: Floats
    told: Ints
    """Of each trajectory, the hops whose inference server told its times."""
    hops: Ints
    """Of each trajectory, all hops."""

    def parts(self, row: int) -> list[Part]:
        """The parts of one trajectory's excess, the largest (either way) first; [] where its duration is not known."""
        if np.isnan(self.excess_s[row]):
            return []
        found = [
            Part(kind, name, float(seconds), None if np.isnan(count) else float(count), estimated)
            for kind, name, estimated, seconds, count in zip(
                self.kind, self.name, self.estimated, self.seconds[row], self.count[row], strict=True
            )
            if abs(seconds) > 1e-9
        ]
        return sorted(found, key=lambda part: -abs(part.seconds))

    def share_of_excess(self, rows: Bools) -> dict[CauseKind, float]:
        """By kind, the share of these trajectories' summed excess; the shares add up to 1. Empty without any excess."""
        chosen = rows & ~np.isnan(self.excess_s)
        total = float(self.excess_s[chosen].sum())
        if total == 0.0:
            return {}
        kinds = np.array(self.kind, dtype=object)
        return {
            kind: float(self.seconds[np.ix_(chosen, kinds == kind)].sum()) / total
            for kind in CAUSE_KINDS
            if (kinds == kind).any()
        }


@dataclass(frozen=True, slots=True)
class _Column:
    kind: CauseKind
    name: str
    seconds: Floats
    count: Floats
    estimated: bool = False


def explain(profile: Profile) -> Causes:
    """Split every complete trajectory's excess over the reference into parts that add up to it.

    Raises `CannotAllocateError` where no trajectory came well, so that there is nothing to compare with.
    """
    t = profile.trajectories
    known = t.complete & ~np.isnan(t.duration_s)
    eligible = known & ~t.intervened & among(t.outcome, FINISHED)
    middle = _middle(t.duration_s, eligible)
    work_s = np.nan_to_num(t.work_s)
    columns = [*_hop_columns(profile, middle), *_work_columns(profile, work_s, middle)]
    hops_s = np.bincount(
        profile.hops.trajectory, weights=np.nan_to_num(profile.hops.duration_s), minlength=len(profile)
    )
    unknown = np.full(len(profile), np.nan)
    saved = t.duration_s - work_s - hops_s
    columns.append(_Column("overlap", "", saved - saved[middle].mean(), unknown))
    hop_count = np.bincount(profile.hops.trajectory, minlength=len(profile))
    t_ref = float(t.duration_s[middle].mean())
    return Causes(
        reference=Reference(
            int(np.count_nonzero(middle)),
            int(np.count_nonzero(eligible)),
            t_ref,
            float(hop_count[middle].mean()),
            float(work_s[middle].mean()),
        ),
        excess_s=np.where(known, t.duration_s - t_ref, np.nan),
        kind=tuple(column.kind for column in columns),
        name=tuple(column.name for column in columns),
        estimated=tuple(column.estimated for column in columns),
        seconds=np.stack([column.seconds for column in columns], axis=1),
        count=np.stack([column.count for column in columns], axis=1),
        told=np.bincount(profile.hops.trajectory[server_parts.told(profile.hops)], minlength=len(profile)),
        hops=hop_count,
    )


def _middle(duration_s: Floats, eligible: Bools) -> Bools:
    """Those between the 45th and the 55th percentile; of very few, those at the median, with all ties."""
    rows = np.flatnonzero(eligible)
    if not len(rows):
        raise CannotAllocateError("no complete trajectory came out well, so there is nothing to compare with")
    low, high = np.quantile(duration_s[rows], [0.45, 0.55])
    chosen: Bools = eligible & (duration_s >= low) & (duration_s <= high)
    if not chosen.any():
        ordered = np.sort(duration_s[rows])
        low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
        chosen = eligible & (duration_s >= low) & (duration_s <= high)
    return chosen


def _sums(labels: Labels, trajectory: np.ndarray, weights: Floats, rows: int) -> Floats:
    """Sum of the weights by trajectory and label."""
    columns = len(labels.names)
    cell = trajectory * columns + labels.code
    return np.bincount(cell, weights=weights, minlength=rows * columns).astype(np.float64).reshape(rows, columns)


def _hop_columns(profile: Profile, middle: Bools) -> Iterator[_Column]:
    hops, rows = profile.hops, len(profile)
    if not len(hops.hop):
        return
    labels = encode([str(name) for name in hops.hop])
    n = _sums(labels, hops.trajectory, np.ones(len(hops.hop)), rows)
    n0 = n[middle].mean(axis=0)
    parts = hop_parts.split(hops)
    sums: dict[CauseKind, Floats] = {
        kind: _sums(labels, hops.trajectory, getattr(parts, kind), rows) for kind in _PARTS
    }
    counts: dict[CauseKind, Floats] = {
        "answers": _sums(labels, hops.trajectory, hops.output_tokens, rows),
        "prompt": _sums(labels, hops.trajectory, known_prompts(hops), rows),
    }
    means: dict[CauseKind, Floats] = {kind: _per_hop(total, n, middle) for kind, total in sums.items()}
    usual_counts = {kind: _per_hop(total, n, middle) for kind, total in counts.items()}
    each = np.sum(list(means.values()), axis=0)
    moved, never = _never_came(hops, parts, labels, means, rows)
    servers = _server_columns(hops, parts, labels, middle)
    unknown = np.full(rows, np.nan)
    observed = np.bincount(labels.code, weights=~np.isnan(hops.ttft_s), minlength=len(labels.names)) > 0
    for k, name in enumerate(labels.names):
        yield _Column("visits", name, (n[:, k] - n0[k]) * each[k], n[:, k] - n0[k])
        for kind, total in sums.items():
            told_s = np.sum(
                [s[:, k] for (source, _), s in servers.items() if source == kind] or [np.zeros(rows)], axis=0
            )
            moved_s = moved[kind][:, k] if kind in moved else np.zeros(rows)
            if total[:, k].any() or told_s.any() or moved_s.any():
                count = counts[kind][:, k] - n[:, k] * usual_counts[kind][k] if kind in counts else unknown
                count = np.where(never[:, k] > 0, never[:, k], np.nan) if kind == "first_token" else count
                estimated = kind == "prompt" and not observed[k]
                over_s = total[:, k] - n[:, k] * means[kind][k] + moved_s
                yield _Column(kind, name, over_s - told_s, count, estimated=estimated)
        for server_kind in SERVER_KINDS:
            told = [s[:, k] for (_, kind), s in servers.items() if kind == server_kind]
            if told and np.any(told):
                yield _Column(server_kind, name, np.sum(told, axis=0), unknown)


def _never_came(
    hops: Hops, parts: hop_parts.HopParts, labels: Labels, means: dict[CauseKind, Floats], rows: int
) -> tuple[dict[CauseKind, Floats], Floats]:
    """Of streams whose first token never came: by row and name, what moves between parts (0 in all), and how many of
    them waited longer than usual.

    Their wait is compared with a usual first token, a prompt of unknown size with the usual one.
    """
    cut = hop_parts.never_came(hops)
    usual = {kind: mean[labels.code] for kind, mean in means.items()}
    prompt_s = np.where(np.isnan(prompt_tokens(hops)), usual["prompt"] - parts.prompt, 0.0)
    waited_s = parts.first_token - prompt_s - usual["first_token"]
    less_s = np.maximum(-waited_s, 0.0)
    after: dict[CauseKind, Floats] = {
        "pace": usual["pace"],
        "stalls": usual["stalls"],
        "client_lag": np.maximum(usual["client_lag"] - parts.client_lag, 0.0),
    }
    each: dict[CauseKind, Floats] = {"prompt": prompt_s, "first_token": less_s - prompt_s, **after}
    each["answers"] = -np.sum([less_s, *after.values()], axis=0)
    moved: dict[CauseKind, Floats] = {
        kind: _sums(labels, hops.trajectory, np.where(cut, s, 0.0), rows) for kind, s in each.items()
    }
    return moved, _sums(labels, hops.trajectory, (cut & (waited_s > 0)).astype(np.float64), rows)


def _server_columns(
    hops: Hops, parts: hop_parts.HopParts, labels: Labels, middle: Bools
) -> dict[tuple[CauseKind, CauseKind], Floats]:
    """By the part that they come off and their own kind: seconds over the usual of what servers told, by row and name.

    Hops whose server told are compared with such hops only, so that one that told nothing looks like no saving.
    """
    waited, rows = ~np.isnan(hops.ttft_s) | hop_parts.never_came(hops), len(middle)
    by_server = server_parts.by_server(hops, parts)
    sources: tuple[tuple[CauseKind, Bools], ...] = (("first_token", waited), ("pace", ~waited))
    found: dict[tuple[CauseKind, CauseKind], Floats] = {}
    for source, of in sources:
        for kind in SERVER_KINDS:
            seconds = getattr(by_server, kind)
            told = of & ~np.isnan(seconds)
            if told.any():
                n = _sums(labels, hops.trajectory, told.astype(np.float64), rows)
                total = _sums(labels, hops.trajectory, np.where(told, seconds, 0.0), rows)
                found[source, kind] = total - n * _per_hop(total, n, middle)
    return found


def _per_hop(sums: Floats, n: Floats, middle: Bools) -> Floats:
    """Mean per hop of each name in the reference; of all trajectories for a name the reference never visits."""
    inside, visits = sums[middle].sum(axis=0), n[middle].sum(axis=0)
    total = np.where(visits > 0, inside, sums.sum(axis=0))
    mean: Floats = total / np.maximum(np.where(visits > 0, visits, n.sum(axis=0)), 1.0)
    return mean


def _work_columns(profile: Profile, work_s: Floats, middle: Bools) -> Iterator[_Column]:
    parts = work_parts.split(profile, work_s)
    for k, name in enumerate(parts.names):
        seconds, count = parts.tools[:, k], parts.calls[:, k]
        yield _Column("tools", name, seconds - seconds[middle].mean(), count - count[middle].mean())
    unknown = np.full(len(profile), np.nan)
    idle: tuple[tuple[CauseKind, Floats], ...] = (
        ("between_steps", parts.between_steps),
        ("after_last_hop", parts.after_last_hop),
    )
    for kind, seconds in idle:
        yield _Column(kind, "", seconds - seconds[middle].mean(), unknown)


def _words(part: Part) -> str:
    name = f"`{part.name}`" if part.name else ""
    more = part.seconds > 0
    if part.kind == "visits":
        count = round(abs(part.count or 0.0))
        many = f"{count} " if count else ""
        return f"{many}{'more' if more else 'fewer'} {name} visit{'s' if count != 1 else ''}"
    if part.kind == "first_token" and more and part.count:
        return f"waited for a first token that never came in {name}"
    return _PHRASES[part.kind][0 if more else 1].format(name)


_PHRASES: Final[dict[CauseKind, tuple[str, str]]] = {
    "answers": ("longer {} answers", "shorter {} answers"),
    "prompt": ("larger {} prompts", "smaller {} prompts"),
    "first_token": ("later first token in {}", "earlier first token in {}"),
    "queue": ("longer in the server's queue in {}", "shorter in the server's queue in {}"),
    "prefill": ("slower prefill of {} than its prompt explains", "faster prefill of {} than its prompt explains"),
    "outside": ("longer between client and server in {}", "shorter between client and server in {}"),
    "retries": ("more time in failed attempts of {}", "less time in failed attempts of {}"),
    "backoff": ("more waiting between attempts of {}", "less waiting between attempts of {}"),
    "pace": ("slower {} than its tokens explain", "faster {} than its tokens explain"),
    "stalls": ("more stalling in {}", "less stalling in {}"),
    "client_lag": ("{} more held up by the client", "{} less held up by the client"),
    "tools": ("more time in {}", "less time in {}"),
    "between_steps": ("more time before or between steps", "less time before or between steps"),
    "after_last_hop": ("more time after the last hop", "less time after the last hop"),
    "overlap": ("hops less side by side", "hops more side by side"),
}
