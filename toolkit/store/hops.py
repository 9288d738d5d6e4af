"""One model span, with those nested in it, to one hop row. Pure."""

from typing import Final

from hopbudget.store import dialects, outcomes
from hopbudget.store.dialects import Kind, Shape, count, number, text, whole
from hopbudget.store.rows import HopRow, TrajectoryRow
from hopbudget.store.spans import Attributes, Value
from hopbudget.store.tree import Node
from hopbudget.tracing import gaps
from hopbudget.tracing import vocabulary as v

NS: Final = 1e9
_EPS_S: Final = 1e-6
_READ_TO_THE_END: Final = frozenset({"ok", "truncated"})


def beyond(node: Node) -> list[Node]:
    """What is below a hop and still a fact of its own: spans under its tools and agents, and hops named by us.

    Instrumentations stack, so that one call may leave several nested model spans; those, and plumbing such as HTTP
    spans, are part of the hop.
    """
    found = []
    waiting = list(node.children)
    for child in waiting:
        own_hop = node.shape.ours and child.shape.ours
        if own_hop or child.kind in {Kind.TOOL, Kind.AGENT, Kind.PAUSE}:
            found.append(child)
        else:
            waiting.extend(child.children)
    return found


def hop_row(node: Node, trajectory: TrajectoryRow, name: str) -> HopRow:
    """The row of a hop. Its visit number and an inferred `final` are filled in later."""
    span, shape = node.span, node.shape
    attributes = span.attributes
    teller = node
    if node.children:
        attributes = _merged(node)
        shape = dialects.shape_of(attributes)
        teller = _teller(node)
    outcome = outcomes.of_span(teller.span, teller.shape)
    row = HopRow(
        trace_id=span.trace_id,
        root_span_id=trajectory.root_span_id,
        span_id=span.span_id,
        workload=trajectory.workload,
        run=trajectory.run,
        session=trajectory.session,
        hop=name,
        model=text(attributes, shape.model),
        started_at=span.start_ns,
        start_s=(span.start_ns - trajectory.started_at) / NS,
        duration_s=(span.end_ns - span.start_ns) / NS,
        input_tokens=count(attributes, shape.input_tokens),
        cached_tokens=count(attributes, shape.cached_tokens) if shape.cached_tokens else None,
        output_tokens=count(attributes, shape.output_tokens),
        reasoning_tokens=count(attributes, shape.reasoning_tokens) if shape.reasoning_tokens else None,
        outcome=outcome,
        error_type=None if outcome == "ok" else outcomes.error_type(teller.span),
    )
    row.output_tokens_source = None if row.output_tokens is None else "usage"
    if node.shape.measured:
        _begin_at_issue(row, attributes)
    if shape.measured:
        _measured(row, attributes)
    elif shape.stream is not None or shape.first_chunk_s is not None:
        _derived(row, attributes, shape)
    return row


def _begin_at_issue(row: HopRow, attributes: Attributes) -> None:
    """A hop begins when its request leaves; what its body did before is work."""
    issued_s = number(attributes.get(v.ISSUED))
    if issued_s is not None and issued_s <= row.duration_s:
        row.started_at += round(issued_s * NS)
        row.start_s += issued_s
        row.duration_s -= issued_s


def _measured(row: HopRow, attributes: Attributes) -> None:
    """What capture of ours timed itself."""
    get = attributes.get
    row.streamed = get(v.REQUEST_STREAM) is True
    row.final = get(v.FINAL) is True
    row.final_source = "declared" if row.final else None
    row.e2e_s = number(get(v.E2E))
    row.ttft_s = number(get(v.TTFT))
    row.ttft_source = None if row.ttft_s is None else "first_token"
    row.ttfa_s = number(get(v.TTFA))
    row.attempt_ttft_s = number(get(v.ATTEMPT_TTFT))
    row.tpot_s = number(get(v.TPOT))
    row.tpot_source = None if row.tpot_s is None else "measured"
    tokens = whole(get(v.N_TOKENS))
    if tokens is not None:
        row.output_tokens = tokens
        row.output_tokens_source = text(attributes, v.N_SOURCE)
    row.chunks = whole(get(v.CHUNKS))
    row.attempts = whole(get(v.ATTEMPTS))
    row.backoff_s = number(get(v.BACKOFF))
    row.limit_hit = text(attributes, v.LIMIT_HIT)
    row.budget_s = number(get(v.BUDGET))
    row.client_lag_s = number(get(v.CLIENT_LAG))
    row.consumer_s = number(get(v.CONSUMER))
    row.coalesced = whole(get(v.COALESCED))
    row.held = whole(get(v.HELD))
    remaining = get(v.REMAINING)
    row.remaining_s = float(remaining) if type(remaining) in {int, float} else None  # type: ignore[arg-type]
    if row.streamed and row.e2e_s is not None and row.outcome in _READ_TO_THE_END:
        row.duration_s = row.e2e_s
    _add_gaps(row, get(v.ITL))


def _derived(row: HopRow, attributes: Attributes, shape: Shape) -> None:
    """What can be concluded of a stream that another instrumentation saw."""
    first_chunk_s = number(attributes.get(shape.first_chunk_s)) if shape.first_chunk_s is not None else None
    says_stream = shape.stream is not None and attributes[shape.stream] is True
    row.streamed = says_stream or first_chunk_s is not None
    if first_chunk_s is None or first_chunk_s > row.duration_s + _EPS_S:
        return
    row.ttft_s = first_chunk_s
    row.ttft_source = "first_chunk"
    tokens = row.output_tokens
    # Reasoning tokens may have streamed or not; nobody says, so the pace is not known.
    if tokens and tokens > 1 and not row.reasoning_tokens and row.outcome in _READ_TO_THE_END:
        row.tpot_s = max(0.0, row.duration_s - first_chunk_s) / (tokens - 1)
        row.tpot_source = "derived"


def _add_gaps(row: HopRow, value: Value | None) -> None:
    decoded = gaps.decode(value) if isinstance(value, str) else None
    if decoded is not None:
        row.itl_us = list(decoded.us)
        row.itl_exact = decoded.exact
        row.itl_censored = decoded.censored


def _merged(node: Node) -> Attributes:
    """The hop's attributes, and those that only the model spans nested in it have."""
    merged: Attributes = {}
    for inner in _nested(node):
        merged = inner.span.attributes | merged
    return merged


def _teller(node: Node) -> Node:
    """The span that says how the call came out: capture of ours, where it is nested in somebody else's span."""
    if node.shape.measured:
        return node
    return max((inner for inner in _nested(node) if inner.shape.measured), key=lambda n: n.span.end_ns, default=node)


def _nested(node: Node) -> list[Node]:
    """The model spans that are this one call, outermost first."""
    apart = {id(child) for child in beyond(node)}
    waiting = [node]
    for inner in waiting:
        waiting.extend(child for child in inner.children if id(child) not in apart)
    return [inner for inner in waiting if inner.kind is Kind.HOP]
