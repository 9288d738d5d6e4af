"""A second attempt where the first token does not come: when, whose stream is kept, and what becomes of the other."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import hopbudget as hb
from hopbudget.tracing import fail_over
from hopbudget.tracing.limits_errors import DeadlineExceeded, FirstTokenTimeout

Virtually = Callable[..., Any]
NEVER = 3600.0


@pytest.fixture(autouse=True)
def fresh_cap(monkeypatch: pytest.MonkeyPatch) -> hb.Cap:
    cap = hb.Cap()
    monkeypatch.setattr(fail_over, "DEFAULT_CAP", cap)
    return cap


class Endpoint:
    """Opens streams: a role chunk when the headers come, the first token later, three more 0.1 s apart."""

    def __init__(
        self, name: str, first_s: float, *, headers_s: float = 0.0, fails: BaseException | None = None
    ) -> None:
        self.name = name
        self.first_s = first_s
        self.headers_s = headers_s
        self.fails = fails
        self.opened = 0
        self.open_now = 0
        self.pulled = 0

    async def create(self) -> "Stream":
        self.opened += 1
        await asyncio.sleep(self.headers_s)
        if self.fails is not None:
            raise self.fails
        self.open_now += 1
        return Stream(self)


class Stream:
    """A client's stream."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.response = f"response of {endpoint.name}"
        self._endpoint = endpoint
        self._closed = False
        self._chunks = self._play()

    async def _play(self) -> AsyncIterator[dict[str, Any]]:
        end = self._endpoint
        yield chunk(end.name, role="assistant", content="")
        await asyncio.sleep(end.first_s - end.headers_s)
        for index in range(4):
            if index:
                await asyncio.sleep(0.1)
            end.pulled += 1
            yield chunk(end.name, content=f"{end.name}{index} ")
        yield chunk(end.name, finish="stop")

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> dict[str, Any]:
        return await anext(self._chunks)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._endpoint.open_now -= 1


def chunk(model: str, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "c", "object": "chat.completion.chunk", "model": model, "choices": choices}


def text(chunks: list[dict[str, Any]]) -> str:
    return "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks)


async def read(stream: Any) -> str:
    return text([chunk async for chunk in stream])


def loop_s() -> float:
    return asyncio.get_running_loop().time()


# Who is kept -----------------------------------------------------------------------------------------------------


def test_a_first_token_in_time_is_kept_and_nobody_else_is_asked(virtually: Virtually) -> None:
    first, second = Endpoint("a", 0.4), Endpoint("b", 0.1)

    async def main() -> None:
        stream = await hb.failover(first.create, second.create, after_s=0.5)
        assert (loop_s(), stream.sent_by) == (pytest.approx(0.4), "primary")
        assert await read(stream) == "a0 a1 a2 a3 "
        assert (first.opened, second.opened) == (1, 0)
        assert first.open_now == 0

    virtually(main())


@pytest.mark.parametrize("headers_s", [0.0, NEVER])
def test_no_first_token_in_time_and_the_second_attempt_answers(virtually: Virtually, headers_s: float) -> None:
    first, second = Endpoint("a", NEVER, headers_s=headers_s), Endpoint("b", 0.3)

    async def main() -> None:
        stream = await hb.failover(first.create, second.create, after_s=0.5)
        assert (loop_s(), stream.sent_by) == (pytest.approx(0.8), "secondary")
        assert await read(stream) == "b0 b1 b2 b3 "
        assert first.open_now == second.open_now == 0

    virtually(main())


def test_the_first_attempt_is_kept_if_its_token_comes_before_the_seconds(virtually: Virtually) -> None:
    first, second = Endpoint("a", 0.6), Endpoint("b", 0.3)

    async def main() -> None:
        stream = await hb.failover(first.create, second.create, after_s=0.5)
        assert (loop_s(), stream.sent_by) == (pytest.approx(0.6), "primary")
        assert await read(stream) == "a0 a1 a2 a3 "
        assert (second.opened, second.open_now, second.pulled) == (1, 0, 0)

    virtually(main())


