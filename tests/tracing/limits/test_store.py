"""What limits record comes to the columns of the store."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("duckdb")

PROGRAM = """
import asyncio, sys
import hopbudget as hb
from hopbudget.tracing.plan import Plan

plan = Plan({"format": 1, "id": "p1", "deadline_s": 9.0, "slots": [{"slot": "answer", "budget_s": 2.0}]})
hb.init(sys.argv[1])
kept = []

@hb.hop("answer", stall_s=0.05)
async def answer():
    yield "It "
    await asyncio.sleep(60)

@hb.trajectory("held", deadline_s=9.0, plan=plan, enforce="deadline")
async def held():
    return [piece async for piece in answer()]

@hb.trajectory("handed on", deadline_s=9.0, enforce="deadline")
async def handed_on():
    stream = answer()
    await anext(stream)
    kept.append(stream)

async def main():
    try:
        await held()
    except hb.StallTimeout:
        pass
    try:
        await handed_on()
        [piece async for piece in kept[0]]
    except hb.StallTimeout:
        pass

asyncio.run(main())
with hb.trajectory("observed", deadline_s=9.0), hb.hop("plan", completion_s=1e-9):
    pass
hb.flush()
"""


def test_the_columns_of_limits_are_filled(tmp_path: Path) -> None:
    from hopbudget.store.duck import Store

    path = tmp_path / "t.duckdb"
    subprocess.run([sys.executable, "-c", PROGRAM, str(path)], check=True, timeout=60)
    store = Store(path)
    store.drain()
    with store.reading() as con:
        trajectories = con.execute(
            "SELECT workload, outcome, deadline_s, plan, intervened FROM trajectories ORDER BY started_at"
        ).fetchall()
        hops = con.execute(
            "SELECT hop, outcome, limit_hit, budget_s, round(remaining_s) FROM hops ORDER BY started_at"
        ).fetchall()
    assert trajectories == [
        ("held", "timed_out", 9.0, "p1", True),
        ("handed on", "timed_out", 9.0, None, True),
        ("observed", "ok", 9.0, None, False),
    ]
    assert hops == [
        ("answer", "timed_out", "stall", 2.0, 9.0),
        ("answer", "timed_out", "stall", None, 9.0),
        ("plan", "ok", "completion", None, 9.0),
    ]
