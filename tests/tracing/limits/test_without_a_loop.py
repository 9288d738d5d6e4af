"""Where nothing can be cancelled limits are looked at when something is asked for."""

from collections.abc import Iterator
from typing import Any

import pytest

import hopbudget as hb


def hop(**limits: Any) -> Any:
    return hb.hop("answer", enforce="deadline", **limits)


@pytest.fixture(autouse=True)
def _recorded(recorded: Any) -> None:
    pass


def test_a_stream_is_ended_at_the_pull_after_its_completion_is_due(time: Any, open_stream: Any, chunk: Any) -> None:
    got: list[Any] = []
    with pytest.raises(hb.CompletionTimeout) as raised, hop(completion_s=1.0):
        source = hb.watch(open_stream([(at, chunk("a")) for at in (400, 800, 1200, 1600)]))
        for piece in source:
            got.append(piece)
    assert (time.ms, len(got)) == (1200, 3)
    assert source.closed
    assert raised.value.elapsed_s == pytest.approx(1.2)


def test_a_token_that_came_late_came(open_stream: Any, chunk: Any, recorded: Any) -> None:
    with hop(first_token_s=0.3, stall_s=0.5):
        pieces = list(hb.watch(open_stream([(900, chunk("a")), (1900, chunk("b")), (1901, chunk(finish="stop"))])))
    assert len(pieces) == 3
    found = recorded.attributes()
    assert (found["hopbudget.outcome"], found["hopbudget.limit_hit"]) == ("ok", "first_token")


def test_empty_chunks_feed_no_limit(time: Any, open_stream: Any, chunk: Any) -> None:
    pings = [(at, chunk(content="")) for at in range(100, 9000, 100)]
    with pytest.raises(hb.FirstTokenTimeout), hop(first_token_s=0.5):
        list(hb.watch(open_stream(pings)))
    assert time.ms == 500


def test_a_decorated_generator_gets_it_where_it_yields(time: Any, chunk: Any) -> None:
    seen: list[str] = []

    @hop(completion_s=1.0)
    def answer() -> Iterator[Any]:
        try:
            for at in (600, 1200, 1800):
                time.to(at)
                yield chunk("a")
        except hb.CompletionTimeout:
            seen.append("told")
            yield "cut here"

    assert list(answer())[2:] == ["cut here"]
    assert seen == ["told"]


def test_a_call_that_came_back_late_came_back(time: Any, recorded: Any) -> None:
    @hop(completion_s=1.0)
    def plan() -> str:
        time.to(5000)
        return "a plan"

    assert plan() == "a plan"
    assert recorded.attributes()["hopbudget.limit_hit"] == "completion"
    assert recorded.attributes()["hopbudget.outcome"] == "ok"


def test_the_programs_own_time_out_stays_its_own(time: Any, recorded: Any) -> None:
    own = TimeoutError("the socket's")

    @hop(completion_s=1.0)
    def plan() -> None:
        time.to(5000)
        raise own

    with pytest.raises(TimeoutError) as raised:
        plan()
    assert raised.value is own
    assert recorded.attributes()["hopbudget.outcome"] == "cancelled"


def test_a_hop_that_begins_after_the_deadline_is_ended_before_it_sends_anything(time: Any, recorded: Any) -> None:
    sent: list[str] = []

    @hb.hop("late")
    def late() -> None:
        sent.append("request")

    agent = hb.trajectory("agent", deadline_s=1.0, enforce="deadline")
    with pytest.raises(hb.CompletionTimeout, match=r"deadline of 1\.00 s"), agent:
        time.to(1500)
        late()
    assert not sent
