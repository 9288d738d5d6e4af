"""From the tables to arrays: the profile that everything in `hopbudget.budgets` takes."""

from typing import Any, Final

import duckdb
import numpy as np
from numpy.typing import NDArray

from hopbudget.budgets.profile import Hops, Profile, Trajectories, Works
from hopbudget.store.narrow import Condition, Where, check_key, condition, expression

_TRAJECTORIES: Final = (
    "trace_id, workload, run_name AS run, session, epoch_us(started_at) / 1e6 AS started_at, duration_s, work_s, "
    "answer_start_s, outcome, complete, intervened, deadline_s"
)
_STALL: Final = "greatest(1000000, 10 * list_aggregate(itl_us, 'median'))"
"""A gap past this many microseconds is a stall: one second, and ten times the stream's own median gap."""
_STALLED_S: Final = (
    "CASE WHEN itl_us IS NULL THEN NULL WHEN coalesce(list_max(itl_us), 0) <= 1000000 THEN 0.0 ELSE "
    f"list_sum(list_transform(itl_us, lambda gap: greatest(gap - {_STALL}, 0))) / 1e6 END"
)
_HOPS: Final = (
    "i AS trajectory, span_id, hop, visit, model, streamed, final, start_s AS started_s, h.duration_s, ttft_s, ttfa_s, "
    "attempt_ttft_s, tpot_s, input_tokens::DOUBLE AS input_tokens, cached_tokens::DOUBLE AS cached_tokens, "
    "output_tokens::DOUBLE AS output_tokens, coalesce(output_tokens_source = 'chunks', false) AS n_is_chunks, "
    f"attempts::DOUBLE AS attempts, backoff_s, {_STALLED_S} AS stalled_s, consumer_s, client_lag_s, "
    "server_queue_s AS queue_s, server_prefill_s AS prefill_s, server_ttft_s, "
    "h.outcome, limit_hit"
)
_WORKS: Final = "i AS trajectory, span_id, work, start_s AS started_s, w.duration_s, w.outcome"


def profile(con: duckdb.DuckDBPyConnection, where: Where, run_by: str | None = None) -> Profile:
    """The trajectories that the filter leaves, oldest first, with their hops and works.

    `run_by` names the attribute or column that tells one run from another; UserError if nothing has it.
    """
    if run_by is not None:
        check_key(con, run_by)
    run = expression(run_by) if run_by is not None else Condition("t.run", [])
    chosen = condition(where)
    parameters = [*run.parameters, *chosen.parameters]
    numbered = (
        f"WITH c AS (SELECT {run.sql} AS run_name, t.* FROM trajectories t WHERE {chosen.sql}), "
        "n AS (SELECT *, row_number() OVER (ORDER BY started_at, trace_id, root_span_id) - 1 AS i FROM c) "
    )
    join = "JOIN n USING (trace_id, root_span_id) ORDER BY i, start_s, span_id"

    def fetch(sql: str) -> dict[str, NDArray[Any]]:
        columns = con.execute(numbered + sql, parameters).fetchnumpy()
        return {name: _plain(np.ma.asarray(values)) for name, values in columns.items()}

    return Profile(
        Trajectories(**fetch(f"SELECT {_TRAJECTORIES} FROM n ORDER BY i")),
        Hops(**fetch(f"SELECT {_HOPS} FROM hops h {join}")),
        Works(**fetch(f"SELECT {_WORKS} FROM works w {join}")),
    )


def _plain(masked: Any) -> NDArray[Any]:
    """A masked array without its mask: NaN for a missing number, "" for a missing word."""
    if masked.dtype == np.bool_:
        return np.asarray(masked.filled(False))
    if masked.dtype.kind == "f":
        return np.asarray(masked.filled(np.nan), dtype=np.float64)
    if masked.dtype.kind in "iu":
        return np.asarray(masked.filled(0), dtype=np.int64)
    words = masked.astype(object).filled("")
    return np.array(["" if word is None else str(word) for word in words], dtype=object)
