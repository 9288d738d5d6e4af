"""One span on every way out of a generator, with the right outcome and end."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest

import hopbudget as hb

OK = "chat m-1 0-242 ok"


class ProviderError(Exception):
    pass


class ConsumerError(Exception):
    pass


@pytest.fixture
def generator(recorded: Any, open_stream: Any) -> Any:
    """A decorated generator that passes a stream on."""

    def make(script: Any) -> Iterator[Any]:
        @hb.hop("answer")
        def answer() -> Iterator[Any]:
            yield from open_stream(script)

        return answer()

    return make


def test_generator_read_to_the_end(recorded: Any, generator: Any, script: Any) -> None:
    assert list(generator(script)) == [item for _, item in script]
    assert recorded.tree() == OK


def test_generator_left_by_break_and_collected(recorded: Any, generator: Any, script: Any, time: Any) -> None:
    stream = generator(script)
    for item in stream:
        if item is script[2][1]:
            break
    time.to(60_000)
    del stream
    assert recorded.tree() == "chat m-1 0-220 closed_by_consumer"
    assert recorded.attributes()["hopbudget.output_tokens"] == 2


def test_generator_closed(recorded: Any, generator: Any, script: Any, time: Any) -> None:
    stream = generator(script)
    next(stream)
    next(stream)
    time.to(5_000)
    stream.close()
    assert recorded.tree() == "chat m-1 0-200 closed_by_consumer"


def test_generator_whose_provider_fails(recorded: Any, generator: Any, script: Any, until: Any) -> None:
    error = ProviderError("secret prompt")
    with pytest.raises(ProviderError) as caught:
        list(generator(until(script, 230, error)))
    assert caught.value is error
    assert recorded.tree() == "chat m-1 0-230 failed ProviderError"
    span = recorded.only()
    assert span.attributes["hopbudget.output_tokens"] == 2
    assert span.status.status_code.name == "ERROR"
    assert "secret" not in span.to_json()


def test_generator_whose_consumer_fails(recorded: Any, generator: Any, script: Any) -> None:
    with pytest.raises(ConsumerError):
        for item in generator(script):
            if item is script[2][1]:
                raise ConsumerError
    gc.collect()
    assert recorded.tree() == "chat m-1 0-220 closed_by_consumer"


def test_generator_that_the_consumer_throws_into(recorded: Any, generator: Any, script: Any) -> None:
    stream = generator(script)
    next(stream)
    error = ConsumerError()
    with pytest.raises(ConsumerError) as caught:
        stream.throw(error)
    assert caught.value is error
    assert recorded.tree() == "chat m-1 0-50 closed_by_consumer"


def test_generator_cancelled_by_the_keyboard(recorded: Any, generator: Any, script: Any, until: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        list(generator(until(script, 230, KeyboardInterrupt())))
    assert recorded.tree() == "chat m-1 0-230 cancelled KeyboardInterrupt"


def test_generator_never_iterated_is_no_request_and_no_hop(recorded: Any, generator: Any, script: Any) -> None:
    generator(script)
    assert recorded.tree() == ""


def test_generator_cut_off(recorded: Any, generator: Any, script: Any) -> None:
    list(generator(script[:3]))
    assert recorded.tree() == "chat m-1 0-220 failed cut_off"


def test_generator_truncated(recorded: Any, generator: Any, script: Any, chunk: Any, until: Any) -> None:
    list(generator(until(script, 241, chunk(finish="length"))))
    assert recorded.tree() == "chat m-1 0-241 truncated"


def test_generator_that_passes_only_its_tokens_on_is_not_cut_off(recorded: Any, open_stream: Any, script: Any) -> None:
    @hb.hop("answer")
    def answer() -> Iterator[Any]:
        for item in open_stream(script):
            if item["choices"] and item["choices"][0]["delta"].get("content"):
                yield item

    assert len(list(answer())) == 3
    assert recorded.only().attributes["hopbudget.outcome"] == "ok"


def test_generator_that_passes_its_text_on(recorded: Any, open_stream: Any, script: Any) -> None:
    @hb.hop("answer", final=True)
    def answer() -> Iterator[str]:
        for item in open_stream(script):
            if item["choices"]:
                yield item["choices"][0]["delta"].get("content") or ""

    assert "".join(answer()) == "abc"
    found = recorded.attributes()
    assert (found["hopbudget.ttft"], found["hopbudget.output_tokens.source"]) == (0.2, "chunks")
    assert found["hopbudget.final"] is True


def test_generator_that_watches_the_stream_is_timed_at_the_transport(
    recorded: Any, open_stream: Any, script: Any, time: Any
) -> None:
    @hb.hop("answer")
    def answer() -> Iterator[str]:
        for _ in hb.watch(open_stream(script)):
            time.ms += 0.5  # its own work on a chunk
            yield "piece"

    assert len(list(answer())) == 6
    found = recorded.attributes()
    assert (found["hopbudget.ttft"], found["hopbudget.output_tokens"], found["hopbudget.chunks"]) == (0.2, 3, 3)
