"""Requests that a library sends by a transport of its own: they tell the server whose work they do, as clients' do."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from hopbudget.tracing.propagate import PARENT, add_headers
from hopbudget.tracing.remaining import add_remaining
from hopbudget.tracing.requests import current_request
from hopbudget.tracing.scope import recorder_failed

HANDLERS: Final = {"litellm.llms.custom_httpx.http_handler": ("HTTPHandler", "AsyncHTTPHandler")}
"""Classes, by their module, whose `post` takes a `url` and `headers`."""

Arguments = tuple[Sequence[Any], Mapping[str, Any]]


def teller(post: Callable[..., Any]) -> Callable[[Sequence[Any], Mapping[str, Any]], Arguments]:
    """Makes of `post`'s arguments those it is called with instead, while a model is asked by it."""
    places = {name: place for place, name in enumerate(inspect.signature(post).parameters)}

    def tell(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
        try:
            return _told(args, kwargs, places)
        except Exception:
            recorder_failed()
            return args, kwargs

    return tell


def _told(args: Sequence[Any], kwargs: Mapping[str, Any], places: Mapping[str, int]) -> Arguments:
    request = current_request()
    if request is None or request.taken or request.visit.outcome is not None or request.visit.clock is not None:
        return args, kwargs  # what is sent once the model has answered is no request to it
    given = {name: args[place] for name, place in places.items() if place < len(args)} | dict(kwargs)
    headers = given.get("headers")
    if headers is not None and not isinstance(headers, dict):
        return args, kwargs
    headers = dict(headers or {})
    url = urlsplit(str(given["url"]))
    if PARENT not in {str(name).lower() for name in headers}:
        add_headers(headers)
    add_remaining(headers, url.hostname or "", url.port)
    place = places["headers"]
    if place < len(args):
        return [*args[:place], headers, *args[place + 1 :]], kwargs
    return args, {**kwargs, "headers": headers}
