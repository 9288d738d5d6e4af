"""An event loop without a wall clock: hours of waiting in a moment, and exactly."""

import asyncio
from typing import Any


class JumpingLoop(asyncio.SelectorEventLoop):
    """Its clock stands still, and jumps to the next timer when there is nothing to do.

    While a thread works for it there is something to do: threads take the machine's time and not this one.
    """

    def __init__(self, now_s: float = 0.0) -> None:
        super().__init__()
        self.now_s = now_s
        self._in_threads = 0

    def time(self) -> float:
        return self.now_s

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        future = super().run_in_executor(executor, func, *args)
        self._in_threads += 1
        future.add_done_callback(self._back)
        return future

    def _back(self, _future: Any) -> None:
        self._in_threads -= 1

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        # Python 3.12 gives the threads a time to end in, which would be over at once.
        await super().shutdown_default_executor()

    def _run_once(self) -> None:
        inner: Any = self
        timers = [timer._when for timer in inner._scheduled if not timer._cancelled]
        if not inner._ready and not self._in_threads and timers:
            self.now_s = max(self.now_s, min(timers))
        super()._run_once()  # type: ignore[misc]
