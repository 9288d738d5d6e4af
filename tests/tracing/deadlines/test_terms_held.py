"""The terms that a file or the environment sets are those that the agent is held to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import hopbudget as hb
from hopbudget.tracing import terms

Virtually = Callable[..., Any]

FILE = """
[workloads.chat]
deadline = "10s"
enforce = "deadline"
[workloads.chat.hops.answer]
stall = "2s"
[workloads.chat.hops.think]
stall = "2s"
enforce = "observe"
"""


def hop_that_stalls(name: str, seconds: float) -> Any:
    @hb.hop(name)
    async def hop() -> AsyncIterator[str]:
        yield "It "
        await asyncio.sleep(seconds)
        yield "depends."

    return hop


async def ended_after(name: str, seconds: float) -> tuple[str, float]:
    """What ended a trajectory with this hop, and when."""
    began = asyncio.get_running_loop().time()
    said = "nothing"
    try:
        with hb.trajectory("chat"):
            async for _ in hop_that_stalls(name, seconds)():
                pass
    except hb.DeadlineExceeded as exc:
        said = type(exc).__name__
    return said, round(asyncio.get_running_loop().time() - began, 3)


def run(virtually: Virtually, name: str, seconds: float) -> tuple[str, float]:
    found: tuple[str, float] = virtually(ended_after(name, seconds))
    return found


def test_a_hops_limit_in_the_file_is_held(virtually: Virtually, folder: Path) -> None:
    (folder / "hopbudget.toml").write_text(FILE)
    assert run(virtually, "answer", 5) == ("StallTimeout", pytest.approx(2, abs=0.01))


def test_a_hop_may_be_held_otherwise_than_its_trajectory(virtually: Virtually, folder: Path) -> None:
    (folder / "hopbudget.toml").write_text(FILE)
    assert run(virtually, "think", 5) == ("nothing", 5)


def test_the_deadline_in_the_file_is_held(virtually: Virtually, folder: Path) -> None:
    (folder / "hopbudget.toml").write_text(FILE)
    assert run(virtually, "other", 60) == ("CompletionTimeout", pytest.approx(10, abs=0.01))


def test_the_deadline_in_the_environment_is_held(virtually: Virtually, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPBUDGET_DEADLINE", "3s")
    assert run(virtually, "other", 60) == ("nothing", 60)
    monkeypatch.setenv("HOPBUDGET_ENFORCE", "deadline")
    terms.look_again()
    assert run(virtually, "other", 60) == ("CompletionTimeout", pytest.approx(3, abs=0.01))


def test_the_kill_switch_lets_all_of_it_go(virtually: Virtually, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "hopbudget.toml").write_text(FILE)
    monkeypatch.setenv("HOPBUDGET_OFF", "1")
    assert run(virtually, "answer", 60) == ("nothing", 60)


def test_a_new_file_holds_for_the_trajectories_that_start_a_second_later(virtually: Virtually, folder: Path) -> None:
    (folder / "hopbudget.toml").write_text(FILE)

    async def main() -> list[tuple[str, float]]:
        before = await ended_after("answer", 5)
        (folder / "hopbudget.toml").write_text(FILE.replace('"2s"', '"700ms"'))
        await asyncio.sleep(1.1)
        return [before, await ended_after("answer", 5)]

    assert [s for _, s in virtually(main())] == [pytest.approx(2, abs=0.01), pytest.approx(0.7, abs=0.01)]
