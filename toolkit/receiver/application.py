"""The receiver as an ASGI application.

POST /v1/traces   OTLP/HTTP: protobuf and JSON by content type, gzip; 200 only when all that was taken is on disk
GET  /healthz     whether it takes spans, and how the last drain went
GET  /metrics     its account, for Prometheus
"""

import asyncio
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from hopbudget.receiver import bodies
from hopbudget.receiver.account import Account, metrics
from hopbudget.receiver.answers import CONTENT_TYPES, Encoding, RefusedError, accepted, refused
from hopbudget.receiver.decoding import Taken, take
from hopbudget.receiver.inbox import Inbox
from hopbudget.store.spool import Pending

MOST_BYTES: Final = 64 << 20
"""Of one body, unzipped: what OTLP names as the usual limit."""
_HELD_BODIES: Final = 2
"""So many bodies of the largest size fit into memory at once."""
_SPOOL_MOST_BYTES: Final = 1 << 30
_BODY_WITHIN_S: Final = 30.0
_RETRY_AFTER_S: Final = 5


class Folder(Protocol):
    """Where taken spans go."""

    def append(self, lines: Sequence[bytes], spans: int) -> None:
        """Write them so that they survive a crash. Raises OSError."""

    def pending(self) -> Pending:
        """How many files and spans wait there."""
        ...

    def waiting_bytes(self) -> int:
        """The size of what waits there."""
        ...


@dataclass(frozen=True, slots=True)
class Rules:
    """What is asked of a request."""

    token: str | None = None
    """Without one, anybody who reaches the socket may send."""
    most_bytes: int = MOST_BYTES
    spool_most_bytes: int = _SPOOL_MOST_BYTES
    """While more waits to be drained, nothing is taken: what was acknowledged is never thrown away for what comes."""


class Receiver:
    """Takes in requests. It belongs to one event loop."""

    def __init__(self, folder: Folder, rules: Rules, account: Account) -> None:
        self._folder: Final = folder
        self._rules: Final = rules
        self._account: Final = account
        self._inbox: Final = Inbox(folder.append)
        self._held: Final = bodies.Held(_HELD_BODIES * rules.most_bytes)
        self._decoding: Final = asyncio.Semaphore(1)

    async def export(self, request: Request) -> Response:
        """Answer POST /v1/traces."""
        encoding = _encoding(request)
        try:
            answer = await self._take(request, encoding)
        except RefusedError as refusal:
            answer = refused(encoding or "json", refusal)
        except ClientDisconnect:
            answer = Response(status_code=499)  # nobody reads it
        self._account.requests[answer.status_code] += 1
        return answer

    async def _take(self, request: Request, encoding: Encoding | None) -> Response:
        _check_token(request, self._rules.token)
        if encoding is None:
            media = request.headers.get("content-type", "")
            raise RefusedError(415, f"content-type {media[:60]!r} is not understood; use {' or '.join(CONTENT_TYPES)}")
        declared = request.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > self._rules.most_bytes:
            raise bodies.too_large(self._rules.most_bytes)
        if self._folder.waiting_bytes() > self._rules.spool_most_bytes:
            raise RefusedError(429, "too much waits to be moved into the store; try again", _RETRY_AFTER_S)
        with self._held.share() as share:
            taken = await self._decode(request, encoding, share)
            await self._store(taken)
        return accepted(encoding, len(taken.rejected), "; ".join(taken.rejected[:3]))

    async def _decode(self, request: Request, encoding: Encoding, share: bodies.Share) -> Taken:
        coding = request.headers.get("content-encoding", "").strip().lower()
        try:
            async with asyncio.timeout(_BODY_WITHIN_S):
                body = await bodies.read_body(request.stream(), coding, self._rules.most_bytes, share)
        except TimeoutError:
            raise RefusedError(408, f"the body did not come within {_BODY_WITHIN_S:.0f} s") from None
        async with self._decoding:  # one at a time: decoded, a body takes many times its size
            taken = await asyncio.to_thread(take, body, encoding)
        self._account.bytes += len(body)
        return taken

    async def _store(self, taken: Taken) -> None:
        if taken.lines:
            try:
                await self._inbox.put(taken.lines, taken.spans)
            except OSError as error:
                why = f"nothing can be written to disk ({error.strerror or error}); try again"
                raise RefusedError(503, why, _RETRY_AFTER_S) from error
        self._account.spans += taken.spans
        self._account.rejected += len(taken.rejected)
        self._account.dropped_content += taken.dropped_content


def application(folder: Folder, account: Account, rules: Rules | None = None) -> Starlette:
    """The ASGI application. `account` is what it counts into."""
    rules = rules or Rules()
    receiver = Receiver(folder, rules, account)

    async def health(_request: Request) -> Response:
        waiting = folder.pending()
        state = {"waiting_files": waiting.files, "waiting_spans": waiting.spans, "drain_problem": account.drain_problem}
        return JSONResponse({"status": "degraded" if account.drain_problem else "ok", **state})

    async def numbers(_request: Request) -> Response:
        waiting = folder.pending()
        return PlainTextResponse(metrics(account, waiting_files=waiting.files, waiting_spans=waiting.spans))

    return Starlette(
        routes=[
            Route("/v1/traces", receiver.export, methods=["POST"]),
            Route("/healthz", health),
            Route("/metrics", _guarded(numbers, rules.token)),
        ],
        exception_handlers={HTTPException: _nothing_here},
    )


def _encoding(request: Request) -> Encoding | None:
    return CONTENT_TYPES.get(request.headers.get("content-type", "").partition(";")[0].strip().lower())


def _check_token(request: Request, token: str | None) -> None:
    if token is None:
        return
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.encode()):
        raise RefusedError(401, "this receiver asks for a bearer token: send the header 'authorization: Bearer ...'")


def _guarded(answer: Callable[[Request], object], token: str | None) -> Callable[[Request], object]:
    async def guarded(request: Request) -> object:
        try:
            _check_token(request, token)
        except RefusedError as refusal:
            return refused("json", refusal)
        return await answer(request)  # type: ignore[misc]

    return guarded


async def _nothing_here(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        sentence = f"nothing at {request.url.path[:80]}; spans go to /v1/traces"
    else:
        sentence = f"{request.method} is not for {request.url.path[:80]}"
    return refused(_encoding(request) or "json", RefusedError(error.status_code, sentence))
