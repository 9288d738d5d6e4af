"""A stream that breaks while it is read: what its reader gets, what is opened in its place, what is recorded."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import hopbudget as hb
from hopbudget.tracing.limits_errors import CompletionTimeout, StallTimeout

MARKER = {"marker": "cut short"}
Script = list[Any]


def chunk(text: str = "", *, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    fields = {"content": text, **delta} if text else delta
    choices = [{"index": 0, "delta": fields, "finish_reason": finish}]
    return {"id": "c", "object": "chat.completion.chunk", "model": "m-1", "choices": choices}


ROLE, STOP = chunk(role="assistant"), chunk(finish="stop")
WHOLE = [ROLE, chunk("It "), chunk("depends."), STOP]


class Endpoint:
    """Opens the streams of its scripts, one after the other; an exception in one is raised there."""

    def __init__(self, *scripts: Script, takes_ms: float = 0, time: Any = None) -> None:
        self.scripts = list(scripts)
        self.opened = 0
        self.closed = 0
        self.takes_ms = takes_ms
        self.time = time

    def create(self, *_: Any) -> Iterator[Any]:
        script = self.scripts[self.opened]
        self.opened += 1
        if script and isinstance(script[0], BaseException):
            raise script[0]
        return self._play(script)

    async def acreate(self, *_: Any) -> AsyncIterator[Any]:
        script = self.create()

        async def play() -> AsyncIterator[Any]:
            for item in script:
                await asyncio.sleep(0)
                yield item

        return play()

    def _play(self, script: Script) -> Iterator[Any]:
        try:
            for item in script:
                if self.time is not None:
                    self.time.to(self.time.ms + self.takes_ms)
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            self.closed += 1


def text(chunks: Any) -> str:
    return "".join(
        c["choices"][0]["delta"].get("content", "") if "choices" in c else f"[{c['marker']}]" for c in chunks
    )


class Reader:
    """Reads a stream of either kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.got: list[Any] = []
        self.stream: Any = None

    def read(self, endpoint: Endpoint, **ways: Any) -> str:
        ways = {key: getattr(w, self._method) if isinstance(w, Endpoint) else w for key, w in ways.items()}
        if self.kind == "async":
            asyncio.run(self._read_async(endpoint, ways))
        else:
            self.stream = hb.recovering(endpoint.create, **ways)
            for item in self.stream:
                self.got.append(item)
        return text(self.got)

    @property
    def _method(self) -> str:
        return "acreate" if self.kind == "async" else "create"

    async def _read_async(self, endpoint: Endpoint, ways: Any) -> None:
        self.stream = await hb.recovering(endpoint.acreate, **ways)
        async for item in self.stream:
            self.got.append(item)


@pytest.fixture(params=["sync", "async"])
def reader(request: pytest.FixtureRequest, folder: Any) -> Reader:
    return Reader(request.param)


def broken(error: BaseException | None = None, *texts: str) -> Script:
    return [ROLE, *(chunk(t) for t in texts or ("It ", "dep")), *([error] if error else [])]


POLICIES = [
    {"on_failure": "raise"},
    {"on_failure": "truncate", "marker": MARKER},
    {"on_failure": "retry"},
    {"on_failure": "resume", "resume": lambda delivered: pytest.fail("it was whole")},
]


@pytest.mark.parametrize("ways", POLICIES, ids=lambda ways: ways["on_failure"])
def test_a_whole_stream_is_as_without_it(reader: Reader, ways: Any) -> None:
    endpoint = Endpoint(WHOLE)
    assert reader.read(endpoint, **ways) == "It depends."
    assert reader.got == WHOLE
    assert (reader.stream.done, reader.stream.error, endpoint.opened) == (None, None, 1)


# Raise ---------------------------------------------------------------------------------------------------------------


def test_raising_raises_the_clients_own_exception(reader: Reader) -> None:
    error = ConnectionResetError("reset")
    with pytest.raises(ConnectionResetError) as caught:
        reader.read(Endpoint(broken(error)), on_failure="raise")
    assert caught.value is error
    assert text(reader.got) == "It dep"


