"""The spans of one trace to rows: trajectories, hops and works. Pure.

What is read from where is the table in `dialects`, read by `shapes`; which span belongs to which trajectory is `tree`.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from hopbudget.store import beside, engines, hops, outcomes, roots, shapes, tails, tree
from hopbudget.store.dialects import Kind
from hopbudget.store.intervals import Interval, clip, length
from hopbudget.store.rows import HopRow, TrajectoryRow, WorkRow
from hopbudget.store.spans import Span
from hopbudget.store.tree import Node, Tree
from hopbudget.store.values import text

NS: Final = 1e9
_NOISE_NS: Final = 1_000
"""Hops that follow one another may seem to overlap by what their times lost to rounding."""
_STAGES: Final = {Kind.AGENT, Kind.CHAIN}
_BY_US: Final = frozenset({"timed_out", "refused"})
"""Outcomes of hops that only a limit of ours gives."""
_SETTLED: Final[Mapping[str, int]] = MappingProxyType({})


class Facts(NamedTuple):
    """Rows of some traces."""

    trajectories: list[TrajectoryRow]
    hops: list[HopRow]
    works: list[WorkRow]


class _Sorted(NamedTuple):
    """The spans of a trajectory by what they are, each in order of start."""

    hops: list[tuple[Node, str | None]]
    """With the name of the nearest stage around each, below the trajectory's root."""
    works: list[Node]
    pauses: list[Interval]
    engines: list[Node]
    """The inference server's spans that hang on no hop."""


def of_traces(traces: Iterable[Sequence[Span]], settles: Mapping[str, int] = _SETTLED) -> Facts:
    """Rows of these traces, each given as its spans without duplicates.

    `settles` says of traces by their id when they will be whole, in nanoseconds since the Unix epoch. Until then what
    rests on nothing more coming (an inferred final stream) is left open.
    """
    facts = Facts([], [], [])
    for spans in traces:
        for found in tree.trajectories(spans):
            _add(found, facts, settles.get(spans[0].trace_id) if settles else None)
    return facts


def _add(found: Tree, facts: Facts, settles_at: int | None) -> None:
    sorted_out = _sort(found)
    timed = _timed_alone(found, sorted_out)
    start, end = timed or (found.start_ns, found.end_ns)
    row = _trajectory_row(found, sorted_out, start)
    hop_rows = [
        hops.hop_row(node, row, shapes.hop_name(node.span.attributes, node.shape, stage))
        for node, stage in sorted_out.hops
    ]
    _count_visits(hop_rows)
    if sorted_out.engines:
        _give_engines(hop_rows, sorted_out)
    intervals = list(map(_interval, hop_rows))
    if sorted_out.works and hop_rows:
        _flag_overlapped(hop_rows, intervals, sorted_out.works)
    row.settles_at = settles_at
    if row.complete and settles_at is None:
        _infer_final(hop_rows, sorted_out)
    pauses = clip(sorted_out.pauses, start, end) if sorted_out.pauses else []
    paused = length(pauses)
    covered = min(length(clip(intervals, start, end) + pauses, _NOISE_NS), end - start)
    row.paused_s = paused / NS
    row.duration_s = (end - start - paused) / NS
    row.work_s = (end - start - covered) / NS
    row.model_s = (covered - paused) / NS
    row.hop_count = len(hop_rows)
    row.answer_start_s = _answer_start(hop_rows, pauses, start)
    row.outcome = (outcomes.of_root(found.root.span) if found.root and not timed else None) or _last_outcome(hop_rows)
    # A stream that was handed on may be ended after its trajectory was written.
    row.intervened = row.intervened or any(hop.outcome in _BY_US for hop in hop_rows)
    facts.trajectories.append(row)
    facts.hops.extend(hop_rows)
    work_rows = [_work_row(node, row) for node in sorted_out.works]
    if pauses:
        # The trajectory's own clock stands still while a person is waited for.
        placed: list[HopRow | WorkRow] = [*hop_rows, *work_rows]
        for step in placed:
            step.start_s -= length(clip(pauses, start, step.started_at)) / NS
    facts.works.extend(work_rows)


def _timed_alone(found: Tree, sorted_out: _Sorted) -> Interval | None:
    """When a trajectory began and ended that is one call alone, which ours timed within somebody else's span."""
    root = found.root
    if root is None or root.kind is not Kind.HOP or len(sorted_out.hops) > 1 or sorted_out.works or sorted_out.pauses:
        return None
    return hops.extent(root)


def _trajectory_row(found: Tree, sorted_out: _Sorted, started_at: int) -> TrajectoryRow:
    """The row with what the root says; its times and outcome are filled in when the hops are known."""
    first = found.root or found.tops[0]
    said = roots.said(first.span, first.shape, is_root=found.root is not None)
    return TrajectoryRow(
        trace_id=first.span.trace_id,
        root_span_id=found.root_span_id,
        workload=said.workload,
        run=said.run,
        session=said.session or _session(node for node, _ in sorted_out.hops),
        service=said.service,
        started_at=started_at,
        duration_s=0.0,
        hop_count=0,
        model_s=0.0,
        work_s=0.0,
        outcome="ok",
        complete=found.root is not None,
        deadline_s=said.deadline_s,
        plan=said.plan,
        intervened=said.intervened,
        attributes=said.attributes,
        sampling_ratio=said.sampling_ratio,
    )


