"""What an agent is told when it asks, and what of it is None."""

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest

import hopbudget as hb
from hopbudget.tracing import scope
from hopbudget.tracing.asking import Option
from hopbudget.tracing.deadline import Deadline

Run = Callable[..., Deadline]


class Known:
    """A plan for 10 s in which a hop takes a second, and a token 10 ms (20 on the slow model)."""

    id = "known"
    workload = None
    deadline_s = 10.0
    base_rate = 0.8
    aborts = False
    slots: dict[str, float] = {}  # noqa: RUF012 - as a plan has it
    work_s = 0.0
    fingerprint: dict[str, Any] = {"models": ["fast", "slow"]}  # noqa: RUF012 - as a plan has it

    def __init__(self) -> None:
        self.asked: list[tuple[int, float, float | None]] = []

    def chance(self, visit: int, elapsed_s: float, steps_left: float | None = None) -> float | None:
        self.asked.append((visit, round(elapsed_s, 6), steps_left))
        if steps_left is None:
            return None if visit < 2 else (self.deadline_s - elapsed_s) / 10
        left_s = self.deadline_s - elapsed_s
        return 0.99 if steps_left <= left_s else 0.01

    def steps_left(self, elapsed_s: float, at: float = 0.9) -> int | None:
        return int(round((self.deadline_s - elapsed_s) * (1.9 - at), 6))

    def tokens_left(self, model: str, elapsed_s: float, at: float = 0.9) -> int | None:
        pace = {"fast": 100, "slow": 50}.get(model)
        return None if pace is None else round(max(self.deadline_s - elapsed_s, 0) * pace)

    def max_tokens(self, hop: str) -> int | None:
        return {"answer": 300}.get(hop)


@pytest.fixture
def plan() -> Known:
    return Known()


EVERYTHING: dict[str, Callable[[], Any]] = {
    "remaining_s": hb.remaining_s,
    "chance": hb.chance,
    "base_rate": hb.base_rate,
    "steps_left": hb.steps_left,
    "max_tokens": lambda: hb.max_tokens("answer", model="fast"),
    "hint": lambda: hb.hint(steps_left=3),
    "options": hb.options,
    "remaining_prompt": hb.remaining_prompt,
}
NOTHING = dict.fromkeys(EVERYTHING) | {"remaining_s": math.inf, "options": (), "remaining_prompt": ""}


def asked() -> dict[str, Any]:
    return {name: ask() for name, ask in EVERYTHING.items()}


def test_outside_of_a_trajectory_there_is_nothing_to_say(clock: Any) -> None:
    assert asked() == NOTHING


def test_without_a_deadline_there_is_nothing_to_say_either(run: Run, plan: Known) -> None:
    run(math.inf, plan)
    assert asked() == NOTHING


def test_switched_off_there_is_nothing_to_say_either(run: Run, plan: Known) -> None:
    run(10.0, plan)
    hb.disable()
    assert asked() == NOTHING


def test_without_a_plan_only_the_time_is_known(run: Run, clock: Any) -> None:
    run(10.0)
    clock.to(2500)
    said = "About 7 seconds are left for this task."
    assert asked() == NOTHING | {"remaining_s": 7.5, "remaining_prompt": said}


def test_a_deadline_that_passed_leaves_no_time_and_no_chance(run: Run, plan: Known, clock: Any) -> None:
    run(10.0, plan)
    clock.to(11_000)
    assert (hb.remaining_s(), hb.chance(), hb.options()) == (0.0, 0.0, ())
    assert hb.max_tokens("answer", model="fast") == 1
    assert "up" in hb.remaining_prompt()


def test_a_pause_takes_nothing_of_what_is_left(clock: Any) -> None:
    with hb.trajectory("agent", deadline_s=10.0):
        with hb.pause("approval"):
            clock.to(60_000)
            assert hb.remaining_s() == 10.0
        clock.to(61_000)
        assert hb.remaining_s() == 9.0


# The plan's answers -------------------------------------------------------------------------------------------------


def test_between_hops_the_next_one_is_asked_about_and_inside_of_one_that_one(clock: Any, plan: Known) -> None:
    given: Any = plan
    with hb.trajectory("agent", plan=given):
        hb.chance()
        with hb.hop("plan"):
            hb.chance()
            clock.to(1000)
        hb.chance()
        with hb.hop("answer"):
            assert hb.chance() == 0.9
    assert plan.asked == [(1, 0.0, None), (1, 0.0, None), (2, 1.0, None), (2, 1.0, None)]


def test_another_deadline_than_the_plans_is_asked_about_by_what_is_left_of_it(
    run: Run, plan: Known, clock: Any
) -> None:
    run(4.0, plan)
    clock.to(1000)
    hb.chance()
    assert plan.asked == [(1, 7.0, None)]
    assert hb.steps_left() == 3


