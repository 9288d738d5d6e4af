"""A service within its caller's deadline: which of the two holds, and in whose trace."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import get_current

import hopbudget as hb
from hopbudget.tracing import deadline, scope
from hopbudget.tracing.asgi import DeadlineMiddleware
from hopbudget.tracing.deadline import Deadline

TRACE = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"


class Service:
    """Keeps what held inside of its requests."""

    def __init__(self) -> None:
        self.left_s: list[float] = []
        self.deadlines: list[Deadline | None] = []
        self.traces: list[str] = []

    async def __call__(self, scope_: Any, receive: Any, send: Any) -> None:
        self.left_s.append(hb.remaining_s())
        self.deadlines.append(deadline.current())
        self.traces.append(f"{trace.get_current_span().get_span_context().trace_id:032x}")
        if scope_.get("path") == "/broken":
            raise KeyError("broken")


async def ask(app: Any, *headers: tuple[str, str], path: str = "/", kind: str = "http") -> None:
    async def nothing(*_: Any) -> Any:
        return None

    raw = [(name.encode(), value.encode()) for name, value in headers]
    await app({"type": kind, "path": path, "headers": raw}, nothing, nothing)


def left(value: str) -> tuple[str, str]:
    return "hopbudget-remaining-ms", value


@pytest.mark.parametrize(
    ("own_s", "told", "margin_s", "held_s"),
    [
        (None, [left("3000")], 0.0, 3.0),
        (None, [left("3000")], 0.25, 2.75),
        (2.0, [left("3000")], 0.25, 2.0),
        (5.0, [left("3000")], 0.0, 3.0),
        (5.0, [], 0.25, 5.0),
        (None, [], 0.25, math.inf),
        (None, [left("0")], 0.0, 0.0),
        (None, [left("100")], 0.25, 0.0),
    ],
)
async def test_the_smaller_of_both_holds_less_a_margin_of_the_callers(
    clock: Any, own_s: float | None, told: Any, margin_s: float, held_s: float
) -> None:
    service = Service()
    await ask(DeadlineMiddleware(service, deadline_s=own_s, margin_s=margin_s), *told)
    assert service.left_s == [pytest.approx(held_s)]


@pytest.mark.parametrize("told", [[left("soon")], [left("-5")], [left("1.5")], [left("5"), left("7")], [left("")]])
async def test_a_malformed_header_is_ignored_and_counted(clock: Any, told: Any) -> None:
    service = Service()
    app = DeadlineMiddleware(service, deadline_s=4.0)
    await ask(app, *told)
    assert service.left_s == [4.0]
    assert app.malformed == 1


async def test_the_file_says_what_the_service_itself_allows(clock: Any, folder: Any) -> None:
    (folder / "hopbudget.toml").write_text('[workloads.search]\ndeadline = "2s"\nenforce = "deadline"\n')
    service = Service()
    await ask(DeadlineMiddleware(service, workload="search"), left("3000"))
    (held,) = service.deadlines
    assert held is not None
    assert held.terms is not None
    assert (held.remaining_s(), held.terms.mode) == (2.0, "deadline")


async def test_a_trajectory_inside_ends_within_it(clock: Any) -> None:
    seen: list[float] = []

    async def app(*_: Any) -> None:
        with hb.trajectory("inner", deadline_s=60.0):
            seen.append(hb.remaining_s())

    await ask(DeadlineMiddleware(app), left("3000"))
    assert seen == [3.0]


async def test_the_callers_trace_is_gone_on_with(clock: Any) -> None:
    service = Service()
    await ask(DeadlineMiddleware(service), ("traceparent", TRACE))
    assert service.traces == ["a" * 32]


async def test_a_trace_that_is_open_already_stays(recorded: Any, clock: Any) -> None:
    service = Service()
    with hb.trajectory("outer"):
        mine = trace.get_current_span().get_span_context().trace_id
        await ask(DeadlineMiddleware(service), ("traceparent", TRACE))
    assert service.traces == [f"{mine:032x}"] != ["0" * 32]


@pytest.mark.parametrize("path", ["/", "/broken"])
async def test_nothing_is_left_behind_and_the_services_exception_is_its_own(clock: Any, path: str) -> None:
    before = get_current()
    app = DeadlineMiddleware(Service())
    if path == "/broken":
        with pytest.raises(KeyError, match="broken"):
            await ask(app, left("3000"), path=path)
    else:
        await ask(app, left("3000"), path=path)
    assert get_current() is before


async def test_a_websocket_has_a_deadline_and_the_lifespan_none(clock: Any) -> None:
    service = Service()
    app = DeadlineMiddleware(service)
    await ask(app, left("3000"), kind="websocket")
    await ask(app, left("3000"), kind="lifespan")
    assert service.left_s == [3.0, math.inf]


async def test_switched_off_it_does_nothing(clock: Any) -> None:
    service = Service()
    hb.disable()
    await ask(DeadlineMiddleware(service, deadline_s=2.0), left("3000"))
    assert service.deadlines == [None]


async def test_what_goes_wrong_in_it_does_not_reach_the_service(clock: Any) -> None:
    errors = scope.recorder_errors()
    service = Service()

    async def nothing(*_: Any) -> Any:
        return None

    headers: Any = 3
    await DeadlineMiddleware(service)({"type": "http", "headers": headers}, nothing, nothing)
    assert service.left_s == [math.inf]
    assert scope.recorder_errors() == errors + 1


@pytest.mark.parametrize("wrong", [{"deadline_s": 0}, {"enforce": "strict"}, {"margin_s": -1.0}, {"margin_s": "1s"}])
def test_wrong_arguments_raise(wrong: Any) -> None:
    make: Callable[..., Any] = DeadlineMiddleware
    with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
        make(Service(), **wrong)
