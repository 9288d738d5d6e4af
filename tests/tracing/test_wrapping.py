"""What is decorated or watched stays what it was."""

import asyncio
import contextlib
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest

import hopbudget as hb
from hopbudget.tracing import scope

MAKERS: list[Callable[[], Any]] = [
    lambda: hb.trajectory("x"),
    lambda: hb.hop("x"),
    lambda: hb.work("x"),
    lambda: hb.pause("x"),
]
each_maker = pytest.mark.parametrize("make", MAKERS, ids=["trajectory", "hop", "work", "pause"])


def plain(a: int, *, b: str = "b") -> str:
    """Plain."""
    return f"{a}{b}"


async def coroutine(a: int, *, b: str = "b") -> str:
    """Coroutine."""
    return f"{a}{b}"


def generator(a: int, *, b: str = "b") -> Iterator[str]:
    """Generator."""
    yield f"{a}{b}"


async def async_generator(a: int, *, b: str = "b") -> AsyncIterator[str]:
    """Async generator."""
    yield f"{a}{b}"


@each_maker
@pytest.mark.parametrize("function", [plain, coroutine, generator, async_generator])
def test_signature_name_and_kind_are_kept(make: Any, function: Any) -> None:
    wrapped = make()(function)
    assert inspect.signature(wrapped) == inspect.signature(function)
    assert (wrapped.__name__, wrapped.__doc__, wrapped.__module__) == (
        function.__name__, function.__doc__, function.__module__,
    )  # fmt: skip
    for question in (
        inspect.iscoroutinefunction,
        inspect.isgeneratorfunction,
        inspect.isasyncgenfunction,
        asyncio.iscoroutinefunction,
    ):
        assert question(wrapped) == question(function)


@each_maker
async def test_results_are_kept(recorded: Any, make: Any) -> None:
    assert make()(plain)(1, b="c") == "1c"
    assert await make()(coroutine)(1, b="c") == "1c"
    assert list(make()(generator)(1, b="c")) == ["1c"]
    assert [item async for item in make()(async_generator)(1, b="c")] == ["1c"]
    assert len(recorded.spans) == 4


@each_maker
def test_methods_class_and_static_methods_work(recorded: Any, make: Any) -> None:
    class Agent:
        name = "agent"

        @make()
        def method(self) -> Any:
            return self

        @make()
        @classmethod
        def of_class(cls) -> Any:
            return cls

        @classmethod
        @make()
        def of_class_inside(cls) -> Any:
            return cls

        @make()
        @staticmethod
        def static(a: int) -> int:
            return a

    agent = Agent()
    assert agent.method() is agent
    assert Agent.of_class() is Agent
    assert Agent.of_class_inside() is Agent
    assert agent.static(3) == 3
    assert len(recorded.spans) == 4


async def test_partials_callable_objects_and_lambdas_work(recorded: Any) -> None:
    class Tool:
        async def __call__(self, a: int) -> int:
            await asyncio.sleep(0)
            return a

    assert hb.work("x")(functools.partial(plain, 1))(b="c") == "1c"
    assert await hb.work("x")(functools.partial(coroutine, 1))(b="c") == "1c"
    assert await hb.work("x")(Tool())(3) == 3
    assert await hb.work("x")(lambda: coroutine(4))() == "4b"
    assert len(recorded.spans) == 4


async def test_a_function_that_returns_a_coroutine_is_open_until_it_is_done(recorded: Any, time: Any) -> None:
    async def call(ms: float) -> None:
        time.to(ms)

    await hb.hop("x")(lambda: call(50))()
    assert recorded.tree() == "chat 0-50 ok"


@each_maker
@pytest.mark.parametrize("thing", [int, 3, None])
def test_what_is_no_function_is_refused(make: Any, thing: Any) -> None:
    with pytest.raises(TypeError, match="decorate a function or method"):
        make()(thing)


@pytest.mark.parametrize(
    "call",
    [
        lambda: hb.hop("x", deadline_s=1),  # type: ignore[call-arg]
        lambda: hb.trajectory("x", stall_s=1),  # type: ignore[call-arg]
        lambda: hb.hop("x", True),  # type: ignore[misc]
    ],
)
def test_keywords_of_the_other_do_not_exist(call: Any) -> None:
    with pytest.raises(TypeError):
        call()


@each_maker
def test_send_throw_and_close_reach_a_generator(recorded: Any, make: Any) -> None:
    seen: list[object] = []

    def talk() -> Generator[str, str, str]:
        try:
            seen.append((yield "one"))
            try:
                yield "two"
            except KeyError as exc:
                seen.append(exc)
            yield "three"
            return "done"
        finally:
            seen.append("closed")

    def conversation(stream: Generator[str, str, str]) -> list[object]:
        error = KeyError("k")
        got: list[object] = [next(stream), stream.send("hello"), stream.throw(error)]
        assert seen == ["hello", error]
        try:
            next(stream)
        except StopIteration as stop:
            got.append(stop.value)
        return got

    assert conversation(make()(talk)()) == ["one", "two", "three", "done"]
    seen.clear()
    stream = make()(talk)()
    next(stream)
    stream.close()
    assert seen == ["closed"]


