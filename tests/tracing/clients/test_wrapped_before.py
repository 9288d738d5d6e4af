"""Another instrumentation wrapped the clients' requests before ours, or does so after: one hop a call either way."""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import hopbudget as hb

openai = pytest.importorskip("openai", minversion="3")
base = pytest.importorskip("openai._base_client")

CLASSES = {"sync": openai.OpenAI, "async": openai.AsyncOpenAI}
calls: list[Any] = []


class Proxy:
    """Stands for a stream as those of wrapt do: the same to whoever asks, and its steps are the stream's."""

    __slots__ = ("__wrapped__",)

    def __init__(self, wrapped: Any) -> None:
        object.__setattr__(self, "__wrapped__", wrapped)

    @property  # type: ignore[misc]  # isinstance asks it
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.__wrapped__.__class__  # type: ignore[no-any-return]

    @__class__.setter
    def __class__(self, cls: type) -> None:
        raise TypeError("a proxy has no class of its own to exchange")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return next(self.__wrapped__)

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        return await anext(self.__wrapped__)


def proxy(answer: Any) -> Any:
    return Proxy(answer) if isinstance(answer, (openai.Stream, openai.AsyncStream)) else answer


class Wrapper:
    """A function's wrapper of the kind that wrapt makes: it tells by being bound whose method it is."""

    def __init__(self, wrapped: Any) -> None:
        self.__wrapped__ = wrapped

    def __get__(self, client: Any, owner: Any = None) -> Any:
        return functools.partial(self.run, client)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(None, *args, **kwargs)

    def run(self, client: Any, *args: Any, **kwargs: Any) -> Any:
        assert client is not None
        calls.append(client)
        return proxy(self.__wrapped__.__get__(client)(*args, **kwargs))


class AsyncWrapper(Wrapper):
    """The same around a coroutine function."""

    async def run(self, client: Any, *args: Any, **kwargs: Any) -> Any:
        assert client is not None
        calls.append(client)
        return proxy(await self.__wrapped__.__get__(client)(*args, **kwargs))


def proxied(plain: Any, *, is_async: bool) -> Any:
    return (AsyncWrapper if is_async else Wrapper)(plain)


