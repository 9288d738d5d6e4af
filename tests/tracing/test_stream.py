from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopbudget.tracing.gaps import decode
from hopbudget.tracing.handle import Handle
from hopbudget.tracing.objects import steps
from hopbudget.tracing.readers import CHAT, Usage
from hopbudget.tracing.stream import NOTES, READS, TEXT_LIMIT, StreamClock, TextCounter, tokens_from_usage

MS = 1_000_000


def fed(*events: tuple[float, Any], tokenizer: Any = None, end: bool = True) -> StreamClock:
    """A clock fed with (milliseconds, chunk)."""
    clock = StreamClock(tokenizer)
    last_ms = 0.0
    for ms, item in events:
        clock.pulled(item, round(last_ms * MS), round(ms * MS))
        last_ms = ms
    if end:
        clock.finished()
    return clock


class Following:
    """Follows a stream with a clock and nothing else."""

    def __init__(self, clock: StreamClock) -> None:
        self.clock = clock
        self.chunk = clock.pulled

    def ended(self, exc: BaseException | None, by_consumer: bool) -> None:
        pass

    def dropped(self) -> None:
        pass


def looping(
    chunks: list[Any], times_ns: list[int], follower: Following | None = None, *, handle: Handle | None = None
) -> Iterator[Any]:
    """The chunks as a followed client's loop gives them; each is asked for, and comes, at the next of these times."""
    handle = handle or Handle(*[follower] if follower else [])
    handle.now_ns = iter([*times_ns, times_ns[-1] if times_ns else 0]).__next__
    return steps(iter(chunks), handle, None)


def plain(chunk: Any, tokens: int = 10, each: int = 1) -> list[tuple[float, Any]]:
    """Role at 50 ms, first token at 200 ms, then every 20 ms, then stop."""
    body = [(200 + 20 * i, chunk("tok " * each)) for i in range(tokens)]
    return [(50, chunk(role="assistant", content="")), *body, (body[-1][0] + 1, chunk(finish="stop"))]


def measured(clock: StreamClock) -> dict[str, Any]:
    tokens, source = clock.tokens()
    tpot = clock.tpot_ns(tokens)
    return {
        "ttft_ms": None if clock.first_ns is None else clock.first_ns / MS,
        "ttfa_ms": None if clock.answer_ns is None else clock.answer_ns / MS,
        "last_ms": clock.last_ns / MS,
        "n": tokens,
        "source": source,
        "tpot_ms": None if tpot is None else tpot / MS,
        "gaps": len(clock.gaps),
        "outcome": clock.clean_end(),
    }


def usage(output: int, reasoning: int | None = None) -> dict[str, Any]:
    details = {} if reasoning is None else {"completion_tokens_details": {"reasoning_tokens": reasoning}}
    return {"prompt_tokens": 7, "completion_tokens": output, **details}


def test_a_plain_stream(chunk: Any) -> None:
    assert measured(fed(*plain(chunk), (382, chunk(usage=usage(10))))) == {
        "ttft_ms": 200, "ttfa_ms": 200, "last_ms": 380, "n": 10, "source": "usage", "tpot_ms": 20, "gaps": 9,
        "outcome": ("ok", None),
    }  # fmt: skip


def test_a_stream_cut_off_is_failed_and_keeps_its_tokens(chunk: Any) -> None:
    found = measured(fed(*plain(chunk)[:4]))
    assert (found["outcome"], found["n"], found["source"]) == (("failed", "cut_off"), 3, "chunks")


def test_a_stream_without_any_chunk_is_cut_off_if_its_format_is_known() -> None:
    assert StreamClock(format=CHAT).clean_end() == ("failed", "cut_off")
    assert StreamClock().clean_end() == ("ok", None)


def test_a_missing_end_mark_behind_code_that_filters_is_not_believed(chunk: Any) -> None:
    filtered = fed((200, chunk("a")), (220, chunk("b")))
    assert filtered.clean_end(whole=False) == ("ok", None)
    passed_on = fed((50, chunk(role="assistant")), (200, chunk("a")))
    assert passed_on.clean_end(whole=False) == ("failed", "cut_off")


def test_an_error_inside_the_stream_is_failed(chunk: Any) -> None:
    found = measured(fed(*plain(chunk)[:4], (250, {"error": {"type": "server_error"}})))
    assert (found["outcome"], found["n"]) == (("failed", "server_error"), 3)


def test_finish_reason_length_is_truncated(chunk: Any) -> None:
    assert fed((1, chunk("a")), (2, chunk(finish="length"))).clean_end() == ("truncated", None)


def test_several_tokens_a_chunk_are_counted_by_usage(chunk: Any) -> None:
    found = measured(fed(*plain(chunk, each=5), (382, chunk(usage=usage(50)))))
    assert (found["n"], found["gaps"]) == (50, 9)
    assert found["tpot_ms"] == pytest.approx(180 / 49)


