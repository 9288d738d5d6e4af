"""The trajectory's deadline: it caps every hop, names who overspent, and ends work that would go on beyond it."""

import asyncio
import math
from typing import Any

import pytest

import hopbudget as hb
from hopbudget.tracing.limits_sockets import smaller
from hopbudget.tracing.plan import Plan


async def nap(ms: float) -> None:
    await asyncio.sleep(ms / 1000)


async def hops(*ms: float) -> None:
    for name, took in zip("abcdef", ms, strict=False):
        async with hb.hop(name):
            await nap(took)


def agent(**terms: Any) -> Any:
    return hb.trajectory("agent", **{"deadline_s": 3.0, "enforce": "deadline", **terms})


def test_the_hop_that_is_open_ends_at_the_deadline_and_the_one_that_overspent_is_named(held: Any) -> None:
    error, ms = held(agent()(hops)(1500, 1000, 600))
    assert (type(error), ms) == (hb.CompletionTimeout, 3000)
    assert (error.hop, error.elapsed_s, error.budget_s, error.capped) == ("c", 3.0, 3.0, True)
    assert "the trajectory's deadline of 3.00 s fell in hop 'c'" in str(error)
    assert "hop 'a' took 1.50 s" in str(error)


def test_a_deadline_of_next_to_nothing_is_not_told_as_less_than_nothing(jumping: Any) -> None:
    with pytest.raises(hb.CompletionTimeout, match=r"deadline of 0\.00 s"):
        jumping.run(agent(deadline_s=1e-9)(hops)(1500))


def plan(**slots: float) -> Plan:
    rows = [{"slot": name, "budget_s": budget_s} for name, budget_s in slots.items()]
    return Plan({"format": 1, "id": "p1", "deadline_s": 3.0, "slots": rows, "work_s": 0.2})


def test_with_a_plan_it_is_the_one_furthest_beyond_its_budget(held: Any) -> None:
    error, _ = held(agent(plan=plan(a=1.6, b=0.4, c=0.8))(hops)(1500, 1000, 600))
    assert "hop 'b' took 1.00 s of a budget of 0.40 s" in error.cause_so_far


def test_the_cause_is_what_most_of_it_was(held: Any, stream: Any, chunk: Any) -> None:
    async def main() -> None:
        with hb.hop("slow"):
            async for _ in hb.watch(stream((1800, chunk("x")), (100, chunk("y")), (1, chunk(finish="stop")))):
                pass
        await hops(5000)

    error, _ = held(agent()(main)())
    assert "hop 'slow' took 1.90 s, 1.80 s of it waiting for first tokens" in error.cause_so_far


def test_work_that_overspent_is_named_too(held: Any) -> None:
    async def main() -> None:
        await nap(2500)
        await hops(100, 900)

    error, _ = held(agent()(main)())
    assert "work between the hops took 2.50 s" in error.cause_so_far


def test_a_tool_that_goes_on_is_ended_at_the_deadline(held: Any, recorded: Any) -> None:
    @hb.work("search")
    async def search() -> None:
        await nap(60_000)

    async def main() -> None:
        await hops(1000)
        await search()

    error, ms = held(agent()(main)())
    assert (type(error), ms, error.hop) == (hb.CompletionTimeout, 3000, None)
    assert "fell in its work; work between the hops took 2.00 s" in str(error)
    root = recorded.spans[0].attributes
    assert (root["hopbudget.outcome"], root["hopbudget.intervened"]) == ("timed_out", True)


def test_what_the_application_does_about_a_hop_that_was_ended_is_not_cut_short(jumping: Any) -> None:
    async def main() -> str:
        try:
            await hops(9000)
        except hb.DeadlineExceeded:
            await nap(1000)
            return "a partial answer"
        return ""

    assert jumping.run(agent()(main)()) == "a partial answer"
    assert jumping.ms == 4000


