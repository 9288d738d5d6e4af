"""A trajectory's steps draw on the same slots, and take the same seconds there, as `budgets` counts them."""

from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget import budgets
from hopbudget.budgets.population import usable_population
from hopbudget.budgets.splits.slots import slot_times
from hopbudget.budgets.splits.spending import Interval, gaps, slots_of, spending, steps, union
from hopbudget.budgets.streams.stream import final_hops
from hopbudget.store import queries
from hopbudget.store.duck import Store

Rows = dict[str, list[dict[str, Any]]]


def stored_rows(store: Store) -> tuple[Rows, Rows]:
    """Hops and works by trace id."""
    tables: list[Rows] = []
    with store.reading() as con:
        for table in ("hops", "works"):
            cursor = con.execute(f"SELECT * FROM {table} ORDER BY start_s, span_id")
            names = [column[0] for column in cursor.description]
            by_trace: Rows = defaultdict(list)
            for row in cursor.fetchall():
                by_trace[row[0]].append(dict(zip(names, row, strict=True)))
            tables.append(by_trace)
    return tables[0], tables[1]


def assert_spends_alike(store: Store, kind: budgets.SlotKind, binds: budgets.Binds, most: int) -> None:
    with store.reading() as con:
        profile = queries.profile(con, queries.Where())
    hops, works = stored_rows(store)
    plan = budgets.allocate(profile, budgets.deadline_at(profile, 90, binds), slots=kind, binds=binds)
    people = usable_population(profile, binds)
    times = slot_times(profile, people, kind, final_hops(profile))
    for row, index in list(enumerate(people.rows))[:most]:
        trace = profile.trajectories.trace_id[index]
        ordered = steps(hops[trace], works[trace])
        spent = spending(ordered, slots_of(ordered, plan), plan, float(people.observed_s[row]))
        assert [part.spent_s for part in spent] == pytest.approx(list(times.seconds[row]), abs=1e-5)


@pytest.mark.parametrize("binds", ["last", "answer"])
@pytest.mark.parametrize("kind", budgets.SLOT_KINDS)
def test_recorded_runs_spend_as_budgets_counts(
    recorded_store: Path, kind: budgets.SlotKind, binds: budgets.Binds
) -> None:
    assert_spends_alike(Store(recorded_store), kind, binds, most=60)


def test_long_recorded_turns_spend_as_budgets_counts(shared: Path) -> None:
    store = Store(None)
    store.import_paths([shared / "data" / "coding-turns.otlp.jsonl.gz"])

    for kind in budgets.SLOT_KINDS:
        assert_spends_alike(store, kind, "last", most=150)


def test_a_slot_is_over_from_the_moment_its_budget_is_used_up(recorded_profile: budgets.Profile) -> None:
    plan = budgets.allocate(recorded_profile, 5.0)
    budget_s = next(slot.budget_s for slot in plan.slots if slot.slot == "search")
    hop: dict[str, Any] = {"hop": "search", "final": False, "streamed": False}
    ordered = steps(
        [
            {**hop, "visit": 1, "start_s": 0.0, "duration_s": 0.75 * budget_s},
            {**hop, "visit": 2, "start_s": 10.0, "duration_s": 0.75 * budget_s},
        ],
        [],
    )

    (search,) = (
        part for part in spending(ordered, slots_of(ordered, plan), plan, until_s=20.0) if part.slot == "search"
    )

    assert search.spent_s == pytest.approx(1.5 * budget_s)
    assert search.out_at_s == pytest.approx(10.0 + 0.25 * budget_s)


def test_a_slot_within_its_budget_is_never_over(recorded_profile: budgets.Profile) -> None:
    plan = budgets.allocate(recorded_profile, 5.0)

    assert all(part.out_at_s is None for part in spending([], [], plan, until_s=0.0))


intervals = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)).map(lambda pair: (min(pair), max(pair))))


@given(intervals)
def test_what_is_busy_and_what_is_free_add_up(given_intervals: list[Interval]) -> None:
    busy = union(given_intervals, 50.0)
    free = gaps(busy, 50.0)

    assert np.isclose(sum(end - start for start, end in [*busy, *free]), 50.0)
    assert all(first[1] < second[0] for first, second in pairwise(busy))
