"""The receiver's own schedule for moving spans from the spool into the store, on a thread of its own."""

import threading
import time
from collections.abc import Callable
from typing import Final

from hopbudget.receiver.account import Account
from hopbudget.store.batch import Counts

EVERY_S: Final = 2.0
"""Most of what a drain costs is the same for few spans and for many: much rarer, and one holds the lock too long."""
_LONGEST_PAUSE_S: Final = 30.0


class Drainer:
    """Calls `drain` every two seconds, and less often while that fails. A failure is noted and loses nothing."""

    def __init__(self, drain: Callable[[], Counts], account: Account, on_problem: Callable[[str], None]) -> None:
        self._drain: Final = drain
        self._account: Final = account
        self._on_problem: Final = on_problem
        self._stop: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._run, name="hopbudget-drainer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Let a drain that runs come to its end, and do a last one."""
        self._stop.set()
        self._thread.join()
        self.drain_once()

    def drain_once(self) -> bool:
        """One drain; whether it came well."""
        account = self._account
        try:
            counts = self._drain()
        except Exception as error:
            problem = str(error).splitlines()[0] if str(error) else type(error).__name__
            account.drain_failures += 1
            if problem != account.drain_problem:
                account.drain_problem = problem
                self._on_problem(problem)
            return False
        account.drain_problem = ""
        account.drained += counts.spans
        account.duplicates += counts.duplicates
        return True

    def _run(self) -> None:
        pause_s = left_s = EVERY_S
        while not self._stop.wait(left_s):
            begun_s = time.monotonic()
            pause_s = EVERY_S if self.drain_once() else min(2 * pause_s, _LONGEST_PAUSE_S)
            left_s = max(0.0, pause_s - (time.monotonic() - begun_s))