def closed_over(plain: Any, *, is_async: bool) -> Any:
    async def call_async(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return await plain(*args, **kwargs)

    def call(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return plain(*args, **kwargs)

    return call_async if is_async else call


def decorated(plain: Any, *, is_async: bool) -> Any:
    return functools.wraps(plain)(closed_over(plain, is_async=is_async))


KINDS = {"as wrapt does": proxied, "as functools.wraps does": decorated, "in a closure": closed_over}


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    calls.clear()
    yield
    hb.uninstrument()
    for cls in CLASSES.values():
        if "request" in vars(cls):
            del cls.request


@pytest.fixture(params=KINDS)
def wrap(request: pytest.FixtureRequest) -> Callable[[], None]:
    """Puts a wrapper of this kind on the classes that programs use, below the one that has the function."""

    def put() -> None:
        for name, cls in CLASSES.items():
            plain = inspect.getattr_static(cls, "request")
            cls.request = KINDS[request.param](plain, is_async=name == "async")

    return put


@pytest.fixture(params=["before ours", "after ours", "twice before ours"])
def wrapped(request: pytest.FixtureRequest, wrap: Callable[[], None]) -> None:
    if request.param == "after ours":
        hb.instrument()
    wrap()
    if request.param == "twice before ours":
        wrap()
    hb.instrument()


@pytest.fixture
def client(wire: Any) -> Iterator[Any]:
    with openai.OpenAI(api_key="k", http_client=sys.modules["httpx2"].Client(transport=wire)) as made:
        yield made


@pytest.fixture
def client_async(wire: Any) -> Any:
    return openai.AsyncOpenAI(api_key="k", http_client=sys.modules["httpx2"].AsyncClient(transport=wire))


def test_a_call_is_one_hop_and_is_both_recorders(
    recorded: Any, wrapped: None, client: Any, wire: Any, scripts: Any, replies: Any, arguments: Any
) -> None:
    wire.replies(replies["chat"])
    client.chat.completions.create(**arguments["chat"])
    wire.streams(*[(ms + 300, item) for ms, item in scripts["chat"]], at=310)
    seen = len(calls)
    stream = client.chat.completions.create(**arguments["chat"], stream=True)
    assert isinstance(stream, openai.Stream)
    assert len(list(stream)) == 7
    assert recorded.tree().split("\n") == ["chat m 0-300 ok", "chat m 300-943 ok"]
    assert recorded.spans[1].attributes["hopbudget.ttft"] == pytest.approx(0.6)
    assert len(calls) == 2 * seen


async def test_the_same_where_it_is_awaited(
    recorded: Any, wrapped: None, client_async: Any, wire: Any, scripts: Any, arguments: Any
) -> None:
    wire.streams(*scripts["chat"])
    async for _ in await client_async.chat.completions.create(**arguments["chat"], stream=True):
        pass
    assert recorded.tree() == "chat m 0-643 ok"
    assert recorded.attributes()["hopbudget.ttft"] == pytest.approx(0.6)
    assert calls


def test_a_stream_that_is_closed_ends_there(
    recorded: Any, wrapped: None, client: Any, wire: Any, scripts: Any, arguments: Any
) -> None:
    wire.streams(*scripts["chat"])
    stream = client.chat.completions.create(**arguments["chat"], stream=True)
    next(stream)
    stream.close()
    assert recorded.tree() == "chat m 0-100 closed_by_consumer"


def test_raw_and_streaming_responses_are_one_hop_each(
    recorded: Any, wrapped: None, client: Any, wire: Any, scripts: Any, arguments: Any
) -> None:
    completions = client.chat.completions
    wire.streams(*scripts["chat"])
    list(completions.with_raw_response.create(**arguments["chat"], stream=True).parse())
    wire.streams(*[(ms + 1_000, item) for ms, item in scripts["chat"]], at=1_010)
    with completions.with_streaming_response.create(**arguments["chat"], stream=True) as response:
        list(response.iter_lines())
    assert recorded.tree().split("\n") == ["chat m 0-643 ok", "chat m 643-1643 ok"]


def test_uninstrument_puts_the_others_wrappers_back(wrap: Any) -> None:
    wrap()
    before = [vars(cls)["request"] for cls in CLASSES.values()]
    hb.instrument()
    assert all(vars(cls)["request"] is not then for cls, then in zip(CLASSES.values(), before, strict=True))
    hb.uninstrument()
    assert all(vars(cls)["request"] is then for cls, then in zip(CLASSES.values(), before, strict=True))


def test_a_wrapper_around_ours_that_fell_silent_is_seen_again(
    recorded: Any, wrap: Any, client: Any, wire: Any, replies: Any, arguments: Any
) -> None:
    hb.instrument()
    wrap()
    hb.uninstrument()
    hb.instrument()
    wire.replies(replies["chat"])
    client.chat.completions.create(**arguments["chat"])
    assert recorded.tree() == "chat m 0-300 ok"


def test_what_another_took_back_leaves_the_function_itself(
    recorded: Any, client: Any, wire: Any, replies: Any, arguments: Any
) -> None:
    openai.OpenAI.request = base.SyncAPIClient.request
    hb.instrument()
    wire.replies(replies["chat"])
    client.chat.completions.create(**arguments["chat"])
    assert recorded.tree() == "chat m 0-300 ok"


def test_a_class_of_the_users_own_that_sends_twice_is_one_hop_with_two_attempts(
    recorded: Any, wire: Any, replies: Any, arguments: Any
) -> None:
    class Stubborn(openai.OpenAI):  # type: ignore[name-defined,misc]
        def request(self, *args: Any, **kwargs: Any) -> Any:
            try:
                return super().request(*args, **kwargs)
            except openai.BadRequestError:
                return super().request(*args, **kwargs)

    hb.instrument()
    wire.replies({"error": {"message": "no"}}, status=400, at=50)
    wire.replies(replies["chat"])
    with Stubborn(api_key="k", http_client=sys.modules["httpx2"].Client(transport=wire)) as client, hb.hop("plan"):
        client.chat.completions.create(**arguments["chat"])
    assert recorded.tree() == "chat m 0-300 ok"
    assert recorded.attributes()["hopbudget.attempts"] == 2


# One client only ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [True, False])
def test_one_wrapped_client_is_seen_and_left_as_it_was(
    before: bool, recorded: Any, client: Any, wire: Any, scripts: Any, arguments: Any
) -> None:
    if not before:
        hb.instrument()
    client.request = decorated(client.request, is_async=False)
    mine = client.request
    hb.instrument()
    wire.streams(*scripts["chat"])
    list(client.chat.completions.create(**arguments["chat"], stream=True))
    assert recorded.tree() == "chat m 0-643 ok"
    assert recorded.attributes()["hopbudget.ttft"] == pytest.approx(0.6)
    assert len(calls) == 1
    hb.uninstrument()
    assert client.request is mine


async def test_the_same_of_an_async_client(
    recorded: Any, client_async: Any, wire: Any, scripts: Any, replies: Any, arguments: Any
) -> None:
    client_async.request = decorated(client_async.request, is_async=True)
    hb.instrument()
    wire.streams(*scripts["chat"])
    async for _ in await client_async.chat.completions.create(**arguments["chat"], stream=True):
        pass
    assert recorded.tree() == "chat m 0-643 ok"
    assert len(calls) == 1


class Lazy:
    """Stands for something that is not there yet."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("outside of the application's context")

    def __call__(self) -> Any: ...


def test_a_wrapper_that_holds_what_can_not_be_asked_works_on(
    recorded: Any, client: Any, wire: Any, replies: Any, arguments: Any
) -> None:
    plain, lazy = client.request, Lazy()

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **kwargs) if lazy is not None else lazy()

    client.request = wrapped
    hb.instrument()
    wire.replies(replies["chat"])
    client.chat.completions.create(**arguments["chat"])
    assert recorded.tree() == "chat m 0-300 ok"
