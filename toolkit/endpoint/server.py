"""The server: routes, one answer's playback, and a refusal for everything else, in the form of the API asked.

POST /v1/chat/completions, /v1/completions, /v1/responses, /v1/messages     streamed or not
GET  /v1/models[/{name}]
GET  /health
GET  /hopbudget/sent[/{id}]   what truly went out, by this server's clock
"""

import asyncio
import hashlib
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from hopbudget.endpoint.apis import APIS, Api, anthropic_refusal, openai_refusal
from hopbudget.endpoint.compose import script_for, script_of_row, tokens_through
from hopbudget.endpoint.knobs import Knobs, Row, read_knobs, row_for
from hopbudget.endpoint.models import is_anthropic, model_list, model_object
from hopbudget.endpoint.playback import NOTICE, Clock, Playback, Sleep, answer_headers, reset_of, while_connected
from hopbudget.endpoint.records import PrefixCache, Records, Sent, Turns
from hopbudget.endpoint.request import ApiError, Ask, check_model


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
        self._turns = Turns()
        self._numbers = itertools.count(1)

    async def answer(self, api: Api, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request to a model as an ASGI application."""
        arrived, arrived_at = self._clock(), self._wall()
        self.running += 1
        try:
            request = Request(scope, receive)
            body = await request.body()
            try:
                ask = api.read(body)
                knobs = read_knobs(request.headers, api=api.name, streamed=ask.stream)
            except ApiError as error:
                await refusal(error, api.refusal)(scope, receive, send)
                return
            case = self._case(api, ask, knobs, request, body, arrived_at=arrived_at)
            if case.row is not None and case.row.status is not None:
                await self._refuse(case, case.row.status, arrived)(scope, receive, send)
            else:
                await self._play(case, arrived, scope, receive, send)
        except ClientDisconnect:
            pass
        finally:
            self.running -= 1

    def _case(self, api: Api, ask: Ask, knobs: Knobs, request: Request, body: bytes, *, arrived_at: float) -> "_Case":
        number = next(self._numbers)
        row = row_for(knobs.rows, self._turns.next(knobs.key))
        sent = Sent(
            id=f"{api.id_prefix}sim-{self._seed}-{number}",
            api=api.name,
            model=ask.model,
            row=row.name if row else None,
            key=knobs.key,
            streamed=ask.stream,
            arrived_at=arrived_at,
            traceparent=request.headers.get("traceparent"),
            body_sha256=hashlib.sha256(body).hexdigest(),
        )
        self.records.add(sent)
        return _Case(api, ask, knobs, number, row, sent)

    def _refuse(self, case: "_Case", status: int, arrived: float) -> Response:
        case.sent.status = status
        case.sent.done_s = self._clock() - arrived
        headers = {**answer_headers(case.sent.id), "retry-after": case.knobs.retry_after}
        message = f"Simulated: status {status}, as x-hopbudget-row asked."
        return refusal(ApiError(message, status=status, headers=headers), case.api.refusal)

    async def _play(self, case: "_Case", arrived: float, scope: Scope, receive: Receive, send: Send) -> None:
        playback = self._playback(case, arrived, scope)
        if case.ask.stream or not playback.script.headers:
            gone = await while_connected(receive, playback.stream(send)) is None
        else:
            reply = await while_connected(receive, playback.reply())
            gone = reply is None
            if reply is not None:
                await reply(scope, receive, send)
        case.sent.client_gone = gone and playback.script.ending != "reset"

    def _playback(self, case: "_Case", arrived: float, scope: Scope) -> Playback:
        ask, knobs = case.ask, case.knobs
        cached = self._prefixes.look_up(ask, tokens_through(ask))
        if case.row is not None:
            script = script_of_row(case.row.name, knobs)
        else:
            script = script_for(
                ask, knobs, seed=self._seed, index=case.number, concurrency=self.running, cached_tokens=cached
            )
        wire = case.api.wire(ask, case.sent.id, int(case.sent.arrived_at))
        return Playback(wire, script, case.sent, arrived, self._clock, self._sleep, reset_of(scope))

    async def models(self, request: Request) -> Response:
        """Every model, and that it is a simulation."""
        return JSONResponse(model_list(anthropic=is_anthropic(request.headers)), headers=NOTICE)

    async def model(self, request: Request) -> Response:
        """One model."""
        name, anthropic = request.path_params["name"], is_anthropic(request.headers)
        try:
            check_model(name)
        except ApiError as error:
            return refusal(error, anthropic_refusal if anthropic else openai_refusal)
        return JSONResponse(model_object(name, anthropic=anthropic), headers=NOTICE)

    async def health(self, _request: Request) -> Response:
        """That the server is up, and how many requests to a model it is answering."""
        return JSONResponse({"status": "ok", "simulation": True, "running": self.running}, headers=NOTICE)

    async def sent(self, request: Request) -> Response:
        """The records of what went out: all that are kept, those with one key, or the one with this id."""
        answer_id = request.path_params.get("answer_id")
        if answer_id is None:
            key = request.query_params.get("key")
            found = [sent.as_json() for sent in self.records.all() if key is None or sent.key == key]
            return JSONResponse({"sent": found}, headers=NOTICE)
        if (one := self.records.find(answer_id)) is None:
            return refusal(ApiError(f"No answer with the id `{answer_id}` is kept.", status=404, param="id"))
        return JSONResponse(one.as_json(), headers=NOTICE)


@dataclass(frozen=True, slots=True)
class _Case:
    """One request with all that was found out about it."""

    api: Api
    ask: Ask
    knobs: Knobs
    number: int
    row: Row | None
    sent: Sent


def application(
    *, seed: int = 0, clock: Clock = time.perf_counter, sleep: Sleep = asyncio.sleep, wall: Clock = time.time
) -> Starlette:
    """The endpoint as an ASGI application; `clock` and `sleep` are its only sense of time, `wall` dates answers."""
    endpoint = Endpoint(seed=seed, clock=clock, sleep=sleep, wall=wall)
    routes = [
        *(Route(api.path, _Answer(endpoint, api), methods=["POST"]) for api in APIS),
        Route("/v1/models", endpoint.models),
        Route("/v1/models/{name}", endpoint.model),
        Route("/health", endpoint.health),
        Route("/hopbudget/sent", endpoint.sent),
        Route("/hopbudget/sent/{answer_id}", endpoint.sent),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _no_such_route})


class _Answer:
    """One API as an application of its own: it needs `receive` to notice a client that has gone."""

    def __init__(self, endpoint: Endpoint, api: Api) -> None:
        self._endpoint = endpoint
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._endpoint.answer(self._api, scope, receive, send)


def refusal(error: ApiError, form: Callable[[ApiError], dict[str, Any]] = openai_refusal) -> Response:
    """`error` as a response."""
    return JSONResponse(form(error), status_code=error.status, headers={**NOTICE, **error.headers})


async def _no_such_route(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    paths = ", ".join(api.path for api in APIS)
    message = f"Nothing answers {request.method} {request.url.path} here; POST to {paths}."
    form = anthropic_refusal if is_anthropic(request.headers) else openai_refusal
    return refusal(ApiError(message, status=status), form)