def test_hops_in_other_tasks_are_ended_and_their_group_tells(jumping: Any) -> None:
    async def main() -> list[str]:
        results = await asyncio.gather(hops(9000), hops(1000), return_exceptions=True)
        return [type(result).__name__ for result in results]

    assert jumping.run(agent()(main)()) == ["CompletionTimeout", "NoneType"]


def test_a_nested_trajectory_is_ended_at_the_smaller_deadline(jumping: Any) -> None:
    async def main() -> str:
        with pytest.raises(hb.CompletionTimeout, match=r"deadline of 1\.00 s"):
            await agent(deadline_s=1.0)(nap)(9000)
        return "the outer goes on"

    assert jumping.run(agent()(main)()) == "the outer goes on"


def test_one_nested_in_a_smaller_deadline_is_ended_once(held: Any) -> None:
    async def main() -> None:
        await agent(deadline_s=9.0)(nap)(20_000)

    assert held(agent()(main)())[1] == 3000


def test_a_pause_is_in_nobodys_deadline(held: Any) -> None:
    async def main() -> None:
        await hops(1000)
        with hb.pause("approval"):
            await nap(60_000)
        await hops(5000)

    error, ms = held(agent()(main)())
    assert (type(error), ms, error.elapsed_s) == (hb.CompletionTimeout, 63_000, 3.0)


def test_by_default_nothing_is_ended_and_what_would_have_been_is_recorded(jumping: Any, recorded: Any) -> None:
    async def main() -> None:
        async with hb.hop("a", first_token_s=0.5, completion_s=1.0):
            await nap(2000)
        async with hb.hop("b"):
            await nap(2000)
        async with hb.hop("c"):
            await nap(100)

    jumping.run(hb.trajectory("agent", deadline_s=3.0)(main)())
    root, a, b, c = (dict(span.attributes or {}) for span in recorded.spans)
    assert [found["hopbudget.outcome"] for found in (root, a, b, c)] == ["ok"] * 4
    assert [found.get("hopbudget.limit_hit") for found in (a, b, c)] == ["completion", "completion", None]
    assert (root["hopbudget.deadline"], root["hopbudget.enforce"]) == (3.0, "observe")
    assert "hopbudget.intervened" not in root


def test_each_hop_records_what_was_left_when_it_began_and_its_budget(jumping: Any, recorded: Any) -> None:
    jumping.run(agent(plan=plan(a=1.6, b=0.4))(hops)(1500, 1000))
    root, a, b = (dict(span.attributes or {}) for span in recorded.spans)
    assert root["hopbudget.plan"] == "p1"
    assert [found["hopbudget.remaining"] for found in (a, b)] == [3.0, 1.5]
    assert [found["hopbudget.budget"] for found in (a, b)] == [1.6, 0.4]


def test_a_hop_that_needs_more_than_is_left_is_refused_before_it_is_sent(jumping: Any, recorded: Any) -> None:
    sent: list[str] = []

    @hb.hop("long", completion_s=2.0, refuse=True)
    async def long() -> None:
        sent.append("request")

    async def main() -> None:
        await hops(1500)
        await long()

    with pytest.raises(hb.HopRefused) as raised:
        jumping.run(agent()(main)())
    assert not sent
    assert str(raised.value).startswith("hop 'long' was not sent: 1.50 s are left, and it needs 2.00 s")
    root, _, refused = (dict(span.attributes or {}) for span in recorded.spans)
    assert [found["hopbudget.outcome"] for found in (root, refused)] == ["refused", "refused"]
    assert root["hopbudget.decisions"] == ("long: refused",)


@pytest.mark.parametrize(("refuse", "left_ms", "is_refused"), [(0.5, 600, False), (0.5, 400, True), (True, 400, False)])
def test_what_it_needs_may_be_said(jumping: Any, refuse: Any, left_ms: float, is_refused: bool) -> None:
    async def main() -> str:
        await hops(3000 - left_ms)
        try:
            async with hb.hop("last", refuse=refuse):
                return "sent"
        except hb.HopRefused:
            return "refused"

    assert jumping.run(agent()(main)()) == ("refused" if is_refused else "sent")


