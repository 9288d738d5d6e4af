"""The profile: what was observed of many trajectories, as arrays. Everything in `budgets` takes one.

Three tables of columns. Times are float seconds on the trajectory's own clock, which starts at 0 and stands still in
a pause, unless the name ends in `_at`; what was not observed is NaN (numbers) or "" (words). Rows of `Hops` and
`Works` point to their trajectory by index and stand in order of trajectory, then start.
"""

from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Words = NDArray[np.object_]  # Python strings

Table = TypeVar("Table", "Trajectories", "Hops", "Works")


@dataclass(frozen=True, slots=True)
class Trajectories:
    """One row a trajectory; `duration_s` leaves out time paused for a person."""

    trace_id: Words
    workload: Words
    run: Words
    session: Words
    started_at: Floats  # seconds since the Unix epoch
    duration_s: Floats
    work_s: Floats  # duration minus the union of hops
    answer_start_s: Floats  # start to the final stream's first answer character; NaN where not observed
    outcome: Words  # the trajectory's outcome, see hopbudget.tracing.vocabulary.OUTCOMES
    complete: Bools  # False where the root never came
    intervened: Bools  # we degraded, hedged, cut or refused something in it
    deadline_s: Floats  # the deadline it ran under; NaN where it had none


@dataclass(frozen=True, slots=True)
class Hops:
    """One row a hop."""

    trajectory: Ints  # index into Trajectories
    span_id: Words
    hop: Words  # its name
    visit: Ints  # 1 for the first hop of this name in the trajectory
    model: Words
    streamed: Bools
    final: Bools
    started_s: Floats
    duration_s: Floats
    ttft_s: Floats
    ttfa_s: Floats
    attempt_ttft_s: Floats  # from the attempt that answered to its first token
    tpot_s: Floats
    input_tokens: Floats
    cached_tokens: Floats  # of the input, those that the provider had in its cache
    output_tokens: Floats  # N
    n_is_chunks: Bools  # N was counted in chunks: it enters no TPOT objective and no token budget
    attempts: Floats
    backoff_s: Floats  # waiting between attempts
    stalled_s: Floats  # by how much gaps of the stream passed its stall threshold, summed: max(1 s, 10 median gaps)
    consumer_s: Floats  # of the gaps, the time that the reader itself took between two chunks
    client_lag_s: Floats  # how late the event loop of the client ran
    queue_s: Floats  # of the call that answered, by its inference server: waiting for the engine
    prefill_s: Floats  # and reading the prompt
    server_ttft_s: Floats  # and from its arrival to its first token
    outcome: Words
    limit_hit: Words  # which limit of ours ended it: first_token, stall, completion; "" for none


@dataclass(frozen=True, slots=True)
class Works:
    """One row a piece of work (a tool, a retrieval, orchestration with a span of its own)."""

    trajectory: Ints
    span_id: Words
    work: Words  # its name
    started_s: Floats
    duration_s: Floats
    outcome: Words


@dataclass(frozen=True, slots=True)
class Profile:
    """Observed trajectories with their hops and works."""

    trajectories: Trajectories
    hops: Hops
    works: Works

    def __len__(self) -> int:
        return len(self.trajectories.duration_s)

    def take(self, rows: Bools | Ints) -> "Profile":
        """The same profile with only these trajectories (a mask, or indices without repeats), re-indexed."""
        keep = np.flatnonzero(rows) if rows.dtype == np.bool_ else np.asarray(rows, dtype=np.int64)
        new_index = np.full(len(self), -1, dtype=np.int64)
        new_index[keep] = np.arange(len(keep))
        return Profile(
            _pick(self.trajectories, keep),
            _follow(self.hops, new_index),
            _follow(self.works, new_index),
        )


def _pick(table: Table, rows: Any) -> Table:
    return type(table)(**{field.name: getattr(table, field.name)[rows] for field in fields(table)})


def _follow(table: Any, new_index: Ints) -> Any:
    target = new_index[table.trajectory]
    rows = np.flatnonzero(target >= 0)
    rows = rows[np.argsort(target[rows], kind="stable")]
    picked = {field.name: getattr(table, field.name)[rows] for field in fields(table)}
    picked["trajectory"] = target[rows]
    return type(table)(**picked)
