"""One request of an instrumented client: the call of the hop around it, or a hop by itself."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from opentelemetry.context import Context, get_current, set_value
from opentelemetry.trace import Tracer, set_span_in_context

from hopbudget.tracing import scope
from hopbudget.tracing import vocabulary as v
from hopbudget.tracing.bodies import follow_body, hear_close, is_read
from hopbudget.tracing.follow import follow, is_stream
from hopbudget.tracing.hops import HopBlock, guarded_hop, open_hop
from hopbudget.tracing.limits_guard import guard_for
from hopbudget.tracing.limits_sockets import bound
from hopbudget.tracing.limits_waits import RequestWait
from hopbudget.tracing.objects import HANDLE
from hopbudget.tracing.outcomes import of_exception
from hopbudget.tracing.reading import Format, Reading
from hopbudget.tracing.visits import BodyCall, Call, Visit, read_body

_REQUEST: Final = "hopbudget-request"
"""Key, in OpenTelemetry's context, of the request that is being made."""


class Request:
    """A request from its issue to its answer. What comes back is followed, and stays what it is.

    A library of libraries (`outer`) may make its request through another client that is instrumented too; then the
    inner request is the one that counts, and takes over the outer's visit.
    """

    __slots__ = ("context", "format", "hides", "hop", "own", "slept_ns", "taken", "visit", "wait")

    def __init__(self, hop: HopBlock, visit: Visit, format: Format, *, own: bool, stream: bool) -> None:
        self.hop = hop
        self.visit = visit
        self.format = format
        self.own = own
        self.taken = False
        self.slept_ns = 0
        self.hides: Callable[[object], bool] | None = None
        """Tells the chunks of its answer that the application did not ask for."""
        guard = hop.guard
        self.wait = RequestWait(guard, visit, streams=stream) if guard is not None and guard.enforced else None
        """In which the limits on the request are held."""
        context = set_value(_REQUEST, self, get_current())
        if own or visit.span is not hop.span:
            context = set_span_in_context(visit.span, context)
        self.context: Context = set_value(scope.PLACE, hop, context)

    # The client's own retries ----------------------------------------------------------------------------------

    def sleeps(self) -> None:
        """The attempt failed, and the client waits before the next."""
        self.slept_ns = self.hop.now_ns()

    def wakes(self) -> None:
        """It waited."""
        self.visit.backoff_ns += self.hop.now_ns() - self.slept_ns

    def again(self) -> None:
        """The next attempt begins."""
        self.visit.again(self.hop.now_ns())

    # The end ---------------------------------------------------------------------------------------------------

    def failed(self, exc: BaseException) -> None:
        """No answer came, but this exception."""
        if self.wait is not None:
            self.wait.leave()
        visit = self.visit
        if not self.taken and visit.outcome is None:
            visit.settle(*of_exception(exc), self.hop.now_ns())
            self.hop.call_settled(visit)
        if self.own:
            self.hop.left(exc)

    def answered(self, result: Any, *, stream: bool) -> Any:
        """This came back: a reply, a stream, or a response that is yet to be read."""
        if self.wait is not None:
            self.wait.leave()
        if not self.taken and self.visit.outcome is None:
            result = self._follow(result, stream)
        if self.own:
            self.hop.handed_on()
        return result

    def _follow(self, result: Any, stream: bool) -> Any:
        if is_stream(result):
            return self._follow_stream(result)
        response = getattr(result, "http_response", result)
        if hasattr(response, "iter_bytes") and hasattr(response, "headers"):
            self._follow_response(response, stream)
        else:
            self._settle(self.format.reply(result) or Reading())
        return result

    def _follow_stream(self, stream: Any) -> Any:
        call = self._stream_call()
        followed = follow(stream, call)
        own = getattr(followed, "__dict__", {})
        self._bound(call, own.get("response"))
        if HANDLE in own:
            own[HANDLE].hides = self.hides
            if "response" in own:
                hear_close(own["response"], own[HANDLE])
        return followed

    def _stream_call(self) -> Call:
        call = Call(self.hop, self.visit, whole=True, format=self.format)
        self.visit.streamed = True
        self.hop.follow_call(call)
        return call

    def _follow_response(self, response: Any, stream: bool) -> None:
        if is_read(response):
            self._settle(read_body(response.content, self.format))
            return
        if stream:
            call = self._stream_call()
        else:
            call = BodyCall(self.hop, self.visit, format=self.format)
            self.hop.follow_call(call)
        if not follow_body(response, call):
            self.visit.clock = None
            self._settle(Reading())
        else:
            self._bound(call, response)

    def _bound(self, call: Call, response: Any) -> None:
        """Where the answer was not awaited: its connection waits no longer than what is left."""
        if call.wait is not None and self.wait is not None and self.wait.lowered and response is not None:
            bound(response, call.wait)

    def _settle(self, reply: Reading) -> None:
        self.visit.answered(reply, self.hop.now_ns())
        self.hop.call_settled(self.visit)


def begin_request(
    facts: Mapping[str, Any], format: Format, *, stream: bool, outer: bool = False, recorded: bool = True
) -> Request | None:
    """A client begins a request that `facts`, as span attributes, describe; None if nothing is to be recorded or held.

    `recorded`: also outside of hops. Raises what speaks against sending it.
    """
    tracer = scope.tracer()
    if tracer is None and not scope.setup.limited:
        return None
    around = current_request()
    hop = open_hop()
    if around is not None and around.hop is hop and around.visit.outcome is None:
        if outer or around.taken or around.visit.clock is not None:
            return None
    else:
        around = None
    own = hop is None
    if hop is None:
        found = _own_hop(tracer, facts) if recorded else None
        if found is None:
            return None
        hop = found
    if not hop.follows or (hop.guard is None and not recorded):
        if own:
            hop.left(None)
        return None
    if around is None:
        visit = hop.issue({} if own else facts)
    else:
        around.taken = True
        visit = around.visit
        visit.span.set_attributes({key: value for key, value in facts.items() if key != v.OPERATION})
    return Request(hop, visit, format, own=own, stream=stream)


def _own_hop(tracer: Tracer | None, facts: Mapping[str, Any]) -> HopBlock | None:
    model = facts.get(v.REQUEST_MODEL)
    guard = guard_for(None, model, operation=facts.get(v.OPERATION, v.CHAT)) if scope.setup.limited else None
    if guard is not None:
        return guarded_hop(tracer, None, model, False, facts=facts, guard=guard)
    return None if tracer is None else HopBlock(tracer, None, model, False, facts=facts)


def current_request() -> Request | None:
    """The request that is being made right here."""
    request = get_current().get(_REQUEST)
    return request if isinstance(request, Request) else None