@pytest.mark.parametrize(
    ("end", "said"), [([], "without its end mark"), ([{"error": {"type": "overloaded"}}], "overloaded")]
)
def test_a_stream_that_ends_wrongly_and_says_nothing_is_raised(reader: Reader, end: Script, said: str) -> None:
    with pytest.raises(hb.BrokenStreamError, match=said):
        reader.read(Endpoint([*broken(), *end]), on_failure="raise")


# Truncate ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ConnectionResetError(), StallTimeout("stall", "answer", 2.0, 2.0), None])
def test_truncating_ends_with_the_marker(reader: Reader, error: Exception | None) -> None:
    endpoint = Endpoint(broken(error))
    assert reader.read(endpoint, on_failure="truncate", marker=MARKER) == "It dep[cut short]"
    assert reader.stream.done == "truncated"
    assert isinstance(reader.stream.error, type(error) if error else hb.BrokenStreamError)
    assert endpoint.closed == 1


def test_the_marker_may_be_made_of_what_was_delivered(reader: Reader) -> None:
    def marker(delivered: str) -> Any:
        return {"marker": f"after {delivered!r}"}

    assert reader.read(Endpoint(broken(OSError())), on_failure="truncate", marker=marker) == "It dep[after 'It dep']"


# Retry ---------------------------------------------------------------------------------------------------------------


def test_a_retry_before_the_first_token_starts_again_unseen(reader: Reader) -> None:
    endpoint = Endpoint([ROLE, OSError()], WHOLE)
    assert reader.read(endpoint, on_failure="retry") == "It depends."
    assert (reader.stream.done, endpoint.opened, endpoint.closed) == ("retried", 2, 2)


def test_a_retry_may_go_to_another_endpoint(reader: Reader) -> None:
    first, other = Endpoint([ROLE, OSError()]), Endpoint(WHOLE)
    assert reader.read(first, on_failure="retry", again=other) == "It depends."
    assert (first.opened, other.opened) == (1, 1)


def test_what_was_delivered_is_not_retried_unless_it_is_taken_back(reader: Reader) -> None:
    endpoint = Endpoint(broken(OSError()), WHOLE)
    with pytest.raises(OSError):
        reader.read(endpoint, on_failure="retry")
    assert endpoint.opened == 1


def test_what_is_taken_back_is_retried_whole(reader: Reader) -> None:
    taken: list[str] = []

    def take_back(delivered: str) -> None:
        taken.append(delivered)
        reader.got.clear()

    assert reader.read(Endpoint(broken(OSError()), WHOLE), on_failure="retry", take_back=take_back) == "It depends."
    assert taken == ["It dep"]
    assert reader.stream.delivered == "It depends."


def test_what_cannot_be_taken_back_is_not_retried(reader: Reader) -> None:
    endpoint = Endpoint(broken(OSError()), WHOLE)
    with pytest.raises(OSError):
        reader.read(endpoint, on_failure="retry", take_back=lambda delivered: False)
    assert endpoint.opened == 1


@pytest.mark.parametrize("second", [[ROLE, KeyError("second")], [KeyError("second")]])
def test_past_the_attempts_the_last_failure_is_raised(reader: Reader, second: Script) -> None:
    endpoint = Endpoint([ROLE, OSError("first")], second)
    with pytest.raises(KeyError, match="second"):
        reader.read(endpoint, on_failure="retry")
    assert endpoint.opened == 2


def test_more_attempts_are_made_when_allowed(reader: Reader) -> None:
    endpoint = Endpoint([ROLE, OSError()], [OSError()], [ROLE, OSError()], WHOLE)
    assert reader.read(endpoint, on_failure="retry", attempts=3) == "It depends."


