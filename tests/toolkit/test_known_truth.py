"""What is known to have made trajectories late is what `breaches` names: the cause and the hop.

Trajectories are drawn from the simulated endpoint's own model of a GPU, with one trouble injected into each late one,
and come in by the same door as anybody's spans. Some run live, against the endpoint.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from hopbudget.budgets.blame.breaches import breaches
from hopbudget.demo import sample
from hopbudget.store import queries
from hopbudget.store.duck import Store

USUAL, TROUBLED = 300, 100
TRUTH = [
    ("slow prefill", "answer", "first_token", "answer"),
    ("slow prefill", "plan", "first_token", "plan"),
    ("slow decode", "answer", "pace", "answer"),
    ("stall", "answer", "stalls", "answer"),
    ("stall", "plan", "stalls", "plan"),
    ("slow tool", "answer", "tools", "search"),
    ("retries", "answer", "retries", "answer"),
    ("retries", "plan", "retries", "plan"),
    ("extra visits", "answer", "visits", "read"),
    ("longer answers", "answer", "answers", "answer"),
    ("longer prompt", "answer", "prompt", "answer"),
    ("client lag", "answer", "client_lag", "answer"),
]


@pytest.mark.parametrize(("trouble", "where", "kind", "name"), TRUTH)
def test_the_injected_cause_and_its_hop_are_named(
    trouble: sample.Trouble, where: str, kind: str, name: str, tmp_path: Path
) -> None:
    usual = [sample.Run(number, at_s=1.767e9 + 60 * number, rounds=1 + number % 2) for number in range(USUAL)]
    troubled = [
        sample.Run(USUAL + number, at_s=1.78e9 + 60 * number, rounds=1 + number % 2, trouble=trouble, hop=where)
        for number in range(TROUBLED)
    ]
    recorded = tmp_path / "runs.jsonl"
    recorded.write_bytes(b"".join(sample.lines([*usual, *troubled], seed=5)))
    store = Store(None)
    store.import_paths([recorded])
    with store.reading() as con:
        profile = queries.profile(con, queries.Where())
    deadline_s = float(sorted(profile.trajectories.duration_s[:USUAL])[-1])

    found = breaches(profile, deadline_s)

    assert found.late >= 0.9 * TROUBLED
    named = Counter((late.kind, late.name) for late in found.trajectories)
    assert named[kind, name] >= 0.95 * found.late, named
    assert found.causes[0].kind == kind
    assert found.places[0].name == name
    assert sum(cause.seconds for cause in found.causes) == pytest.approx(found.excess_s, abs=1e-6)
    assert sum(cause.share for cause in found.causes) == pytest.approx(1.0, abs=1e-9)


LIVE = """
import asyncio, sys
from pathlib import Path
import openai
import hopbudget as hb
from hopbudget.demo.agent import research
from hopbudget.demo.world import Turn
from hopbudget.endpoint import running_apart

late = {"trouble": "slow first token", "slow_hop": "plan", "first_token_s": 4.0}
turns = [("usual", Turn(number, topic="trains")) for number in range(25)]
turns += [("slow plan", Turn(100 + number, topic="trains", **late)) for number in range(5)]
turns += [("slow search", Turn(200 + number, topic="trains", trouble="slow tool", search_s=4.0)) for number in range(5)]

async def main(address):
    direct = openai.DefaultAsyncHttpxClient(trust_env=False)
    async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="-", max_retries=0, http_client=direct) as client:
        for first in range(0, len(turns), 12):
            await asyncio.gather(*(research(turn, client, run=run) for run, turn in turns[first : first + 12]))

hb.init(Path(sys.argv[1]))
with running_apart() as address:
    asyncio.run(main(address))
hb.flush()
"""


def test_what_slows_live_trajectories_is_named(tmp_path: Path) -> None:
    path = tmp_path / "traces.duckdb"
    subprocess.run([sys.executable, "-c", LIVE, str(path)], check=True, timeout=180)
    store = Store(path)
    store.drain()
    with store.reading() as con:
        profile = queries.profile(con, queries.Where(workload="research-agent"))
    assert len(profile) == 35

    found = breaches(profile, 0.0)

    run = profile.trajectories.run
    named = Counter((str(run[late.row]), late.kind, late.name) for late in found.trajectories)
    assert named["slow plan", "first_token", "plan"] == 5
    assert named["slow search", "tools", "search"] == 5
