"""Two hundred trajectories at once under random faults, cancels and reloads of their plan and configuration.

In the end every trajectory and every hop is in the store with the outcome that the application saw, and no task,
thread, socket, block, context or memory is left.
"""

import asyncio
import gc
import logging
import os
import random
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import openai
from opentelemetry.context import Context, get_current

import hopbudget as hb
from bench.soak.limits_accounts import compare
from bench.soak.limits_agent import THINKS_S, Agent, Lag
from hopbudget.endpoint import running_apart
from hopbudget.store.duck import Store
from hopbudget.tracing import scope, terms

AT_ONCE = 200
GROWS_MB = 24
"""By how much the process may grow from a quarter of the time to the end."""
LATE_S = 0.05
RELOAD_S = 0.4
PLAN = """
format = 1
id = "{id}"
workload = "soak"
deadline_s = {deadline}
percentile = 90.0
work_s = 1.0
[[slots]]
slot = "plan"
budget_s = 1.0
[fingerprint]
hops = ["plan", "read"{more}]
"""
CONFIG = """
[workloads.soak]
deadline = "{deadline}s"
enforce = "{mode}"
plan = "plan.toml"
[workloads.soak.hops.plan]
first_token = "{first}s"
stall = "0.6s"
"""
BROKEN = ("", "[workloads.soak", 'deadline = "soon"', "format = 99\n", "\x00")


def run(seconds: float) -> list[str]:
    """The soak, half of the time with clients that are instrumented; returns what did not hold."""
    broken: list[str] = []
    said = logging.getLogger("hopbudget")
    level, said.level = said.level, logging.CRITICAL
    with tempfile.TemporaryDirectory(prefix="hopbudget-soak-") as folder, running_apart() as first:
        os.environ["HOPBUDGET_CONFIG"] = str(Path(folder) / "hopbudget.toml")
        terms.look_again()
        try:
            hb.init(Path(folder) / "traces.duckdb")
            with running_apart() as second:
                for watched in (True, False):
                    part = Soak(Path(folder), first, second, watched=watched)
                    broken += asyncio.run(part.run(seconds / 2))
                    broken += part.accounted(Store(Path(folder) / "traces.duckdb"))
        finally:
            hb.uninstrument()
            del os.environ["HOPBUDGET_CONFIG"]
            terms.look_again()
            said.level = level
    return broken


