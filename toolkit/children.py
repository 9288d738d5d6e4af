"""Waiting for a program that was started, without losing a signal meanwhile."""

import contextlib
import os
import select
import subprocess
from typing import Any, Final

AGAIN_S: Final = 1.0
"""The handler of a signal that comes just before a system call runs after it: so none of them may last for ever."""


def exit_code(child: "subprocess.Popen[Any]") -> int:
    """Its code, once it has ended. Handlers of signals run as they come, or a second later."""
    try:
        end = os.pidfd_open(child.pid)
    except (AttributeError, OSError):  # another system, or an older Linux
        return _asked_for(child)
    try:
        while (code := child.poll()) is None:
            select.select([end], [], [], AGAIN_S)
    finally:
        os.close(end)
    return code


def _asked_for(child: "subprocess.Popen[Any]") -> int:
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(AGAIN_S)
