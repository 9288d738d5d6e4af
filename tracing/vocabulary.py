"""Names on the wire: the attributes, span names and outcomes that capture writes and the store reads.

The `gen_ai.*` names are OpenTelemetry's. Its Python constants carry no stability promise, so the few we use stand here.
Everything under `hopbudget.*` is ours, because no convention exists for it; times are float seconds.
"""

from typing import Final, Literal

# --- OpenTelemetry GenAI and general conventions -------------------------------------------------------------
OPERATION: Final = "gen_ai.operation.name"
AGENT_NAME: Final = "gen_ai.agent.name"
TOOL_NAME: Final = "gen_ai.tool.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
PROVIDER: Final = "gen_ai.provider.name"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
ERROR_TYPE: Final = "error.type"

CHAT: Final = "chat"
TEXT_COMPLETION: Final = "text_completion"
INVOKE_AGENT: Final = "invoke_agent"
INVOKE_WORKFLOW: Final = "invoke_workflow"
EXECUTE_TOOL: Final = "execute_tool"

# --- ours ----------------------------------------------------------------------------------------------------
WORKLOAD: Final = "hopbudget.workload"
"""On every trajectory span of ours (the trajectory's name unless a workload was given)."""
RUN: Final = "hopbudget.run"
HOP: Final = "hopbudget.hop"
"""The hop's name; on every hop span of ours."""
ADOPTED: Final = "hopbudget.adopted"
"""True on another instrumentation's span that was taken as a hop of our trajectory: named by us, and not timed."""
HOLDS_HOPS: Final = "hopbudget.holds_hops"
"""True on a hop span of ours that made no call of its own: the calls are those of the hops inside it."""
FINAL: Final = "hopbudget.final"
"""True on a hop declared as the final stream; absent otherwise."""
PAUSE: Final = "hopbudget.pause"
"""The pause's name, on a span that covers waiting for a person. Such time is in nobody's deadline."""
ISSUED: Final = "hopbudget.issued"
"""From the span's start to the issue of the request, where a client was seen to send it later: that time is work."""
OUTCOME: Final = "hopbudget.outcome"
LIMIT_HIT: Final = "hopbudget.limit_hit"
TTFT: Final = "hopbudget.ttft"
"""Issue of the request to the first generated token."""
TTFA: Final = "hopbudget.ttfa"
"""Issue of the request to the first answer character."""
ATTEMPT_TTFT: Final = "hopbudget.attempt_ttft"
TPOT: Final = "hopbudget.tpot"
E2E: Final = "hopbudget.e2e"
"""Issue of the request to the last generated token."""
N_TOKENS: Final = "hopbudget.output_tokens"
"""N: output tokens that streamed. Usage as the provider states it stays in `gen_ai.usage.*`."""
N_SOURCE: Final = "hopbudget.output_tokens.source"
"""Where N came from: `usage`, `tokenizer` or `chunks`."""
CHUNKS: Final = "hopbudget.chunks"
"""How many token-bearing chunks came."""
ITL: Final = "hopbudget.itl"
"""The gaps between token-bearing chunks, in one compact value; see `hopbudget.tracing.gaps`."""
ATTEMPTS: Final = "hopbudget.attempts"
BACKOFF: Final = "hopbudget.backoff"
BUDGET: Final = "hopbudget.budget"
REMAINING: Final = "hopbudget.remaining"
DEADLINE: Final = "hopbudget.deadline"
PLAN: Final = "hopbudget.plan"
INTERVENED: Final = "hopbudget.intervened"
"""True on a trajectory in which something was ended or not sent; absent otherwise."""
DECISIONS: Final = "hopbudget.decisions"
"""What was done in it, in order: `hop: limit`, `hop: refused` or `hop: aborted`."""
DECISION: Final = "hopbudget.decision"
"""One of them, on a metric, without the hop's name."""
ENFORCE: Final = "hopbudget.enforce"
"""How the trajectory's deadline and limits are held: `observe`, `deadline` or `abort`."""
FAILOVER: Final = "hopbudget.failover"
"""On a hop whose first token was waited for too long: who sent it (`primary`, `secondary`), or `capped` where no second
attempt was allowed. On an attempt's own span, which is no hop: `lost`."""
MIDSTREAM: Final = "hopbudget.midstream"
"""On a hop whose stream broke after it was opened: what was done (`retried`, `resumed`, `truncated`, `raised`)."""
DELIVERED: Final = "hopbudget.midstream.delivered_tokens"
"""Tokens that its reader had got by then."""
PAID_TWICE: Final = "hopbudget.midstream.tokens_paid_twice"
"""Of those, what was generated again by a retry, or sent along as prompt by a resumption."""
TIME_LOST: Final = "hopbudget.midstream.time_lost"
"""Seconds: of a retry, all of the stream that was given up; of a resumption, from its last token to the next."""
CLIENT_LAG: Final = "hopbudget.client_lag"
"""On awaited hops: the largest delay, in seconds, with which the event loop ran a timer of ours meanwhile."""
CONSUMER: Final = "hopbudget.consumer"
"""Seconds between a chunk's being handed to the consumer and its asking for the next, all chunks of the stream."""
COALESCED: Final = "hopbudget.coalesced"
"""How many of the gaps are under 0.2 ms: both chunks came in one read."""
HELD: Final = "hopbudget.held"
"""How many other gaps ended with a chunk that was there when asked for: they are the consumer's time."""

SCOPE_NAME: Final = "hopbudget.tracing"

Outcome = Literal["ok", "truncated", "failed", "timed_out", "cancelled", "closed_by_consumer", "refused"]
OUTCOMES: Final[tuple[Outcome, ...]] = (
    "ok",
    "truncated",
    "failed",
    "timed_out",
    "cancelled",
    "closed_by_consumer",
    "refused",
)
