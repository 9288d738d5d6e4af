"""Where what starts with nothing around it belongs, and how a trajectory is carried over to other processes."""

import threading
from typing import Any

from opentelemetry import context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

import hopbudget as hb
from hopbudget.tracing import home, propagate, scope

HOME = SpanContext(7, 8, is_remote=True, trace_flags=TraceFlags(1))


def in_thread(function: Any) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


@hb.hop("plan")
def plan() -> None:
    pass


def test_a_hop_in_another_thread_belongs_to_the_one_open_trajectory(recorded: Any) -> None:
    with hb.trajectory("agent"):
        in_thread(plan)
    assert recorded.tree() == "invoke_agent agent 0-0 ok\n  chat 0-0 ok"


def test_with_two_open_it_belongs_to_none(recorded: Any) -> None:
    with hb.trajectory("one"), hb.trajectory("two"):
        in_thread(plan)
    assert recorded.tree().split("\n") == ["invoke_agent one 0-0 ok", "  invoke_agent two 0-0 ok", "chat 0-0 ok"]


def test_in_the_trajectorys_own_thread_nothing_is_guessed(recorded: Any) -> None:
    with hb.trajectory("agent"):
        token = context.attach(context.Context())
        plan()
        context.detach(token)
    assert len({span.context.trace_id for span in recorded.spans}) == 2


def test_what_nothing_encloses_belongs_to_the_process_if_it_has_a_home(recorded: Any, time: Any) -> None:
    scope.setup.home = lambda: HOME
    with hb.work("search"):
        time.to(1)
    plan()
    time.to(2)
    with hb.trajectory("agent"):
        time.to(3)
        plan()
    work, hop, agent, inner = recorded.spans
    assert (work.parent.span_id, hop.parent.span_id) == (HOME.span_id, HOME.span_id)
    assert agent.parent is None
    assert inner.parent.span_id == agent.context.span_id


def test_a_sub_process_is_told_the_trajectory_in_its_environment(recorded: Any) -> None:
    with hb.trajectory("agent"):
        variables = hb.environment({"PATH": "/bin"})
    assert variables["PATH"] == "/bin"
    found = propagate.from_environment(variables)
    assert found is not None
    span = recorded.only()
    assert variables["TRACEPARENT"].split("-")[1:3] == [f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"]


def test_outside_of_one_the_environment_says_nothing() -> None:
    assert hb.environment({}) == {}
    assert propagate.from_environment({}) is None
    assert propagate.from_environment({"HOPBUDGET_TRACEPARENT": "nonsense"}) is None


def test_a_trace_context_that_somebody_else_put_in_the_environment_is_theirs() -> None:
    assert propagate.from_environment({"TRACEPARENT": f"00-{7:032x}-{8:016x}-01"}) is None


def test_the_environment_can_be_read_back() -> None:
    token = context.attach(set_span_in_context(NonRecordingSpan(HOME), context.Context()))
    variables = hb.environment({})
    context.detach(token)
    assert variables["TRACEPARENT"] == variables["HOPBUDGET_TRACEPARENT"] == f"00-{7:032x}-{8:016x}-01"
    try:
        home.settle(variables)
        assert scope.setup.home() == HOME
    finally:
        scope.configure()


def test_in_a_server_nothing_has_a_home() -> None:
    serving = home.server_check()
    assert not serving()
    exec("found = serving()", {"__name__": "uvicorn.server", "serving": serving})
    assert serving()
