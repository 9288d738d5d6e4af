"""Deadlines under a clock that the test moves, in an empty folder, with nothing in the environment."""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.context import attach, detach

from hopbudget.tracing import remaining, scope, terms
from hopbudget.tracing.clock import Clock
from hopbudget.tracing.deadline import Deadline, within
from hopbudget.tracing.terms import Terms

from ..loops import JumpingLoop


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder and environment, of which nothing is remembered before or after."""
    for name in [name for name in os.environ if name.startswith("HOPBUDGET_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    terms.look_again()
    remaining.forget_hosts()
    yield tmp_path
    terms.enable()
    terms.look_again()
    remaining.forget_hosts()


@pytest.fixture
def clock(folder: Path, time: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The test's own time, in that folder; with `recorded`, that one's."""
    monkeypatch.setattr(scope.setup, "clock", Clock(time.now_ns, time.wall_ns))
    return time


@pytest.fixture
def run(clock: Any) -> Iterator[Callable[..., Deadline]]:
    """Begins something with a deadline, as a trajectory does."""
    tokens: list[Any] = []

    def begin(deadline_s: float = 10.0, plan: Any = None, mode: Any = "deadline") -> Deadline:
        made = Deadline(deadline_s, Terms(deadline_s, mode, plan))
        tokens.append(attach(within(made)))
        return made

    yield begin
    for token in reversed(tokens):
        detach(token)


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What hopbudget's log said so far."""
    caplog.set_level(logging.WARNING, logger="hopbudget")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "hopbudget"]


@pytest.fixture
def virtually(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a coroutine on such a loop, with the recorder's clock going by it. No task may be left."""

    async def alone(main: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await main
        finally:
            assert len(asyncio.all_tasks()) == 1, "a task was left"

    def run(main: Coroutine[Any, Any, Any]) -> Any:
        loop = JumpingLoop()
        clock = Clock(lambda: round(loop.now_s * 1e9) + 5_000, lambda: round(loop.now_s * 1e9))
        with asyncio.Runner(loop_factory=lambda: loop) as runner, monkeypatch.context() as patch:
            patch.setattr(scope.setup, "clock", clock)
            return runner.run(alone(main))

    return run
