"""A function that `contextmanager` made, decorated: what is open lasts from its being entered to its end."""

import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import Any

import pytest
from opentelemetry import trace

import hopbudget as hb

KINDS = {"trajectory": hb.trajectory("agent"), "hop": hb.hop("answer"), "work": hb.work("session")}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param]


def outcome(recorded: Any) -> Any:
    return recorded.attributes()["hopbudget.outcome"]


def test_it_lasts_as_long_as_the_manager(kind: Any, recorded: Any, time: Any) -> None:
    @kind
    @contextmanager
    def session() -> Iterator[str]:
        time.to(time.ms + 10)
        yield "s"
        time.to(time.ms + 20)

    with session() as found:
        time.to(time.ms + 5_000)
        assert not trace.get_current_span().get_span_context().is_valid
    span = recorded.only()
    assert (found, outcome(recorded)) == ("s", "ok")
    assert span.end_time - span.start_time == 5_030_000_000


async def test_the_same_where_it_is_awaited(kind: Any, recorded: Any, time: Any) -> None:
    @kind
    @asynccontextmanager
    async def session() -> AsyncIterator[str]:
        time.to(time.ms + 10)
        yield "s"
        time.to(time.ms + 20)

    async with session() as found:
        time.to(time.ms + 5_000)
    span = recorded.only()
    assert (found, outcome(recorded)) == ("s", "ok")
    assert span.end_time - span.start_time == 5_030_000_000


def test_what_its_body_does_is_inside_of_it(recorded: Any) -> None:
    @hb.trajectory("agent")
    @contextmanager
    def session() -> Iterator[None]:
        with hb.hop("before"):
            pass
        yield
        with hb.hop("after"):
            pass

    with session():
        pass
    (root,) = [span for span in recorded.spans if span.parent is None]
    assert [span.parent.span_id for span in recorded.spans if span is not root] == [root.context.span_id] * 2


@pytest.mark.parametrize("swallows", [False, True])
def test_the_consumers_exception_takes_its_way(swallows: bool, kind: Any, recorded: Any) -> None:
    @kind
    @contextmanager
    def session() -> Iterator[None]:
        try:
            yield
        except KeyError:
            if not swallows:
                raise

    error = KeyError("mine")
    with nullcontext() if swallows else pytest.raises(KeyError) as caught, session():
        raise error
    assert swallows or caught.value is error
    assert outcome(recorded) == "closed_by_consumer"


async def test_an_exception_of_its_own_is_the_one_that_is_raised(kind: Any, recorded: Any) -> None:
    error = OSError("down")

    @kind
    @asynccontextmanager
    async def session() -> AsyncIterator[None]:
        raise error
        yield

    with pytest.raises(OSError, match="down") as caught:
        async with session():
            pass
    assert caught.value is error
    assert outcome(recorded) == "failed"


def test_one_that_nobody_enters_is_closed(kind: Any, recorded: Any) -> None:
    @kind
    @contextmanager
    def session() -> Iterator[None]:
        yield

    manager = session()
    assert not recorded.spans
    del manager
    gc.collect()
    assert outcome(recorded) == "closed_by_consumer"


def test_another_manager_is_a_result_as_any_other(kind: Any, recorded: Any) -> None:
    @kind
    def session() -> Any:
        return nullcontext("s")

    with session() as found:
        assert (found, outcome(recorded)) == ("s", "ok")
