"""Asking servers for the usage of streamed chat completions, on the recorder's own account, where that was asked for.

A request in which the user said anything of `stream_options`, or wants the raw response, is let be. What comes only
because of it, the chunk without choices at the end, is kept from the application. A server that refuses the request
gets it again as the user wrote it, and from then on only so.
"""

import copy
from collections.abc import Mapping
from typing import Any, Final

from hopbudget.tracing.readers import CHAT
from hopbudget.tracing.requests import Request
from hopbudget.tracing.scope import recorder_failed

VARIABLE: Final = "HOPBUDGET_INCLUDE_USAGE"
_OPTION: Final = "stream_options"
_ASKED: Final = {"include_usage": True}
_RAW: Final = "x-stainless-raw-response"
_REFUSALS: Final = frozenset({400, 422})
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_LIMIT: Final = 256

_takes: Final[dict[tuple[str, str], bool]] = {}
"""Whether the server of this base URL takes the option for this model, as far as that was seen."""


def forget() -> None:
    """Nothing was seen yet."""
    _takes.clear()


class Asking:
    """One request that asks for usage: its options, and what its answer says of the server."""

    __slots__ = ("_place", "_request", "options")

    def __init__(self, request: Request, options: Any, place: tuple[str, str]) -> None:
        self.options = options
        self._request = request
        self._place = place

    def taken(self) -> None:
        """The server takes the option: its later refusals have other reasons."""
        self._request.hides = is_usage_only
        _remember(self._place, takes=True)

    def refused(self, exc: BaseException) -> bool:
        """Whether the request was refused with this, perhaps for the option, and is to be sent without."""
        if getattr(exc, "status_code", None) not in _REFUSALS or self._place in _takes:
            return False
        self._request.again()
        return True

    def taken_without(self) -> None:
        """The server took the same request without the option."""
        _remember(self._place, takes=False)


def _remember(place: tuple[str, str], *, takes: bool) -> None:
    if place not in _takes:
        if len(_takes) >= _LIMIT:
            _takes.pop(next(iter(_takes)), None)
        _takes[place] = takes


def asked_for(variables: Mapping[str, str]) -> bool:
    """Whether the environment asks for usage."""
    return variables.get(VARIABLE, "").strip().lower() in _TRUE


def asking(request: Request, client: Any, options: Any) -> Asking | None:
    """How to ask for usage with this streamed request; None where it must be sent as it is."""
    if request.format is not CHAT:
        return None
    try:
        return _asking(request, client, options)
    except Exception:
        recorder_failed()
        return None


def _asking(request: Request, client: Any, options: Any) -> Asking | None:
    body, more = options.json_data, options.extra_json
    if not isinstance(body, dict) or not body.get("stream") or _OPTION in body or (more and _OPTION in more):
        return None
    headers = options.headers
    if isinstance(headers, Mapping) and any(name.lower() == _RAW for name in headers):
        return None
    place = (str(client.base_url), str(body.get("model")))
    if _takes.get(place) is False:
        return None
    changed = copy.copy(options)
    changed.json_data = {**body, _OPTION: _ASKED}
    return Asking(request, changed, place)


def send(plain: Any, asked: Asking, client: Any, cast_to: Any, options: Any, /, *args: Any, **kwargs: Any) -> Any:
    """The client's answer to the request that asks, or to the user's own where that one is refused."""
    try:
        answer = plain(client, cast_to, asked.options, *args, **kwargs)
    except Exception as exc:
        if not asked.refused(exc):
            raise
    else:
        asked.taken()
        return answer
    answer = plain(client, cast_to, options, *args, **kwargs)
    asked.taken_without()
    return answer


async def send_async(
    plain: Any, asked: Asking, client: Any, cast_to: Any, options: Any, /, *args: Any, **kwargs: Any
) -> Any:
    """The same where it is awaited."""
    try:
        answer = await plain(client, cast_to, asked.options, *args, **kwargs)
    except Exception as exc:
        if not asked.refused(exc):
            raise
    else:
        asked.taken()
        return answer
    answer = await plain(client, cast_to, options, *args, **kwargs)
    asked.taken_without()
    return answer


def is_usage_only(chunk: Any) -> bool:
    """Whether a chunk comes for the option alone: it has usage, and no choices."""
    return getattr(chunk, "usage", None) is not None and getattr(chunk, "choices", None) == []
