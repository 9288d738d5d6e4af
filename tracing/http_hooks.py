"""Telling the services that an agent calls over httpx or httpx2 whose work they do, and how much time is left."""

import inspect
from collections.abc import MutableMapping
from typing import Any, Final, TypeVar

from hopbudget.tracing.propagate import add_headers
from hopbudget.tracing.remaining import add_remaining, is_allowed
from hopbudget.tracing.scope import recorder_failed

C = TypeVar("C")
_ADDED: Final = "hopbudget"
"""In a request's extensions: the headers that came from here. A redirect carries both to wherever it leads."""


def propagating(client: C) -> C:
    """The same httpx or httpx2 client, sync or async, which from now on tells its allowed hosts (`propagate_to`).

    Each request to one of them, a redirect's and a retry's too, gets `hopbudget-remaining-ms` and the W3C trace
    context, unless its sender set them. Calling it again changes nothing. Raises TypeError for another client.
    """
    hooks: Any = getattr(client, "event_hooks", None)
    if not isinstance(hooks, dict):
        raise TypeError(f"a client of httpx or httpx2 is needed, with event_hooks, not {client!r}")
    hook = tell_async if inspect.iscoroutinefunction(getattr(client, "send", None)) else tell
    asked = list(hooks.get("request", ()))
    if hook not in asked:
        # The last one, so that what it tells is what is left when the request goes.
        client.event_hooks = {**hooks, "request": [*asked, hook]}  # type: ignore[attr-defined]
    return client


def tell(request: Any) -> None:
    """An event hook for the requests of a sync client. Never raises."""
    try:
        _tell(request.headers, request.extensions, request.url.host, request.url.port)
    except Exception:
        recorder_failed()


async def tell_async(request: Any) -> None:
    """An event hook for the requests of an async client. Never raises."""
    tell(request)


def _tell(headers: MutableMapping[str, str], extensions: MutableMapping[str, Any], host: str, port: int | None) -> None:
    for name in extensions.pop(_ADDED, ()):
        headers.pop(name, None)
    if not is_allowed(host, port):
        return
    before = {name.lower() for name in headers}
    add_remaining(headers, host, port)
    add_headers(headers)
    added = tuple(name for name in headers if name.lower() not in before)
    if added:
        extensions[_ADDED] = added
