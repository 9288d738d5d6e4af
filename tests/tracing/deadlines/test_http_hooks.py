"""Clients of httpx and httpx2 that tell their allowed hosts how much time is left."""

import importlib
from collections.abc import Callable
from typing import Any

import pytest

import hopbudget as hb
from hopbudget.tracing.deadline import Deadline
from hopbudget.tracing.http_hooks import tell, tell_async

HEADER = "hopbudget-remaining-ms"
Run = Callable[..., Deadline]


@pytest.fixture(params=["httpx", "httpx2"])
def library(request: pytest.FixtureRequest) -> Any:
    pytest.importorskip(request.param)
    return importlib.import_module(request.param)


class Services:
    """Answers every request and keeps it; /moved leads to another host, and the first try of /busy is turned away."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self.seen: list[Any] = []
        self.transport = library.MockTransport(self.answer)

    def answer(self, request: Any) -> Any:
        self.seen.append(request)
        if request.url.path == "/moved":
            return self.library.Response(307, headers={"location": "https://elsewhere.com/"})
        return self.library.Response(200)

    def told(self) -> list[str | None]:
        return [request.headers.get(HEADER) for request in self.seen]


@pytest.fixture
def services(library: Any) -> Services:
    return Services(library)


def test_an_allowed_host_is_told_at_the_time_of_each_request(services: Services, run: Run, clock: Any) -> None:
    run(10.0)
    hb.propagate_to("api.internal")
    with hb.propagating(services.library.Client(transport=services.transport)) as client:
        client.get("http://api.internal/")
        clock.to(3000)
        client.get("http://api.internal:8000/")
        client.get("https://api.openai.com/")
    assert services.told() == ["10000", "7000", None]


async def test_an_async_client_tells_too(services: Services, run: Run) -> None:
    run(10.0)
    hb.propagate_to("api.internal")
    async with hb.propagating(services.library.AsyncClient(transport=services.transport)) as client:
        await client.get("http://api.internal/")
        await client.get("https://api.openai.com/")
    assert services.told() == ["10000", None]


def test_a_redirect_to_another_host_takes_nothing_along(services: Services, recorded: Any, run: Run) -> None:
    run(10.0)
    hb.propagate_to("api.internal")
    client = hb.propagating(services.library.Client(transport=services.transport, follow_redirects=True))
    with client, hb.trajectory("agent"):
        client.get("http://api.internal/moved")
    first, second = services.seen
    assert "traceparent" in first.headers
    assert first.headers[HEADER] == "10000"
    assert "traceparent" not in second.headers
    assert HEADER not in second.headers


def test_the_trace_context_goes_with_it_and_what_the_sender_set_stays(
    services: Services, recorded: Any, run: Run
) -> None:
    hb.propagate_to("api.internal")
    run(10.0)
    own = {"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01", HEADER: "5"}
    with hb.propagating(services.library.Client(transport=services.transport)) as client, hb.trajectory("agent"):
        client.get("http://api.internal/")
        client.get("http://api.internal/", headers=own)
    first, second = services.seen
    trace_id = f"{recorded.spans[0].context.trace_id:032x}"
    assert first.headers["traceparent"].split("-")[1] == trace_id
    assert {name: second.headers[name] for name in own} == own


def test_the_clients_own_hooks_stay_and_ours_is_there_once(services: Services, run: Run) -> None:
    run(10.0)
    hb.propagate_to("api.internal")
    asked: list[Any] = []
    client = services.library.Client(transport=services.transport, event_hooks={"request": [asked.append]})
    assert hb.propagating(hb.propagating(client)) is client
    with client:
        client.get("http://api.internal/")
    assert client.event_hooks["request"] == [asked.append, tell]
    assert len(asked) == 1


def test_the_hooks_can_be_given_to_a_client_by_hand(services: Services) -> None:
    services.library.AsyncClient(event_hooks={"request": [tell_async]})
    services.library.Client(event_hooks={"request": [tell]})


def test_nothing_is_added_outside_of_a_trajectory(services: Services, folder: Any) -> None:
    hb.propagate_to("api.internal")
    with hb.propagating(services.library.Client(transport=services.transport)) as client:
        client.get("http://api.internal/")
    assert services.told() == [None]


def test_another_client_is_refused() -> None:
    with pytest.raises(TypeError, match="event_hooks"):
        hb.propagating(object())