async def test_asend_athrow_and_aclose_reach_an_async_generator(recorded: Any) -> None:
    seen: list[object] = []

    @hb.hop("x")
    async def talk() -> Any:
        try:
            seen.append((yield "one"))
            try:
                yield "two"
            except KeyError:
                seen.append("thrown")
            yield "three"
        finally:
            await asyncio.sleep(0)
            seen.append("closed")

    stream = talk()
    assert [await anext(stream), await stream.asend("hello"), await stream.athrow(KeyError())] == [
        "one",
        "two",
        "three",
    ]
    await stream.aclose()
    assert seen == ["hello", "thrown", "closed"]


def test_a_generator_that_ignores_its_close_is_told_so(recorded: Any) -> None:
    @hb.hop("x")
    def stubborn() -> Iterator[str]:
        while True:
            with contextlib.suppress(GeneratorExit):
                yield "again"
                return
            yield "no"
            return

    stream = stubborn()
    next(stream)
    with pytest.raises(RuntimeError, match="ignored GeneratorExit"):
        stream.close()
    stream.close()


def test_exceptions_come_through_untouched(recorded: Any) -> None:
    error = ValueError("x")
    cause = KeyError("c")

    def fail() -> None:
        raise error from cause

    for wrapped in (hb.hop("x")(fail), hb.work("x")(fail), hb.trajectory("x")(fail)):
        with pytest.raises(ValueError, match="x") as caught:
            wrapped()
        assert caught.value is error
        assert error.__cause__ is cause
        assert error.__context__ is None
        assert inspect.getinnerframes(caught.value.__traceback__)[-1].function == "fail"


def test_a_context_manager_under_a_hop_still_is_one(recorded: Any) -> None:
    @contextlib.contextmanager
    @hb.work("x")
    def session() -> Iterator[str]:
        yield "s"

    with session() as found:
        assert found == "s"
    with pytest.raises(KeyError), session():
        raise KeyError
    assert len(recorded.spans) == 2


async def test_an_async_context_manager_under_a_hop_still_is_one(recorded: Any) -> None:
    @contextlib.asynccontextmanager
    @hb.hop("x")
    async def session() -> AsyncIterator[str]:
        yield "s"

    async with session() as found:
        assert found == "s"


def test_a_watched_stream_stays_the_same_object(recorded: Any, open_stream: Any, script: Any) -> None:
    stream = open_stream(script)
    kind = type(stream)
    with hb.hop("x"):
        assert hb.watch(stream) is stream
        assert isinstance(stream, kind)
        assert type(stream).__name__ == kind.__name__
        assert type(stream).__module__ == kind.__module__
        assert stream.response == "the response"
        with stream as entered:
            assert entered is stream
            assert next(stream) is script[0][1]
            assert next(iter(stream)) is script[1][1]
            assert [item for item in stream] == [item for _, item in script[2:]]  # noqa: C416
        assert stream.closed
    assert recorded.only().attributes["hopbudget.chunks"] == 3


async def test_a_watched_async_stream_stays_the_same_object(recorded: Any, open_async_stream: Any, script: Any) -> None:
    stream = open_async_stream(script)
    kind = type(stream)
    async with hb.hop("x"):
        assert hb.watch(stream) is stream
        assert isinstance(stream, kind)
        async with stream as entered:
            assert entered is stream
            assert await anext(stream) is script[0][1]
            assert [item async for item in stream] == [item for _, item in script[1:]]
        assert stream.closed
    assert recorded.only().attributes["hopbudget.chunks"] == 3


def test_a_watched_generator_is_a_generator(recorded: Any) -> None:
    def tokens() -> Iterator[str]:
        yield "a"

    with hb.hop("x"):
        stream = hb.watch(tokens())
        assert inspect.isgenerator(stream)
        assert list(stream) == ["a"]


def test_an_iterator_whose_class_is_fixed_is_stood_in_for(recorded: Any) -> None:
    with hb.hop("x"):
        stream = hb.watch(iter(["a", "b"]))
        assert isinstance(stream, type(iter([])))
        assert stream.__length_hint__() == 2
        assert next(stream) == "a"
        assert list(stream) == ["b"]
    assert recorded.only().attributes["hopbudget.output_tokens"] == 2


def test_an_iterator_that_steps_itself_is_counted_once(recorded: Any) -> None:
    class Steps:
        def __init__(self) -> None:
            self.left = ["a", "b", "c"]

        def __iter__(self) -> Iterator[str]:
            while True:
                try:
                    yield self.__next__()
                except StopIteration:
                    return

        def __next__(self) -> str:
            if not self.left:
                raise StopIteration
            return self.left.pop(0)

    with hb.hop("x"):
        assert list(hb.watch(Steps())) == ["a", "b", "c"]
    assert recorded.only().attributes["hopbudget.chunks"] == 3


