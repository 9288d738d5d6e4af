"""The rows of the three tables that others rely on, in the order of their columns.

Seconds are floats, `_ns` and `_at` nanoseconds since the Unix epoch here (timestamps in the tables). None is NULL: not
observed. `start_s` counts from the trajectory's start, exactly and with pauses left out, where `started_at` is wall
time cut to microseconds.
"""

import msgspec


class TrajectoryRow(msgspec.Struct, gc=False, kw_only=True):
    """One agent run that served one request."""

    trace_id: str
    root_span_id: str
    workload: str
    run: str | None = None
    session: str | None = None
    service: str | None = None
    started_at: int
    duration_s: float
    hop_count: int
    model_s: float
    work_s: float
    paused_s: float = 0.0
    answer_start_s: float | None = None
    outcome: str
    complete: bool
    deadline_s: float | None = None
    plan: str | None = None
    intervened: bool = False
    attributes: dict[str, str] = {}
    sampling_ratio: float | None = None
    settles_at: int | None = None


class HopRow(msgspec.Struct, gc=False, kw_only=True):
    """One model call."""

    trace_id: str
    root_span_id: str
    span_id: str
    workload: str
    run: str | None = None
    session: str | None = None
    hop: str
    visit: int = 1
    model: str | None = None
    streamed: bool = False
    final: bool = False
    final_source: str | None = None
    started_at: int
    start_s: float
    duration_s: float
    e2e_s: float | None = None
    ttft_s: float | None = None
    ttft_source: str | None = None
    ttfa_s: float | None = None
    attempt_ttft_s: float | None = None
    tpot_s: float | None = None
    tpot_source: str | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    output_tokens_source: str | None = None
    chunks: int | None = None
    itl_us: list[int] | None = None
    itl_exact: int | None = None
    itl_censored: bool | None = None
    attempts: int | None = None
    backoff_s: float | None = None
    outcome: str
    limit_hit: str | None = None
    error_type: str | None = None
    budget_s: float | None = None
    remaining_s: float | None = None
    client_lag_s: float | None = None
    consumer_s: float | None = None
    coalesced: int | None = None
    held: int | None = None
    source: str | None = None
    ttft_from: str | None = None
    flags: str | None = None
    server_ttft_s: float | None = None
    server_queue_s: float | None = None
    server_prefill_s: float | None = None
    server_decode_s: float | None = None
    server_e2e_s: float | None = None


class WorkRow(msgspec.Struct, gc=False, kw_only=True):
    """One piece of work beside the hops."""

    trace_id: str
    root_span_id: str
    span_id: str
    work: str
    started_at: int
    start_s: float
    duration_s: float
    outcome: str