def test_without_usage_the_tokenizer_counts(chunk: Any) -> None:
    found = measured(fed(*plain(chunk, each=5), tokenizer=lambda text: len(text.split())))
    assert (found["n"], found["source"]) == (50, "tokenizer")


def test_without_both_the_chunks_are_counted_and_said_to_be(chunk: Any) -> None:
    found = measured(fed(*plain(chunk, each=5)))
    assert (found["n"], found["source"]) == (10, "chunks")


def test_reasoning_is_the_first_token_and_not_the_answer(chunk: Any) -> None:
    thinking = [(200 + 20 * i, chunk(reasoning_content="hm")) for i in range(6)]
    found = measured(fed((50, chunk(role="assistant")), *thinking, (320, chunk("Hi")), (321, chunk(finish="stop"))))
    assert (found["ttft_ms"], found["ttfa_ms"], found["n"]) == (200, 320, 7)


def test_inline_thinking_is_the_first_token_and_not_the_answer(chunk: Any) -> None:
    pieces = ["<th", "ink>", "so", "</think>", "\n", "Hi"]
    found = measured(fed(*((200 + 20 * i, chunk(piece)) for i, piece in enumerate(pieces))))
    assert (found["ttft_ms"], found["ttfa_ms"], found["n"]) == (200, 300, 6)


def test_tool_calls_have_a_first_token_and_no_answer(chunk: Any) -> None:
    calls = [(200 + 20 * i, chunk(tool_calls=[{"function": {"arguments": "{"}}])) for i in range(3)]
    found = measured(fed(*calls, (250, chunk(finish="tool_calls")), (251, chunk(usage=usage(17)))))
    assert (found["ttft_ms"], found["ttfa_ms"], found["n"], found["source"]) == (200, None, 17, "usage")


def test_one_token_has_no_pace(chunk: Any) -> None:
    found = measured(fed(*plain(chunk, tokens=1), (300, chunk(usage=usage(1)))))
    assert (found["ttft_ms"], found["tpot_ms"], found["gaps"]) == (200, None, 0)


def test_tokens_that_all_come_in_one_chunk_have_no_pace_rather_than_none_at_all(chunk: Any) -> None:
    found = measured(fed(*plain(chunk, tokens=1), (300, chunk(usage=usage(40)))))
    assert (found["n"], found["tpot_ms"]) == (40, None)


def test_no_token_is_no_time_and_no_count(chunk: Any) -> None:
    found = measured(fed((50, chunk(role="assistant")), (60, chunk(finish="stop")), (61, chunk(usage=usage(9)))))
    assert (found["ttft_ms"], found["n"], found["source"], found["tpot_ms"]) == (None, None, None, None)


def test_usage_may_come_in_any_chunk_and_the_last_counts(chunk: Any) -> None:
    stream = [(200, chunk("a", usage=usage(1))), (220, chunk("b", usage=usage(3))), (221, chunk(finish="stop"))]
    assert measured(fed(*stream))["n"] == 3


def test_hidden_reasoning_is_taken_off(chunk: Any) -> None:
    found = measured(fed(*plain(chunk), (400, chunk(usage=usage(110, reasoning=100)))))
    assert (found["n"], found["tpot_ms"]) == (10, 20)


def test_reasoning_that_streamed_is_not_taken_off(chunk: Any) -> None:
    found = measured(
        fed((100, chunk(reasoning_content="hm")), *plain(chunk)[1:], (400, chunk(usage=usage(11, reasoning=1))))
    )
    assert found["n"] == 11


def test_inline_thinking_streamed_and_is_not_taken_off(chunk: Any) -> None:
    found = measured(
        fed((100, chunk("<think>hm</think>")), *plain(chunk)[1:], (400, chunk(usage=usage(15, reasoning=5))))
    )
    assert found["n"] == 15


def test_usage_that_hidden_reasoning_uses_up_leaves_n_unknown(chunk: Any) -> None:
    found = measured(fed(*plain(chunk), (400, chunk(usage=usage(100, reasoning=100)))))
    assert (found["n"], found["source"], found["tpot_ms"]) == (None, None, None)


@pytest.mark.parametrize(
    ("stated", "reasoned", "n"),
    [
        (None, False, None),
        (Usage(), False, None),
        (Usage(output=0), False, None),
        (Usage(output=5), False, 5),
        (Usage(output=5, reasoning=2), False, 3),
        (Usage(output=5, reasoning=2), True, 5),
        (Usage(output=5, reasoning=9), False, None),
    ],
)
def test_tokens_that_streamed_by_usage(stated: Usage | None, reasoned: bool, n: int | None) -> None:
    assert tokens_from_usage(stated, reasoned=reasoned) == n