def _session(hop_nodes: Iterable[Node]) -> str | None:
    of_hops = (text(node.span.attributes, node.shape.session) for node in hop_nodes)
    return next((name for name in of_hops if name), None)


def _sort(found: Tree) -> _Sorted:
    hop_nodes: list[tuple[Node, str | None]] = []
    works: list[Node] = []
    pauses: list[Interval] = []
    apart: list[Node] = []
    ends: list[Node] = []
    tops = [found.root] if found.root and found.root.kind is Kind.HOP else beside.nest(found.tops)
    waiting: list[tuple[Node, str | None]] = [(node, None) for node in tops]
    for node, stage in waiting:  # grows as it goes
        kind = node.kind
        if kind is Kind.HOP:
            hop_nodes.append((node, stage))
            if node.children:
                waiting.extend([(child, stage) for child in hops.beyond(node)])
            continue
        if kind is Kind.PAUSE:
            pauses.append((node.span.start_ns, node.span.end_ns))
        elif kind is Kind.ENGINE:
            apart.append(node)
        elif kind is Kind.TAIL:
            ends.append(node)
        elif kind is not Kind.ASIDE and not (node.children and _holds_hop(node)):
            works.append(node)
        if node.children:
            inner = (shapes.stage_name(node.span, node.shape) or stage) if kind in _STAGES else stage
            waiting.extend([(child, inner) for child in beside.nest(node.children)])
    if len(hop_nodes) > 1:
        hop_nodes.sort(key=_hop_order)
    if len(works) > 1:
        works.sort(key=_order)
    if ends:
        tails.join([node for node, _ in hop_nodes], sorted(ends, key=_order))
    return _Sorted(hop_nodes, works, pauses, apart)


def _holds_hop(node: Node) -> bool:
    return any(below.kind is Kind.HOP for below in tree.walk(node.children))


def _hop_order(pair: tuple[Node, str | None]) -> tuple[int, str]:
    span = pair[0].span
    return span.start_ns, span.span_id


def _order(node: Node) -> tuple[int, str]:
    span = node.span
    return span.start_ns, span.span_id


def _give_engines(rows: list[HopRow], sorted_out: _Sorted) -> None:
    """To the hop whose response they name: a client that sends no trace context leaves them beside it."""
    for row, (node, _) in zip(rows, sorted_out.hops, strict=True):
        mine = [engine for engine in sorted_out.engines if engines.answers(engine, node.span.attributes)]
        if mine and row.server_e2e_s is None:
            hops.flag(row, engines.add(row, mine))


def _flag_overlapped(rows: list[HopRow], intervals: list[Interval], works: list[Node]) -> None:
    """Model spans within whose time a tool ran hold it, also where it isn't their child."""
    tools = [node.span for node in works if node.kind is Kind.TOOL and node.span.end_ns > node.span.start_ns]
    if not tools:
        return
    starts = [tool.start_ns for tool in tools]
    for row, (start, end) in zip(rows, intervals, strict=True):
        at = bisect_right(starts, start)
        while at < len(tools) and starts[at] < end:
            if tools[at].end_ns <= end:
                hops.flag(row, hops.HOLDS_TOOLS)
                break
            at += 1


def _count_visits(rows: list[HopRow]) -> None:
    seen: dict[str, int] = {}
    for row in rows:
        row.visit = seen[row.hop] = seen.get(row.hop, 0) + 1


def _infer_final(rows: list[HopRow], sorted_out: _Sorted) -> None:
    """The last hop to end, if it streamed and nothing starts after its first token, and none was declared."""
    if not any(row.streamed for row in rows) or any(row.final for row in rows):
        return
    last = max(rows, key=_end)
    first_token = last.started_at + int((last.ttft_s or 0.0) * 1e9)
    later = [row for row in rows if row is not last and row.started_at > first_token]
    if last.streamed and not later and all(node.span.start_ns <= first_token for node in sorted_out.works):
        last.final, last.final_source = True, "inferred"


def _interval(row: HopRow) -> Interval:
    return row.started_at, row.started_at + round(row.duration_s * 1e9)


def _answer_start(rows: list[HopRow], pauses: list[Interval], start: int) -> float | None:
    finals = [row for row in rows if row.final]
    if not finals or finals[-1].ttfa_s is None:
        return None
    at = finals[-1].started_at + round(finals[-1].ttfa_s * 1e9)
    return (at - start - length(clip(pauses, start, at))) / NS


def _last_outcome(rows: list[HopRow]) -> str:
    if not rows:
        return "ok"
    return rows[0].outcome if len(rows) == 1 else max(rows, key=_end).outcome


def _end(row: HopRow) -> float:
    return row.started_at + row.duration_s * 1e9


def _work_row(node: Node, row: TrajectoryRow) -> WorkRow:
    span = node.span
    return WorkRow(
        trace_id=span.trace_id,
        root_span_id=row.root_span_id,
        span_id=span.span_id,
        work=shapes.work_name(span.name, span.attributes, node.shape),
        started_at=span.start_ns,
        start_s=(span.start_ns - row.started_at) / NS,
        duration_s=(span.end_ns - span.start_ns) / NS,
        outcome=outcomes.of_span(span, node.shape),
    )
