"""A second attempt where the first token does not come (asyncio): whoever sends one first is kept.

The wait for a first token tells a dead request; a long duration only tells a long answer, so nothing else triggers it,
and nothing does after the first token.
"""

from collections.abc import Callable
from typing import Any, Final

from opentelemetry.context import attach, get_current
from opentelemetry.trace import SpanKind

from hopbudget.tracing import deadline, scope, terms
from hopbudget.tracing import vocabulary as v
from hopbudget.tracing.asking import model_in, only_model, outlook, running
from hopbudget.tracing.attempts import Attempt, Cap
from hopbudget.tracing.blocks import finish_span
from hopbudget.tracing.limits_errors import DeadlineExceeded
from hopbudget.tracing.limits_steps import entered, left, over
from hopbudget.tracing.objects import HANDLE
from hopbudget.tracing.outcomes import of_exception
from hopbudget.tracing.race import FailoverStream, Race
from hopbudget.tracing.readers import CHAT, Reader, chosen
from hopbudget.tracing.requests import Request, begin_request

DEFAULT_CAP: Final = Cap()
"""What every fail-over of this process shares, unless it is given its own."""


async def failover(
    primary: Callable[[], Any],
    secondary: Callable[[], Any],
    *,
    after_s: float | None = None,
    model: str | None = None,
    prompt_tokens: int | None = None,
    reader: Reader | None = None,
    cap: Cap | None = None,
) -> FailoverStream:
    """The stream of `primary`, or of `secondary` where that one's first token comes sooner.

    Both are functions without arguments that open an async stream: they return it, an awaitable of it, or an async
    context manager of it. `secondary` is called when no generated token came within `after_s` seconds; where that is
    not given, within the time in which 99% of the first tokens of `model`, else the hop's, come for prompts of
    `prompt_tokens`, by the plan; without a plan, never. It is also called, at once, when `primary` fails before its
    first token. The loser is cancelled, and closed. `cap` bounds the second attempts. `reader`: as for `watch`.

    Where both fail, `primary`'s exception is raised. Inside of a hop it is that hop's call, with the time of both; else
    a hop by itself. Switched off (`disable`), only `primary` is called. Raises TypeError or ValueError for wrong
    arguments.
    """
    for name, given in (("primary", primary), ("secondary", secondary)):
        if not callable(given):
            raise TypeError(f"{name} is a function that opens a stream, not {given!r}")
    if after_s is not None:
        terms.positive("after_s", after_s, endless=True)
    format = None if reader is None else chosen(reader)
    inside = deadline.hop()
    model = model or (None if inside is None else inside.model)
    race = Race(
        Attempt("primary", primary, format),
        Attempt("secondary", secondary, format),
        _after_s(model, prompt_tokens) if after_s is None else after_s,
        cap or DEFAULT_CAP,
    )
    request = _begin(model)
    if request is None:
        return await race.run()
    return await _recorded(request, race)


def _after_s(model: str | None, prompt_tokens: int | None) -> float | None:
    seen = outlook(running())
    if seen is None:
        return None
    model = model or only_model(seen.plan)
    return None if model is None else seen.plan.first_token_after(model_in(seen.plan, model), prompt_tokens, 0.99)


# Records -----------------------------------------------------------------------------------------------------------


def _begin(model: str | None) -> Request | None:
    facts = {v.OPERATION: v.CHAT} | ({} if model is None else {v.REQUEST_MODEL: model})
    try:
        return begin_request(facts, CHAT, stream=True, outer=True)
    except DeadlineExceeded:
        raise
    except Exception:
        scope.recorder_failed()
        return None


async def _recorded(request: Request, race: Race) -> FailoverStream:
    """The race as one request of the hop: held to its limits, and each attempt of an instrumented client part of it."""
    wait, outside = request.wait, get_current()
    try:
        request.hop.awaits()
    except Exception:
        scope.recorder_failed()
    if wait is not None and (due := entered(wait, request.hop.now_ns(), looped=True)) is not None:
        request.failed(due)
        raise due
    if wait is not None:
        wait.so_far = race.so_far
    attach(request.context)
    request.taken = True
    try:
        stream = await race.run()
    except BaseException as exc:
        if not isinstance(exc, GeneratorExit) or get_current() is request.context:
            attach(outside)
        reached = None if wait is None else left(wait, exc)
        _note(request, race, reached or exc)
        if reached is not None:
            raise reached from exc
        raise
    attach(outside)
    if wait is not None:
        over(wait)
    return _followed(request, race, stream)


def _note(request: Request, race: Race, exc: BaseException) -> None:
    try:
        request.taken = False
        _tell(request, race)
        request.failed(exc)
    except Exception:
        scope.recorder_failed()


def _followed(request: Request, race: Race, stream: FailoverStream) -> FailoverStream:
    try:
        request.taken = False
        _tell(request, race)
        followed: FailoverStream = request.answered(stream, stream=True)
        if race.kept is not None and HANDLE in stream.__dict__:
            _feed(stream.__dict__[HANDLE], race.kept)
    except Exception:
        scope.recorder_failed()
        return stream
    return followed


def _feed(handle: Any, kept: Attempt) -> None:
    """What came before the stream was handed out came when it came, not when it is handed out."""
    chunk, held = handle.chunk, len(kept.pieces)
    for piece in kept.pieces:
        chunk(*piece)

    def skip(item: object, asked_ns: int, now_ns: int) -> None:
        nonlocal held
        held -= 1
        if held <= 0:
            handle.chunk = chunk

    if held:
        handle.chunk = skip


def _tell(request: Request, race: Race) -> None:
    """The hop's span gets who answered; who did not, a span that is no hop."""
    if not race.second_sent and not race.capped:
        return
    visit, hop = request.visit, request.hop
    told = {v.FAILOVER: "capped" if race.capped else race.kept.name if race.kept else "none"}
    visit.facts = {**visit.facts, **told}
    visit.span.set_attributes(told)
    if not race.second_sent:
        return
    visit.attempts += 1
    if race.kept is race.secondary:
        visit.attempt_ns = race.secondary.began_ns
    if hop.trajectory is not None:
        hop.trajectory.intervene(f"{hop.own.get(v.HOP, v.CHAT)}: failover")
    now_ns = hop.now_ns()
    for attempt, error in race.lost:
        outcome, kind = of_exception(error)
        span = hop.tracer.start_span(
            f"attempt {attempt.name}",
            context=request.context,
            kind=SpanKind.CLIENT,
            attributes={v.FAILOVER: "lost"},
            start_time=hop.anchor_ns + attempt.began_ns,
        )
        finish_span(span, {v.OUTCOME: outcome}, outcome, kind, hop.anchor_ns + now_ns)