def test_a_trajectory_in_another_asks_the_plan_of_the_one_around_it(clock: Any, plan: Known) -> None:
    given: Any = plan
    with hb.trajectory("agent", plan=given), hb.hop("plan"):
        pass
    with hb.trajectory("agent", plan=given):
        with hb.hop("plan"):
            pass
        with hb.trajectory("inner"):
            assert hb.base_rate() == 0.8
            assert hb.chance() == 1.0


def test_what_is_said_of_the_steps_to_come_goes_down_with_each_hop(clock: Any, plan: Known) -> None:
    given: Any = plan
    with hb.trajectory("agent", plan=given):
        hb.hint(steps_left=3)
        hb.chance()
        with hb.hop("plan"):
            hb.chance()
        with hb.hop("search"):
            hb.chance()
        hb.chance()
        hb.hint(steps_left=5)
        hb.chance()
        hb.chance(steps_left=2)
    assert [steps for _, _, steps in plan.asked] == [3, 3, 2, 1, 5, 2]


def test_the_most_steps_of_a_trajectory_are_a_hint_too(clock: Any, plan: Known) -> None:
    given: Any = plan
    with hb.trajectory("agent", plan=given, max_steps=4), hb.hop("plan"):
        hb.chance()
    assert plan.asked == [(1, 0.0, 4)]


def test_the_answer_to_ask_for_fits_and_keeps_to_the_plans_cap(clock: Any, plan: Known) -> None:
    given: Any = plan
    with hb.trajectory("agent", plan=given):
        assert hb.max_tokens() is None
        assert hb.max_tokens("answer") == 300
        assert hb.max_tokens(model="slow") == 500
        clock.to(8000)
        with hb.hop("answer", model="fast"):
            assert hb.max_tokens() == 200
            assert hb.max_tokens(model="slow") == hb.max_tokens(model="provider/slow-20261101") == 100
            assert hb.max_tokens("other", model="none of them") is None


def test_what_can_be_done_is_offered_with_its_chance(clock: Any, plan: Known) -> None:
    given: Any = plan
    with hb.trajectory("agent", plan=given), hb.hop("search", model="slow"):
        clock.to(8000)
        offered = hb.options()
    assert Option("stop_after", 0.99, steps=2) in offered
    assert Option("stop_after", 0.01, steps=3) in offered
    assert Option("max_tokens", 0.9, tokens=100, model="slow") in offered
    assert Option("model", 0.9, tokens=200, model="fast") in offered


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (0, "About 10 seconds are left for this task: at most 10 more steps fit, the final answer included."),
        (8000, "About 2 seconds are left for this task: at most 2 more steps fit, the final answer included."),
        (
            9000,
            "About 1 second is left for this task: take no further step, and give the answer you have "
            "in at most 100 tokens.",
        ),
        (9850, "Less than a second is left for this task: answer at once, with what you have."),
        (10_500, "The time for this task is up: give the answer you have now, in one short paragraph."),
    ],
)
def test_the_model_is_told_in_a_sentence(clock: Any, plan: Known, ms: float, said: str) -> None:
    given: Any = plan
    with hb.trajectory("agent", plan=given), hb.hop("search", model="fast"):
        clock.to(ms)
        assert hb.remaining_prompt() == said


@pytest.mark.parametrize(
    ("left_s", "said"),
    [
        (0.999, "Less than a second is"),
        (1.9, "About 1 second is"),
        (2.99, "About 2 seconds are"),
        (91.9, "About 91 seconds are"),
        (120.0, "About 120 seconds are"),
        (149.9, "About 2 minutes are"),
        (150.5, "About 2.5 minutes are"),
        (7200.0, "About 120 minutes are"),
        (9100.0, "About 2.5 hours are"),
        (172_800.0, "About 48 hours are"),
        (1e12, "More than 2 days are"),
        (1000.0, "About 16.5 minutes are"),
        (6_000_119.0, "More than 2 days are"),
    ],
)
def test_the_model_is_never_told_of_more_time_than_there_is(run: Run, left_s: float, said: str) -> None:
    run(left_s)
    assert hb.remaining_prompt() == f"{said} left for this task."


@pytest.mark.parametrize(("ms", "fits"), [(9000, True), (9790, True), (9810, False), (9990, False)])
def test_the_model_is_not_told_of_a_few_tokens(clock: Any, plan: Known, ms: float, fits: bool) -> None:
    given: Any = plan
    with hb.trajectory("agent", plan=given), hb.hop("search", model="fast"):
        clock.to(ms)
        said = hb.remaining_prompt()
        assert ("tokens" in said) == fits
        assert ("answer at once" in said) != fits