def test_a_stream_watched_and_returned_is_timed_once(recorded: Any, open_stream: Any, script: Any) -> None:
    @hb.hop("x")
    def answer() -> Any:
        return hb.watch(open_stream(script))

    list(answer())
    assert recorded.only().attributes["hopbudget.chunks"] == 3


@pytest.mark.parametrize("thing", [None, 3, "text", {"a": 1}, ["a"], ("b",), object()])
def test_watch_leaves_what_it_does_not_know_alone(recorded: Any, thing: object) -> None:
    with hb.hop("x"):
        assert hb.watch(thing) is thing
    assert recorded.tree() == "chat 0-0 ok"


def test_the_request_and_the_chunks_are_not_kept(recorded: Any, open_stream: Any, script: Any) -> None:
    import gc
    import weakref

    class Chunk(dict):  # type: ignore[type-arg]
        pass

    chunks = [(ms, Chunk(item)) for ms, item in script]
    refs = [weakref.ref(item) for _, item in chunks]
    with hb.hop("x"):
        stream = hb.watch(iter([item for _, item in chunks]))
        for item in stream:
            del item
        chunks.clear()
        gc.collect()
        assert [ref() for ref in refs] == [None] * len(refs)


def test_no_text_is_recorded(recorded: Any, open_stream: Any, chunk: Any) -> None:
    with hb.trajectory("agent"), hb.hop("x"):
        list(hb.watch(open_stream([(1, chunk("topsecret")), (2, chunk(finish="stop"))])))
    assert all("topsecret" not in span.to_json() for span in recorded.spans)


class HandingOn:
    """A client's stream, whose loop only hands on what another iterator makes."""

    def __init__(self, items: list[Any]) -> None:
        self._iterator = iter(items)

    def __iter__(self) -> Iterator[Any]:
        for item in self._iterator:  # noqa: UP028 - as clients write it
            yield item

    def close(self) -> None:
        pass


class Observing(HandingOn):
    """One whose loop does something of its own."""

    def __init__(self, items: list[Any]) -> None:
        super().__init__(items)
        self.seen = 0

    def __iter__(self) -> Iterator[Any]:
        for item in self._iterator:
            self.seen += 1
            yield item


@pytest.mark.parametrize("kind", [HandingOn, Observing])
def test_a_loop_of_the_stream_s_own_does_what_it_did(recorded: Any, kind: type[HandingOn], chunk: Any) -> None:
    with hb.hop("answer"):
        stream = hb.watch(kind([chunk("a"), chunk("b"), chunk("c")]))
        began = [item for _, item in zip(range(1), stream, strict=False)]
        rest = list(stream)
    assert [len(began), len(rest)] == [1, 2]
    assert getattr(stream, "seen", 3) == 3
    assert recorded.attributes()["hopbudget.chunks"] == 3


class Silent:
    """A delta whose text is not to be had."""

    @property
    def content(self) -> str:
        raise RuntimeError("use .parts")


def test_a_chunk_that_refuses_a_look_reaches_the_application(recorded: Any, chunk: Any, as_openai: Any) -> None:
    items = [as_openai(chunk(text)) for text in "abcd"]
    items[2].choices[0].delta = Silent()
    with hb.hop("answer"):
        assert list(hb.watch(HandingOn(items))) == items
    scope.setup.errors -= 1  # the recorder could not read that chunk, and said so
    assert recorded.attributes()["hopbudget.outcome"] == "failed"
    assert recorded.attributes()["error.type"] == "cut_off"


class Foreign:
    """What another instrumentation puts in a method's place: it shows the class and code of what it wraps."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        return type(self.wrapped)

    def __init__(self, wrapped: Any) -> None:
        self.__code__ = wrapped.__code__
        self.__name__ = wrapped.__name__
        self.wrapped = wrapped
        self.seen = 0

    def __get__(self, stream: Any, kind: type) -> Any:
        return self if stream is None else lambda: self(stream)

    def __call__(self, stream: Any) -> Iterator[Any]:
        for item in self.wrapped(stream):
            self.seen += 1
            yield item


def test_another_s_wrapper_around_a_plain_loop_sees_every_chunk(recorded: Any, chunk: Any) -> None:
    foreign = Foreign(HandingOn.__iter__)

    class Wrapped(HandingOn):
        __iter__: Any = foreign

    with hb.hop("answer"):
        list(hb.watch(Wrapped([chunk("a"), chunk("b"), chunk(finish="stop")])))
    assert foreign.seen == 3
    assert recorded.attributes()["hopbudget.chunks"] == 2


def test_no_part_of_a_chunk_outlasts_the_next(recorded: Any, chunk: Any, as_openai: Any) -> None:
    import weakref

    items: list[Any] = [*(as_openai(chunk(text)) for text in "abc"), chunk("d"), chunk(finish="stop")]
    third = weakref.ref(items[2].choices[0])

    def source() -> Iterator[Any]:
        while items:
            yield items.pop(0)

    alive: list[bool] = []
    with hb.hop("answer"):
        for item in hb.watch(HandingOn(source())):  # type: ignore[arg-type]
            del item
            alive.append(third() is not None)
    assert alive == [True, True, True, False, False]
