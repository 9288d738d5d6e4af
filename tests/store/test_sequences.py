"""Usual trajectories, many at once, have the rows that each has by itself."""

import functools
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

import duckdb
import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from hopbudget.store import columns, facts, sequences
from hopbudget.store.arrow import Stream
from hopbudget.store.batch import Part, make_ready
from hopbudget.store.spans import Attributes, Event, Span, Spans, fields_of
from hopbudget.store.tables import TABLES, keys_of
from hopbudget.tracing import vocabulary as v

SETTLED: Mapping[str, int] = {}
T0 = 1_700_000_000_000_000_000
ROOT = "b" * 16

Leaf = tuple[str, int, int, Attributes, int]
"""Name, nanoseconds between the end of the one before and its start, length, attributes, status."""

chat: Attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
calls = st.fixed_dictionaries(
    {name: st.just(value) for name, value in chat.items()},
    optional={
        "gen_ai.usage.input_tokens": st.sampled_from([3, 0, -1, "4", 2.0, True]),
        "gen_ai.usage.output_tokens": st.integers(0, 9),
        "gen_ai.usage.cache_read.input_tokens": st.just(1),
        "gen_ai.usage.reasoning.output_tokens": st.just(2),
        "gen_ai.response.finish_reasons": st.sampled_from([["stop"], ["length"], "error"]),
        "gen_ai.conversation.id": st.sampled_from(["c", ""]),
        "error.type": st.sampled_from(["TimeoutError", "Boom"]),
        "gen_ai.request.stream": st.booleans(),
        "gen_ai.response.time_to_first_chunk": st.sampled_from([1e-9, 2e-6, 2.5, 99.0, -1.0, "soon"]),
    },
)
odd: list[Attributes] = [
    chat | {"hopbudget.outcome": "timed_out"},
    chat | {"hopbudget.hop": "plan"},
    chat | {"llm.request.type": "chat", "traceloop.entity.name": "x"},
    chat | {"langfuse.observation.type": "generation", "langfuse.observation.usage_details": '{"input": 5}'},
    {"gen_ai.operation.name": "invoke_agent"},
    {"hopbudget.pause": "approval"},
    {"asgi.event.type": "http.response.body"},
]
works: list[Attributes] = [
    {},
    {"gen_ai.tool.name": "search"},
    {"gen_ai.operation.name": "plan"},
    {"error.type": "Boom"},
]
leaf = st.tuples(
    st.sampled_from(["a", "b", ""]),
    st.sampled_from([0, 0, 1, 700, 5_000_000, -1, -900]),
    st.sampled_from([1, 1_500, 3_000_000_001, 0]),
    st.one_of(calls, calls, st.sampled_from(works), st.sampled_from(odd)),
    st.sampled_from([0, 0, 0, 1, 2]),
)
roots = st.fixed_dictionaries(
    {"gen_ai.operation.name": st.sampled_from(["invoke_agent", "invoke_agent", "chat", "plan"])},
    optional={
        "gen_ai.agent.name": st.just("agent"),
        "gen_ai.conversation.id": st.just("s"),
        "hopbudget.deadline": st.just(12.5),
        "hopbudget.intervened": st.just(True),
        "hopbudget.outcome": st.just("cancelled"),
        "sampling.probability": st.just(0.5),
        "run": st.integers(0, 3),
    },
)


resources: list[Attributes] = [
    {},
    {"service.name": "svc", "service.version": "1"},
    {"service.name": "unknown_service:x", "sampling.probability": 0.25},
]


@st.composite
def trace(draw: st.DrawFn, number: int = 0) -> list[Span]:
    """Mostly of the usual form; anything about it may be otherwise."""
    resource = draw(st.sampled_from(resources))
    scope = draw(st.sampled_from(["", "tests", "strands.telemetry"]))
    at, spans = T0, []
    for place, (name, gap, length, attributes, status) in enumerate(draw(st.lists(leaf, max_size=5))):
        start = at + gap
        parent = draw(st.sampled_from([ROOT] * 30 + [None, f"{0:016x}"[:-1] + "1", "c" * 16]))
        at = start + length
        spans.append(
            Span(
                *(f"{number:032x}", f"{place + 1:016x}", parent, name, 3, start, at, status, None),
                *(draw(st.sampled_from([scope] * 9 + ["logfire"])), resource, attributes),
                draw(st.sampled_from([None] * 9 + [[Event("first_token", start, {})]])),
            )
        )
    start, end = T0 - draw(st.sampled_from([0, 10, -1])), at + draw(st.sampled_from([0, 10, -1]))
    root = Span(
        *(f"{number:032x}", ROOT, None, "root", 1, start, max(start, end), draw(st.sampled_from([0, 0, 1, 2])), None),
        *(scope, resource, draw(roots)),
    )
    if not spans or draw(st.sampled_from([True, True, True, False])):
        spans.insert(draw(st.sampled_from([0, len(spans)])), root)
    return spans


