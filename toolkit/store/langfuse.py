"""Exports of the Langfuse API: a trace and its observations, to span records.

What an observation was made from stands in its metadata, where it came in by OpenTelemetry: scope, resource and
attributes, so the source is known as if its spans had been sent here. What Langfuse itself knows (type, model, usage,
first token) is added under the names that its own SDK uses. Its `latency` is not read: exports differ in its unit.
"""

from collections.abc import Iterable
from typing import Any, Final

from hopbudget.store import caps, ids
from hopbudget.store.content import safe_status
from hopbudget.store.flat import Raw, attributes_of
from hopbudget.store.spans import ERROR, UNSET, Attributes, Decoded, Span
from hopbudget.store.tolerant import BadSpanError, Counter
from hopbudget.store.values import instant, json_map, whole

_TYPES: Final = frozenset(
    {
        *("SPAN", "GENERATION", "EVENT", "AGENT", "TOOL", "CHAIN"),
        *("RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL"),
    }
)
_SCOPE: Final = "langfuse-sdk"
_ADDED: Final = {
    "model": "langfuse.observation.model.name",
    "completionStartTime": "langfuse.observation.completion_start_time",
    "level": "langfuse.observation.level",
}
_OF_TRACE: Final = {
    "sessionId": "session.id",
    "userId": "user.id",
    "name": "langfuse.trace.name",
    "release": "langfuse.release",
    "version": "langfuse.version",
    "environment": "langfuse.environment",
}
_TOKENS: Final = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
}
_USAGE: Final = {
    "input_tokens": ("input", "prompt_tokens", "input_tokens", "promptTokens"),
    "output_tokens": ("output", "completion_tokens", "output_tokens", "completionTokens"),
    "cached_tokens": (
        "input_cached_tokens",
        "input_cache_read",
        "prompt_details.cache_read",
        "cache_read_input_tokens",
        "prompt_tokens_details.cached_tokens",
        "input_tokens_details.cached_tokens",
    ),
    "reasoning_tokens": (
        *("output_reasoning_tokens", "output_reasoning", "completion_details.reasoning"),
        *("completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens"),
    ),
}


def usage_counts(usage: Attributes) -> dict[str, int | None]:
    """Token counts of a usage object, in the names of Langfuse or OpenAI, by column."""
    counts = dict(usage)
    for name, inner in usage.items():
        if isinstance(inner, dict):
            counts |= {f"{name}.{key}": value for key, value in inner.items()}
    return {
        column: next((found for name in known if (found := whole(counts.get(name))) is not None), None)
        for column, known in _USAGE.items()
    }


def looks_like_an_observation(value: object) -> bool:
    """Whether it is one observation."""
    return (
        isinstance(value, dict)
        and value.get("type") in _TYPES
        and "startTime" in value
        and "id" in value
        and ("traceId" in value or "parentObservationId" in value)
    )


def decode_trace(trace: Raw, observations: Iterable[object]) -> Decoded:
    """The spans of a whole trace. What hangs on nothing that was exported is a root."""
    listed = list(observations)
    known = {ids.to_hex(one.get("id"), ids.SPAN_DIGITS) for one in listed if isinstance(one, dict)}
    decoded = decode(listed, trace)
    for span in decoded.spans:
        if span.parent_id not in known:
            span.parent_id = None
    return decoded


def decode(observations: Iterable[object], trace: Raw | None = None) -> Decoded:
    """The spans of some observations, of one trace where it is given."""
    counter = Counter()
    spans: list[Span] = []
    rejected: list[str] = []
    for raw in observations:
        try:
            spans.append(_span(raw, trace or {}, counter))
        except BadSpanError as bad:
            name = raw.get("name") if isinstance(raw, dict) else None
            rejected.append(f"observation {str(name)[:60]!r}: {bad}")
    return Decoded(spans, rejected, counter.dropped)


def _span(raw: object, trace: Raw, counter: Counter) -> Span:
    if not isinstance(raw, dict):
        raise BadSpanError("not an object")
    trace_id = ids.to_hex(raw.get("traceId") or trace.get("id"), ids.TRACE_DIGITS)
    span_id = ids.to_hex(raw.get("id"), ids.SPAN_DIGITS)
    if trace_id is None or span_id is None:
        raise BadSpanError("no trace id" if trace_id is None else "no id")
    start_ns = instant(raw.get("startTime"))
    if start_ns is None:
        raise BadSpanError("no start time that can be read")
    end = raw.get("endTime")
    end_ns = start_ns if end is None and raw.get("type") == "EVENT" else instant(end)
    if end_ns is None:
        raise BadSpanError("no end time: it had not ended when it was exported")
    if end_ns < start_ns:
        raise BadSpanError(f"it ends {(start_ns - end_ns) / 1e9:.6g} s before its start")
    metadata = json_map(raw.get("metadata"))
    scope = json_map(metadata.get("scope")).get("name")
    name, message = raw.get("name"), raw.get("statusMessage")
    counter.dropped += sum(raw.get(field) is not None for field in ("input", "output"))
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=ids.to_hex(raw.get("parentObservationId"), ids.SPAN_DIGITS),
        name=name[: caps.LONGEST_TEXT] if isinstance(name, str) else "",
        kind=0,
        start_ns=start_ns,
        end_ns=end_ns,
        status=ERROR if raw.get("level") == "ERROR" else UNSET,
        status_text=safe_status(message) if isinstance(message, str) and message else None,
        scope=scope if isinstance(scope, str) and scope else _SCOPE,
        resource=attributes_of(json_map(metadata.get("resourceAttributes")), counter),
        attributes=_attributes(raw, trace, json_map(metadata.get("attributes")), counter),
    )


def _attributes(raw: dict[str, Any], trace: Raw, given: Attributes, counter: Counter) -> Attributes:
    out = attributes_of(given, counter)
    kind = raw.get("type")
    if isinstance(kind, str):
        out["langfuse.observation.type"] = kind.lower()
    for key, name in _ADDED.items():
        value = raw.get(key)
        if isinstance(value, str) and value:
            out[name] = value
    if kind == "GENERATION":
        for column, count in usage_counts(json_map(raw.get("usageDetails")) or json_map(raw.get("usage"))).items():
            if count is not None:
                out.setdefault(_TOKENS[column], count)
    if raw.get("parentObservationId") is None:
        for key, name in _OF_TRACE.items():
            value = trace.get(key)
            if isinstance(value, str) and value:
                out.setdefault(name, value)
    return out
