"""One request of an instrumented client: the call of the hop around it, or a hop by itself."""

from collections.abc import Callable, Mapping
from types import AsyncGeneratorType, GeneratorType
from typing import Any, Final

from opentelemetry.context import Context, attach, get_current, set_value
from opentelemetry.trace import Tracer, set_span_in_context

from hopbudget.tracing import scope
from hopbudget.tracing import vocabulary as v
from hopbudget.tracing.bodies import follow_body, hear_close, is_read
from hopbudget.tracing.drive import awaited_in, driver, driver_async
from hopbudget.tracing.follow import follow, is_stream
from hopbudget.tracing.handle import Handle
from hopbudget.tracing.hops import HopBlock, guarded_hop, open_hop
from hopbudget.tracing.limits_guard import guard_for
from hopbudget.tracing.limits_sockets import bound
from hopbudget.tracing.limits_waits import RequestWait
from hopbudget.tracing.look_alike import look_alike
from hopbudget.tracing.objects import HANDLE
from hopbudget.tracing.outcomes import of_exception
from hopbudget.tracing.reading import Format, Reading
from hopbudget.tracing.visits import BodyCall, Call, Visit, read_body

_REQUEST: Final = "hopbudget-request"
"""Key, in OpenTelemetry's context, of the request that is being made."""
_READ: Final = "hopbudget-read-request"
"""Key, in OpenTelemetry's context, of the request whose stream is being asked for its first chunk."""
_UNREAD: Final = "_hopbudget_unread"
_subclasses: Final[dict[type, type]] = {}


class Request:
    """A request from its issue to its answer. What comes back is followed, and stays what it is.

    A library of libraries (`outer`) may make its request through another client that is instrumented too; then the
    inner request is the one that counts, and takes over the outer's visit. It may do so only once its stream is read.
    """

    __slots__ = ("call", "context", "format", "hides", "hop", "outer", "own", "slept_ns", "taken", "visit", "wait")

    def __init__(
        self, hop: HopBlock, visit: Visit, format: Format, *, own: bool, stream: bool, outer: bool, late: bool
    ) -> None:
        """`late`: it is made in the context of somebody who reads a stream, not in that of its own call."""
        self.hop = hop
        self.visit = visit
        self.format = format
        self.own = own
        self.outer = outer
        self.taken = False
        self.call: Call | None = None
        """What follows the stream that came back."""
        self.slept_ns = 0
        self.hides: Callable[[object], bool] | None = None
        """Tells the chunks of its answer that the application did not ask for."""
        guard = hop.guard
        self.wait = RequestWait(guard, visit, streams=stream) if guard is not None and guard.enforced else None
        """In which the limits on the request are held."""
        context = set_value(_REQUEST, self, get_current())
        if own or visit.span is not hop.span or late:
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

    # Made through another client -------------------------------------------------------------------------------

    @property
    def unsent(self) -> bool:
        """Whether nothing is known to have been sent for the stream that came back."""
        call, visit = self.call, self.visit
        return call is not None and visit.clock is call.clock and visit.outcome is None and call.clock.pulled_ns is None

    def taken_over(self) -> None:
        """Another client makes the request. If only now that the stream is read, the visit begins now."""
        self.taken = True
        call, self.call = self.call, None
        if call is None:
            return
        visit = self.visit
        visit.clock = None
        visit.attempt_ns = self.hop.now_ns()
        if visit.attempts == 1:
            visit.started_ns = visit.attempt_ns
        if call.wait is not None:
            call.wait.leave()

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
        call = self._stream_call(Call)
        inner = _behind(stream)
        if self.outer:
            self.call = call
            followed = _follow_unread(inner, call, self)
        else:
            followed = follow(inner, call)
        own = getattr(followed, "__dict__", {})
        self._bound(call, own.get("response"))
        if HANDLE in own:
            own[HANDLE].hides = self.hides
            if "response" in own:
                hear_close(own["response"], own[HANDLE])
        return stream if followed is inner else followed

    def _stream_call(self, kind: type[Call]) -> Call:
        call = kind(self.hop, self.visit, whole=True, format=self.format)
        self.visit.streamed = True
        self.hop.follow_call(call)
        return call

    def _follow_response(self, response: Any, stream: bool) -> None:
        if is_read(response):
            self._settle(read_body(response.content, self.format))
            return
        if stream:
            call = self._stream_call(_BytesCall)
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


def _behind(stream: Any) -> Any:
    """The stream that another instrumentation's proxy stands for, and pulls from; else the stream itself."""
    for _ in range(8):
        inner = getattr(stream, "__wrapped__", None)
        if stream.__class__ is type(stream) or not is_stream(inner) or not hasattr(inner, "__dict__"):
            break
        stream = inner
    return stream


class _BytesCall(Call):
    """Follows a stream by its bytes: whoever reads them closes them at the provider's error, and raises it above."""

    __slots__ = ()

    def ended(self, exc: BaseException | None, by_consumer: bool) -> None:
        """The stream ended."""
        if by_consumer and exc is None:
            self.clock.finished()
            if self.clock.error is not None and self.visit.clock is self.clock and self.visit.outcome is None:
                self.visit.settle("failed", self.clock.error, self.observed_ns)
                self._settled()
        super().ended(exc, by_consumer)


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
        around = _read_request()
        if around is not None:
            if outer:
                return None
            hop = around.hop
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
    late = around is not None and around.call is not None
    if around is None:
        visit = hop.issue({} if own else facts)
    else:
        around.taken_over()
        visit = around.visit
        visit.span.set_attributes({key: value for key, value in facts.items() if key != v.OPERATION})
    return Request(hop, visit, format, own=own, stream=stream, outer=outer, late=late)


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


# Streams that send their request when they are read ------------------------------------------------------------------


def _read_request() -> Request | None:
    """The request whose stream is being asked for its first chunk right here, and which was not seen to be sent."""
    request = get_current().get(_READ)
    return request if isinstance(request, Request) and request.unsent else None


def _follow_unread(stream: Any, call: Call, request: Request) -> Any:
    """As `follow`; what is sent while the stream gets its first chunk is known to be sent for this request."""
    if isinstance(stream, GeneratorType):
        handle = Handle(call)
        return driver(lambda: (stream, handle, _reading(request)), first_only=True)()
    if isinstance(stream, AsyncGeneratorType):
        handle = Handle(call)
        return driver_async(lambda: (stream, handle, _reading(request)), first_only=True)()
    cls: type = type(stream)
    try:
        if cls not in _subclasses:
            _subclasses[cls] = look_alike(cls, {"__next__": _first, "__anext__": _first_async})
        stream.__dict__[_UNREAD] = request
        stream.__class__ = _subclasses[cls]
    except (TypeError, AttributeError):
        getattr(stream, "__dict__", {}).pop(_UNREAD, None)  # what it sends is a call by itself
    return follow(stream, call)


def _reading(request: Request) -> Context:
    return set_value(_READ, request, get_current())


def _first(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def __next__(self: Any) -> Any:  # noqa: N807
        request = self.__dict__.pop(_UNREAD, None)
        if request is None:
            return plain(self)
        outside = get_current()
        attach(_reading(request))
        try:
            return plain(self)
        finally:
            attach(outside)

    return __next__


def _first_async(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    async def __anext__(self: Any) -> Any:  # noqa: N807
        request = self.__dict__.pop(_UNREAD, None)
        if request is None:
            return await plain(self)
        return await awaited_in(_reading(request), plain, self)

    return __anext__
