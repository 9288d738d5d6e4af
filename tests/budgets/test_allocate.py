"""A deadline, allotted: what is true of every plan."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from hopbudget.budgets import (
    METHODS,
    SLOT_KINDS,
    Allocation,
    CannotAllocateError,
    Profile,
    allocate,
    deadline_at,
)
from hopbudget.budgets.allocate import LEAST_CAP_S, least_cap_s

Build = Callable[..., Profile]

slow_is_fine = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], deadline=None, max_examples=40
)

outcomes = st.sampled_from(["ok"] * 6 + ["truncated", "failed", "refused", "timed_out", "cancelled"])
a_hop = st.builds(
    lambda name, seconds, start, outcome: (
        "hop",
        {
            "hop": name,
            "duration_s": seconds / 2,
            "outcome": outcome,
            **({"started_s": float(start)} if start is not None else {}),
            **({"final": True, "streamed": True, "ttft_s": seconds / 8, "tpot_s": 0.1} if name == "end" else {}),
            "output_tokens": 5.0,
        },
    ),
    st.sampled_from(["a", "b", "end"]),
    st.integers(1, 20),
    st.one_of(st.none(), st.none(), st.integers(0, 6)),
    outcomes,
)
a_work = st.integers(1, 20).map(lambda s: ("work", {"work": "tool", "duration_s": s / 2}))
trajectories = st.lists(
    st.fixed_dictionaries(
        {
            "steps": st.lists(st.one_of(a_hop, a_hop, a_work), min_size=1, max_size=6),
            "outcome": outcomes,
            "complete": st.sampled_from([True] * 5 + [False]),
            "intervened": st.sampled_from([False] * 5 + [True]),
        }
    ),
    min_size=1,
    max_size=15,
).map(lambda rows: [*rows, {"steps": [("hop", {"hop": "a", "duration_s": 2.0})]}])
deadlines = st.integers(1, 60).map(float)


def budgets_of(a: Allocation) -> dict[str, float]:
    work = {"work": a.work_s} if a.work else {}
    stream = {"stream": a.stream.budget_s} if a.stream else {}
    return {**{slot.slot: slot.budget_s for slot in a.slots}, **work, **stream}


def total_s(a: Allocation) -> float:
    return math.fsum(budgets_of(a).values())


@slow_is_fine
@given(rows=trajectories, d=deadlines, method=st.sampled_from(METHODS), slots=st.sampled_from(SLOT_KINDS))
def test_budgets_work_and_stream_add_up_to_the_deadline_and_never_to_more(
    profile_of: Build, rows: Any, d: float, method: Any, slots: Any
) -> None:
    a = allocate(profile_of(rows), d, method=method, slots=slots)
    assert total_s(a) <= d
    assert total_s(a) == pytest.approx(d)
    assert all(slot.budget_s >= 0 for slot in a.slots)


@slow_is_fine
@given(rows=trajectories, d=deadlines, more=deadlines)
def test_more_deadline_never_lowers_the_probability(profile_of: Build, rows: Any, d: float, more: float) -> None:
    profile = profile_of(rows)
    less, greater = (allocate(profile, seconds, method="equal").feasibility.p_deadline for seconds in (d, d + more))
    assert greater >= less


@slow_is_fine
@given(rows=trajectories, d=deadlines, method=st.sampled_from(METHODS), scale=st.sampled_from([2.0, 64.0]))
def test_scaling_all_times_scales_the_plan(profile_of: Build, rows: Any, d: float, method: Any, scale: float) -> None:
    profile = profile_of(rows)
    t, h, w = profile.trajectories, profile.hops, profile.works
    scaled = Profile(
        replace(t, duration_s=t.duration_s * scale, work_s=t.work_s * scale),
        replace(
            h,
            started_s=h.started_s * scale,
            duration_s=h.duration_s * scale,
            ttft_s=h.ttft_s * scale,
            tpot_s=h.tpot_s * scale,
        ),
        replace(w, started_s=w.started_s * scale, duration_s=w.duration_s * scale),
    )
    small, large = (allocate(p, s, method=method) for p, s in ((profile, d), (scaled, d * scale)))
    assume(min(budgets_of(small).values()) > LEAST_CAP_S * 1.001)  # the one figure that does not scale
    assert budgets_of(large) == pytest.approx({name: s * scale for name, s in budgets_of(small).items()})
    assert large.kept == small.kept
    assert large.feasibility.min_deadline_s == pytest.approx(small.feasibility.min_deadline_s * scale)


@slow_is_fine
@given(rows=trajectories, d=deadlines, random=st.randoms(use_true_random=False))
def test_the_order_of_trajectories_changes_nothing(profile_of: Build, rows: Any, d: float, random: Any) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    one, other = (allocate(profile_of(r), d) for r in (rows, shuffled))
    assert budgets_of(one) == pytest.approx(budgets_of(other))
    assert repr(one.feasibility) == repr(other.feasibility)  # NaN, for a bound that is not known, equals nothing
    assert one.kept == other.kept


@slow_is_fine
@given(rows=trajectories, percentile=st.integers(1, 99))
def test_a_deadline_at_a_percentile_is_met_by_that_share(profile_of: Build, rows: Any, percentile: int) -> None:
    profile = profile_of(rows)
    d = deadline_at(profile, percentile)
    if math.isfinite(d) and d > 0:
        assert allocate(profile, d, method="equal").feasibility.p_deadline >= percentile / 100 - 1e-9


def one_hop(seconds: float, name: str = "chat", **more: Any) -> dict[str, Any]:
    return {"steps": [("hop", {"hop": name, "duration_s": seconds})], **more}


def test_with_one_place_there_is_nothing_to_split_and_it_says_so(profile_of: Build) -> None:
    a = allocate(profile_of([one_hop(1.0), one_hop(2.0)]), 5.0)
    assert [(slot.slot, slot.budget_s) for slot in a.slots] == [("chat", 5.0)]
    assert a.work_s == 0.0
    assert a.notes[0].startswith("there is nothing to split")


def test_what_was_left_out_is_counted_by_reason(profile_of: Build) -> None:
    rows = [
        one_hop(1.0),
        one_hop(1.0, complete=False),
        one_hop(1.0, intervened=True),
        one_hop(1.0, outcome="timed_out"),
        one_hop(9.0, outcome="timed_out"),
        one_hop(1.0, outcome="cancelled"),
    ]
    learned = allocate(profile_of(rows), 5.0).learned_from
    assert learned.left_out == {"incomplete": 1, "intervened": 1, "timed_out": 1, "cancelled": 1}
    assert learned.trajectories == 2


def test_failures_never_finish(profile_of: Build) -> None:
    a = allocate(profile_of([one_hop(1.0)] * 3 + [one_hop(0.1, outcome="failed")]), 100.0)
    assert a.feasibility.p_deadline == 0.75
    assert a.kept.share == 0.75
    assert a.feasibility.min_deadline_s == math.inf


def test_a_budget_past_a_recorded_time_out_is_flagged(profile_of: Build) -> None:
    cut = {"steps": [("hop", {"hop": "chat", "duration_s": 3.0, "outcome": "timed_out"}), ("hop", {"hop": "end"})]}
    profile = profile_of([one_hop(1.0)] * 5 + [cut])
    assert not allocate(profile, 3.0, slots="name").slots[0].extrapolated
    a = allocate(profile, 50.0)
    assert a.slots[0].extrapolated
    assert any("past a time-out" in note for note in a.notes)


def test_kept_counts_those_that_keep_every_budget_and_the_deadline(profile_of: Build) -> None:
    def two(a: float, b: float) -> dict[str, Any]:
        return {"steps": [("hop", {"hop": "a", "duration_s": a}), ("hop", {"hop": "b", "duration_s": b})]}

    a = allocate(profile_of([two(1, 1), two(3, 1), two(1, 3), two(2, 2)]), 4.0, method="equal")
    assert [slot.budget_s for slot in a.slots] == [2, 2]
    assert (a.kept.share, a.kept.n) == (0.5, 4)
    assert [slot.kept for slot in a.slots] == [0.75, 0.75]
    assert a.feasibility.p_deadline == 1.0


def test_a_slot_says_how_often_and_how_long_it_is_visited(profile_of: Build) -> None:
    often = {"steps": [("hop", {"hop": "a", "duration_s": 1.0})] * 2 + [("hop", {"hop": "b", "duration_s": 2.0})]}
    slots = {slot.slot: slot for slot in allocate(profile_of([often, one_hop(4.0, "a")]), 9.0).slots}
    assert (slots["a"].visits, slots["a"].visited, slots["a"].p50_s, slots["a"].p90_s) == (1.5, 1.0, 2.0, 4.0)
    assert (slots["b"].visits, slots["b"].visited, slots["b"].p50_s) == (0.5, 0.5, 2.0)


def test_no_cap_is_smaller_than_fifty_milliseconds(profile_of: Build) -> None:
    rare = {"steps": [("hop", {"hop": "a", "duration_s": 1.0}), ("hop", {"hop": "rare", "duration_s": 9.0})]}
    profile = profile_of([one_hop(1.0, "a")] * 50 + [rare])
    assert min(slot.budget_s for slot in allocate(profile, 1.0, method="independent").slots) == pytest.approx(0.05)


def test_the_least_cap_of_a_deadline_below_a_second_scales_with_it() -> None:
    assert least_cap_s(30.0) == least_cap_s(1.0) == LEAST_CAP_S
    assert least_cap_s(0.4) == pytest.approx(0.4 * LEAST_CAP_S)


def test_a_deadline_below_a_second_leaves_a_quick_place_what_it_takes(profile_of: Build) -> None:
    # A voice agent: 24 ms of looking up, then 380 ms of answering. 50 ms for the first would break the second.
    rows = [
        {"steps": [("hop", {"hop": n, "duration_s": s}) for n, s in (("look", 0.020 + k / 1e4), ("say", 0.380))]}
        for k in range(40)
    ]
    found = allocate(profile_of(rows), 0.41)
    assert found.auto is not None and found.auto.beats_equal
    assert found.auto.success.share > 0.9


def streamed(start: float, answer: float, end: float) -> dict[str, Any]:
    final = {"hop": "end", "duration_s": end - start, "final": True, "streamed": True, "ttft_s": 0.2, "tpot_s": 0.1}
    plan = ("hop", {"hop": "plan", "duration_s": start})
    return {"steps": [plan, ("hop", {**final, "output_tokens": 20.0})], "answer_start_s": answer}


def test_the_last_token_or_the_first_answer_token_can_bind(profile_of: Build) -> None:
    profile = profile_of([streamed(1.0, 1.5, 4.0)] * 30)
    assert deadline_at(profile, 90) == 4.0
    assert deadline_at(profile, 90, "answer") == 1.5
    a = allocate(profile, 1.5, binds="answer")
    assert a.feasibility.p_deadline == 1.0
    assert a.stream is not None and a.stream.budget_s < 1.0
    assert a.stream.ttft_s == 0.2


def test_a_deadline_cannot_bind_an_answer_that_was_never_seen(profile_of: Build) -> None:
    with pytest.raises(CannotAllocateError, match="bind the last token"):
        allocate(profile_of([one_hop(1.0)]), 1.0, binds="answer")


def test_an_answer_that_started_counts_whatever_cut_it_off(profile_of: Build) -> None:
    cut = {**streamed(1.0, 1.5, 4.0), "outcome": "closed_by_consumer"}
    assert allocate(profile_of([cut]), 2.0, binds="answer").feasibility.p_deadline == 1.0


def test_nothing_to_learn_from_says_why(profile_of: Build) -> None:
    with pytest.raises(CannotAllocateError, match="none of the 2 trajectories can be learned from: 2 incomplete"):
        allocate(profile_of([one_hop(1.0, complete=False)] * 2), 1.0)
    with pytest.raises(CannotAllocateError, match="no trajectories"):
        deadline_at(profile_of([]), 90)


@pytest.mark.parametrize(
    ("deadline_s", "more"),
    [(0.0, {}), (-1.0, {}), (math.inf, {}), (math.nan, {}), (1.0, {"percentile": 100}), (1.0, {"percentile": 0.0})],
)
def test_arguments_that_make_no_sense_are_refused(profile_of: Build, deadline_s: float, more: Any) -> None:
    with pytest.raises(ValueError, match="must"):
        allocate(profile_of([one_hop(1.0)]), deadline_s, **more)


def test_method_and_slots_are_checked_by_name(profile_of: Build) -> None:
    profile = profile_of([one_hop(1.0)])
    bad: Any = "best"
    for more in ({"method": bad}, {"slots": bad}, {"binds": bad}):
        with pytest.raises(ValueError, match="'best'"):
            allocate(profile, 1.0, **more)


def test_runs_models_and_dates_are_those_learned_from(profile_of: Build) -> None:
    def row(run: str, model: str, at: float, **more: Any) -> dict[str, Any]:
        steps = [("hop", {"hop": "a", "duration_s": 1.0, "model": model})]
        return {"steps": steps, "run": run, "started_at": at, **more}

    rows = [row("r1", "m2", 10.0), row("r2", "m1", 20.0), row("r3", "m3", 30.0, complete=False)]
    learned = allocate(profile_of(rows), 5.0).learned_from
    assert (learned.runs, learned.models, learned.first_at, learned.last_at) == (2, ("m1", "m2"), 10.0, 20.0)
    assert allocate(profile_of([one_hop(1.0)]), 5.0).learned_from.runs is None


def test_trajectories_without_any_hop_are_work(profile_of: Build) -> None:
    a = allocate(profile_of([{"steps": [("work", {"duration_s": 2.0})]}]), 3.0)
    assert (a.slots, a.work_s) == ((), 3.0)


def test_a_million_to_one_spread_still_adds_up(profile_of: Build) -> None:
    random = np.random.default_rng(3)
    rows = [
        {
            "steps": [
                ("hop", {"hop": n, "duration_s": float(s)}) for n, s in zip("abc", random.pareto(0.5, 3), strict=True)
            ]
        }
        for _ in range(200)
    ]
    for method in METHODS:
        assert total_s(allocate(profile_of(rows), 7.77, method=method)) <= 7.77


def test_a_place_that_got_the_least_says_how_few_come_there(profile_of: Build) -> None:
    asked = [[("hop", {"hop": "ask", "duration_s": 1.0 + row / 100})] for row in range(60)]
    rows = [{"steps": steps * (2 if row % 10 else 3)} for row, steps in enumerate(asked)]
    found = allocate(profile_of(rows), 2.8, method="independent", slots="visit")
    least = [slot for slot in found.slots if slot.budget_s <= 0.0501]
    assert [slot.slot for slot in least] == ["ask #3"]
    (note,) = [note for note in found.notes if "the least there is" in note]
    assert "so ask #3 (10% come there) gets 50 ms" in note
    assert not any("the least there is" in note for note in allocate(profile_of(rows), 2.8, method="equal").notes)


def test_a_place_that_takes_less_than_the_least_is_not_said_to_go_over_it(profile_of: Build) -> None:
    rows = [
        {"steps": [("hop", {"hop": n, "duration_s": s}) for n, s in (("look", 0.01 + k / 1e4), ("say", 2.0 + k / 10))]}
        for k in range(60)
    ]
    found = allocate(profile_of(rows), 6.0, method="quantile")
    (note,) = [note for note in found.notes if "the least there is" in note]
    assert note == "look (p90 15.3 ms) gets 50 ms, the least there is, which is no less than it takes there"
