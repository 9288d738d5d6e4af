"""Files that may change under a running agent, and what is said in its log about them, once."""

import logging
import os
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")
_logger: Final = logging.getLogger("hopbudget")


class Complaints:
    """Sentences for the log of `hopbudget`, each said once."""

    __slots__ = ("_most", "said")

    def __init__(self, most: int = 256) -> None:
        self.said: tuple[str, ...] = ()
        self._most = most

    def say(self, sentence: str) -> None:
        """Warn, unless it was said before."""
        if sentence in self.said or len(self.said) >= self._most:
            return
        self.said += (sentence,)
        _logger.warning("%s", sentence)


class Watched(Generic[T]):
    """What a file says, read again when it was replaced or written to.

    `value` is None where there is no file or it can't be read, and `error` says why; `last` is what it said when that
    last went well. `read` raises OSError or ValueError where it can't.
    """

    __slots__ = ("_mark", "_read", "error", "last", "missing", "path", "value")

    def __init__(self, path: str, read: Callable[[str], T]) -> None:
        self.path = path
        self.value: T | None = None
        self.last: T | None = None
        self.error: str | None = None
        self.missing = False
        self._read = read
        self._mark: object = None
        self.look()

    def look(self) -> bool:
        """Read the file if it changed since the last look; returns whether it did."""
        mark, self.missing = _mark(self.path)
        if mark == self._mark:
            return False
        self._mark = mark
        try:
            self.value = self.last = self._read(self.path)
            self.error = None
        except (OSError, ValueError) as error:
            self.value = None
            self.error = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return True


def _mark(path: str) -> tuple[object, bool]:
    """What differs when the file does, and whether there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - a Path's takes twice as long, and agents wait for it
    except FileNotFoundError:
        return "missing", True
    except OSError as error:
        return error.errno, False
    return (found.st_mtime_ns, found.st_size, found.st_ino), False
