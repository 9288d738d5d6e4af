"""A service that works within its caller's deadline, and in its caller's trace."""

import math
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final

from opentelemetry.context import Context, attach, get_current
from opentelemetry.propagate import extract
from opentelemetry.trace import get_current_span

from hopbudget.tracing import deadline, remaining, scope, terms
from hopbudget.tracing.deadline import Deadline

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_HEADER: Final = remaining.HEADER.encode()


class DeadlineMiddleware:
    """ASGI middleware: each request runs under the smaller of its own deadline and what its caller has left.

    `margin_s` is kept back of the caller's time, for the answer's way home. `deadline_s` and `enforce` are the
    service's own, else those of `workload` in `hopbudget.toml`, of the environment, or none. A trajectory that begins
    inside ends within it, whatever it was given. A header that can't be read is ignored, and counted in `malformed`.

    Where no trace is open yet, the caller's is gone on with. Works with every ASGI server and framework.
    """

    def __init__(
        self,
        app: App,
        *,
        workload: str = "",
        deadline_s: float | None = None,
        enforce: str | None = None,
        margin_s: float = 0.0,
    ) -> None:
        """Raises TypeError or ValueError for wrong arguments."""
        terms.check_arguments(deadline_s=deadline_s, enforce=enforce)
        if margin_s:
            terms.positive("margin_s", margin_s)
        self.app = app
        self.malformed = 0
        """Requests whose header could not be read."""
        self._workload = workload
        self._deadline_s = deadline_s
        self._enforce = enforce
        self._margin_s = margin_s

    async def __call__(self, scope_: Scope, receive: Receive, send: Send) -> None:
        """One request, or whatever else the server has to say."""
        if scope_["type"] not in {"http", "websocket"}:
            await self.app(scope_, receive, send)
            return
        came_ns = scope.setup.clock.now_ns()
        outside = get_current()
        inside = self._context(scope_["headers"], outside, came_ns)
        attach(inside)
        try:
            await self.app(scope_, receive, send)
        except BaseException as exc:
            # A request that is collected while it waits is closed in somebody else's context.
            if not isinstance(exc, GeneratorExit) or get_current() is inside:
                attach(outside)
            raise
        attach(outside)

    def _context(self, headers: Iterable[tuple[bytes, bytes]], outside: Context, came_ns: int) -> Context:
        try:
            found = list(headers)
            context = outside
            if not get_current_span(outside).get_span_context().is_valid:
                context = extract({name.decode("latin-1"): value.decode("latin-1") for name, value in found}, outside)
            held = self._deadline([value for name, value in found if name.lower() == _HEADER], came_ns)
            return context if held is None else deadline.within(held, context)
        except Exception:
            scope.recorder_failed()
            return outside

    def _deadline(self, told: list[bytes], came_ns: int) -> Deadline | None:
        if terms.off():
            return None
        own = terms.terms(self._workload, deadline_s=self._deadline_s, enforce=self._enforce)
        left_s = self._left_s(told)
        held_s = own.deadline_s if left_s is None else min(own.deadline_s, max(left_s - self._margin_s, 0.0))
        return Deadline(held_s, own, started_ns=came_ns) if held_s < math.inf else None

    def _left_s(self, told: list[bytes]) -> float | None:
        if not told:
            return None
        left_s = remaining.read(told[0].decode("latin-1")) if len(told) == 1 else None
        if left_s is None:
            self.malformed += 1
        return left_s
