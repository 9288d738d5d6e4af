"""What a person can turn for each cause of slowness."""

from collections.abc import Mapping
from typing import Final

LEVERS: Final[Mapping[str, tuple[str, ...]]] = {
    "visits": (
        "fewer steps: a tool that answers in one call, or a prompt that says when to stop",
        "a hint to the agent that says when to come to an end: `steps_left`",
    ),
    "answers": (
        "a token cap on this hop (`max_tokens`), tight for hops that nobody reads",
        "a shorter format: fields instead of prose, no repetition of the question",
    ),
    "prompt": (
        "a shorter prompt: fewer documents, history cut or summarised",
        "prefix caching: what stays the same stands first",
    ),
    "first_token": (
        "prefill scheduling and admission: long prompts of others in front of yours",
        "fail over when no first token came by its Q99 for this model and prompt size",
        "prefix caching, faster prefill kernels",
    ),
    "queue": (
        "admission and capacity: more replicas, or fewer requests let in at once, by what was demonstrated to hold",
        "priority for the hops that a deadline waits for; batch work elsewhere",
    ),
    "prefill": (
        "prefix caching: what stays the same stands first, and goes to the replica that has it",
        "chunked prefill, or prefill in a pool of its own",
    ),
    "outside": (
        "the way there: region, proxies and gateways, connections kept open, TLS anew with every call",
        "the client: its connection pool, its event loop before the request goes out",
    ),
    "pace": (
        "batch size and observed concurrency: fewer streams side by side decode faster",
        "KV memory, quantisation, speculative decoding, a smaller model",
    ),
    "stalls": (
        "prefill interference: chunked prefill, or separate pools for prefill and decode",
        "a stall limit (`stall_s`) with a fail-over",
    ),
    "retries": (
        "a total limit on the hop instead of one an attempt, and fewer attempts",
        "the errors that are retried: rate limits, overload, connections",
    ),
    "backoff": (
        "shorter waits between attempts, capped by what is left of the deadline",
        "a second endpoint instead of a wait",
    ),
    "client_lag": (
        "the client's own process: blocking calls in the event loop, too many streams in one process",
        "more processes, or less work between two chunks",
    ),
    "tools": (
        "the tool itself: its cache, its time-out, its index",
        "tools side by side, or beside the next hop",
    ),
    "between_steps": (
        "a span of its own for what goes on there (`work`), so that it gets a name",
        "the agent's own process: blocking calls, waits for a slot or a lock, starting up",
    ),
    "after_last_hop": (
        "what comes after the answer (saving, scoring, closing) behind its end instead of before",
        "the end of the stream: usage and `[DONE]` that come late, a connection slow to close",
    ),
    "overlap": ("hops that don't need one another side by side again",),
}
"""By kind of cause, most effective first. A kind that is not listed has no lever known here."""


def levers(kind: str) -> tuple[str, ...]:
    """What can be turned for a cause of this kind; empty where nothing is known."""
    return LEVERS.get(kind, ())