def test_nothing_is_refused_where_nothing_is_enforced(jumping: Any) -> None:
    async def main() -> str:
        await hops(2900)
        async with hb.hop("last", refuse=2.0):
            return "sent"

    assert jumping.run(hb.trajectory("agent", deadline_s=3.0)(main)()) == "sent"


class Hopeless(Plan):
    """A plan whose rule is to give up before the third hop."""

    asked: list[tuple[int, float, float | None]]

    def should_abort(self, visit: int, elapsed_s: float, steps_left: float | None = None) -> bool:
        self.asked.append((visit, elapsed_s, steps_left))
        return visit == 3


@pytest.fixture
def hopeless() -> Hopeless:
    found = Hopeless({"format": 1, "id": "p1", "deadline_s": 3.0, "abort": {"pays": True}})
    found.asked = []
    found.aborts = True
    return found


def test_a_trajectory_is_given_up_where_the_plan_says_that_it_pays(
    jumping: Any, recorded: Any, hopeless: Hopeless
) -> None:
    with pytest.raises(hb.TrajectoryAborted) as raised:
        jumping.run(agent(plan=hopeless, enforce="abort", max_steps=5)(hops)(500, 500, 500))
    assert hopeless.asked == [(1, 0.0, 5), (2, 0.5, 4), (3, 1.0, 3)]
    assert "given up before hop 'c'" in str(raised.value)
    root, *_, last = (dict(span.attributes or {}) for span in recorded.spans)
    assert root["hopbudget.decisions"] == ("c: aborted",)
    assert last["hopbudget.outcome"] == "refused"


def test_the_rule_is_asked_by_the_time_gone_of_the_plans_own_deadline(jumping: Any, hopeless: Hopeless) -> None:
    with pytest.raises(hb.TrajectoryAborted):
        jumping.run(agent(plan=hopeless, enforce="abort", deadline_s=2.5, max_steps=5)(hops)(500, 500, 500))
    assert [elapsed_s for _, elapsed_s, _ in hopeless.asked] == [0.5, 1.0, 1.5]


def test_with_more_time_left_than_the_plan_knows_nothing_is_given_up(jumping: Any, hopeless: Hopeless) -> None:
    jumping.run(agent(plan=hopeless, enforce="abort", deadline_s=60.0, max_steps=5)(hops)(500, 500, 500))
    assert hopeless.asked == []


def test_the_mode_deadline_gives_nothing_up(jumping: Any, hopeless: Hopeless) -> None:
    jumping.run(agent(plan=hopeless)(hops)(500, 500, 500))
    assert hopeless.asked == []


def test_the_kill_switch_lets_go_of_what_runs(jumping: Any) -> None:
    async def main() -> None:
        hb.disable()
        await hops(9000)

    try:
        jumping.run(agent()(main)())
    finally:
        hb.enable()
    assert jumping.ms == 9000


@pytest.mark.parametrize("deadline_s", [None, math.inf])
def test_the_mode_of_a_trajectory_without_a_deadline_holds_its_hops_limits(held: Any, deadline_s: Any) -> None:
    async def main() -> None:
        async with hb.hop("a", completion_s=0.5):
            await nap(3000)

    error, ms = held(agent(deadline_s=deadline_s)(main)())
    assert (type(error), ms) == (hb.CompletionTimeout, 500)


def test_a_socket_is_never_told_to_wait_for_infinity() -> None:
    assert smaller(None, math.inf) is None
    assert smaller(3.0, math.inf) == 3.0
    assert (smaller(None, 2.0), smaller(3.0, 2.0), smaller(1.0, 2.0)) == (2.0, 2.0, 1.0)
