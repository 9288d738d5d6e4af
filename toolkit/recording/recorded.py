"""Recorded spans as people read them: hops as rows, a tree of lines."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

from hopbudget.tracing import vocabulary as v
from hopbudget.tracing.gaps import decode

NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Hop:
    """One recorded hop. Times in seconds; what was not observed is None."""

    name: str | None
    model: str | None
    outcome: str | None
    error: str | None
    began_s: float
    ended_s: float
    ttft_s: float | None
    ttfa_s: float | None
    tpot_s: float | None
    e2e_s: float | None
    output_tokens: int | None
    output_tokens_source: str | None
    gaps_s: tuple[float, ...]
    consumer_s: float | None
    attempts: int
    final: bool
    attributes: dict[str, Any]

    @property
    def duration_s(self) -> float:
        """From the issue of the request to the last observed event."""
        return self.ended_s - self.began_s


def hop_of(span: ReadableSpan, zero_s: float) -> Hop | None:
    """The hop that a span records, its times counted from `zero_s`; None for other spans."""
    facts = dict(span.attributes or {})
    if v.HOP not in facts:
        return None
    began_s, ended_s = _times(span, zero_s)
    gaps = decode(str(facts.get(v.ITL, "")))
    get: Any = facts.get
    return Hop(
        name=get(v.HOP),
        model=get(v.RESPONSE_MODEL) or get(v.REQUEST_MODEL),
        outcome=get(v.OUTCOME),
        error=get(v.ERROR_TYPE),
        began_s=began_s,
        ended_s=ended_s,
        ttft_s=get(v.TTFT),
        ttfa_s=get(v.TTFA),
        tpot_s=get(v.TPOT),
        e2e_s=get(v.E2E),
        output_tokens=get(v.N_TOKENS),
        output_tokens_source=get(v.N_SOURCE),
        gaps_s=() if gaps is None else tuple(us / 1e6 for us in gaps.us),
        consumer_s=get(v.CONSUMER),
        attempts=get(v.ATTEMPTS, 1),
        final=get(v.FINAL, False),
        attributes=facts,
    )


def tree_of(spans: Iterable[ReadableSpan], zero_s: float) -> str:
    """One line a span, children under their parents, in the order in which they began."""
    # What began together: the last to end is the outermost.
    last_first = [*spans][::-1]
    ordered = sorted(last_first, key=lambda span: span.start_time or 0)
    ids = {span.context.span_id for span in ordered if span.context is not None}
    children: dict[int | None, list[ReadableSpan]] = {}
    for span in ordered:
        parent = span.parent.span_id if span.parent is not None and span.parent.span_id in ids else None
        children.setdefault(parent, []).append(span)

    def lines(parent: int | None, depth: int) -> Iterator[str]:
        for span in children.get(parent, []):
            yield "  " * depth + _line(span, zero_s)
            if span.context is not None:
                yield from lines(span.context.span_id, depth + 1)

    return "\n".join(lines(None, 0))


def _line(span: ReadableSpan, zero_s: float) -> str:
    facts: Any = span.attributes or {}
    name = f"hop {facts[v.HOP]}" if v.HOP in facts else span.name
    began_s, ended_s = _times(span, zero_s)
    told = [str(facts[key]) for key in (v.OUTCOME, v.ERROR_TYPE) if key in facts]
    return " ".join([name, f"{began_s:g}-{ended_s:g}", *told])


def _times(span: ReadableSpan, zero_s: float) -> tuple[float, float]:
    zero_ns = round(zero_s * NANOSECONDS)
    began_ns = span.start_time or zero_ns
    return (began_ns - zero_ns) / NANOSECONDS, ((span.end_time or began_ns) - zero_ns) / NANOSECONDS
