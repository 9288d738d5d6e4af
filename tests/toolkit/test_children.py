"""Programs that `trace` and `app` start: signals reach them whenever they come."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from hopbudget import children
from hopbudget.recording import launching

WAITS = "import select, sys; sys.exit(0 if select.select([sys.stdin], [], [], 20)[0] else 3)"
"""Ends well once its input does, and with 3 if that takes too long."""


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The signals of these tests end no test run."""
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGUSR1)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("asked_for", [False, True], ids=["told", "asked for"])
def test_a_signal_that_comes_just_before_the_wait_is_handled_in_it(
    monkeypatch: pytest.MonkeyPatch, asked_for: bool
) -> None:
    if asked_for:
        monkeypatch.delattr("os.pidfd_open", raising=False)
    with subprocess.Popen([sys.executable, "-c", WAITS], stdin=subprocess.PIPE) as child:
        assert child.stdin is not None
        end = child.stdin.close
        signal.signal(signal.SIGUSR1, lambda *_: end())
        # As one just before: it interrupts the system call of another thread, and not the main one's.
        threading.Timer(0.2, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)).start()
        assert children.exit_code(child) == 0


def test_a_signal_while_the_program_starts_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    start = subprocess.Popen

    def started(*arguments: Any, **options: Any) -> Any:
        child = start(*arguments, **options)
        signal.raise_signal(signal.SIGTERM)
        return child

    monkeypatch.setattr("hopbudget.recording.launching.subprocess.Popen", started)
    program = [sys.executable, "-c", "import time; time.sleep(20)"]
    assert launching._run(program, dict(os.environ)) == 128 + signal.SIGTERM


def test_a_program_ignores_what_it_is_started_to_ignore() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    program = "import signal, sys; sys.exit(signal.getsignal(signal.SIGTERM) is signal.SIG_IGN)"
    assert launching._run([sys.executable, "-c", program], dict(os.environ)) == 1
