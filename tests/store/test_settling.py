"""Traces that come in pieces from elsewhere: out of order, twice, late, with the root last or never."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from hopbudget.store import spool
from hopbudget.store.batch import QUIET_NS, Part, make_ready
from hopbudget.store.duck import Store
from hopbudget.store.spool import Spool

NOW_NS = 1_800_000_000_000_000_000


def stream(make: Any, word: str, start: float, end: float, parent: str = "bot") -> dict[str, Any]:
    return dict(make.chat(word, start, end, parent=parent, attributes={"gen_ai.response.time_to_first_chunk": 1.0}))


def arrive(store: Store, make: Any, *spans: dict[str, Any], at_ns: int = NOW_NS) -> None:
    """Spans that others sent reach the store at this time."""
    part = Part(make.spans(*spans), received_at_ns=at_ns)
    store.put(make_ready([part], at_ns))


def state(store: Store, rows: Any) -> list[tuple[Any, ...]]:
    """Whether each trajectory is whole, is settled, and which hop is its final stream."""
    sql = (
        "SELECT complete, settles_at IS NULL AS settled, "
        "(SELECT span_id FROM hops h WHERE h.trace_id = t.trace_id AND final) AS final FROM trajectories t"
    )
    return [tuple(row.values()) for row in rows.of(store, sql)]


def test_the_final_stream_is_inferred_once_nothing_came_for_a_while(make: Any, store: Store, rows: Any) -> None:
    arrive(store, make, make.agent("bot", 0, 9), stream(make, "b", 2, 9))
    assert state(store, rows) == [(True, False, None)]
    assert store.settle(NOW_NS + QUIET_NS - 1_000) == 0
    assert store.settle(NOW_NS + QUIET_NS) == 1
    assert state(store, rows) == [(True, True, make.span_id("b"))]
    assert store.settle(NOW_NS + QUIET_NS) == 0


def test_late_spans_reopen_it_and_what_was_inferred_is_decided_anew(make: Any, store: Store, rows: Any) -> None:
    arrive(store, make, make.agent("bot", 0, 9), stream(make, "b", 2, 6))
    store.settle(NOW_NS + QUIET_NS)
    late_ns = NOW_NS + 2 * QUIET_NS
    arrive(store, make, stream(make, "c", 6, 9), at_ns=late_ns)
    assert state(store, rows) == [(True, False, None)]
    store.settle(late_ns + QUIET_NS)
    assert state(store, rows) == [(True, True, make.span_id("c"))]


def test_a_root_that_never_comes_leaves_it_settled_and_incomplete(make: Any, store: Store, rows: Any) -> None:
    arrive(store, make, stream(make, "b", 2, 9))
    store.settle(NOW_NS + QUIET_NS)
    assert state(store, rows) == [(False, True, None)]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4)))[::5])
def test_any_order_one_by_one_and_twice_gives_the_same_rows(
    make: Any, rows: Any, tmp_path: Path, order: tuple[int, ...]
) -> None:
    store, whole = Store(None), Store(None)
    spans = [make.agent("bot", 0, 9), make.chat("a", 0, 2, parent="bot"), make.tool("find", 2, 3, parent="bot"),
             stream(make, "b", 3, 9)]  # fmt: skip
    for number, index in enumerate([*order, *order]):
        arrive(store, make, spans[index], at_ns=NOW_NS + number)
    store.settle(NOW_NS + QUIET_NS + 10)
    whole.import_paths([make.file(tmp_path / "a.jsonl", spans)])
    for table in ("trajectories", "hops", "works"):
        sql = f"SELECT * FROM {table} ORDER BY ALL"
        assert rows.of(store, sql) == rows.of(whole, sql)


def test_of_a_batch_that_overlaps_with_what_is_stored_only_the_new_spans_are_added(make: Any, store: Store) -> None:
    tool = make.tool("find", 2, 3, parent="bot")
    arrive(store, make, make.chat("a", 0, 2, parent="bot"), tool)
    again = Part(make.spans(tool, make.agent("bot", 0, 9), stream(make, "b", 3, 9)), received_at_ns=NOW_NS)
    counts = store.put(make_ready([again], NOW_NS))
    assert (counts.spans, counts.duplicates, counts.trajectories, counts.hops, counts.works) == (2, 1, 0, 1, 0)


def test_what_has_no_stream_is_settled_with_the_rows_it_had(make: Any, store: Store, rows: Any) -> None:
    sql = "SELECT * EXCLUDE (settles_at) FROM trajectories JOIN hops USING (trace_id)"
    arrive(store, make, make.agent("bot", 0, 9), make.chat("a", 0, 2, parent="bot"))
    before = rows.of(store, sql)
    assert store.settle(NOW_NS + QUIET_NS) == 1
    assert state(store, rows) == [(True, True, None)]
    assert rows.of(store, sql) == before


def test_spans_of_agents_here_and_of_files_are_settled_at_once(make: Any, store: Store, rows: Any) -> None:
    store.put(make_ready([Part(make.spans(make.agent("bot", 0, 9), stream(make, "b", 2, 9)))], NOW_NS))
    assert state(store, rows) == [(True, True, make.span_id("b"))]


def test_a_backlog_that_is_older_than_the_quiet_period_is_settled_at_once(make: Any, store: Store, rows: Any) -> None:
    part = Part(make.spans(make.agent("bot", 0, 9), stream(make, "b", 2, 9)), received_at_ns=NOW_NS)
    store.put(make_ready([part], NOW_NS + QUIET_NS))
    assert state(store, rows) == [(True, True, make.span_id("b"))]


def test_the_spool_knows_what_others_sent_by_its_name(make: Any, store: Store, rows: Any) -> None:
    assert store.spool is not None
    Spool(store.spool, received=True).append([make.line([make.agent("bot", 0, 9), stream(make, "b", 2, 9)])], 2)
    (file,) = spool.files(store.spool)
    assert file.path.name.endswith("-2.received.jsonl")
    assert file.received_at_ns is not None
    assert store.drain().spans == 2
    assert state(store, rows) == [(True, False, None)]
    store.settle(file.received_at_ns + QUIET_NS)
    assert state(store, rows) == [(True, True, make.span_id("b"))]


def test_where_there_is_no_store_yet_there_is_nothing_to_settle(store: Store) -> None:
    assert store.settle() == 0
    assert store.path is not None
    assert not store.path.exists()
