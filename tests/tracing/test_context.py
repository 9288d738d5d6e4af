"""What is current while, and after, something is recorded."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from opentelemetry import context, trace

import hopbudget as hb
from hopbudget.tracing import scope


def current_span_id() -> int:
    return trace.get_current_span().get_span_context().span_id


def test_an_agent_run_is_one_tree(recorded: Any, open_stream: Any, script: Any, time: Any) -> None:
    @hb.hop("plan")
    def plan() -> None:
        time.to(10)

    @hb.work("search")
    def search() -> None:
        time.to(20)
        plan_inside()

    @hb.hop("inside")
    def plan_inside() -> None:
        time.to(25)

    @hb.hop("answer", final=True)
    def answer() -> Iterator[Any]:
        yield from open_stream(script)

    @hb.trajectory("agent", run="r", session="s", workload="w", attributes={"tier": "gold"})
    def agent() -> None:
        plan()
        search()
        with hb.pause("approval"):
            time.to(40)
        list(answer())

    agent()
    assert recorded.tree() == "\n".join(
        [
            "invoke_agent agent 0-242 ok",
            "  chat 0-10 ok",
            "  execute_tool search 10-25 ok",
            "    chat 20-25 ok",
            "  pause approval 25-40",
            "  chat m-1 40-242 ok",
        ]
    )
    root = dict(recorded.spans[0].attributes)
    assert root == {
        "tier": "gold",
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "agent",
        "hopbudget.workload": "w",
        "hopbudget.run": "r",
        "gen_ai.conversation.id": "s",
        "hopbudget.outcome": "ok",
    }
    kinds = {span.name: span.kind.name for span in recorded.spans}
    assert kinds["invoke_agent agent"] == kinds["execute_tool search"] == kinds["pause approval"] == "INTERNAL"
    assert kinds["chat m-1"] == "CLIENT"


def test_the_name_of_the_trajectory_is_its_workload_unless_given(recorded: Any) -> None:
    with hb.trajectory("agent"):
        pass
    assert recorded.attributes()["hopbudget.workload"] == "agent"
    assert "hopbudget.run" not in recorded.attributes()


def test_wall_time_is_read_once_a_trajectory(recorded: Any, time: Any) -> None:
    read = []
    clock = time.wall_ns

    def wall_ns() -> int:
        read.append(1)
        return int(clock())

    from hopbudget.tracing import scope

    scope.setup.clock.wall_ns = wall_ns
    with hb.trajectory("agent"), hb.work("w"), hb.hop("h"):
        pass
    assert len(read) == 1


@pytest.mark.parametrize(
    ("leave", "outcome"),
    [(ValueError(), "failed"), (asyncio.CancelledError(), "cancelled"), (GeneratorExit(), "closed_by_consumer")],
)
def test_a_trajectorys_own_error_says_its_outcome(recorded: Any, leave: BaseException, outcome: str) -> None:
    with contextlib.suppress(type(leave)), hb.trajectory("agent"):
        with hb.hop("h"):
            pass
        raise leave
    assert recorded.spans[0].attributes["hopbudget.outcome"] == outcome


def test_else_its_last_hop_does(recorded: Any, open_stream: Any, script: Any) -> None:
    with hb.trajectory("agent"), hb.hop("answer"):
        next(hb.watch(open_stream(script)))
    assert recorded.spans[0].attributes["hopbudget.outcome"] == "closed_by_consumer"


def test_a_trajectory_that_returns_a_stream_lasts_until_it_is_read(
    recorded: Any, open_stream: Any, script: Any
) -> None:
    @hb.hop("answer", final=True)
    def answer() -> Any:
        return open_stream(script)

    @hb.trajectory("agent")
    def agent() -> Any:
        return answer()

    assert len(list(agent())) == 6
    assert recorded.tree() == "invoke_agent agent 0-242 ok\n  chat m-1 0-242 ok"


def test_a_trajectory_that_yields_lasts_until_it_is_read(recorded: Any, open_stream: Any, script: Any) -> None:
    @hb.hop("answer", final=True)
    def answer() -> Iterator[Any]:
        yield from open_stream(script)

    @hb.trajectory("agent")
    def agent() -> Iterator[Any]:
        yield from answer()

    assert len(list(agent())) == 6
    assert recorded.tree() == "invoke_agent agent 0-242 ok\n  chat m-1 0-242 ok"


def test_an_abandoned_trajectory_ends_at_the_last_thing_seen(
    recorded: Any, open_stream: Any, script: Any, time: Any
) -> None:
    @hb.trajectory("agent")
    def agent() -> Iterator[Any]:
        yield from open_stream(script)

    stream = agent()
    next(stream)
    time.to(60_000)
    del stream
    assert recorded.tree() == "invoke_agent agent 0-50 closed_by_consumer"


def test_the_consumer_of_a_generator_is_outside_of_its_hop(recorded: Any, open_stream: Any, script: Any) -> None:
    inside = []

    @hb.hop("answer")
    def answer() -> Iterator[Any]:
        for item in open_stream(script):
            inside.append(current_span_id())
            yield item

    with hb.trajectory("agent"):
        outside = current_span_id()
        for _ in answer():
            assert current_span_id() == outside
    assert set(inside) == {recorded.spans[1].context.span_id}


def test_children_of_a_generator_nest_under_its_hop(recorded: Any, time: Any) -> None:
    tracer = trace.get_tracer("t", tracer_provider=__import__("hopbudget.tracing.scope").tracing.scope.setup.provider)

    @hb.hop("answer")
    def answer() -> Iterator[str]:
        with tracer.start_as_current_span("http"):
            yield "a"
            with tracer.start_as_current_span("inner"):
                pass
        yield "b"

    for _ in answer():
        assert current_span_id() == 0
    by_name = {span.name: span for span in recorded.spans}
    assert by_name["http"].parent.span_id == by_name["chat"].context.span_id
    assert by_name["inner"].parent.span_id == by_name["http"].context.span_id


def test_a_span_started_after_break_is_a_root(recorded: Any, open_stream: Any, script: Any) -> None:
    @hb.hop("answer")
    def answer() -> Iterator[Any]:
        yield from open_stream(script)

    stream = answer()
    for _ in stream:
        break
    with hb.trajectory("next"):
        pass
    stream.close()
    assert [span.parent for span in recorded.spans] == [None, None]


def test_a_block_in_a_generator_that_is_closed_elsewhere_logs_nothing(recorded: Any, caplog: Any) -> None:
    async def answer() -> AsyncIterator[str]:
        with hb.hop("answer"):
            yield "a"

    async def main() -> None:
        stream = answer()
        await anext(stream)
        await asyncio.create_task(stream.aclose())
        context.attach(context.Context())

    asyncio.run(main())
    assert not caplog.records
    assert len(recorded.spans) == 1


def test_a_coroutine_collected_in_another_context_leaves_that_alone(recorded: Any, caplog: Any) -> None:
    @hb.hop("plan")
    async def plan() -> None:
        await asyncio.sleep(0)

    running = plan()
    import contextvars

    contextvars.copy_context().run(running.send, None)
    with hb.trajectory("agent"):
        before = current_span_id()
        running.close()
        assert current_span_id() == before
    assert not caplog.records


def test_an_async_generator_collected_in_the_middle_of_a_step_leaves_others_alone(recorded: Any, caplog: Any) -> None:
    @hb.hop("answer")
    async def answer() -> AsyncIterator[str]:
        await asyncio.sleep(0)
        yield "a"

    import contextvars

    stream = answer()
    step = anext(stream)
    contextvars.copy_context().run(step.send, None)
    with hb.trajectory("agent"):
        before = current_span_id()
        step.close()
        del step, stream
        gc.collect()
        assert current_span_id() == before
    assert not caplog.records


def test_one_object_entered_twice_closes_the_right_one(recorded: Any, time: Any) -> None:
    work = hb.work("w")
    with work:
        time.to(10)
        with work:
            time.to(20)
        time.to(30)
    assert recorded.tree() == "execute_tool w 0-30 ok\n  execute_tool w 10-20 ok"


async def test_one_object_entered_by_two_tasks_closes_the_right_one(recorded: Any, time: Any) -> None:
    work = hb.work("w")
    first_may_end = asyncio.Event()

    async def first() -> None:
        async with work:
            time.to(5)
            await first_may_end.wait()

    async def second() -> None:
        async with work:
            time.to(10)
        first_may_end.set()

    await asyncio.gather(first(), second())
    time.to(20)
    assert recorded.tree() == "execute_tool w 0-10 ok\nexecute_tool w 5-10 ok"


async def test_hops_in_tasks_belong_to_the_trajectory(recorded: Any, time: Any) -> None:
    @hb.hop("branch")
    async def branch() -> None:
        await asyncio.sleep(0)

    @hb.trajectory("agent")
    async def agent() -> None:
        await asyncio.gather(branch(), branch(), asyncio.to_thread(lambda: None))

    await agent()
    assert recorded.tree() == "invoke_agent agent 0-0 ok\n  chat 0-0 ok\n  chat 0-0 ok"


def test_a_stream_watched_outside_of_any_hop_is_left_alone(recorded: Any, open_stream: Any, script: Any) -> None:
    stream = open_stream(script)
    kind = type(stream)
    with hb.trajectory("agent"):
        assert hb.watch(stream) is stream
    assert type(stream) is kind


def test_a_hop_that_is_not_sampled_passes_everything_on(open_stream: Any, script: Any) -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    from hopbudget.tracing import scope

    scope.configure(provider=TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False))
    try:
        with hb.trajectory("agent"), hb.hop("answer"):
            assert trace.get_current_span().get_span_context().is_valid
            assert len(list(hb.watch(open_stream(script)))) == 6
    finally:
        scope.configure()
    assert not scope.open_blocks


@pytest.mark.parametrize("by_the_api", [False, True])
def test_a_context_has_its_span_and_all_else_that_the_one_around_it_has(by_the_api: bool, monkeypatch: Any) -> None:
    if by_the_api:
        monkeypatch.setattr(scope, "_SPAN", None)
    around = context.set_value("mine", 1)
    span = trace.NonRecordingSpan(trace.SpanContext(1, 2, is_remote=False))
    inside = scope.with_span(span, around)
    assert (trace.get_current_span(inside), inside.get("mine"), trace.get_current_span(around)) == (
        span, 1, trace.INVALID_SPAN,
    )  # fmt: skip