def by_itself(traces: list[list[Span]], table: str, settles: Mapping[str, int]) -> list[Any]:
    return list(map(msgspec.structs.astuple, getattr(facts.of_traces(traces, settles), table)))


def at_once(found: sequences.Found, table: str) -> list[Any]:
    values = found.rows.get(table)
    if values is None:
        return []
    names, length = TABLES[table].__struct_fields__, len(values["trace_id"])
    lists = [columns.as_list(values[name]) if name in values else [None] * length for name in names]
    return list(zip(*lists, strict=True))


def find(traces: list[list[Span]], settles: Mapping[str, int] = SETTLED) -> sequences.Found:
    spans = Spans(fields_of([span for one in traces for span in one]))
    return sequences.find(spans, keys_of(spans.fields), list(map(len, traces)), settles)


several = st.integers(1, 6).flatmap(lambda count: st.tuples(*map(trace, range(count)))).map(list)
some_settle = st.dictionaries(st.integers(0, 5).map(lambda number: f"{number:032x}"), st.just(T0 + 5))


@settings(deadline=None, max_examples=400)
@given(several, some_settle)
def test_rows_of_many_at_once_are_those_of_each_by_itself(traces: list[list[Span]], settles: Mapping[str, int]) -> None:
    found = find(traces, settles)
    usual = [one for one in traces if one not in found.others]
    for table in TABLES:
        assert at_once(found, table) == by_itself(usual, table, settles)


def test_a_root_may_come_first_or_last_or_later() -> None:
    first = make(0, "agent")
    for spans in (first, [*first[1:], first[0]], first[1:]):
        assert find([spans], {first[0].trace_id: T0}).others == []


def test_calls_may_stream() -> None:
    root, call, tool = make(0, "agent")
    call.attributes = call.attributes | {"gen_ai.request.stream": True, "gen_ai.response.time_to_first_chunk": 1e-9}
    assert find([[root, call, tool]]).others == []


def make(number: int, agent: str) -> list[Span]:
    """An agent's span with a call and a tool one after another, of the usual form."""
    ids = f"{number:032x}"
    parts: list[tuple[str, int, int, Attributes]] = [("1", 0, 5, chat), ("2", 6, 9, {"gen_ai.tool.name": "search"})]
    return [
        Span(ids, ROOT, None, "r", 1, T0, T0 + 9, 0, None, "", {}, {v.OPERATION: v.INVOKE_AGENT, v.AGENT_NAME: agent}),
        *(
            Span(ids, word * 16, ROOT, "s", 3, T0 + start, T0 + end, 0, None, "", {}, attributes)
            for word, start, end, attributes in parts
        ),
    ]


@settings(deadline=None)
@given(several)
def test_a_batch_holds_the_rows_of_usual_and_of_other_trajectories(traces: list[list[Span]]) -> None:
    whole = [span for one in traces for span in one]
    in_turns = [span for several in zip_longest(*traces) for span in several if span]
    for spans in (whole, in_turns, in_turns + whole):
        assert_is_ready(spans, traces)


def assert_is_ready(spans: list[Span], traces: list[list[Span]]) -> None:
    ready = make_ready([Part(spans)])
    assert (ready.given, columns.size(ready.tables["spans"])) == (len(spans), sum(map(len, traces)))
    for table in TABLES:
        rows = by_itself(traces, table, SETTLED)
        assert sorted(read(ready.tables[table]) if table in ready.tables else [], key=str) == sorted(rows, key=str)


@functools.cache
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def read(table: columns.Table) -> list[Any]:
    """The rows as DuckDB sees them."""
    con = connection()
    stream = Stream(table)
    con.register("given", stream)
    try:
        return con.execute("SELECT * FROM given").fetchall()
    finally:
        con.unregister("given")
