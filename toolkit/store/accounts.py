"""What an import could learn from its spans, source by source, and what is missing. Pure.

Spans, model calls, tools and trajectories of each source; where first-token times came from; which facts too few spans
state for what is built on them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from hopbudget.store import facts, shapes
from hopbudget.store.dialects import DIALECTS, Kind
from hopbudget.store.rows import HopRow
from hopbudget.store.spans import Span

UNKNOWN: Final = "other spans"
"""Spans of no known source: web frameworks, databases, HTTP clients."""
_VERIFIED: Final = {dialect.name: dialect.verified is not None for dialect in DIALECTS}


class Missing(NamedTuple):
    """Something that the spans don't say, on how many of how many, and what it costs."""

    what: str
    n: int
    of: int
    costs: str


class OfTrace(NamedTuple):
    """What one trace held, or several together."""

    spans: int
    hops: int
    tools: int
    trajectories: int


class OfFile(NamedTuple):
    """What the traces held of which only this file has spans."""

    held: OfTrace
    shared: int
    """The traces of which other files have spans too: what they held is in no file's numbers."""


def together(found: Iterable[OfTrace]) -> OfTrace:
    """What these traces held, taken together."""
    return OfTrace(*map(sum, zip((0, 0, 0, 0), *found, strict=True)))


@dataclass(slots=True)
class Source:
    """What came from one source."""

    spans: int = 0
    hops: int = 0
    tools: int = 0
    trajectories: int = 0
    streamed: int = 0
    first_tokens: Counter[str] = field(default_factory=Counter)
    """Hops with a first-token time, by the attribute or event that gave it."""
    flags: Counter[str] = field(default_factory=Counter)
    """What is doubtful about how many hops."""
    with_model: int = 0
    with_input_tokens: int = 0
    with_output_tokens: int = 0

    def as_json(self, name: str) -> dict[str, Any]:
        """The row of `--json`."""
        return {
            "source": name,
            "verified": _VERIFIED.get(name),
            "spans": self.spans,
            "hops": self.hops,
            "tools": self.tools,
            "trajectories": self.trajectories,
            "streamed": self.streamed,
            "first_token_times": dict(self.first_tokens),
            "flags": dict(self.flags),
        }


