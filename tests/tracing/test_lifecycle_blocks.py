"""One span on every way out of a block, also where several calls, or nobody's end, are in it."""

from collections.abc import Iterator
from typing import Any

import pytest

import hopbudget as hb
from hopbudget.tracing import scope

OK = "chat m-1 0-242 ok"


class ProviderError(Exception):
    pass


class ConsumerError(Exception):
    pass


def test_block_that_reads_its_stream_to_the_end(recorded: Any, open_stream: Any, script: Any, time: Any) -> None:
    with hb.hop("answer"):
        for _ in hb.watch(open_stream(script)):
            pass
        time.to(900)
    assert recorded.tree() == OK


def test_block_left_by_break(recorded: Any, open_stream: Any, script: Any) -> None:
    stream = open_stream(script)
    with hb.hop("answer"):
        for item in hb.watch(stream):
            if item is script[2][1]:
                break
    assert recorded.tree() == "chat m-1 0-220 closed_by_consumer"


def test_block_whose_consumer_fails(recorded: Any, open_stream: Any, script: Any) -> None:
    stream = open_stream(script)
    with pytest.raises(ConsumerError), hb.hop("answer"):
        next(hb.watch(stream))
        raise ConsumerError
    assert recorded.tree() == "chat m-1 0-50 closed_by_consumer"


def test_block_that_fails_after_its_stream_was_read_was_a_good_call(
    recorded: Any, open_stream: Any, script: Any
) -> None:
    with pytest.raises(ConsumerError), hb.hop("answer"):
        list(hb.watch(open_stream(script)))
        raise ConsumerError
    assert recorded.tree() == OK


def test_block_that_hands_its_stream_on(recorded: Any, open_stream: Any, script: Any) -> None:
    with hb.hop("answer"):
        stream = hb.watch(open_stream(script))
    assert recorded.tree() == ""
    list(stream)
    assert recorded.tree() == OK


async def test_async_block_that_reads_its_stream_to_the_end(recorded: Any, open_async_stream: Any, script: Any) -> None:
    async with hb.hop("answer"):
        async for _ in hb.watch(open_async_stream(script)):
            pass
    assert recorded.tree() == OK


def test_a_watched_generator_that_is_dropped_unread(recorded: Any, time: Any) -> None:
    def tokens() -> Iterator[str]:
        yield "a"

    with hb.hop("answer"):
        stream = hb.watch(tokens())
        time.to(10)
    time.to(5_000)
    del stream
    assert recorded.tree() == "chat 0-0 closed_by_consumer"


def test_two_calls_in_a_row_are_two_visits(recorded: Any, open_stream: Any, script: Any, chunk: Any) -> None:
    later = [(ms + 1_000, item) for ms, item in script]
    with hb.hop("answer"):
        list(hb.watch(open_stream(script)))
        list(hb.watch(open_stream(later)))
    assert recorded.tree() == "chat m-1 0-242 ok\nchat m-1 242-1242 ok"
    assert [span.attributes["hopbudget.hop"] for span in recorded.spans] == ["answer", "answer"]


def test_a_call_after_a_failed_one_is_its_second_attempt(
    recorded: Any, open_stream: Any, script: Any, until: Any
) -> None:
    later = [(ms + 1_000, item) for ms, item in script]
    with hb.hop("answer"):
        with pytest.raises(ProviderError):
            list(hb.watch(open_stream(until(script, 230, ProviderError()))))
        list(hb.watch(open_stream(later)))
    assert recorded.tree() == "chat m-1 0-1242 ok"
    found = recorded.attributes()
    assert found["hopbudget.attempts"] == 2
    assert found["hopbudget.ttft"] == 1.2
    assert found["hopbudget.attempt_ttft"] == pytest.approx(0.97)
    assert found["hopbudget.output_tokens"] == 3


@pytest.mark.parametrize("watched", [True, False])
def test_nothing_is_read_ahead(recorded: Any, watched: bool) -> None:
    pulled: list[int] = []

    def tokens() -> Iterator[str]:
        for number in range(5):
            pulled.append(number)
            yield str(number)

    @hb.hop("answer")
    def answer() -> Iterator[str]:
        yield from hb.watch(tokens()) if watched else tokens()

    for number, item in enumerate(answer()):
        assert item == str(number)
        assert pulled == list(range(number + 1))


def test_what_is_open_when_the_process_ends_is_ended_at_the_last_thing_seen(
    recorded: Any, open_stream: Any, script: Any, time: Any
) -> None:
    @hb.hop("answer")
    def answer() -> Any:
        return open_stream(script)

    stream = answer()
    next(stream)
    time.to(70_000)
    assert scope.end_open() == 1
    assert recorded.tree() == "chat m-1 0-50 closed_by_consumer"
    stream.close()
    assert len(recorded.spans) == 1


def test_ten_thousand_abandoned_streams_leave_ten_thousand_spans_and_nothing_else(
    recorded: Any, open_stream: Any, script: Any, time: Any
) -> None:
    @hb.hop("answer")
    def answer() -> Any:
        return iter([script[0][1], script[1][1]])

    for _ in range(10_000):
        next(answer())
    assert len(recorded.exporter.get_finished_spans()) == 10_000
    assert not scope.open_blocks
