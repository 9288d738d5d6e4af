"""What stands behind the charts: axes, spreads, timelines, causes."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget import budgets
from hopbudget.app import look
from hopbudget.app.allotted import segments
from hopbudget.app.axis import deadlines, linear_ticks, log_ticks, time_axis
from hopbudget.app.because import by_hop
from hopbudget.app.bridge import stones
from hopbudget.app.timeline import longest, timeline
from hopbudget.app.trends import lines
from hopbudget.budgets import Part
from hopbudget.budgets.attainment.spread import DOTS, hop_spreads, work_spreads
from hopbudget.budgets.blame.breaches import HopShare, breaches
from hopbudget.store import queries
from hopbudget.store.duck import Store
from hopbudget.store.figures import Point

spans = st.floats(1e-5, 1e5)


@given(spans, st.floats(1.01, 1e6))
def test_ticks_are_few_and_inside_the_axis(high: float, ratio: float) -> None:
    for ticks in (linear_ticks(0.0, high), log_ticks(high / ratio, high)):
        assert 1 <= len(ticks) <= 8
        assert ticks == sorted(set(ticks))
        assert all(tick <= high * (1 + 1e-9) for tick in ticks)


def test_ticks_stand_where_a_clock_would_put_them() -> None:
    assert linear_ticks(0.0, 6.3) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert linear_ticks(0.0, 115.0) == [0.0, 30.0, 60.0, 90.0]
    assert linear_ticks(0.0, 130.0) == [0.0, 60.0, 120.0]
    assert linear_ticks(0.0, 4 * 3600.0) == [0.0, 3600.0, 7200.0, 10800.0, 14400.0]


def test_a_trend_has_the_ticks_of_a_clock() -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    points = [Point(at + timedelta(hours=n), "", 5, 0, 9000.0, 15_000.0, None) for n in range(3)]
    spec = lines(points, "p90_s", 3600, None).to_dict()
    axes = [axis for axis in found(spec, "axis") if axis and "labelExpr" in axis and "values" in axis]
    assert axes[0]["values"] == [0.0, 3600.0, 7200.0, 10800.0, 14400.0]
    assert "/ 3600" in axes[0]["labelExpr"] and "min" not in axes[0]["labelExpr"]


@given(st.floats(120.0, 1e6), st.sampled_from([3, 5, 7]))
def test_ticks_of_minutes_and_hours_are_whole(high: float, most: int) -> None:
    unit_s = 60.0 if high < 7200 else 3600.0 if high < 172_800 else 86_400.0
    ticks = linear_ticks(0.0, high, most)
    step = (ticks[1] - ticks[0]) / unit_s
    assert step in (1, 2, 5, 10, 15, 20, 30, 60)
    assert len(ticks) <= most + 1


def found(spec: Any, key: str) -> list[Any]:
    """Everything under this key, however deep."""
    if isinstance(spec, list):
        return [one for part in spec for one in found(part, key)]
    if not isinstance(spec, dict):
        return []
    return [value for name, value in spec.items() if name == key] + found(list(spec.values()), key)


def test_an_axis_is_logarithmic_where_values_are_far_apart() -> None:
    assert time_axis([0.1, 5.0]).log
    assert not time_axis([1.0, 5.0]).log
    assert time_axis([0.0, math.inf, math.nan]) == time_axis([])


@given(spans, st.floats(2.0, 1e4))
def test_deadlines_on_the_slider_are_near_one_another(low: float, ratio: float) -> None:
    found = deadlines(low, low * ratio)

    assert found == sorted(set(found))
    assert all(low <= value <= low * ratio for value in found)
    assert all(second / first < 2.1 for first, second in pairwise(found))


def test_spreads_hold_the_reports_quantiles(recorded_store: Path, recorded_profile: budgets.Profile) -> None:
    with Store(recorded_store).reading() as con:
        rows = {row["hop"]: row for row in queries.report(con, queries.Where())["by_hop"]}
    for metric in ("duration_s", "ttft_s", "tpot_s"):
        for spread in hop_spreads(recorded_profile, metric):
            reported = rows[spread.name][metric]
            shown = {"n": spread.n, "p50": spread.p50, "p90": spread.p90, "p99": spread.p99}
            assert shown == pytest.approx({key: reported[key] for key in shown})


def test_spreads_stand_in_the_order_of_a_trajectory(recorded_profile: budgets.Profile) -> None:
    assert [spread.name for spread in hop_spreads(recorded_profile, "duration_s")] == ["plan", "search", "answer"]
    assert [spread.name for spread in work_spreads(recorded_profile)] == ["fetch"]


def test_dots_are_evenly_spaced_quantiles(recorded_profile: budgets.Profile) -> None:
    for spread in hop_spreads(recorded_profile, "duration_s"):
        assert len(spread.dots) == min(spread.n, DOTS)
        assert list(spread.dots) == sorted(spread.dots)
        below = sum(dot <= spread.p50 for dot in spread.dots)
        assert below == pytest.approx(len(spread.dots) / 2, abs=1)


@pytest.mark.parametrize("method", budgets.METHODS)
@pytest.mark.parametrize("kind", budgets.SLOT_KINDS)
def test_the_bars_parts_add_up_to_the_deadline(
    recorded_profile: budgets.Profile, method: budgets.Method, kind: budgets.SlotKind
) -> None:
    plan = budgets.allocate(recorded_profile, 4.2, method=method, slots=kind)

    parts = segments(plan)

    assert sum(part.size_s for part in parts) == pytest.approx(4.2)
    assert [part.start_s for part in parts[1:]] == pytest.approx([part.end_s for part in parts[:-1]])


def test_stones_end_where_the_next_begins_and_the_last_is_their_sum() -> None:
    parts = [Part("visits", "a", 3.0, 2.0), Part("answers", "b", -1.0, -5.0), *(Part("pace", "c", 0.1, None),) * 9]

    placed = stones(parts, most=4)

    *bars, total = placed
    assert len(bars) == 5
    assert [stone.start_s for stone in bars[1:]] == pytest.approx([stone.end_s for stone in bars[:-1]])
    assert total.seconds == pytest.approx(sum(part.seconds for part in parts))


def hop(name: str, start_s: float, size_s: float, **more: Any) -> dict[str, Any]:
    row = {"hop": name, "visit": 1, "final": False, "streamed": False, "ttft_s": None, "outcome": "ok"}
    return {**row, "start_s": start_s, "duration_s": size_s, **more}


def test_a_streamed_hop_is_drawn_as_its_wait_and_its_writing() -> None:
    drawn = timeline({"duration_s": 5.0}, [hop("answer", 1.0, 3.0, ttft_s=0.5)], [], None)

    assert [(part.kind, part.start_s, part.end_s) for part in drawn.lines[0].parts] == [
        (look.FIRST, 1.0, 1.5),
        (look.WRITE, 1.5, 4.0),
    ]


def test_a_hop_without_a_first_token_time_is_drawn_whole() -> None:
    drawn = timeline({"duration_s": 5.0}, [hop("plan", 0.0, 2.0)], [], None)

    assert [part.kind for part in drawn.lines[0].parts] == [look.HOP]


def test_a_stream_that_never_began_is_drawn_as_waiting_where_we_timed_it() -> None:
    cut = {"streamed": True, "outcome": "timed_out"}
    hops = [hop("answer", 0.0, 2.0, source="hopbudget", **cut), hop("answer", 2.0, 2.0, source="langfuse", **cut)]

    drawn = timeline({"duration_s": 5.0}, hops, [], None)

    assert [line.parts[0].kind for line in drawn.lines] == [look.NO_FIRST, look.HOP]
    assert look.NO_FIRST == "no first token"


def test_visits_are_numbered_only_where_there_are_several() -> None:
    hops = [hop("plan", 0.0, 1.0), hop("search", 1.0, 1.0), hop("search", 2.0, 1.0, visit=2)]

    drawn = timeline({"duration_s": 3.0}, hops, [], None)

    assert [line.label for line in drawn.lines] == ["plan", "search #1", "search #2"]


def test_of_many_steps_the_longest_are_kept_in_order_and_failures_first() -> None:
    hops = [hop(f"h{index}", float(index), 0.1 * (index + 1)) for index in range(9)]
    hops.append(hop("broken", 9.0, 0.01, outcome="failed"))

    kept = longest(timeline({"duration_s": 10.0}, hops, [], None).lines, 3)

    assert [line.label for line in kept] == ["h7", "h8", "broken"]


def test_the_bars_of_where_hold_all_of_the_excess(recorded_profile: budgets.Profile) -> None:
    found = breaches(recorded_profile, 4.0)
    rows = [row for rows in by_hop(found).to_dict()["datasets"].values() for row in rows]
    told = [row["words"] for row in rows if set(row) == {"row", "right", "words"}]
    assert sum(float(words.rstrip("%")) for words in told) == pytest.approx(100.0, abs=0.3)
    small = [HopShare(f"hop-{index}", False, 0.02 * found.excess_s, 0.02) for index in range(12)]
    spec = by_hop(replace(found, hops=(*found.hops[:1], *small), places=())).to_dict()
    words = [row["words"] for rows in spec["datasets"].values() for row in rows if row.get("row") == "others"]
    assert "10.0%" in words
