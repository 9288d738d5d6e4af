"""A hop in whose body other hops make the calls is told from a call, so that nothing is counted twice."""

from collections.abc import Iterator
from typing import Any

import hopbudget as hb
from hopbudget.tracing import vocabulary as v

REPLY = {"id": "r-1", "model": "m", "choices": [{"message": {"content": "x"}}], "usage": {"completion_tokens": 4}}


def told(recorded: Any) -> dict[str, tuple[bool, Any]]:
    """Of each hop: whether it only holds others, and its tokens."""
    found = [dict(span.attributes) for span in recorded.spans]
    return {each[v.HOP]: (v.HOLDS_HOPS in each, each.get(v.N_TOKENS)) for each in found}


def test_a_reply_is_of_the_hop_that_got_it_however_many_hand_it_on(recorded: Any) -> None:
    @hb.hop("llm")
    def ask() -> Any:
        return REPLY

    @hb.hop("step")
    def step() -> Any:
        return ask()

    @hb.hop("plan")
    def plan() -> Any:
        return step()

    assert plan() is REPLY
    assert told(recorded) == {"plan": (True, None), "step": (True, None), "llm": (False, 4)}


def test_a_hop_that_makes_a_call_besides_is_a_call(recorded: Any) -> None:
    @hb.hop("check")
    def check() -> Any:
        return REPLY

    @hb.hop("answer")
    def answer() -> Any:
        check()
        return {**REPLY, "id": "r-2", "usage": {"completion_tokens": 7}}

    answer()
    assert told(recorded) == {"answer": (False, 7), "check": (False, 4)}


def test_a_stream_is_of_the_hop_that_opened_it(recorded: Any, open_stream: Any, script: Any) -> None:
    @hb.hop("llm")
    def ask() -> Any:
        return open_stream(script)

    @hb.hop("plan")
    def plan() -> Any:
        return ask()

    @hb.hop("write")
    def write() -> Iterator[Any]:
        yield from plan()

    assert list(write()) == [item for _, item in script]
    found = told(recorded)
    assert [found[name][0] for name in ("write", "plan", "llm")] == [True, True, False]
    assert [found[name][1] is None for name in ("write", "plan", "llm")] == [True, True, False]


def test_a_stream_that_a_hop_opens_after_others_are_over_is_its_own(
    recorded: Any, open_stream: Any, script: Any
) -> None:
    @hb.hop("plan")
    def plan() -> Any:
        return REPLY

    @hb.hop("answer")
    def answer() -> Iterator[Any]:
        plan()
        yield from open_stream(script)

    list(answer())
    found = told(recorded)
    assert (found["plan"], found["answer"][0]) == ((False, 4), False)
    assert found["answer"][1]


def test_a_block_around_hops_that_run_in_turn_holds_them(recorded: Any) -> None:
    with hb.hop("research"):
        for name in ("search", "read"):
            with hb.hop(name):
                hb.watch({**REPLY, "id": name})
    assert told(recorded) == {"research": (True, None), "search": (False, 4), "read": (False, 4)}
