"""What the slots are called: a label for each hop, and one label for those that run side by side."""

from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from hopbudget.budgets.allocation import SlotKind
from hopbudget.budgets.numbers.intervals import Spans, last_ended_before
from hopbudget.budgets.profile import Floats, Ints, Profile

MOST_SLOTS: Final = 8
"""Visit numbers and predecessors are folded until about this many slots are left: more cost more than they say."""

OVERLAP_SHARE: Final = 0.2
"""Two places are one stage where they overlap by this share of the shorter, in this share of trajectories with both."""


@dataclass(frozen=True, slots=True)
class Labels:
    """A label for each hop: `names[code]`."""

    names: tuple[str, ...]
    code: Ints


def encode(words: list[str]) -> Labels:
    """Number the distinct words in alphabetical order."""
    names = sorted(set(words))
    number = {name: index for index, name in enumerate(names)}
    return Labels(tuple(names), np.fromiter((number[word] for word in words), dtype=np.int64, count=len(words)))


def hop_labels(profile: Profile, rows: Ints, kind: SlotKind) -> Labels:
    """Label these hops, and put the labels in the order in which a trajectory typically comes to them."""
    hops = profile.hops
    names = [str(name) for name in hops.hop[rows]]
    if kind == "visit":
        words = _by_visit(names, [int(visit) for visit in hops.visit[rows]])
    elif kind == "before":
        words = _by_predecessor(profile, rows, names)
    else:
        words = names
    return _in_time_order(encode(words), hops.trajectory[rows], hops.started_s[rows])


def _in_time_order(labels: Labels, trajectory: Ints, started_s: Floats) -> Labels:
    columns = len(labels.names)
    by_start = np.argsort(started_s, kind="stable")
    _, first = np.unique((trajectory * columns + labels.code)[by_start], return_index=True)
    first = by_start[first]  # the first hop of each label in each trajectory
    count = np.bincount(labels.code[first], minlength=columns)
    total = np.bincount(labels.code[first], weights=started_s[first], minlength=columns)
    order = np.argsort(total / np.maximum(count, 1), kind="stable")
    new = np.empty_like(order)
    new[order] = np.arange(len(order))
    return Labels(tuple(labels.names[i] for i in order), new[labels.code])


def _by_visit(names: list[str], visits: list[int]) -> list[str]:
    most: dict[str, int] = {}
    for name, visit in zip(names, visits, strict=True):
        most[name] = max(most.get(name, 1), visit)
    top = max((m for m in range(1, MOST_SLOTS + 1) if sum(min(v, m) for v in most.values()) <= MOST_SLOTS), default=1)
    return [
        f"{name} #{top}+" if visit >= top and most[name] > top else f"{name} #{visit}"
        for name, visit in zip(names, visits, strict=True)
    ]


def _by_predecessor(profile: Profile, rows: Ints, names: list[str]) -> list[str]:
    hops, works = profile.hops, profile.works
    step = np.concatenate([hops.hop, works.work])
    group = np.concatenate([hops.trajectory, works.trajectory])
    end = np.concatenate([hops.started_s + hops.duration_s, works.started_s + works.duration_s])
    before = last_ended_before(hops.trajectory[rows], hops.started_s[rows], group, end)
    words = [f"{name} after {step[i] if i >= 0 else 'start'}" for name, i in zip(names, before, strict=True)]
    ranked = Counter(words).most_common()
    if len(ranked) <= MOST_SLOTS:
        return words
    common = {word for word, _ in ranked[: MOST_SLOTS - 1]}
    return [w if w in common else f"{name} after other" for w, name in zip(words, names, strict=True)]


def merge_overlapping(labels: Labels, spans: Spans) -> Labels:
    """Join labels whose hops overlap in time materially and repeatedly into one stage, `a+b`.

    Two are joined where they overlap by at least `OVERLAP_SHARE` of the shorter one's time, in at least two
    trajectories and at least `OVERLAP_SHARE` of those that have both; joining is transitive.
    """
    columns = len(labels.names)
    if columns < 2:
        return labels
    alone = spans.covered_by_s(labels.code, columns)
    together = spans.covered_s()
    if np.count_nonzero(alone.sum(axis=1) - together > 1e-6 * (1.0 + together)) < 2:
        return labels
    stage = list(range(columns))
    for a, b in combinations(range(columns), 2):
        pair = spans.take((labels.code == a) | (labels.code == b))
        if _side_by_side(alone[:, a], alone[:, b], pair.covered_s()):
            old, new = stage[b], stage[a]
            stage = [new if s == old else s for s in stage]
    kept = sorted(set(stage))
    names = tuple("+".join(labels.names[i] for i in range(columns) if stage[i] == s) for s in kept)
    to = np.array([kept.index(s) for s in stage], dtype=np.int64)
    return Labels(names, to[labels.code])


def _side_by_side(a_s: Floats, b_s: Floats, union_s: Floats) -> bool:
    shorter = np.minimum(a_s, b_s)
    with_both = shorter > 0
    material = with_both & (a_s + b_s - union_s >= OVERLAP_SHARE * shorter)
    hits = int(np.count_nonzero(material))
    return hits >= 2 and hits >= OVERLAP_SHARE * int(np.count_nonzero(with_both))
