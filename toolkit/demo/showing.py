"""The demo: two answers that two numbers tell apart, then an eight-hop agent traced, planned and explained."""

import asyncio
import math
import shlex
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from rich.console import Console
from rich.live import Live
from rich.text import Text

import hopbudget as hb
from hopbudget import budgets
from hopbudget.demo import stage, streams
from hopbudget.demo.agent import WORKLOAD, research
from hopbudget.demo.board import Board, route
from hopbudget.demo.world import Turn, turns
from hopbudget.endpoint import running_apart
from hopbudget.errors import Exit, UserError
from hopbudget.render import base
from hopbudget.render import causes as draw_causes
from hopbudget.render import plan as draw_plan
from hopbudget.render import report as draw_report
from hopbudget.reports.explaining import of_profile
from hopbudget.store import queries
from hopbudget.store.duck import Store
from hopbudget.units import count, plural, seconds

AT_ONCE: Final = 24
"""Trajectories that run at the same time."""
DEADLINE_PERCENTILE: Final = 90.0
_MOST_EXPLAINED: Final = 12
_YOUR_OWN: Final = (
    'import hopbudget as hb; hb.init("traces.duckdb")',
    '@hb.trajectory("my-agent")   @hb.hop("plan")   @hb.work("search")',
)


def run(store: Path | None, trajectories: int = 120, *, console: Console | None = None) -> int:
    """Play the demo and return its exit code.

    Without `store` the spans go to a folder that is removed at the end; with it they are added to that store.
    With a `console` of the caller's the demo is drawn there, without animation.
    """
    import openai  # noqa: F401  # a missing extra is said before anything else happens

    out = console or base.console(moving=True)
    live = out.is_terminal and console is None
    with stage.ending_on_signals(), stage.place(store) as path:
        name = f"demo-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
        hb.init(path, service="hopbudget-demo")
        _welcome(out, store)
        with running_apart() as address:
            asyncio.run(_two_answers(address, Store(path), name, out, live=live))
            asyncio.run(_agents(address, name, turns(trajectories), out, live=live))
        seen = _what_was_seen(out, Store(path), name)
        _goodbye(out, store, seen)
    return Exit.DONE


async def _two_answers(address: str, store: Store, name: str, out: Console, *, live: bool) -> None:
    both = streams.listeners()
    stage.title(out, "Two answers, the same three seconds")
    async with stage.client(address) as client:
        await streams.listen(client, both, name, out, live=live)
    stage.flushed()
    store.drain()
    where = queries.Where(workload=streams.WORKLOAD, attributes={"run": name})
    with store.reading() as con:
        rows = queries.trajectory_rows(con, where)
        hops = [hop for row in rows for hop in queries.trajectory(con, row["trace_id"])["hops"]]
    out.print()
    out.print(streams.numbers(hops, both))
    out.print(streams.legend())
    out.print(
        "An average latency calls them equal. The wait for the first token (TTFT) and the pace after it (TPOT) do not."
    )


async def _agents(address: str, name: str, asked: Sequence[Turn], out: Console, *, live: bool) -> None:
    stage.title(out, "An agent of eight hops, traced")
    out.print(route())
    out.print(
        Text(
            "with tools between them, pages read side by side, and a loop while the facts don't hold: "
            f"{plural(len(asked), 'trajectory', 'trajectories')}, {AT_ONCE} at a time, through the openai client.",
            style=base.QUIET,
        )
    )
    board = Board(len(asked))
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        provider.add_span_processor(board)
    places = asyncio.Semaphore(AT_ONCE)
    async with stage.client(address) as client:

        async def one(turn: Turn) -> bool:
            async with places:
                return await _came_well(research(turn, client, run=name))

        if live:
            with Live(board, console=out, refresh_per_second=10, transient=True):
                well = await asyncio.gather(*(one(turn) for turn in asked))
        else:
            out.print(Text(f"about {6 * math.ceil(len(asked) / AT_ONCE)} s ...", style=base.QUIET))
            well = await asyncio.gather(*(one(turn) for turn in asked))
    written = hb.flush()
    out.print(
        f"{plural(len(asked), 'trajectory', 'trajectories')}, {count(board.hops)} hops and {count(board.works)} "
        f"tool calls in {board.elapsed_s:.1f} s; {count(written)} spans written."
    )
    if not all(well):
        broken = well.count(False)
        out.print(Text(f"{count(broken)} broke off: an error in mid-answer, under HTTP 200.", style=base.OVER))


