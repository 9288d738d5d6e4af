"""What the garbage collector finds: it stops a thread anywhere, so nothing that takes locks may be done there."""

import gc
from _thread import start_new_thread
from collections.abc import Iterator
from functools import partial
from threading import Event, Lock
from typing import Any

import pytest
from opentelemetry.context import Context, attach, get_current
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

import hopbudget as hb
from hopbudget.tracing import garbage, scope


class Noting(SpanProcessor):
    """Notes of each span that ends whether it did so while garbage was collected."""

    def __init__(self) -> None:
        self.collecting: list[bool] = []
        self.sent: list[Any] = []
        """The threads that were sent for."""
        self.noted = Event()

    def on_end(self, span: Any) -> None:
        self.collecting.append(garbage.collecting())
        self.noted.set()


@pytest.fixture
def noting(monkeypatch: Any) -> Iterator[Noting]:
    found = Noting()
    monkeypatch.setattr(garbage.collector, "helped", False)
    monkeypatch.setattr(garbage, "PATIENCE_S", 0)
    monkeypatch.setattr(garbage, "start_new_thread", lambda work, given: found.sent.append(partial(work, *given)))
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(found)
    scope.configure(provider=provider)
    yield found
    scope.configure()


class Knot:
    """A stream that refers to itself, as clients' streams do, so that only the collector ends it."""

    def __init__(self) -> None:
        self.itself = self
        self.left = ["a", "b"]

    def __iter__(self) -> "Knot":
        return self

    def __next__(self) -> str:
        return self.left.pop()


@hb.hop("stream")
def stream() -> Any:
    return Knot()


@hb.hop("generator")
def generator() -> Iterator[str]:
    try:
        yield "a"
    finally:
        get_current()


def begin_generator() -> None:
    """One that refers to itself."""
    knot: list[Any] = [generator()]
    next(knot[0])
    knot.append(knot)


@pytest.mark.parametrize("begin", [lambda: next(stream()), begin_generator])
def test_what_was_collected_ends_when_that_is_over(noting: Noting, begin: Any) -> None:
    begin()
    assert noting.collecting == []
    gc.collect()
    garbage.settle()
    assert noting.collecting == [False]


def test_a_thread_is_sent_for_all_that_was_collected(noting: Noting) -> None:
    for _ in range(3):
        next(stream())
    gc.collect()
    assert noting.collecting == []
    (work,) = noting.sent
    work()
    assert noting.collecting == [False] * 3
    next(stream())
    gc.collect()
    assert len(noting.sent) == 2


def test_it_is_done_when_the_collection_is_over(noting: Noting, monkeypatch: Any) -> None:
    monkeypatch.setattr(garbage, "start_new_thread", start_new_thread)
    monkeypatch.setattr(garbage, "PATIENCE_S", 10)
    for _ in range(100):
        next(stream())
    gc.collect()
    assert noting.collecting == [False] * 100


def test_a_collection_does_not_wait_for_who_does_not_get_on(noting: Noting, monkeypatch: Any) -> None:
    plain, held = noting.on_end, Lock()

    def waiting(span: Any) -> None:
        with held:  # as that of a metric's reader, in which the thread was stopped
            plain(span)

    noting.on_end = waiting  # type: ignore[method-assign]
    monkeypatch.setattr(garbage, "start_new_thread", start_new_thread)
    next(stream())
    with held:
        gc.collect()
        assert noting.collecting == []
    assert noting.noted.wait(10)


def test_what_was_dropped_by_its_last_holder_ends_there_and_then(noting: Noting) -> None:
    @hb.hop("answer")
    def answer() -> Any:
        return iter(["a", "b"])

    next(answer())
    assert noting.collecting == [False]


def test_a_generator_that_is_collected_attaches_no_context(noting: Noting, monkeypatch: Any) -> None:
    attached: list[Context] = []

    def attaching(context: Context) -> Any:
        attached.append(context)
        return attach(context)

    begin_generator()
    monkeypatch.setattr("hopbudget.tracing.drive.attach", attaching)
    gc.collect()
    assert attached == []
    garbage.settle()


def test_metrics_of_what_was_collected_are_recorded(noting: Noting, monkeypatch: Any) -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.metrics")
    reader = pytest.importorskip("opentelemetry.sdk.metrics.export").InMemoryMetricReader()
    provider = sdk.MeterProvider(metric_readers=[reader], shutdown_on_exit=False)
    monkeypatch.setattr("opentelemetry.metrics._internal._METER_PROVIDER", provider)
    next(stream())
    gc.collect()
    garbage.settle()
    (measured,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
    assert "hopbudget.hop.duration" in [metric.name for metric in measured.metrics]
    provider.shutdown()


def test_the_instruments_of_metrics_are_not_made_while_garbage_is_collected(noting: Noting, monkeypatch: Any) -> None:
    asked: list[bool] = []
    monkeypatch.setattr("hopbudget.tracing.hops.instruments", lambda: asked.append(garbage.collecting()))
    next(stream())
    gc.collect()
    garbage.settle()
    assert asked == [False]


def test_what_ends_the_thread_in_the_middle_keeps_no_other_from_its_end(noting: Noting, monkeypatch: Any) -> None:
    def leave(span: Any) -> None:
        noting.on_end = plain  # type: ignore[method-assign]
        raise SystemExit

    plain = noting.on_end
    noting.on_end = leave  # type: ignore[method-assign]
    for _ in range(3):
        next(stream())
    gc.collect()
    (work,) = noting.sent
    work()
    assert noting.collecting == [False] * 2


def test_who_is_called_while_it_is_done_need_not_wait_for_it(noting: Noting, monkeypatch: Any) -> None:
    plain = noting.on_end

    def settling(span: Any) -> None:
        garbage.settle(wait_s=-1)  # which would be for good
        plain(span)

    noting.on_end = settling  # type: ignore[method-assign]
    next(stream())
    gc.collect()
    garbage.settle()
    assert noting.collecting == [False]


def test_many_collected_at_once_all_end(noting: Noting) -> None:
    gc.disable()
    try:
        for _ in range(1000):
            next(stream())
    finally:
        gc.enable()
    gc.collect()
    garbage.settle()
    assert noting.collecting == [False] * 1000
    assert not scope.open_blocks


def test_where_no_thread_is_to_be_had_it_waits_for_the_next_chance(noting: Noting, monkeypatch: Any) -> None:
    def refuse(*what: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(garbage, "start_new_thread", refuse)
    next(stream())
    gc.collect()
    assert noting.collecting == []
    garbage.settle()
    assert noting.collecting == [False]