def test_a_long_answer_never_triggers_it(virtually: Virtually) -> None:
    first, second = Endpoint("a", 0.4), Endpoint("b", 0.1)

    async def main() -> None:
        stream = await hb.failover(first.create, second.create, after_s=0.5)
        async for _ in stream:
            await asyncio.sleep(10)
        assert second.opened == 0

    virtually(main())


def test_pings_and_empty_chunks_are_no_first_token(virtually: Virtually) -> None:
    async def pings() -> AsyncIterator[bytes]:
        while True:
            yield b": ping\n\n"
            await asyncio.sleep(0.1)

    second = Endpoint("b", 0.3)

    async def main() -> None:
        stream = await hb.failover(pings, second.create, after_s=0.5)
        assert stream.sent_by == "secondary"
        await read(stream)

    virtually(main())


def test_chunks_that_nobody_can_read_count_as_tokens(virtually: Virtually) -> None:
    async def numbers() -> AsyncIterator[int]:
        yield 1
        await asyncio.sleep(NEVER)

    async def main() -> None:
        stream = await hb.failover(numbers, Endpoint("b", 0.1).create, after_s=0.5)
        assert await anext(stream) == 1
        assert stream.sent_by == "primary"
        await stream.aclose()

    virtually(main())


def test_nothing_is_read_ahead_of_the_reader(virtually: Virtually) -> None:
    first = Endpoint("a", 0.1)

    async def main() -> None:
        stream = await hb.failover(first.create, first.create, after_s=0.5)
        await asyncio.sleep(5)
        assert first.pulled == 1
        await stream.aclose()
        assert first.open_now == 0

    virtually(main())


def test_the_clients_own_stream_is_behind_it(virtually: Virtually) -> None:
    async def main() -> None:
        async with await hb.failover(Endpoint("a", 0.1).create, Endpoint("b", 0.1).create, after_s=0.5) as stream:
            assert stream.response == "response of a"
            assert isinstance(stream.stream, Stream)
            with pytest.raises(AttributeError):
                stream.nothing  # noqa: B018

    virtually(main())


def test_a_manager_of_a_stream_is_entered_and_left(virtually: Virtually) -> None:
    left: list[str] = []

    class Manager:
        def __init__(self, name: str, first_s: float) -> None:
            self.endpoint = Endpoint(name, first_s)

        async def __aenter__(self) -> Stream:
            return await self.endpoint.create()

        async def __aexit__(self, *_: object) -> None:
            left.append(self.endpoint.name)

    async def main() -> None:
        stream = await hb.failover(lambda: Manager("a", NEVER), lambda: Manager("b", 0.1), after_s=0.5)
        assert await read(stream) == "b0 b1 b2 b3 "

    virtually(main())
    assert sorted(left) == ["a", "b"]