def test_a_wait_cut_short_is_an_open_gap(chunk: Any) -> None:
    clock = fed(*plain(chunk)[:4], end=False)
    clock.cut_short(1_240 * MS)
    gaps = decode(clock.gaps.encode())
    assert gaps is not None
    assert (gaps.us, gaps.censored) == ([20_000, 20_000, 1_000_000], True)


def test_a_wait_cut_short_before_the_first_token_is_no_gap(chunk: Any) -> None:
    clock = fed((50, chunk(role="assistant")), end=False)
    clock.cut_short(1_000 * MS)
    assert len(clock.gaps) == 0


def test_chunks_of_unknown_kind_have_no_times(chunk: Any) -> None:
    clock = fed((100, {"status": "searching"}), (200, 7))
    assert not clock.known
    assert measured(clock)["ttft_ms"] is None


def test_a_stream_may_begin_with_something_else(chunk: Any) -> None:
    assert measured(fed((100, {"status": "searching"}), (200, "Hel"), (220, "lo")))["n"] == 2


def test_plain_text_needs_no_end_mark() -> None:
    found = measured(fed((200, "Hel"), (220, ""), (240, "lo")))
    assert (found["ttft_ms"], found["n"], found["gaps"], found["outcome"]) == (200, 2, 1, ("ok", None))


def test_the_tokenizer_sees_the_running_text_and_not_pieces_of_words() -> None:
    counter = TextCounter(lambda text: len(text.split()))
    for letter in "alpha beta gamma":
        counter.feed(letter)
    assert counter.total() == 3


def test_text_for_the_tokenizer_is_let_go_at_white_space() -> None:
    seen: list[int] = []

    def tokenizer(text: str) -> int:
        seen.append(len(text))
        return len(text.split())

    counter = TextCounter(tokenizer)
    for _ in range(10_000):
        counter.feed("word ")
    assert counter.total() == 10_000
    assert max(seen) <= TEXT_LIMIT + 5


deltas = st.one_of(
    st.fixed_dictionaries(
        {"content": st.sampled_from(["a", " ", "<", "</think>", ""])},
        optional={"role": st.just("assistant"), "refusal": st.just("no"), "tool_calls": st.just([{"index": 0}])},
    ),
    st.sampled_from([{}, {"role": "assistant"}, {"reasoning_content": "hm"}, {"content": None}]),
)
choices = st.lists(
    st.fixed_dictionaries({"index": st.just(0), "delta": deltas, "finish_reason": st.sampled_from([None, "stop"])}),
    max_size=2,
)
usages = st.sampled_from([None, None, {"completion_tokens": 3, "prompt_tokens": 1, "total_tokens": 4}])
pulls = st.lists(
    st.tuples(
        st.fixed_dictionaries({"id": st.just("1"), "model": st.just("m"), "choices": choices, "usage": usages}),
        st.integers(0, 10**6),
        st.integers(0, 10**6),
    ),
    max_size=12,
)


@given(pulls=pulls, patience_ns=st.sampled_from([300_000, 1 << 62]))
def test_a_stream_is_timed_alike_whichever_way_its_chunks_are_read(
    as_openai: Any, pulls: list[tuple[dict[str, Any], int, int]], patience_ns: int
) -> None:
    objects, dicts, looped = StreamClock(), StreamClock(), StreamClock()
    objects.patience_ns = dicts.patience_ns = looped.patience_ns = patience_ns
    times_ns: list[int] = []
    for _, consumed_ns, waited_ns in pulls:
        asked_ns = (times_ns[-1] if times_ns else 0) + consumed_ns
        times_ns += (asked_ns, asked_ns + waited_ns)
    loop = looping([as_openai(data) for data, _, _ in pulls], times_ns, Following(looped))
    for (data, _, _), asked_ns, now_ns, chunk in zip(pulls, times_ns[::2], times_ns[1::2], loop, strict=True):
        objects.pulled(chunk, asked_ns, now_ns)
        dicts.pulled(data, asked_ns, now_ns)
        for fact in ("last_ns", "pulled_ns", "chunks", "quiet_ns", "thinking"):
            assert getattr(objects, fact) == getattr(dicts, fact) == getattr(looped, fact), fact
    for clock in (objects, dicts, looped):
        clock.finished()
    for fact in (
        "began_ns", "first_ns", "answer_ns", "last_ns", "pulled_ns", "chunks", "bare_chunks", "coalesced", "held",
        "stalled_ns", "consumer_ns", "quiet_ns", "thinking", "reasoned", "complete", "finish", "model",
    ):  # fmt: skip
        assert getattr(objects, fact) == getattr(dicts, fact) == getattr(looped, fact), fact
    assert objects.gaps.encode() == dicts.gaps.encode() == looped.gaps.encode()
    assert objects.tokens() == dicts.tokens() == looped.tokens()


