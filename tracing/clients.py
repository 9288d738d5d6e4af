"""Auto-instrumentation: every model call of the known clients is a hop, without a change to the program.

The clients of OpenAI and Anthropic come out of one generator: each request, of whatever method, raw or streamed or
parsed, passes one function, which retries inside. That function is wrapped, in the class and once. A library with a
transport of its own is wrapped at the functions its users call.
"""

import functools
import inspect
import os
import sys
import threading
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final, NamedTuple

from opentelemetry.context import attach, get_current

from hopbudget.tracing import vocabulary as v
from hopbudget.tracing.imports import Hooks
from hopbudget.tracing.include_usage import asked_for, asking, send, send_async
from hopbudget.tracing.limits_errors import DeadlineExceeded
from hopbudget.tracing.limits_sockets import lower, sleeps_ours
from hopbudget.tracing.limits_steps import entered, left, over
from hopbudget.tracing.patches import Patch, goes_past, patch, patch_around, undo_all
from hopbudget.tracing.propagate import add_headers
from hopbudget.tracing.readers import CHAT, COMPLETIONS, MESSAGES, RESPONSES
from hopbudget.tracing.reading import Format, get, word
from hopbudget.tracing.remaining import add_remaining
from hopbudget.tracing.requests import Request, begin_request, current_request
from hopbudget.tracing.scope import recorder_failed
from hopbudget.tracing.transports import HANDLERS, teller


class Route(NamedTuple):
    """A path that model calls are posted to."""

    path: str
    operation: str
    format: Format


class _Posted(NamedTuple):
    """What a request's options say, before the client has made them."""

    method: str
    url: Any
    json_data: Any


ROUTES: Final = (
    Route("/chat/completions", v.CHAT, CHAT),
    Route("/completions", v.TEXT_COMPLETION, COMPLETIONS),
    Route("/responses", v.CHAT, RESPONSES),
    Route("/v1/messages", v.CHAT, MESSAGES),
)
"""The first that a request's path ends with says what it is. What ends with none is no model call."""

PROVIDERS: Final = (
    ("openai.lib.azure", "azure.ai.openai"),
    ("openai.lib.bedrock", "aws.bedrock"),
    ("anthropic.lib.bedrock", "aws.bedrock"),
    ("anthropic.lib.aws", "aws.bedrock"),
    ("anthropic.lib.vertex", "gcp.vertex_ai"),
    ("anthropic.lib.google_cloud", "gcp.vertex_ai"),
    ("openai", "openai"),
    ("anthropic", "anthropic"),
)
"""`gen_ai.provider.name` by the module that the client's class, or one it derives from, comes from."""

FUNCTIONS: Final = {
    "litellm": (
        ("completion", CHAT),
        ("acompletion", CHAT),
        ("text_completion", COMPLETIONS),
        ("atext_completion", COMPLETIONS),
        ("responses", RESPONSES),
        ("aresponses", RESPONSES),
    ),
}
"""Functions of libraries with a transport of their own, and what they return."""

_PORTS: Final = {"https": 443, "http": 80}


def instrument(*, include_usage: bool | None = None) -> None:
    """Make every model call of the openai, anthropic and litellm clients a hop, also of those imported later.

    A call inside of a hop is that hop's call; any other is a hop by itself. Calling it again changes nothing else than
    `include_usage`: ask for the usage of streamed chat completions too, where the user says nothing of it; None is what
    HOPBUDGET_INCLUDE_USAGE says. The chunk that comes only because of it is not shown to the application.
    """
    with _lock:
        _State.recorded = True
        _State.include_usage = asked_for(os.environ) if include_usage is None else include_usage
        _hooks.install(_APPLY)


def hold() -> None:
    """Take hold of the requests that the clients make inside of hops, so that limits can be held in them.

    `uninstrument` takes it back too.
    """
    with _lock:
        _hooks.install(_APPLY)


def uninstrument() -> None:
    """Take back what `instrument` did: the clients are as they were."""
    with _lock:
        _State.recorded = _State.include_usage = False
        _hooks.remove()
        undo_all()


def is_instrumented() -> bool:
    """Whether `instrument` was called, and not taken back."""
    return _State.recorded


class _State:
    """Whether requests are hops also outside of hops, and ask for usage."""

    recorded = False
    include_usage = False


# Wrapping ----------------------------------------------------------------------------------------------------------


_lock: Final = threading.RLock()
_hooks: Final = Hooks()


def _apply_stainless(module: ModuleType) -> None:
    for cls in (module.SyncAPIClient, module.AsyncAPIClient):
        patch(cls, "_sleep_for_retry", _sleep)
        requests = patch(cls, "request", _request)
        if requests is not None:
            patch_around(requests, _request)
            patch(cls, "post", functools.partial(_method, requests=requests))
    patch(module.BaseClient, "_build_request", _build)


def _apply_functions(module: ModuleType) -> None:
    for name, format in FUNCTIONS[module.__name__]:
        for owner in (module, sys.modules.get(f"{module.__name__}.main")):
            if owner is not None:
                patch(owner, name, functools.partial(_function, format=format))


