"""Context managers that a decorated function hands on unentered: what is open goes on with them.

A client's `.stream()` and `with_streaming_response` send nothing before they are entered: the hop waits for that, and
is that request's. Their class is exchanged for a subclass of the same name, as with streams. A manager that
`contextlib.contextmanager` or `asynccontextmanager` made is a generator's, which is driven as any other.
"""

from collections.abc import Callable
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.context import Context, attach, get_current

from hopbudget.tracing.drive import awaited_in, driver, driver_async
from hopbudget.tracing.handle import Handle
from hopbudget.tracing.look_alike import look_alike
from hopbudget.tracing.scope import recorder_failed

if TYPE_CHECKING:
    from hopbudget.tracing.blocks import Block

_WAITS: Final = "_hopbudget_waits"
_LIBRARIES: Final = frozenset({"openai", "anthropic"})
_NAMES: Final = ("StreamManager", "ResponseContextManager")
_subclasses: Final[dict[type, type]] = {}


class _Waiting:
    """Ties a manager to what waits for it. It dies with the manager, if nobody enters that."""

    __slots__ = ("_block", "_returned_ns")

    def __init__(self, block: "Block") -> None:
        self._block: Block | None = block
        self._returned_ns = block.now_ns()

    def over(self) -> "Block | None":
        """What waited, and does so no longer."""
        block, self._block = self._block, None
        return None if block is None or block.ended_already else block

    def __del__(self) -> None:
        block = self.over()
        if block is None:
            return
        try:
            for visit in getattr(block, "visits", ()):
                visit.settle("closed_by_consumer", None, self._returned_ns)
            block.dropped()
        except Exception:
            recorder_failed()


def waits(thing: Any, block: "Block") -> bool:
    """Whether it is a manager, with which the block now goes on."""
    cls = type(thing)
    module = cls.__module__
    if module == "contextlib":
        return _drives(thing, block)
    if not cls.__name__.endswith(_NAMES) or module.partition(".")[0] not in _LIBRARIES:
        return False
    try:
        thing.__class__ = _subclass(cls)
        thing.__dict__[_WAITS] = _Waiting(block)
    except (TypeError, AttributeError):
        return False
    return True


def _drives(manager: Any, block: "Block") -> bool:
    generator = getattr(manager, "gen", None)
    handle, context = Handle(block), block.context

    def start() -> tuple[Any, Handle, Context]:
        if isinstance(generator, AsyncGeneratorType):
            block.awaits()
        return generator, handle, context

    if isinstance(generator, GeneratorType):
        manager.gen = driver(start)()
    elif isinstance(generator, AsyncGeneratorType):
        manager.gen = driver_async(start)()
    else:
        handle.ended = True  # it has nothing to tell
        return False
    return True


def _subclass(cls: Any) -> type:
    if cls not in _subclasses:
        _subclasses[cls] = look_alike(cls, {"__enter__": _enter, "__aenter__": _aenter})
    return _subclasses[cls]


def _waiting(manager: Any) -> "Block | None":
    """What waits for this manager, and does so no longer."""
    waiting: _Waiting | None = manager.__dict__.pop(_WAITS, None)
    return None if waiting is None else waiting.over()


def _enter(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def __enter__(self: Any) -> Any:  # noqa: N807
        block = _waiting(self)
        if block is None:
            return plain(self)
        outside = get_current()
        attach(block.context)
        try:
            entered = plain(self)
        except BaseException as exc:
            _failed(block, exc)
            raise
        finally:
            attach(outside)
        return _entered(block, entered)

    return __enter__


def _aenter(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    async def __aenter__(self: Any) -> Any:  # noqa: N807
        block = _waiting(self)
        if block is None:
            return await plain(self)
        try:
            entered = await awaited_in(block.context, plain, self)
        except BaseException as exc:
            _failed(block, exc)
            raise
        return _entered(block, entered)

    return __aenter__


def _failed(block: "Block", exc: BaseException) -> None:
    try:
        block.left(exc)
    except Exception:
        recorder_failed()


def _entered(block: "Block", entered: Any) -> Any:
    try:
        return block.returned(entered)
    except Exception:
        recorder_failed()
        return entered