def test_what_cannot_be_mended_ends_with_the_marker_if_there_is_one(reader: Reader) -> None:
    endpoint = Endpoint(broken(OSError()))
    assert reader.read(endpoint, on_failure="retry", marker=MARKER) == "It dep[cut short]"
    assert reader.stream.done == "truncated"


# Resume --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OSError(), None])
def test_a_resumption_goes_on_after_what_was_delivered(reader: Reader, error: Exception | None) -> None:
    asked: list[str] = []
    rest = Endpoint([ROLE, chunk("ends."), STOP])

    def resume(delivered: str) -> Any:
        asked.append(delivered)
        return rest.acreate() if reader.kind == "async" else rest.create()

    assert reader.read(Endpoint(broken(error)), on_failure="resume", resume=resume) == "It depends."
    assert asked == ["It dep"]
    assert (reader.stream.done, reader.stream.delivered) == ("resumed", "It depends.")


def test_a_second_resumption_goes_on_after_all_of_it(reader: Reader) -> None:
    asked: list[str] = []
    rest = Endpoint(broken(OSError(), "en"), [chunk("ds."), STOP])

    def resume(delivered: str) -> Any:
        asked.append(delivered)
        return rest.acreate() if reader.kind == "async" else rest.create()

    assert reader.read(Endpoint(broken(OSError())), on_failure="resume", resume=resume, attempts=2) == "It depends."
    assert asked == ["It dep", "It depen"]


# What is no failure of the stream ------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["retry", "truncate"])
def test_a_deadline_that_passed_leaves_only_the_marker(reader: Reader, way: Any) -> None:
    over = CompletionTimeout("deadline", "answer", 3.0, 3.0, capped=True)
    endpoint = Endpoint([ROLE, over], WHOLE)
    if way == "truncate":
        assert reader.read(endpoint, on_failure=way, marker=MARKER) == "[cut short]"
    else:
        with pytest.raises(CompletionTimeout):
            reader.read(endpoint, on_failure=way)
    assert endpoint.opened == 1


async def test_a_cancellation_is_the_readers_own(folder: Any) -> None:
    endpoint = Endpoint(WHOLE)

    async def hangs() -> AsyncIterator[Any]:
        yield ROLE
        await asyncio.sleep(60)

    stream = hb.recovering(hangs, on_failure="truncate", marker=MARKER, again=endpoint.acreate)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            async for _ in stream:
                pass
    assert stream.done is None
    await stream.aclose()


def test_what_fails_in_opening_is_no_failure_in_the_middle(reader: Reader) -> None:
    endpoint = Endpoint([OSError()], WHOLE)
    with pytest.raises(OSError):
        reader.read(endpoint, on_failure="retry")
    assert endpoint.opened == 1


def test_switched_off_it_is_as_without(reader: Reader) -> None:
    hb.disable()
    assert reader.read(Endpoint(broken()), on_failure="retry") == "It dep"
    with pytest.raises(OSError):
        Reader(reader.kind).read(Endpoint(broken(OSError())), on_failure="truncate", marker=MARKER)


def test_closing_it_closes_the_stream_that_is_read(folder: Any) -> None:
    endpoint = Endpoint(WHOLE)
    with hb.recovering(endpoint.create, on_failure="raise") as stream:
        next(stream)
    assert endpoint.closed == 1
    assert list(stream) == []


# Records -------------------------------------------------------------------------------------------------------------