def test_a_long_stream_read_in_a_loop_keeps_every_gap_and_few_notes(as_openai: Any, chunk: Any) -> None:
    clock, steps_ns = StreamClock(), [number * 1_000_000 for number in range(1000)]
    noted = 0
    for _ in looping([as_openai(chunk("a"))] * 500, steps_ns, Following(clock)):
        noted = max(noted, len(clock.notes))
    assert (clock.chunks, clock.waited_ns, clock.gaps.exact.tolist()) == (500, 499_000_000, [2000] * 499)
    assert 0 < noted < NOTES


def test_who_joins_in_the_middle_of_a_loop_gets_every_chunk_from_there(as_openai: Any, chunk: Any) -> None:
    first, second = StreamClock(), StreamClock()
    handle = Handle(Following(first))
    steps_ns = list(range(0, 20_000_000, 1_000_000))
    for number, _ in enumerate(looping([as_openai(chunk("a"))] * 10, steps_ns, handle=handle)):
        if number == 4:
            handle.add(Following(second))
    assert (first.chunks, second.chunks) == (10, 5)
    assert first.gaps.exact.tolist() == [2000] * 9


@pytest.mark.parametrize("kind", ["objects", "dicts", "looped", "counted"])
def test_waiting_for_bare_chunks_is_waiting_for_a_token(as_openai: Any, chunk: Any, kind: str) -> None:
    clock = StreamClock(len if kind == "counted" else None)
    clock.patience_ns = 100 * MS
    data = [chunk("a"), chunk("b"), chunk(""), chunk("c"), chunk(finish="stop")]
    chunks = data if kind == "dicts" else [as_openai(item) for item in data]
    times_ns = [0, 10 * MS, 10 * MS, 20 * MS, 20 * MS, 80 * MS, 80 * MS, 140 * MS, 140 * MS, 150 * MS]
    if kind == "looped":
        list(looping(chunks, times_ns, Following(clock)))
    else:
        for item, asked_ns, now_ns in zip(chunks, times_ns[::2], times_ns[1::2], strict=True):
            clock.pulled(item, asked_ns, now_ns)
    assert clock.stalled_ns == 120 * MS


@pytest.mark.parametrize("content", [["a"], {"text": "a"}, 3])
def test_content_that_is_no_text_is_read_as_any_other_chunk(as_openai: Any, chunk: Any, content: object) -> None:
    data = [chunk("a"), chunk("b"), chunk(content=content), chunk("c")]
    times_ns = [number * 1000 * MS for number in range(8)]
    looped, dicts = StreamClock(), StreamClock()
    list(looping([as_openai(item) for item in data], times_ns, Following(looped)))
    for item, asked_ns, now_ns in zip(data, times_ns[::2], times_ns[1::2], strict=True):
        dicts.pulled(item, asked_ns, now_ns)
    assert (looped.chunks, looped.consumer_ns) == (dicts.chunks, dicts.consumer_ns) == (3, 3000 * MS)


def test_an_interrupt_between_two_notes_shifts_none_of_those_after_it(as_openai: Any, chunk: Any) -> None:
    clock = StreamClock()
    handle = Handle(Following(clock))
    chunks = [as_openai(chunk("a")) for _ in range(4)]
    list(looping(chunks, [ms * MS for ms in range(8)], handle=handle))
    handle.ended = False
    clock.notes.append(8 * MS)  # the time of its coming was not noted any more
    list(looping(chunks, [ms * MS for ms in range(10, 18)], handle=handle))
    assert (clock.chunks, clock.last_ns, clock.waited_ns) == (8, 17 * MS, 7 * MS)


def test_text_beside_the_content_of_a_client_s_object_is_counted(as_openai: Any, chunk: Any) -> None:
    data = [chunk("a"), chunk("b", reasoning_content="hm"), chunk("c")]
    clock = fed(*enumerate(as_openai(item) for item in data), tokenizer=len)
    assert clock.tokens() == (5, "tokenizer")


def test_reads_from_the_transport_are_not_kept(chunk: Any) -> None:
    clock = StreamClock()
    clock.reads = []
    for ms in range(1000):
        clock.was_read(ms * MS, ms * MS + 1)
        clock.pulled({"type": "unknown"} if ms % 2 else chunk("a"), ms * MS, ms * MS + 2)
    assert clock.reads == []
    assert (clock.coalesced, clock.held) == (0, 499)


def test_reads_of_which_no_chunk_comes_are_added_up(chunk: Any) -> None:
    clock = StreamClock()
    clock.reads = []
    clock.pulled(chunk("a"), 0, 1)
    for ms in range(1000):
        clock.was_read(ms * MS, (ms + 1) * MS)
        assert len(clock.reads) < READS
    clock.pulled(chunk("b"), 1, 1000 * MS)
    assert (clock.coalesced, clock.held) == (0, 0)