async def _came_well(trajectory: Coroutine[Any, Any, str]) -> bool:
    """Run one trajectory; what the provider does to it is part of the story and is no error of the demo."""
    import openai

    try:
        await trajectory
    except openai.APIError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the last screen refers to; None where there was too little to say."""

    deadline_s: float | None = None
    slowest: str | None = None


def _what_was_seen(out: Console, store: Store, name: str) -> _Seen:
    """Report, plan and causes."""
    store.drain()
    where = queries.Where(workload=WORKLOAD, attributes={"run": name})
    with store.reading() as con:
        numbers = queries.report(con, where)
        dropped = queries.drops(con)
        profile = queries.profile(con, where)
    numbers["spool"] = {"dropped": sum(dropped.values()), "pending": 0}
    stage.title(out, "What was recorded")
    draw_report.report(out, numbers, WORKLOAD)
    try:
        deadline_s = budgets.deadline_at(profile, DEADLINE_PERCENTILE, "last")
        allocation = budgets.allocate(profile, deadline_s, percentile=DEADLINE_PERCENTILE)
        explained = of_profile(profile)
    except (budgets.CannotAllocateError, UserError) as error:
        out.print(Text(f"Too few trajectories for a plan: {error}", style=base.OVER))
        return _Seen()
    stage.title(out, f"Its p{DEADLINE_PERCENTILE:g} as a deadline, allotted")
    draw_plan.plan(out, allocation, WORKLOAD)
    slowest_first = sorted(explained, key=lambda row: -row.duration_s)
    late = [row for row in slowest_first if row.duration_s > deadline_s]
    if late:
        stage.title(out, f"Why {count(len(late))} of {count(len(explained))} were late")
        shown = late[:_MOST_EXPLAINED]
        most = f", the slowest {count(len(shown))}" if len(shown) < len(late) else ""
        draw_causes.slow(out, shown, f"later than {seconds(deadline_s)}{most}")
    return _Seen(deadline_s, slowest_first[0].trace_id if slowest_first else None)


def _welcome(out: Console, store: Path | None) -> None:
    out.print(Text("hopbudget demo", style="bold"))
    out.print(
        Text(
            "The endpoint is a simulation on this machine: no GPU, no network, no key. Its times are made up; "
            "measuring them, the store, the plan and the causes are the real thing.",
            style=base.QUIET,
        )
    )
    if store is not None:
        words = f"Its spans are added to {store}; the numbers below are of this run alone."
        out.print(Text(words, style=base.QUIET), soft_wrap=True)


def _goodbye(out: Console, store: Path | None, seen: _Seen) -> None:
    stage.title(out, "What to type next")
    place = "" if store in {None, Path("traces.duckdb")} else f" {shlex.quote(str(store))}"
    deadline = f"{math.ceil(seen.deadline_s)}s" if seen.deadline_s is not None else "10s"
    steps = [
        ("the same numbers by topic", f"report{place} --workload {WORKLOAD} --by demo.topic"),
        (
            "a rounder deadline, as a plan file",
            f"allocate{place} --workload {WORKLOAD} --deadline {deadline} --out plan.toml",
        ),
        ("all of it in a browser", f"app{place and ' --store' + place}"),
    ]
    if store is None:
        steps.insert(0, ("keep the spans: this run's are gone with its temporary folder", "demo --store traces.duckdb"))
    elif seen.slowest is not None:
        steps.insert(1, ("the slowest trajectory, hop by hop", f"explain{place} {seen.slowest[:12]}"))
    for what, command in steps:
        out.print(Text(what, style=base.QUIET))
        out.print(Text(f"  {stage.program()} {command}", style="bold"), soft_wrap=True)
    out.print(Text("your own agent: one line at the start, one decorator on each function", style=base.QUIET))
    for line in _YOUR_OWN:
        out.print(Text(f"  {line}", style="bold"))