class Soak:
    """One half of it."""

    def __init__(self, folder: Path, first: str, second: str, *, watched: bool) -> None:
        self.folder = folder
        self.addresses = first, second
        self.watched = watched
        self.name = "watched" if watched else "instrumented"
        self.agents: list[Agent] = []
        self.lag = Lag()
        self.reloads = 0

    async def run(self, seconds: float) -> list[str]:
        """Keep `AT_ONCE` of them going for so long; returns what was left behind."""
        if not self.watched:
            hb.instrument()
        self.reload(random.Random(0), broken=False)
        async with _client(self.addresses[0]) as client, _client(self.addresses[1]) as other:
            await self._next(client, other).live()
            # What the libraries made on loading would be looked through again and again, 0.2 s at a time.
            gc.collect()
            gc.freeze()
            before = _held()
            until = time.monotonic() + seconds
            beside = [asyncio.create_task(each) for each in (self._reload_again_and_again(), self.lag.look())]
            quarter = asyncio.create_task(_after(seconds / 4, _megabytes))

            async def one_by_one(place: int) -> None:
                await asyncio.sleep(THINKS_S[1] * place / AT_ONCE)
                while time.monotonic() < until:
                    await self._next(client, other).live()

            await asyncio.gather(*map(one_by_one, range(AT_ONCE)))
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)
            grown_mb = _megabytes() - await quarter
        await asyncio.sleep(1.2)  # a loser of a fail-over may take a second to close its connection
        gc.unfreeze()
        gc.collect()
        await asyncio.sleep(0.2)  # what is collected of unread streams is closed by the loop, in its next turns
        gc.collect()
        broken = [f"{self.name}: {what}" for what in _left(before)]
        print(f"  {self.name}: {len(self.agents):,} trajectories, {self.reloads} reloads, grown by {grown_mb:.1f} MB")
        if grown_mb > GROWS_MB:
            broken.append(f"{self.name}: the process grew by {grown_mb:.0f} MB")
        return broken

    def _next(self, client: openai.AsyncOpenAI, other: openai.AsyncOpenAI) -> Agent:
        number = len(self.agents) + (0 if self.watched else 1 << 30)
        self.agents.append(Agent(number, client, other, self.lag, watched=self.watched))
        return self.agents[-1]

    async def _reload_again_and_again(self) -> None:
        chance = random.Random(1)
        while True:
            await asyncio.sleep(chance.uniform(0, 2 * RELOAD_S))
            self.reload(chance, broken=chance.random() < 0.3)

    def reload(self, chance: random.Random, *, broken: bool) -> None:
        """Write both files anew; broken ones too."""
        self.reloads += 1
        deadline, mode = chance.choice((7, 11, 15)), chance.choice(("observe", "deadline", "deadline", "abort"))
        config = CONFIG.format(deadline=deadline, mode=mode, first=chance.choice((0.3, 0.5, 0.9)))
        more = chance.choice(("", ', "answer"'))  # without, it does not fit
        plan = PLAN.format(id=self.reloads, deadline=deadline, more=more)
        if broken:
            config, plan = chance.choice(((chance.choice(BROKEN), plan), (config, chance.choice(BROKEN))))
        for name, text in (("plan.toml", plan), ("hopbudget.toml", config)):
            new = self.folder / f"{name}.new"
            new.write_text(text)
            new.replace(self.folder / name)

    def accounted(self, store: Store) -> list[str]:
        """Every trajectory and hop is stored as the application saw it, and every limit fell in time."""
        broken = compare(self.agents, store)
        late_s = max(agent.late_s for agent in self.agents)
        print(
            f"    while the loop was not blocked limits fell up to {late_s * 1e3:.0f} ms late; it was late by "
            f"{self.lag.quantile(0.5) * 1e3:.0f} ms in the median, {self.lag.quantile(0.99) * 1e3:.0f} ms in 1%; "
            f"{sum(agent.unprovoked for agent in self.agents)} hops met their own limits without a fault"
        )
        if late_s > LATE_S:
            broken.append(f"a limit fell {late_s:.3f} s late, and did not say that the loop was blocked")
        if not all(agent.kept_context for agent in self.agents):
            broken.append("a trajectory left its context behind")
        if scope.recorder_errors():
            broken.append(f"the recorder failed {scope.recorder_errors()} times")
        return [f"{self.name}: {sentence}" for sentence in broken]


def _client(address: str) -> openai.AsyncOpenAI:
    direct = openai.DefaultAsyncHttpxClient(trust_env=False)
    return openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="simulated", max_retries=1, http_client=direct)


async def _after(seconds: float, what: Any) -> Any:
    await asyncio.sleep(seconds)
    return what()


def _megabytes() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _held() -> dict[str, int]:
    """What the process holds now that it must not hold more of in the end."""
    return {"threads": _threads(), "sockets": _sockets()}


def _threads() -> int:
    """Without asyncio's own, which look up addresses and end with their loop."""
    return sum(not thread.name.startswith("asyncio_") for thread in threading.enumerate())


def _sockets() -> int:
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found += entry.readlink().name.startswith("socket:")
    return found


def _left(before: dict[str, int]) -> list[str]:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    kinds = Counter(
        type(each).__name__ for each in gc.get_objects() if str(type(each).__module__).startswith("hopbudget.tr")
    )
    left = [f"{len(tasks)} tasks are left: {sorted(map(str, tasks))[:3]}"] if tasks else []
    left += [f"{n} {kind} are left" for kind in BLOCKS if (n := kinds[kind])]
    left += [f"{len(scope.open_blocks)} blocks are open"] if scope.open_blocks else []
    left += ["the context is not empty"] if get_current() != Context() else []
    return left + [f"{kind}: {n - before[kind]} more than before" for kind, n in _held().items() if n > before[kind]]


BLOCKS = (
    "TrajectoryBlock",
    "HopBlock",
    "Visit",
    "Call",
    "Guard",
    "BodyWait",
    "PullWait",
    "RequestWait",
    "Deadline",
    "Race",
    "Attempt",
)
"""Nothing of these lives longer than its trajectory."""
