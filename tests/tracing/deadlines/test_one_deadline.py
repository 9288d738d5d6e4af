"""One deadline over three processes, two of them HTTP services, and the programs that those start."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hopbudget as hb

SERVICE = Path(__file__).with_name("service.py")
OURS_S = 0.020
"""What may be lost or won in all, beside the time that requests were on their way, which only clocks could tell."""


@pytest.fixture
def services() -> Iterator[list[str]]:
    """Two of them, started side by side."""
    pytest.importorskip("httpx2")
    pytest.importorskip("uvicorn")
    command = [sys.executable, "-W", "ignore", str(SERVICE)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        yield [f"http://127.0.0.1:{int(process.stdout.readline())}/" for process in processes if process.stdout]
    finally:
        for process in processes:
            with process:
                process.terminate()


async def test_three_processes_and_two_services_keep_one_deadline(folder: Path, services: list[str]) -> None:
    hb.propagate_to("127.0.0.1")
    with hb.trajectory("agent", deadline_s=60.0):
        # A machine that is busy may stop anybody between two readings of the clock, but not each time.
        falls_at = min(hb.remaining_s() + time.monotonic() for _ in range(10))
        off_s = [await off(services, falls_at)]
        while min(off_s) >= OURS_S and len(off_s) < 10:
            off_s.append(await off(services, falls_at))
    assert min(off_s) < OURS_S


async def off(services: list[str], falls_at: float) -> float:
    """How far the deadlines in the services, and in what they start, are from the one here, in seconds."""
    import httpx2

    sent_at: list[float] = []

    async def note(_: Any) -> None:
        sent_at.append(time.monotonic())

    first, last = services
    async with hb.propagating(httpx2.AsyncClient(event_hooks={"request": [note]}, trust_env=False)) as client:
        outer: dict[str, Any] = (await client.get(first, params={"next": last}, timeout=30)).json()
    inner: dict[str, Any] = outer["asked"]
    assert len({os.getpid(), outer["pid"], inner["pid"]}) == 3
    there_s = outer["came_at"] - sent_at[0]
    further_s = inner["came_at"] - inner["sent_at"]
    return max(
        abs(outer["falls_at"] - falls_at - there_s),
        abs(inner["falls_at"] - falls_at - there_s - further_s),
        *(abs(said["child_falls_at"] - said["falls_at"]) for said in (outer, inner)),
    )
