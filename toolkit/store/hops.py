"""One model span, with those nested in it, to one hop row. Pure."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from hopbudget.store import engines, langfuse, outcomes, shapes
from hopbudget.store.dialects import Kind
from hopbudget.store.first_chunks import first_chunk
from hopbudget.store.rows import HopRow, TrajectoryRow
from hopbudget.store.spans import Attributes, Value
from hopbudget.store.tree import Node
from hopbudget.store.values import count, json_map, number, text, whole
from hopbudget.tracing import gaps
from hopbudget.tracing import vocabulary as v

NS: Final = 1e9
HOLDS_TOOLS: Final = "holds_tools"
"""Tools, agents or waiting ran within the model span, so its length is not the model's alone."""
NO_END: Final = "no_end"
"""The source doesn't say when the call ended: its span lasts until the run does."""
_READ_TO_THE_END: Final = frozenset({"ok", "truncated"})
_APART: Final = frozenset({Kind.TOOL, Kind.AGENT, Kind.PAUSE})


class _Call(NamedTuple):
    """The spans that are one call."""

    models: list[Node]
    """Model spans, outermost first."""
    engines: list[Node]
    """The inference server's spans."""
    holds_tools: bool


def beyond(node: Node) -> list[Node]:
    """What is below a hop and still a fact of its own: spans under its tools and agents, and hops named by us.

    Instrumentations stack, so that one call may leave several nested model spans; those, and plumbing such as HTTP
    spans, are part of the hop.
    """
    found = []
    waiting = list(node.children)
    for child in waiting:
        own_hop = node.shape.ours and child.shape.ours
        if own_hop or child.kind in _APART:
            found.append(child)
        else:
            waiting.extend(child.children)
    return found


def hop_row(node: Node, trajectory: TrajectoryRow, name: str) -> HopRow:
    """The row of a hop. Its visit number and an inferred `final` are filled in later."""
    span, shape = node.span, node.shape
    attributes = span.attributes
    call = _call(node) if node.children else None
    own = _timed(node, call.models) if call else []
    start_ns, end_ns = _extent(node, own)
    teller = max(own, key=_end, default=node)
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
        started_at=start_ns,
        start_s=(start_ns - trajectory.started_at) / NS,
        duration_s=(end_ns - start_ns) / NS,
        input_tokens=count(attributes, shape.input_tokens),
        cached_tokens=count(attributes, shape.cached_tokens) if shape.cached_tokens else None,
        output_tokens=count(attributes, shape.output_tokens),
        reasoning_tokens=count(attributes, shape.reasoning_tokens) if shape.reasoning_tokens else None,
        outcome=outcome,
        error_type=None if outcome == "ok" else outcomes.error_type(teller.span),
        source=shape.source,
    )
    if shape.special:
        _fill_special(row, node)
    if call:
        attributes = _fill_from_inner(row, call.models)
    row.output_tokens_source = None if row.output_tokens is None else "usage"
    if shape.measured or own:
        _begin_at_issue(row, attributes)
        _measured(row, attributes)
    elif call:
        _derived(row, call.models)
    elif shape.stream is not None or shape.first or span.events is not None or shape.special:
        _derived(row, (node,))
    if call:
        _note(row, call)
    return row


def _fill_from_inner(row: HopRow, models: list[Node]) -> Attributes:
    """What the spans further in say and the outermost one does not; returns the attributes of all of them."""
    merged = models[0].span.attributes
    for inner in models[1:]:
        attributes, shape = inner.span.attributes, inner.shape
        merged = attributes | merged
        if row.input_tokens is None:
            row.input_tokens = count(attributes, shape.input_tokens)
        if row.output_tokens is None:
            row.output_tokens = count(attributes, shape.output_tokens)
        if row.cached_tokens is None:
            row.cached_tokens = count(attributes, shape.cached_tokens)
        if row.reasoning_tokens is None:
            row.reasoning_tokens = count(attributes, shape.reasoning_tokens)
        if row.model is None:
            row.model = text(attributes, shape.model)
        if shape.special:
            _fill_special(row, inner)
    row.model = text(merged, v.RESPONSE_MODEL) or row.model  # who answered goes before who was asked
    return merged