def recorded_hop(recorded: Any, time: Any, *scripts: Script, **ways: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The attributes of the hop and of the trajectory, each piece taking 100 ms."""
    endpoint = Endpoint(*scripts, takes_ms=100, time=time)

    @hb.hop("answer", final=True)
    def answer() -> Iterator[Any]:
        yield from hb.recovering(endpoint.create, **{"resume": endpoint.create, **ways})

    with hb.trajectory("agent"), contextlib.suppress(OSError):
        list(answer())
    hop = [span for span in recorded.spans if "hopbudget.hop" in span.attributes]
    root = next(span for span in recorded.spans if span.name == "invoke_agent agent")
    return dict(hop[-1].attributes), dict(root.attributes)


def test_a_resumption_is_told_with_what_it_cost(recorded: Any, time: Any, folder: Any) -> None:
    rest = [ROLE, chunk("ends."), STOP]
    hop, root = recorded_hop(recorded, time, broken(OSError()), rest, on_failure="resume")
    assert hop["hopbudget.midstream"] == "resumed"
    assert hop["hopbudget.midstream.delivered_tokens"] == 2
    assert hop["hopbudget.midstream.tokens_paid_twice"] == 2
    assert hop["hopbudget.midstream.time_lost"] == pytest.approx(0.3)
    assert (hop["hopbudget.outcome"], hop["hopbudget.attempts"]) == ("ok", 2)
    assert "answer: resumed" in root["hopbudget.decisions"]


def test_a_retry_is_told_with_what_it_cost(recorded: Any, time: Any, folder: Any) -> None:
    hop, root = recorded_hop(
        recorded, time, broken(OSError()), WHOLE, on_failure="retry", take_back=lambda delivered: None
    )
    assert hop["hopbudget.midstream"] == "retried"
    assert hop["hopbudget.midstream.delivered_tokens"] == hop["hopbudget.midstream.tokens_paid_twice"] == 2
    assert hop["hopbudget.midstream.time_lost"] == pytest.approx(0.4)
    assert hop["hopbudget.outcome"] == "ok"
    assert root["hopbudget.intervened"] is True


@pytest.mark.parametrize(("way", "done"), [("truncate", "truncated"), ("raise", "raised")])
def test_what_was_not_mended_is_told(recorded: Any, time: Any, folder: Any, way: str, done: str) -> None:
    marker = MARKER if way == "truncate" else None
    hop, root = recorded_hop(recorded, time, broken(OSError()), on_failure=way, marker=marker)
    assert hop["hopbudget.midstream"] == done
    assert hop["hopbudget.midstream.delivered_tokens"] == 2
    assert "hopbudget.midstream.tokens_paid_twice" not in hop
    assert hop["hopbudget.outcome"] == "failed"
    assert ("hopbudget.intervened" in root) is (done == "truncated")


def test_a_stall_limit_is_a_failure_that_is_mended(recorded: Any, virtually: Callable[..., Any]) -> None:
    other = Endpoint(WHOLE)

    async def stalls() -> AsyncIterator[Any]:
        yield ROLE
        yield chunk("It ")
        await asyncio.sleep(3600)

    @hb.hop("answer", stall_s=2.0, enforce="deadline")
    async def answer() -> AsyncIterator[Any]:
        ways = {"again": other.acreate, "take_back": lambda delivered: None}
        stream = hb.recovering(stalls, on_failure="retry", **ways)
        async for item in stream:
            yield item

    @hb.trajectory("agent")
    async def main() -> list[Any]:
        got = [item async for item in answer()]
        assert asyncio.get_running_loop().time() == pytest.approx(2.0, abs=0.01)
        return got

    assert text(virtually(main())) == "It It depends."
    hops = [dict(span.attributes) for span in recorded.spans if "hopbudget.hop" in span.attributes]
    assert sorted(hop["hopbudget.outcome"] for hop in hops) == ["ok", "timed_out"]


# Wrong arguments -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"open": 3},
        {"on_failure": "ignore"},
        {"on_failure": "truncate"},
        {"on_failure": "resume"},
        {"on_failure": "raise", "marker": MARKER},
        {"on_failure": "retry", "attempts": 0},
        {"on_failure": "retry", "again": 3},
        {"on_failure": "retry", "take_back": 3},
    ],
)
def test_wrong_arguments_raise(folder: Any, wrong: dict[str, Any]) -> None:
    endpoint = Endpoint(WHOLE)
    with pytest.raises((TypeError, ValueError)):
        hb.recovering(**{"open": endpoint.create, "on_failure": "raise", **wrong})
    assert endpoint.opened == 0