moments = st.floats(0.01, 3.0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(moments, moments, moments, st.none() | st.floats(0.01, 4.0))
def test_whoever_is_first_wins_and_nothing_is_left_whenever_it_is_cancelled(
    virtually: Virtually, first_s: float, second_s: float, after_s: float, cancel_s: float | None
) -> None:
    ends_s = min(first_s, after_s + second_s)
    assume(abs(first_s - (after_s + second_s)) > 1e-6 and abs(first_s - after_s) > 1e-6)
    assume(cancel_s is None or abs(ends_s - cancel_s) > 1e-6)
    first, second = Endpoint("a", first_s), Endpoint("b", second_s)

    async def main() -> None:
        try:
            async with asyncio.timeout(cancel_s):
                stream = await hb.failover(first.create, second.create, after_s=after_s, cap=hb.Cap(1.0))
        except TimeoutError:
            assert cancel_s is not None
            assert cancel_s < ends_s
        else:
            assert loop_s() == pytest.approx(ends_s)
            assert stream.sent_by == ("primary" if first_s < after_s + second_s else "secondary")
            assert (second.opened == 1) == (after_s < first_s)
            await stream.aclose()
        assert first.open_now == second.open_now == 0

    virtually(main())


# Failures ------------------------------------------------------------------------------------------------------------


def test_a_failure_before_the_first_token_asks_the_second_at_once(virtually: Virtually) -> None:
    first, second = Endpoint("a", 0.4, headers_s=0.1, fails=ConnectionError("a")), Endpoint("b", 0.2)

    async def main() -> None:
        stream = await hb.failover(first.create, second.create, after_s=0.5)
        assert (loop_s(), stream.sent_by) == (pytest.approx(0.3), "secondary")
        await read(stream)

    virtually(main())


def test_where_both_fail_the_firsts_exception_comes_out_itself(virtually: Virtually) -> None:
    error = ConnectionError("a")
    first, second = Endpoint("a", 1, fails=error), Endpoint("b", 1, fails=KeyError("b"))

    async def main() -> None:
        with pytest.raises(ConnectionError) as caught:
            await hb.failover(first.create, second.create, after_s=0.5)
        assert caught.value is error

    virtually(main())


def test_a_failure_of_the_second_leaves_it_to_the_first(virtually: Virtually) -> None:
    first, second = Endpoint("a", 2.0), Endpoint("b", 1, fails=KeyError("b"))

    async def main() -> None:
        stream = await hb.failover(first.create, second.create, after_s=0.5)
        assert stream.sent_by == "primary"
        await read(stream)

    virtually(main())


def test_no_second_attempt_when_there_is_no_time_for_one(virtually: Virtually) -> None:
    over = FirstTokenTimeout("deadline", "answer", 1.0, 1.0, capped=True)
    second = Endpoint("b", 0.1)

    async def main() -> None:
        with pytest.raises(FirstTokenTimeout):
            await hb.failover(Endpoint("a", 1, fails=over).create, second.create, after_s=0.5)
        assert second.opened == 0

    virtually(main())


def test_a_cancellation_ends_both_attempts_and_goes_on(virtually: Virtually) -> None:
    first, second = Endpoint("a", NEVER), Endpoint("b", NEVER)

    async def main() -> None:
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(2):
                await hb.failover(first.create, second.create, after_s=0.5)
        assert not isinstance(caught.value, DeadlineExceeded)
        assert (first.opened, second.opened) == (1, 1)
        assert first.open_now == second.open_now == 0

    virtually(main())


def test_a_loser_that_does_not_close_holds_nobody_up_for_long(virtually: Virtually) -> None:
    async def stuck() -> AsyncIterator[Any]:
        try:
            await asyncio.sleep(NEVER)
            yield "never"
        finally:
            await asyncio.sleep(30)

    async def main() -> None:
        stream = await hb.failover(stuck, Endpoint("b", 0.3).create, after_s=0.5)
        assert await read(stream) == "b0 b1 b2 b3 "
        assert loop_s() < 3
        await asyncio.sleep(31)

    virtually(main())


# How often -----------------------------------------------------------------------------------------------------------


def test_without_a_number_and_without_a_plan_time_triggers_nothing(virtually: Virtually) -> None:
    second = Endpoint("b", 0.1)

    async def main() -> None:
        stream = await hb.failover(Endpoint("a", 100.0).create, second.create)
        assert loop_s() == pytest.approx(100)
        await stream.aclose()
        assert second.opened == 0

    virtually(main())


class Known:
    id, workload, deadline_s, base_rate, fingerprint = "known", None, 60.0, 0.9, {"models": ["m-1"]}
    slots: dict[str, float] = {}  # noqa: RUF012 - as a plan has it
    work_s, aborts = 0.0, False

    def first_token_after(self, model: str, prompt_tokens: int | None = None, q: float = 0.99) -> float | None:
        return {("m-1", None, 0.99): 0.7, ("m-1", 9000, 0.99): 1.5}.get((model, prompt_tokens, q))


@pytest.mark.parametrize(("prompt_tokens", "waits_s"), [(None, 0.7), (9000, 1.5)])
def test_the_plan_says_how_long_to_wait(virtually: Virtually, prompt_tokens: int | None, waits_s: float) -> None:
    plan: Any = Known()

    @hb.trajectory("agent", plan=plan)
    async def main() -> None:
        first, second = Endpoint("a", NEVER), Endpoint("b", 0.1)
        stream = await hb.failover(first.create, second.create, prompt_tokens=prompt_tokens)
        assert loop_s() == pytest.approx(waits_s + 0.1)
        await stream.aclose()

    virtually(main())


def test_switched_off_there_is_no_second_attempt(virtually: Virtually) -> None:
    second = Endpoint("b", 0.1)

    async def main() -> None:
        hb.disable()
        stream = await hb.failover(Endpoint("a", 100.0).create, second.create, after_s=0.5)
        await stream.aclose()
        assert second.opened == 0

    virtually(main())


def test_the_cap_bounds_second_attempts_where_an_endpoint_is_down(virtually: Virtually) -> None:
    cap = hb.Cap(share=0.1, burst=2)

    async def main() -> None:
        for _ in range(100):
            stream = await hb.failover(Endpoint("a", 3.0).create, Endpoint("b", 0.1).create, after_s=0.5, cap=cap)
            await stream.aclose()

    virtually(main())
    assert cap.calls == 100
    assert cap.extra + cap.refused == 100
    assert 11 <= cap.extra <= 12


@given(st.floats(0, 1), st.integers(1, 20), st.lists(st.booleans(), max_size=200))
def test_a_cap_never_allows_more_than_its_share_and_its_burst(share: float, burst: int, wants: list[bool]) -> None:
    cap = hb.Cap(share, burst)
    for wanted in wants:
        cap.call()
        if wanted:
            cap.take()
        assert cap.extra <= burst + share * cap.calls + 1e-6
    assert cap.extra + cap.refused == sum(wants)


@pytest.mark.parametrize(("share", "burst"), [(-0.1, 5), (1.1, 5), (0.1, 0)])
def test_a_cap_is_a_share_and_at_least_one(share: float, burst: float) -> None:
    with pytest.raises(ValueError, match="a cap is"):
        hb.Cap(share, burst)


def first_tokens(virtually: Virtually, *, hangs: float, after_s: float | None, n: int = 2000) -> tuple[float, float]:
    """TTFT p99, and the share of extra calls, of an endpoint of which a share of first tokens hangs for a minute."""
    chance = random.Random(20)
    cap = hb.Cap()

    def first_s() -> float:
        return 60.0 if chance.random() < hangs else chance.lognormvariate(-0.7, 0.35)

    async def one() -> float:
        began = loop_s()
        first, second = Endpoint("a", first_s()), Endpoint("b", first_s())
        stream = await hb.failover(first.create, second.create, after_s=after_s, cap=cap)
        took_s = loop_s() - began
        await stream.aclose()
        return took_s

    async def main() -> list[float]:
        return sorted([await one() for _ in range(n)])

    times = virtually(main())
    return times[int(n * 0.99)], cap.extra / n


Q99_S = 0.4966 * 2.718281828 ** (0.35 * 2.3263)
"""The 99th percentile of first tokens that don't hang."""


def test_with_two_in_a_hundred_hanging_it_halves_the_tail_for_few_extra_calls(virtually: Virtually) -> None:
    without_s, none = first_tokens(virtually, hangs=0.02, after_s=None)
    with_s, extra = first_tokens(virtually, hangs=0.02, after_s=Q99_S)
    assert none == 0
    assert with_s <= 0.5 * without_s
    assert extra <= 0.04


def test_without_hangs_it_costs_hardly_a_call(virtually: Virtually) -> None:
    _, extra = first_tokens(virtually, hangs=0.0, after_s=Q99_S)
    assert extra <= 0.015


# Records -------------------------------------------------------------------------------------------------------------


def hops(recorded: Any) -> list[dict[str, Any]]:
    return [dict(span.attributes) for span in recorded.spans if "hopbudget.hop" in span.attributes]


def attempts(recorded: Any) -> list[Any]:
    return [span for span in recorded.spans if span.name.startswith("attempt ")]


def answer(first: Endpoint, second: Endpoint, **more: Any) -> Any:
    @hb.hop("answer", final=True)
    async def answer() -> AsyncIterator[Any]:
        async for chunk in await hb.failover(first.create, second.create, after_s=0.5, **more):
            yield chunk

    return answer


def test_the_hop_is_one_visit_timed_from_the_first_request(recorded: Any, virtually: Virtually) -> None:
    @hb.trajectory("agent")
    async def main() -> None:
        assert await read(answer(Endpoint("a", NEVER), Endpoint("b", 0.3))()) == "b0 b1 b2 b3 "

    virtually(main())
    (hop,) = hops(recorded)
    assert hop["hopbudget.ttft"] == pytest.approx(0.8)
    assert hop["hopbudget.attempt_ttft"] == pytest.approx(0.3)
    assert hop["hopbudget.e2e"] == pytest.approx(1.1)
    assert hop["hopbudget.attempts"] == 2
    assert hop["hopbudget.outcome"] == "ok"
    assert hop["hopbudget.failover"] == "secondary"
    assert hop["gen_ai.response.model"] == "b"
    assert hop["hopbudget.output_tokens"] == 4


def test_the_loser_has_a_span_of_its_own_that_is_no_hop(recorded: Any, virtually: Virtually) -> None:
    @hb.trajectory("agent")
    async def main() -> None:
        await read(answer(Endpoint("a", NEVER), Endpoint("b", 0.3))())

    virtually(main())
    (lost,) = attempts(recorded)
    assert lost.name == "attempt primary"
    assert dict(lost.attributes) == {
        "hopbudget.failover": "lost",
        "hopbudget.outcome": "cancelled",
        "error.type": "CancelledError",
    }
    assert (lost.end_time - lost.start_time) / 1e9 == pytest.approx(0.8)
    hop = next(span for span in recorded.spans if "hopbudget.hop" in span.attributes)
    assert lost.parent.span_id == hop.context.span_id
    root = next(span for span in recorded.spans if span.name == "invoke_agent agent")
    assert root.attributes["hopbudget.intervened"] is True
    assert "answer: failover" in root.attributes["hopbudget.decisions"]


def test_a_loser_that_failed_says_with_what(recorded: Any, virtually: Virtually) -> None:
    async def main() -> None:
        await read(answer(Endpoint("a", 1, fails=ConnectionError()), Endpoint("b", 0.3))())

    virtually(main())
    (lost,) = attempts(recorded)
    assert lost.attributes["hopbudget.outcome"] == "failed"
    assert lost.attributes["error.type"] == "ConnectionError"


def test_with_a_first_token_in_time_nothing_is_marked(recorded: Any, virtually: Virtually) -> None:
    @hb.trajectory("agent")
    async def main() -> None:
        await read(answer(Endpoint("a", 0.3), Endpoint("b", 0.3))())

    virtually(main())
    (hop,) = hops(recorded)
    assert "hopbudget.failover" not in hop
    assert "hopbudget.attempts" not in hop
    assert hop["hopbudget.ttft"] == hop["hopbudget.attempt_ttft"] == pytest.approx(0.3)
    assert attempts(recorded) == []
    root = next(span for span in recorded.spans if span.name == "invoke_agent agent")
    assert "hopbudget.intervened" not in root.attributes


def test_a_cap_that_allows_none_is_told(recorded: Any, virtually: Virtually) -> None:
    cap = hb.Cap(share=0, burst=1)
    cap.take()

    async def main() -> None:
        await read(answer(Endpoint("a", 2.0), Endpoint("b", 0.3), cap=cap)())

    virtually(main())
    (hop,) = hops(recorded)
    assert hop["hopbudget.failover"] == "capped"
    assert hop["hopbudget.ttft"] == pytest.approx(2.0)


def test_both_failing_is_a_failed_hop(recorded: Any, virtually: Virtually) -> None:
    async def main() -> None:
        with pytest.raises(ConnectionError):
            fails = Endpoint("a", 1, fails=ConnectionError()), Endpoint("b", 1, fails=KeyError())
            await read(answer(*fails)())

    virtually(main())
    (hop,) = hops(recorded)
    assert (hop["hopbudget.outcome"], hop["hopbudget.failover"]) == ("failed", "none")
    assert {span.name for span in attempts(recorded)} == {"attempt primary", "attempt secondary"}


def test_the_first_token_is_timed_when_it_came_and_not_when_it_was_read(recorded: Any, virtually: Virtually) -> None:
    @hb.hop("answer")
    async def late() -> AsyncIterator[Any]:
        stream = await hb.failover(Endpoint("a", 0.3).create, Endpoint("b", 1).create, after_s=0.5)
        await asyncio.sleep(5)
        async for chunk in stream:
            yield chunk

    async def main() -> None:
        await read(late())

    virtually(main())
    (hop,) = hops(recorded)
    assert hop["hopbudget.ttft"] == pytest.approx(0.3)


def test_outside_of_a_hop_it_is_one(recorded: Any, virtually: Virtually) -> None:
    @hb.trajectory("agent")
    async def main() -> None:
        await read(await hb.failover(Endpoint("a", NEVER).create, Endpoint("b", 0.3).create, after_s=0.5))

    virtually(main())
    (hop,) = [span for span in recorded.spans if span.name.startswith("chat")]
    assert hop.attributes["hopbudget.ttft"] == pytest.approx(0.8)
    assert hop.attributes["hopbudget.failover"] == "secondary"


def test_the_hops_own_limits_hold_over_both_attempts(recorded: Any, virtually: Virtually) -> None:
    first, second = Endpoint("a", NEVER, headers_s=0.1), Endpoint("b", NEVER, headers_s=NEVER)

    @hb.hop("answer", first_token_s=1.5, enforce="deadline")
    async def answer() -> AsyncIterator[Any]:
        async for chunk in await hb.failover(first.create, second.create, after_s=0.5):
            yield chunk

    async def main() -> None:
        with pytest.raises(FirstTokenTimeout) as late:
            await read(answer())
        assert "1 chunks without a token of the primary, no response of the secondary" in str(late.value)
        assert loop_s() == pytest.approx(1.5, abs=0.01)
        assert first.open_now == second.open_now == 0

    virtually(main())
    (hop,) = hops(recorded)
    assert (hop["hopbudget.outcome"], hop["hopbudget.limit_hit"]) == ("timed_out", "first_token")


def test_it_is_counted_with_the_hops(recorded: Any, virtually: Virtually, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader], shutdown_on_exit=False)
    monkeypatch.setattr("opentelemetry.metrics._internal._METER_PROVIDER", provider)

    async def main() -> None:
        await read(answer(Endpoint("a", NEVER), Endpoint("b", 0.3))())
        await read(answer(Endpoint("a", 0.3), Endpoint("b", 0.3))())

    virtually(main())
    data: Any = reader.get_metrics_data()
    counted = [m for m in data.resource_metrics[0].scope_metrics[0].metrics if m.name == "hopbudget.hops"]
    assert sorted(str(p.attributes.get("hopbudget.failover")) for p in counted[0].data.data_points) == [
        "None",
        "secondary",
    ]
    provider.shutdown()


# Wrong arguments -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("primary", "secondary", "more", "error"),
    [
        (None, print, {}, TypeError),
        (print, 3, {}, TypeError),
        (print, print, {"after_s": -1}, ValueError),
        (print, print, {"after_s": "1s"}, TypeError),
        (print, print, {"reader": "morse"}, ValueError),
    ],
)
async def test_wrong_arguments_raise(primary: Any, secondary: Any, more: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        await hb.failover(primary, secondary, **more)


async def test_what_is_no_async_stream_is_refused(folder: Any) -> None:
    not_streams: Any = [lambda: iter("ab"), lambda: 3]
    with pytest.raises(TypeError, match="async streams"):
        await hb.failover(*not_streams, after_s=0.5)
