"""The server: routes, one answer's playback, and a refusal for everything else, in OpenAI's format.

POST /v1/chat/completions     streamed or not
GET  /v1/models
GET  /health
GET  /hopbudget/sent[/{id}]   what truly went out, by this server's clock
"""

import asyncio
import itertools
import time
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from hopbudget.endpoint.compose import script_for, tokens_through
from hopbudget.endpoint.gpu import GPUS
from hopbudget.endpoint.playback import NOTICE, Clock, Playback, Sleep, while_connected
from hopbudget.endpoint.records import PrefixCache, Records, Sent
from hopbudget.endpoint.request import ApiError, ChatRequest, Knobs, read_chat, read_knobs
from hopbudget.endpoint.wire import ChatWire

OWNER: Final = "hopbudget-simulation"


class Endpoint:
    """One simulated server: its seed, its load, its memory of what it sent."""

    def __init__(self, *, seed: int, clock: Clock, sleep: Sleep, wall: Clock) -> None:
        self.records = Records()
        self.running = 0
        self._seed = seed
        self._clock = clock
        self._sleep = sleep
        self._wall = wall
        self._prefixes = PrefixCache()
        self._numbers = itertools.count(1)

    async def chat(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one chat request as an ASGI application."""
        arrived = self._clock()
        self.running += 1
        try:
            request = Request(scope, receive)
            try:
                chat = read_chat(await request.body())
                knobs = read_knobs(request.headers, streamed=bool(chat.stream))
            except ApiError as error:
                await refusal(error)(scope, receive, send)
                return
            playback = self._playback(chat, knobs, arrived)
            if chat.stream:
                gone = await while_connected(receive, playback.stream(send)) is None
            else:
                reply = await while_connected(receive, playback.reply())
                gone = reply is None
                if reply is not None:
                    await reply(scope, receive, send)
            playback.sent.client_gone = gone
        except ClientDisconnect:
            pass
        finally:
            self.running -= 1

    def _playback(self, chat: ChatRequest, knobs: Knobs, arrived: float) -> Playback:
        number = next(self._numbers)
        cached = self._prefixes.look_up(chat, tokens_through(chat))
        script = script_for(chat, knobs, seed=self._seed, index=number, concurrency=self.running, cached_tokens=cached)
        wire = ChatWire(
            id=f"chatcmpl-sim-{self._seed}-{number}",
            model=chat.model,
            created=int(self._wall()),
            include_usage=chat.wants_usage,
        )
        sent = Sent(wire.id, chat.model, knobs.row, streamed=bool(chat.stream))
        self.records.add(sent)
        return Playback(wire, script, sent, arrived, self._clock, self._sleep)

    async def models(self, _request: Request) -> Response:
        """Every model, and that it is a simulation."""
        data = [{"id": name, "object": "model", "created": 0, "owned_by": OWNER} for name in GPUS]
        return JSONResponse({"object": "list", "data": data}, headers=NOTICE)

    async def model(self, request: Request) -> Response:
        """One model."""
        name = request.path_params["name"]
        if name not in GPUS:
            message = f"The model `{name}` does not exist. This simulation serves: {', '.join(GPUS)}."
            return refusal(ApiError(message, status=404, param="model", code="model_not_found"))
        return JSONResponse({"id": name, "object": "model", "created": 0, "owned_by": OWNER}, headers=NOTICE)

    async def health(self, _request: Request) -> Response:
        """That the server is up, and how many chat requests it is answering."""
        return JSONResponse({"status": "ok", "simulation": True, "running": self.running}, headers=NOTICE)

    async def sent(self, request: Request) -> Response:
        """The records of what went out: all that are kept, or the one with this id."""
        answer_id = request.path_params.get("answer_id")
        if answer_id is None:
            return JSONResponse({"sent": [sent.as_json() for sent in self.records.all()]}, headers=NOTICE)
        if (found := self.records.find(answer_id)) is None:
            return refusal(ApiError(f"No answer with the id `{answer_id}` is kept.", status=404, param="id"))
        return JSONResponse(found.as_json(), headers=NOTICE)


def application(
    *, seed: int = 0, clock: Clock = time.perf_counter, sleep: Sleep = asyncio.sleep, wall: Clock = time.time
) -> Starlette:
    """The endpoint as an ASGI application; `clock` and `sleep` are its only sense of time, `wall` dates answers."""
    endpoint = Endpoint(seed=seed, clock=clock, sleep=sleep, wall=wall)
    routes = [
        Route("/v1/chat/completions", _Chat(endpoint), methods=["POST"]),
        Route("/v1/models", endpoint.models),
        Route("/v1/models/{name}", endpoint.model),
        Route("/health", endpoint.health),
        Route("/hopbudget/sent", endpoint.sent),
        Route("/hopbudget/sent/{answer_id}", endpoint.sent),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _no_such_route})


class _Chat:
    """Chat as an application of its own: it needs `receive` to notice a client that has gone."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._endpoint.chat(scope, receive, send)


def refusal(error: ApiError) -> Response:
    """`error` as a response."""
    return JSONResponse(error.body, status_code=error.status, headers=NOTICE)


async def _no_such_route(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    message = f"Nothing answers {request.method} {request.url.path} here; see POST /v1/chat/completions."
    return refusal(ApiError(message, status=status))