def test_of_more_time_than_its_deadline_a_plan_knows_nothing_but_its_caps(run: Run, plan: Known, clock: Any) -> None:
    run(100.0, plan)
    clock.to(89_000)
    said = "About 11 seconds are left for this task."
    assert asked() == NOTHING | {"remaining_s": 11.0, "max_tokens": 300, "remaining_prompt": said}
    assert hb.max_tokens(model="fast") is hb.chance(steps_left=2) is None
    assert plan.asked == []
    clock.to(90_000)
    assert (hb.steps_left(), hb.base_rate(), hb.max_tokens(model="fast")) == (10, 0.8, 1000)
    assert hb.options()


def test_a_cap_of_the_plan_is_not_told_as_what_fits(clock: Any, plan: Known) -> None:
    given: Any = plan
    with hb.trajectory("agent", plan=given, deadline_s=100.0), hb.hop("answer", model="fast"):
        assert hb.max_tokens() == 300
        assert hb.remaining_prompt() == "About 100 seconds are left for this task."


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: hb.steps_left(90), ValueError),
        (lambda: hb.steps_left(True), TypeError),
        (lambda: hb.max_tokens(at=0), ValueError),
        (lambda: hb.hint(steps_left=-1), ValueError),
        (lambda: hb.hint(steps_left=math.nan), ValueError),
        (lambda: hb.hint(steps_left="3"), TypeError),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments_raise_wherever_they_stand(clock: Any, call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


# Pressure -----------------------------------------------------------------------------------------------------------


def test_a_callback_is_called_once_when_the_chance_falls_below(run: Run, plan: Known, clock: Any) -> None:
    held = run(10.0, plan)
    held.visit = 2
    calls: list[float] = []
    hb.on_pressure(0.5, lambda: calls.append(hb.remaining_s()))
    clock.to(4000)
    hb.remaining_s()
    assert calls == []
    clock.to(6000)
    hb.remaining_s()
    hb.chance()
    assert calls == [4.0]


def test_without_a_plan_the_share_of_the_time_counts(run: Run, clock: Any) -> None:
    run(10.0)
    calls: list[float] = []
    hb.on_pressure(0.3, lambda: calls.append(hb.remaining_s()))
    for ms in (6000, 7100, 8000):
        clock.to(ms)
        hb.remaining_s()
    assert calls == [2.9]


def test_seconds_can_be_the_measure(run: Run, clock: Any, plan: Known) -> None:
    run(10.0, plan)
    calls: list[float] = []
    hb.on_pressure(2.0, lambda: calls.append(hb.remaining_s()), of="seconds")
    for ms in (7900, 8100):
        clock.to(ms)
        hb.remaining_s()
    assert calls == [pytest.approx(1.9)]


def test_it_is_looked_at_when_a_hop_begins_and_when_one_ends(clock: Any) -> None:
    seen: list[float] = []
    with hb.trajectory("agent", deadline_s=10.0):
        for seconds in (8.0, 5.0):
            hb.on_pressure(seconds, lambda: seen.append(clock.ms), of="seconds")
        clock.to(2500)
        with hb.hop("plan"):
            assert seen == [2500]
            clock.to(6000)
        assert seen == [2500, 6000]


def test_it_is_looked_at_at_once(run: Run, clock: Any) -> None:
    run(10.0)
    clock.to(9000)
    calls: list[int] = []
    hb.on_pressure(0.5, lambda: calls.append(1))
    assert calls == [1]


def test_a_callback_that_fails_is_counted_and_logged_and_the_agent_sees_nothing(
    run: Run, clock: Any, warnings: Callable[[], list[str]]
) -> None:
    run(10.0)
    calls: list[int] = []

    def broken() -> None:
        raise ValueError("broken")

    errors = scope.recorder_errors()
    hb.on_pressure(0.5, broken)
    hb.on_pressure(0.5, lambda: calls.append(1))
    clock.to(6000)
    assert hb.remaining_s() == 4.0
    assert calls == [1]
    assert scope.recorder_errors() == errors + 1
    assert warnings() == ["an on_pressure callback failed"]


def test_outside_of_a_trajectory_nobody_is_ever_called(clock: Any) -> None:
    hb.on_pressure(0.5, pytest.fail)
    clock.to(60_000)
    hb.remaining_s()


def test_an_event_of_asyncio_can_be_set(run: Run, clock: Any) -> None:
    run(10.0)
    event = asyncio.Event()
    hb.on_pressure(0.5, event.set)
    clock.to(6000)
    hb.chance()
    assert event.is_set()


async def coroutine() -> None: ...


@pytest.mark.parametrize(
    ("threshold", "callback", "more"),
    [
        (0.5, coroutine, {}),
        (0.5, None, {}),
        (0, print, {}),
        (1.5, print, {}),
        ("0.5", print, {}),
        (0.5, print, {"of": "tokens"}),
        (-1, print, {"of": "seconds"}),
    ],
)
def test_wrong_arguments_of_on_pressure_raise(clock: Any, threshold: Any, callback: Any, more: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        hb.on_pressure(threshold, callback, **more)