class Account:
    """The account of some traces; they may be added a few at a time."""

    def __init__(self) -> None:
        self.sources: dict[str, Source] = {}
        self.of_trace: dict[str, OfTrace] = {}
        self.incomplete = 0
        self.with_session = 0
        self.sampled = 0
        self.stacked = 0
        self.works = 0
        self.lone_engines = 0
        self.hop_names: Counter[str] = Counter()
        self.first_chunks = 0

    def add(self, traces: Iterable[Sequence[Span]]) -> None:
        """Add whole traces, each given as its spans without duplicates."""
        for spans in traces:
            if spans:
                self._add(spans)

    def _add(self, spans: Sequence[Span]) -> None:
        found = facts.of_traces([spans])
        tools = self._add_spans(spans)
        roots = {span.span_id: span for span in spans}
        for row in found.trajectories:
            root = roots.get(row.root_span_id)
            self._source(root).trajectories += 1
            self.incomplete += not row.complete
            self.with_session += row.session is not None
            self.sampled += row.sampling_ratio is not None and row.sampling_ratio < 1
        self.works += len(found.works)
        for hop in found.hops:
            self._add_hop(hop)
        self.of_trace[spans[0].trace_id] = OfTrace(len(spans), len(found.hops), tools, len(found.trajectories))

    def _add_spans(self, spans: Sequence[Span]) -> int:
        kinds: dict[str, Kind] = {}
        for span in spans:
            kinds[span.span_id] = shapes.kind_of(span, shapes.shape_of(span.scope, span.attributes))
            self._source(span).spans += 1
        tools = 0
        for span in spans:
            # A tool's span directly under another is the same call seen twice (MCP's client, for one).
            if kinds[span.span_id] is Kind.TOOL and kinds.get(span.parent_id or "") is not Kind.TOOL:
                tools += 1
                self._source(span).tools += 1
        self.lone_engines += sum(kind is Kind.ENGINE for kind in kinds.values())
        return tools

    def _add_hop(self, hop: HopRow) -> None:
        names = (hop.source or UNKNOWN).split(" + ")
        source = self.sources.setdefault(names[0], Source())
        source.hops += 1
        source.streamed += hop.streamed
        source.with_model += hop.model is not None
        source.with_input_tokens += hop.input_tokens is not None
        source.with_output_tokens += hop.output_tokens is not None
        if hop.ttft_s is not None:
            source.first_tokens[hop.ttft_from or "unknown"] += 1
            self.first_chunks += hop.ttft_source == "first_chunk"
        source.flags.update((hop.flags or "").split())
        self.stacked += len(names) > 1
        self.lone_engines -= hop.server_e2e_s is not None or hop.server_ttft_s is not None
        self.hop_names[hop.hop] += 1

    def _source(self, span: Span | None) -> Source:
        name = shapes.shape_of(span.scope, span.attributes).source if span else None
        return self.sources.setdefault(name or UNKNOWN, Source())

    def by_file(self, files: Mapping[str, Iterable[str]]) -> tuple[dict[str, OfFile], OfTrace]:
        """What each file held, given the ids of the traces in it; and what the traces held that several files share."""
        in_files = {name: set(traces) for name, traces in files.items()}
        seen = Counter(trace for traces in in_files.values() for trace in traces)
        found = {
            name: OfFile(
                together(self._of(trace for trace in traces if seen[trace] == 1)),
                sum(seen[trace] > 1 for trace in traces),
            )
            for name, traces in in_files.items()
        }
        return found, together(self._of(trace for trace, n in seen.items() if n > 1))

    def _of(self, traces: Iterable[str]) -> list[OfTrace]:
        return [self.of_trace[trace] for trace in traces if trace in self.of_trace]

    @property
    def hops(self) -> int:
        """All model calls."""
        return sum(source.hops for source in self.sources.values())

    def ordered(self) -> list[tuple[str, Source]]:
        """Sources with the most hops first, those of no known source last."""
        return sorted(
            self.sources.items(), key=lambda item: (item[0] == UNKNOWN, -item[1].hops, -item[1].spans, item[0])
        )

    def missing(self) -> list[Missing]:
        """What is not said, and what that costs; the most costly first."""
        hops, trajectories = self.hops, sum(source.trajectories for source in self.sources.values())
        if not hops:
            costs = "nothing to allot, to limit or to blame" + (
                "; only trajectories and their tools are stored" if trajectories else ""
            )
            return [Missing("no model span", trajectories, trajectories, costs)]
        timed = sum(source.first_tokens.total() for source in self.sources.values())
        without = {
            "model": hops - sum(source.with_model for source in self.sources.values()),
            "input": hops - sum(source.with_input_tokens for source in self.sources.values()),
            "output": hops - sum(source.with_output_tokens for source in self.sources.values()),
        }
        tools = sum(source.tools for source in self.sources.values())
        found = [
            Missing(
                "no first-token times" if not timed else "first-token times missing",
                hops - timed,
                hops,
                "no stream budget, no limit on the wait for a first token, no pace"
                if not timed
                else "without one a hop enters no TTFT, no TPOT and no stream budget",
            ),
            Missing(
                "no output tokens",
                without["output"],
                hops,
                "no pace; a longer answer can't be told from a slower one; no tokens that fit",
            ),
            Missing("no input tokens", without["input"], hops, "no first-token times by prompt size"),
            Missing("no model", without["model"], hops, "expectations don't go by model"),
            Missing(
                "no root span",
                self.incomplete,
                trajectories,
                "without it a trajectory is left out of times and budgets",
            ),
            Missing(
                "no session",
                trajectories - self.with_session,
                trajectories,
                "resampling goes by trajectory, so intervals may be too narrow",
            ),
        ]
        if not tools:
            costs = (
                "work goes by the names of other spans, tools not told from the rest"
                if self.works
                else "work is one sum: slow tools have no name"
            )
            found.append(Missing("no tool spans", 1, 1, costs))
        if len(self.hop_names) == 1 and hops > trajectories:
            costs = "they share one budget; @hopbudget.hop tells them apart"
            found.append(Missing("one name for all hops", hops, hops, costs))
        if self.sampled:
            found.append(
                Missing("sampled", self.sampled, trajectories, "counts are of what was kept; see `hopbudget report`")
            )
        if self.lone_engines > 0:
            found.append(
                Missing("server spans without their call", self.lone_engines, self.lone_engines, "no split of the wait")
            )
        return [one for one in found if one.n > 0]

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "sources": [source.as_json(name) for name, source in self.ordered()],
            "hops": self.hops,
            "stacked": self.stacked,
            "first_chunks": self.first_chunks,
            "missing": [one._asdict() for one in self.missing()],
        }
