"""Limits under a clock that jumps to what is due next, so that one is seen to fire exactly when it should."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import pytest

import hopbudget as hb
from hopbudget.tracing import limits_guard, scope
from hopbudget.tracing.clock import Clock

from ..loops import JumpingLoop

WALL_NS = 1_800_000_000_000_000_000


class Jumping:
    """Runs coroutines on such a loop; `ms` is what its clock shows."""

    def __init__(self) -> None:
        self.loop = JumpingLoop(now_s=1000.0)

    @property
    def ms(self) -> float:
        return round((self.loop.now_s - 1000.0) * 1000, 3)

    def now_ns(self) -> int:
        return round(self.loop.now_s * 1e9)

    def wall_ns(self) -> int:
        return WALL_NS + self.now_ns() - 1000 * 10**9

    def block(self, ms: float) -> None:
        """The loop does nothing else for so long."""
        self.loop.now_s += ms / 1000

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            result = runner.run(coroutine)
            assert not asyncio.all_tasks(self.loop), "a task was left"
            left = [timer for timer in self.loop._scheduled if not timer._cancelled]  # type: ignore[attr-defined]
            assert not any("LoopTimer" in str(timer._callback) for timer in left), "a timer was left"
            return result


@pytest.fixture
def jumping(recorded: Any) -> Iterator[Jumping]:
    found = Jumping()
    scope.setup.clock = Clock(found.now_ns, found.wall_ns)
    yield found
    if not found.loop.is_closed():
        found.loop.close()


@pytest.fixture(autouse=True)
def let_go() -> Iterator[None]:
    """The clients are as they were, and the process as if no limit had ever been given."""
    yield
    hb.uninstrument()
    limits_guard._Clients.held = False
    scope.setup.limited = False


@pytest.fixture
def held(jumping: Jumping) -> Callable[[Coroutine[Any, Any, Any]], tuple[BaseException, float]]:
    """Runs what must raise a limit; what was raised, and when."""

    def run(coroutine: Coroutine[Any, Any, Any]) -> tuple[BaseException, float]:
        with pytest.raises(hb.DeadlineExceeded) as raised:
            jumping.run(coroutine)
        return raised.value, jumping.ms

    return run


async def stream_of(*script: tuple[float, Any]) -> AsyncIterator[Any]:
    """Chunks, each so many milliseconds after the one before."""
    for ms, item in script:
        await asyncio.sleep(ms / 1000)
        yield item


@pytest.fixture
def stream() -> Callable[..., AsyncIterator[Any]]:
    return stream_of