def _apply_handlers(module: ModuleType) -> None:
    for name in HANDLERS[module.__name__]:
        if hasattr(module, name):
            patch(getattr(module, name), "post", _post)


_APPLY: Final[dict[str, Callable[[ModuleType], None]]] = {
    "openai._base_client": _apply_stainless,
    "anthropic._base_client": _apply_stainless,
    **dict.fromkeys(FUNCTIONS, _apply_functions),
    **dict.fromkeys(HANDLERS, _apply_handlers),
}
"""What to do with each module once it is imported."""


def _wrapper(plain: Any, call: Callable[..., Any], call_async: Callable[..., Any]) -> Any:
    """`plain` with `call` around it, of the same kind and signature."""
    if inspect.iscoroutinefunction(plain):

        @functools.wraps(plain)
        async def wrapped_async(*args: Any, **kwargs: Any) -> Any:
            return await (call_async if wrapped_async._hopbudget_active else plain)(*args, **kwargs)  # type: ignore[attr-defined]

        return wrapped_async

    @functools.wraps(plain)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return (call if wrapped._hopbudget_active else plain)(*args, **kwargs)  # type: ignore[attr-defined]

    return wrapped


def _request(plain: Any) -> Any:
    def call(client: Any, cast_to: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
        stream = bool(kwargs.get("stream"))
        request = _begin(client, options, stream)
        if request is None:
            return plain(client, cast_to, options, *args, **kwargs)
        asked = asking(request, client, options) if stream and _State.include_usage else None
        if asked is not None:
            return _run(request, stream, send, plain, asked, client, cast_to, options, *args, **kwargs)
        return _run(request, stream, plain, client, cast_to, options, *args, **kwargs)

    async def call_async(client: Any, cast_to: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
        stream = bool(kwargs.get("stream"))
        request = _begin(client, options, stream)
        if request is None:
            return await plain(client, cast_to, options, *args, **kwargs)
        asked = asking(request, client, options) if stream and _State.include_usage else None
        if asked is not None:
            return await _run_async(
                request, stream, send_async, plain, asked, client, cast_to, options, *args, **kwargs
            )
        return await _run_async(request, stream, plain, client, cast_to, options, *args, **kwargs)

    return _wrapper(plain, call, call_async)


def _method(plain: Any, requests: Patch) -> Any:
    """A client's `post`, where somebody has wrapped that one client's requests and goes past ours."""

    def begin(client: Any, path: Any, kwargs: Mapping[str, Any]) -> Request | None:
        own = vars(client).get(requests.name)
        if own is None or not goes_past(own, requests):
            return None
        return _begin(client, _Posted("post", path, kwargs.get("body")), bool(kwargs.get("stream")))

    def call(client: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        request = begin(client, path, kwargs)
        if request is None:
            return plain(client, path, *args, **kwargs)
        return _run(request, bool(kwargs.get("stream")), plain, client, path, *args, **kwargs)

    async def call_async(client: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        request = begin(client, path, kwargs)
        if request is None:
            return await plain(client, path, *args, **kwargs)
        return await _run_async(request, bool(kwargs.get("stream")), plain, client, path, *args, **kwargs)

    return _wrapper(plain, call, call_async)


def _function(plain: Any, format: Format) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        request = _begin_outer(args, kwargs, format)
        if request is None:
            return plain(*args, **kwargs)
        return _run(request, bool(kwargs.get("stream")), plain, *args, **kwargs)

    async def call_async(*args: Any, **kwargs: Any) -> Any:
        request = _begin_outer(args, kwargs, format)
        if request is None:
            return await plain(*args, **kwargs)
        return await _run_async(request, bool(kwargs.get("stream")), plain, *args, **kwargs)

    return _wrapper(plain, call, call_async)


def _run(request: Request, stream: bool, plain: Any, /, *args: Any, **kwargs: Any) -> Any:
    _enter(request, looped=False)
    outside = get_current()
    attach(request.context)
    try:
        result = plain(*args, **kwargs)
    except BaseException as exc:
        reached = None if request.wait is None else left(request.wait, exc)
        _failed(request, reached or exc)
        if reached is not None:
            raise reached from exc
        raise
    finally:
        attach(outside)
    return _answered(request, result, stream)


async def _run_async(request: Request, stream: bool, plain: Any, /, *args: Any, **kwargs: Any) -> Any:
    try:
        request.hop.awaits()
    except Exception:
        recorder_failed()
    _enter(request, looped=True)
    outside = get_current()
    attach(request.context)
    try:
        result = await plain(*args, **kwargs)
    except BaseException as exc:
        # A coroutine collected while it waits is closed in somebody else's context.
        if not isinstance(exc, GeneratorExit) or get_current() is request.context:
            attach(outside)
        reached = None if request.wait is None else left(request.wait, exc)
        _failed(request, reached or exc)
        if reached is not None:
            raise reached from exc
        raise
    attach(outside)
    if request.wait is not None:
        over(request.wait)
    return _answered(request, result, stream)


def _enter(request: Request, *, looped: bool) -> None:
    """The request is about to be sent. Raises the limit that is reached already."""
    if request.wait is None:
        return
    due = entered(request.wait, request.hop.now_ns(), looped=looped)
    if due is not None:
        _failed(request, due)
        raise due


def _failed(request: Request, exc: BaseException) -> None:
    try:
        request.failed(exc)
    except Exception:
        recorder_failed()


def _answered(request: Request, result: Any, stream: bool) -> Any:
    try:
        return request.answered(result, stream=stream)
    except Exception:
        recorder_failed()
        return result


def _sleep(plain: Any) -> Any:
    def begin() -> Request | None:
        request = current_request()
        if request is not None:
            request.sleeps()
        return request

    def call(client: Any, *args: Any, **kwargs: Any) -> Any:
        request = begin()
        if request is None:
            plain(client, *args, **kwargs)
            return
        wait = request.wait
        if wait is not None:
            wait.check()
        try:
            if wait is None or not sleeps_ours(wait, client, kwargs):
                plain(client, *args, **kwargs)
        finally:
            request.wakes()
        if wait is not None:
            wait.check()
        request.again()

    async def call_async(*args: Any, **kwargs: Any) -> Any:
        request = begin()
        if request is None:
            await plain(*args, **kwargs)
            return
        try:
            await plain(*args, **kwargs)
        finally:
            request.wakes()
        request.again()

    return _wrapper(plain, call, call_async)


def _build(plain: Any) -> Any:
    def call(client: Any, *args: Any, **kwargs: Any) -> Any:
        request = plain(client, *args, **kwargs)
        try:
            running = current_request()
            if running is not None:
                if running.wait is not None and running.wait.task is None:
                    lower(request, running.wait)
                if not _signs(client):
                    add_headers(request.headers)
                    add_remaining(request.headers, request.url.host, request.url.port)
        except Exception:
            recorder_failed()
        return request

    return _wrapper(plain, call, call)


def _post(plain: Any) -> Any:
    tell = teller(plain)

    def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tell(args, kwargs)  # type: ignore[assignment]
        return plain(*args, **kwargs)

    async def call_async(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tell(args, kwargs)  # type: ignore[assignment]
        return await plain(*args, **kwargs)

    return _wrapper(plain, call, call_async)


def _signs(client: Any) -> bool:
    """Whether the client may sign its requests' headers, which nobody must add to then.

    An HTTP instrumentation that puts its own `traceparent` in place of ours would make the signature wrong.
    """
    prepares = type(client)._prepare_request
    return bool(
        prepares.__module__.rpartition(".")[2] not in {"_base_client", "_client"} or ".lib." in prepares.__module__
    )


# What a request is -------------------------------------------------------------------------------------------------


def _begin(client: Any, options: Any, stream: bool) -> Request | None:
    try:
        route = _route(options)
        if route is None:
            return None
        return begin_request(_facts(client, options, route), route.format, stream=stream, recorded=_State.recorded)
    except DeadlineExceeded:
        raise
    except Exception:
        recorder_failed()
        return None


def _begin_outer(args: tuple[Any, ...], kwargs: dict[str, Any], format: Format) -> Request | None:
    try:
        model = word(kwargs.get("model") or next(iter(args), None))
        facts: dict[str, Any] = {v.OPERATION: v.TEXT_COMPLETION if format is COMPLETIONS else v.CHAT}
        if model is not None:
            # These libraries name a model `provider/model`.
            provider, named, rest = model.partition("/")
            facts |= {v.PROVIDER: provider, v.REQUEST_MODEL: rest} if named and rest else {v.REQUEST_MODEL: model}
        stream = bool(kwargs.get("stream"))
        return begin_request(facts, format, stream=stream, outer=True, recorded=_State.recorded)
    except DeadlineExceeded:
        raise
    except Exception:
        recorder_failed()
        return None


def _route(options: Any) -> Route | None:
    if options.method.lower() != "post":
        return None
    path = str(options.url).partition("?")[0]
    return next((route for route in ROUTES if path.endswith(route.path)), None)


def _facts(client: Any, options: Any, route: Route) -> dict[str, Any]:
    cls: type = type(client)
    facts: dict[str, Any] = {v.OPERATION: route.operation, v.PROVIDER: _provider(cls)}
    model = word(get(options.json_data, "model"))
    if model is not None:
        facts[v.REQUEST_MODEL] = model
    url = client.base_url
    if url.host:
        facts[v.SERVER_ADDRESS] = url.host
        port = url.port or _PORTS.get(url.scheme)
        if port is not None:
            facts[v.SERVER_PORT] = port
    return facts


@functools.lru_cache(maxsize=64)
def _provider(cls: type) -> str:
    modules = [base.__module__ for base in cls.__mro__]
    for start, provider in PROVIDERS:
        if any(module == start or module.startswith(f"{start}.") for module in modules):
            return provider
    return modules[0].partition(".")[0]
