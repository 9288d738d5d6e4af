"""What belongs together when trajectories are held out: runs, else sessions, else single trajectories.

Trajectories of one run share its configuration and its day, those of one session its history. Held out one by one,
each would be predicted from its own neighbours, and everything would look better than it is.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from hopbudget.budgets.profile import Floats, Ints, Profile, Words

ClusterKind = Literal["run", "session", "trajectory"]

LEAST_RUNS: Final = 3
"""With fewer, a run held out leaves nothing to compare runs by."""
LEAST_SESSIONS: Final = 5
ONE_BY_ONE: Final = 10
"""Up to so many clusters each is a fold of its own;"""
FOLDS: Final = 5
"""more are dealt into so many folds."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """Which cluster each trajectory belongs to: codes 0..n-1."""

    kind: ClusterKind
    code: Ints
    names: tuple[str, ...]
    """"" where a cluster has none."""

    @property
    def n(self) -> int:
        """How many clusters there are."""
        return len(self.names)

    def take(self, rows: Ints) -> "Clusters":
        """Of these trajectories only, renumbered."""
        kept, code = np.unique(self.code[rows], return_inverse=True)
        return Clusters(self.kind, code.astype(np.int64), tuple(self.names[int(k)] for k in kept))

    def sums(self, values: Floats) -> Floats:
        """The sum of the values by cluster."""
        return np.bincount(self.code, weights=values, minlength=self.n).astype(np.float64)


def clusters(profile: Profile, rows: Ints, content: Floats | None = None) -> Clusters:
    """By run where there are several, else by session, else one a trajectory.

    `content` (a row for each of `rows`) tells equal trajectories, which then are one cluster: having each of them
    twice changes nothing.
    """
    run = profile.trajectories.run[rows]
    return _named("run", run) if len(set(run)) >= LEAST_RUNS else within_runs(profile, rows, content)


def within_runs(profile: Profile, rows: Ints, content: Floats | None = None) -> Clusters:
    """The same without runs: by session, else one a trajectory."""
    session = profile.trajectories.session[rows]
    if len(set(session) - {""}) >= LEAST_SESSIONS:
        alone = np.array([word or f"\0{index}" for index, word in enumerate(session)], dtype=object)
        return _named("session", alone)
    if content is None:
        return _by_trace(profile.trajectories.trace_id[rows])
    order = np.lexsort(content.T[::-1])
    ordered = content[order]
    new = np.ones(len(rows), dtype=np.bool_)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    code = np.empty(len(rows), dtype=np.int64)
    code[order] = np.cumsum(new) - 1
    return Clusters("trajectory", code, ("",) * int(np.count_nonzero(new)))


def _by_trace(trace_id: Words) -> Clusters:
    """One cluster a trace, numbered by a hash of its id: neither the order of recording nor a period in it shows."""
    order = sorted({str(word) for word in trace_id}, key=lambda word: (_hashed(word), word))
    number = {word: index for index, word in enumerate(order)}
    code = np.array([number[str(word)] for word in trace_id], dtype=np.int64)
    return Clusters("trajectory", code, ("",) * len(order))


def _hashed(word: str) -> bytes:
    return hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8, salt=b"folds").digest()


def _named(kind: ClusterKind, words: Words) -> Clusters:
    names, code = np.unique(words.astype(str), return_inverse=True)
    return Clusters(kind, code.astype(np.int64), tuple("" if name.startswith("\0") else str(name) for name in names))


def folds(found: Clusters, most: int | None = None) -> Ints:
    """The fold of each trajectory, 0..k-1: whole clusters, dealt so that folds are of about equal size.

    `most` is the number of folds at most; without it, every cluster is held out once alone where there are few.
    """
    wanted = most if most is not None else (found.n if found.n <= ONE_BY_ONE else FOLDS)
    k = min(wanted, found.n)
    if found.kind == "trajectory":
        # Codes follow the content, so that dealing them in turns gives every fold as many slow ones; or else a hash.
        return found.code % k
    of_cluster = _dealt(found.sums(np.ones(len(found.code))), k)
    return of_cluster[found.code]


def _dealt(sizes: Sequence[float] | Floats, k: int) -> Ints:
    """The largest first, each to the fold that is smallest so far."""
    load = np.zeros(k)
    fold = np.zeros(len(sizes), dtype=np.int64)
    for cluster in np.argsort(-np.asarray(sizes), kind="stable"):
        fold[cluster] = int(np.argmin(load))
        load[fold[cluster]] += sizes[cluster]
    return fold