def _fill_special(row: HopRow, node: Node) -> None:
    """What a source says in a way of its own: in a JSON object, or in parts that sum up."""
    dialect, attributes = node.shape.dialect, node.span.attributes
    if dialect is None:
        return
    if dialect.input_besides and row.input_tokens is not None:
        row.input_tokens += sum(count(attributes, name) or 0 for name in dialect.input_besides)
    if dialect.endless is not None and dialect.endless.fullmatch(node.span.name):
        flag(row, NO_END)
    if dialect.usage or dialect.parameters:
        _fill_from_json(row, attributes, dialect.usage, dialect.parameters)


def _fill_from_json(row: HopRow, attributes: Attributes, usage: str | None, parameters: str | None) -> None:
    """What stands in an attribute that is a JSON object."""
    if usage is not None and usage in attributes:
        for column, value in langfuse.usage_counts(json_map(attributes[usage])).items():
            if getattr(row, column) is None:
                setattr(row, column, value)
    if row.model is None and parameters is not None:
        row.model = text(json_map(attributes.get(parameters)), "model")


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
    row.ttft_from = None if row.ttft_s is None else v.TTFT
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


def _derived(row: HopRow, models: Sequence[Node]) -> None:
    """What can be concluded of a stream that other instrumentations saw."""
    for model in models:
        shape = model.shape
        row.streamed = row.streamed or shapes.streams(model.span.attributes, shape)
        if row.ttft_s is not None or not (shape.first or model.span.events):
            continue
        said = first_chunk(model.span, shape)
        if said is None:
            continue
        row.streamed = True
        row.ttft_from = row.ttft_from or said.said_by
        if said.after_s is None:
            flag(row, said.flaw)
            continue
        # A span further in begins later; the wait counts from the outermost one.
        row.ttft_s = said.after_s + (model.span.start_ns - row.started_at) / NS
        row.ttft_source, row.ttft_from = "first_chunk", said.said_by
    tokens = row.output_tokens
    # Reasoning tokens may have streamed or not; nobody says, so the pace is not known.
    known = tokens and tokens > 1 and not row.reasoning_tokens and row.outcome in _READ_TO_THE_END
    if row.ttft_s is not None and known:
        row.tpot_s = max(0.0, row.duration_s - row.ttft_s) / ((tokens or 0) - 1)
        row.tpot_source = "derived"


def flag(row: HopRow, word: str | None) -> None:
    """Note something that is doubtful about a hop, once."""
    if word is not None and word not in (row.flags or "").split():
        row.flags = f"{row.flags} {word}" if row.flags else word


def _note(row: HopRow, call: _Call) -> None:
    sources = dict.fromkeys(model.shape.source for model in call.models if model.shape.source)
    row.source = " + ".join(sources) or None
    if call.holds_tools:
        flag(row, HOLDS_TOOLS)
    if call.engines:
        flag(row, engines.add(row, call.engines))


def _add_gaps(row: HopRow, value: Value | None) -> None:
    decoded = gaps.decode(value) if isinstance(value, str) else None
    if decoded is not None:
        row.itl_us = list(decoded.us)
        row.itl_exact = decoded.exact
        row.itl_censored = decoded.censored


def extent(node: Node) -> tuple[int, int] | None:
    """From when to when a call lasted that capture of ours timed within somebody else's span; None for any other."""
    own = _timed(node, _call(node).models) if node.children else []
    return _extent(node, own) if own else None


def _timed(node: Node, models: Sequence[Node]) -> list[Node]:
    """The spans that say when a call began and how it came out: those of ours, nested in somebody else's.

    Another instrumentation may end its span of an abandoned stream when that is collected.
    """
    return [] if node.shape.measured else [inner for inner in models if inner.shape.measured]


def _extent(node: Node, own: Sequence[Node]) -> tuple[int, int]:
    spans = [inner.span for inner in own or (node,)]
    return min(span.start_ns for span in spans), max(span.end_ns for span in spans)


def _end(node: Node) -> int:
    return node.span.end_ns


def _call(node: Node) -> _Call:
    """The spans below a model span that are the same call."""
    apart = {id(child) for child in beyond(node)}
    waiting = [node]
    for inner in waiting:
        waiting.extend(child for child in inner.children if id(child) not in apart)
    return _Call(
        [inner for inner in waiting if inner.kind is Kind.HOP],
        [inner for inner in waiting if inner.kind is Kind.ENGINE],
        any(child.kind in _APART for inner in waiting for child in inner.children),
    )
